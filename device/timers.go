package device

import (
	"time"

	"wgd/noise"
)

// Protocol constants, WireGuard paper §6.1. Durations are exact; jitter is added
// where a timer is armed, never folded in here.
const (
	RekeyAfterTime    = 120 * time.Second // age at which the initiator of a keypair makes a new one
	RejectAfterTime   = 180 * time.Second // age at which a keypair is no longer used
	RekeyAttemptTime  = 90 * time.Second  // how long initiations are repeated unanswered
	RekeyTimeout      = 5 * time.Second   // between handshake initiations to one peer
	KeepaliveTimeout  = 10 * time.Second  // silence before a passive keepalive
	ZeroKeysAfterTime = 3 * RejectAfterTime

	newHandshakeTime  = KeepaliveTimeout + RekeyTimeout                   // sent data, heard nothing: §6.5
	rekeyOnReceive    = RejectAfterTime - KeepaliveTimeout - RekeyTimeout // age at which receiving makes the initiator rekey: §6.2
	maxRetries        = int(RekeyAttemptTime/RekeyTimeout) - 1            // initiations after the first, in RekeyAttemptTime
	maxJitter         = RekeyTimeout / 15                                 // 333 ms, added to RekeyTimeout: §6.1
	initiationsPerSec = 50                                                // accepted from one peer
)

// A deadline is an instant at which a timer is due; 0: not armed.
type deadline = noise.Instant

// after returns the deadline d after now.
func after(now noise.Instant, d time.Duration) deadline { return now + noise.Instant(d) }

// An action is what a peer must do when timers are due: a set of bits.
type action uint8

const (
	actInitiate  action = 1 << iota // begin a handshake
	actRetry                        // repeat the initiation
	actKeepalive                    // send an empty transport message
	actGiveUp                       // no answer for RekeyAttemptTime: drop what is staged
	actZero                         // wipe all keys
)

// timers holds the deadlines of one peer, §6. It starts no goroutine, reads no
// clock and takes no lock: every method is handed now. The zero value has nothing
// armed.
type timers struct {
	retransmit    deadline // no response to our initiation: §6.4
	sendKeepalive deadline // heard data, said nothing back: §6.5
	newHandshake  deadline // sent data, heard nothing back for 15 s: §6.5
	zeroKeys      deadline // no new session for 3 x RejectAfterTime: §6.3
	persistent    deadline // nothing sent or heard for the configured interval

	lastHandshake noise.Instant // when an initiation or a response was last sent; 0: none
	interval      uint16        // persistent keepalive, seconds; 0: off
	retries       uint8         // initiations repeated without a response

	complete        bool // the handshake of lastHandshake has led to a session
	rekeyedLastTime bool // rekeyOnReceive has fired for the current session
}

// next returns the earliest deadline, or 0.
func (t *timers) next() (first deadline) {
	for _, d := range [...]deadline{t.retransmit, t.sendKeepalive, t.newHandshake, t.zeroKeys, t.persistent} {
		if d != 0 && (first == 0 || d < first) {
			first = d
		}
	}
	return first
}

// expire disarms the timers that are due and returns what to do about them.
func (t *timers) expire(now noise.Instant) (do action) {
	if due(&t.retransmit, now) {
		if int(t.retries) >= maxRetries {
			do |= actGiveUp
			t.sendKeepalive = 0
			t.armZeroKeys(now)
		} else {
			t.retries++
			do |= actRetry
		}
	}
	if due(&t.sendKeepalive, now) {
		do |= actKeepalive
	}
	if due(&t.newHandshake, now) {
		do |= actInitiate
	}
	if due(&t.zeroKeys, now) {
		do |= actZero
	}
	if due(&t.persistent, now) && t.interval != 0 {
		do |= actKeepalive
		t.traversed(now) // it must go on also if none can be sent now
	}
	return do
}

// due disarms a deadline that has passed and reports whether it had.
func due(d *deadline, now noise.Instant) bool {
	if *d == 0 || *d > now {
		return false
	}
	*d = 0
	return true
}

// mayInitiate reports whether RekeyTimeout has passed since the last handshake
// message to the peer: §6.1. If not it makes sure that a timer tries again, unless
// that message has led to a session: then who asks was a moment late to see it.
func (t *timers) mayInitiate(now noise.Instant, jitter time.Duration) bool {
	free := after(t.lastHandshake, RekeyTimeout)
	if t.lastHandshake == 0 || now >= free {
		return true
	}
	if t.retransmit == 0 && !t.complete {
		t.retransmit = after(free, jitter)
	}
	return false
}

// handshakeInitiated is called when an initiation is about to be sent.
func (t *timers) handshakeInitiated(now noise.Instant, jitter time.Duration) {
	t.lastHandshake, t.complete = now, false
	t.retransmit = after(now, RekeyTimeout+jitter)
	t.authenticatedSent(now)
}

// responseSent is called when a response is about to be sent.
func (t *timers) responseSent(now noise.Instant) {
	t.lastHandshake, t.complete = now, false
	t.authenticatedSent(now)
}

// sessionDerived is called when a handshake has left a keypair.
func (t *timers) sessionDerived(now noise.Instant) { t.zeroKeys = after(now, ZeroKeysAfterTime) }

// handshakeComplete is called when both sides are known to have the keypair: the
// initiator got the response, or the responder the first message under it.
func (t *timers) handshakeComplete() {
	t.complete = true
	t.retransmit = 0
	t.retries = 0
	t.rekeyedLastTime = false
}

// dataSent is called after a non-empty transport message was sent.
func (t *timers) dataSent(now noise.Instant, jitter time.Duration) {
	if t.newHandshake == 0 {
		t.newHandshake = after(now, newHandshakeTime+jitter)
	}
}

// dataReceived is called after a non-empty transport message authenticated.
func (t *timers) dataReceived(now noise.Instant) {
	if t.sendKeepalive == 0 {
		t.sendKeepalive = after(now, KeepaliveTimeout)
	}
}

// authenticatedSent is called for each message to the peer: data, keepalives and
// handshake messages.
func (t *timers) authenticatedSent(now noise.Instant) {
	t.sendKeepalive = 0
	t.traversed(now)
}

// authenticatedReceived is called for each message that authenticated.
func (t *timers) authenticatedReceived(now noise.Instant) {
	t.newHandshake = 0
	t.traversed(now)
}

func (t *timers) traversed(now noise.Instant) {
	if t.interval != 0 {
		t.persistent = after(now, time.Duration(t.interval)*time.Second)
	}
}

func (t *timers) armZeroKeys(now noise.Instant) {
	if t.zeroKeys == 0 {
		t.zeroKeys = after(now, ZeroKeysAfterTime)
	}
}

// setInterval configures the persistent keepalive. True: it was switched on, so
// that one is due now.
func (t *timers) setInterval(seconds uint16, now noise.Instant) (on bool) {
	if seconds == t.interval {
		return false // who sets it again and again must not put it off
	}
	on = t.interval == 0
	t.interval = seconds
	t.persistent = 0
	t.traversed(now)
	return on
}

// stop disarms everything; the configured interval stays.
func (t *timers) stop() { *t = timers{interval: t.interval} }

// rekeyAfterSending reports whether a message under kp, just sent, calls for a
// new handshake: §6.2.
func rekeyAfterSending(kp *noise.Keypair, now noise.Instant) bool {
	return kp.Sent() > noise.RekeyAfterMessages ||
		kp.Initiator && now >= after(kp.Created, RekeyAfterTime)
}

// rekeyAfterReceiving reports whether a message under the current keypair, just
// received, calls for a new handshake, at most once a session: §6.2.
func (t *timers) rekeyAfterReceiving(kp *noise.Keypair, now noise.Instant) bool {
	if t.rekeyedLastTime || !kp.Initiator || now < after(kp.Created, rekeyOnReceive) {
		return false
	}
	t.rekeyedLastTime = true
	return true
}

// expired reports whether kp is too old to be used: §6.2.
func expired(kp *noise.Keypair, now noise.Instant) bool {
	return now >= after(kp.Created, RejectAfterTime)
}
