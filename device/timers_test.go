package device

import (
	"reflect"
	"testing"
	"time"
	"unsafe"

	"wgd/noise"
)

// What can happen to a peer's timers, as the device tells them.
type event func(t *timers, now noise.Instant)

const testJitter = 200 * time.Millisecond

var (
	sendData = event(func(t *timers, now noise.Instant) {
		t.authenticatedSent(now)
		t.dataSent(now, testJitter)
	})
	sendKeepalive = event((*timers).authenticatedSent)
	recvData      = event(func(t *timers, now noise.Instant) {
		t.authenticatedReceived(now)
		t.dataReceived(now)
	})
	recvKeepalive = event((*timers).authenticatedReceived)
	initiate      = event(func(t *timers, now noise.Instant) { t.handshakeInitiated(now, testJitter) })
	recvResponse  = event(func(t *timers, now noise.Instant) {
		t.authenticatedReceived(now)
		t.sessionDerived(now)
		t.handshakeComplete()
	})
	respond = event(func(t *timers, now noise.Instant) {
		t.authenticatedReceived(now)
		t.sessionDerived(now)
		t.responseSent(now)
	})
	recvConfirmation = event(func(t *timers, now noise.Instant) {
		t.handshakeComplete()
		t.authenticatedReceived(now)
	})
	every25s = event(func(t *timers, now noise.Instant) { t.setInterval(25, now) })
	every5s  = event(func(t *timers, now noise.Instant) { t.setInterval(5, now) })
	never    = event(func(t *timers, now noise.Instant) { t.setInterval(0, now) })
	stop     = event(func(t *timers, now noise.Instant) { t.stop() })
	nothing  = event(func(t *timers, now noise.Instant) {})
)

func TestTimers(t *testing.T) {
	// At an instant the timers that are due do what the step wants, then comes its
	// event. A timer may not be due between two steps.
	type step struct {
		at   time.Duration
		do   event
		want action
	}
	const (
		s = time.Second
		j = testJitter
	)
	for _, tt := range []struct {
		name  string
		steps []step
		next  time.Duration // the deadline that is left; 0: none
	}{
		{"nothing is armed at first", []step{{1000 * s, nothing, 0}}, 0},
		{"data is answered by a keepalive after 10 s", []step{
			{1 * s, recvData, 0},
			{11 * s, sendKeepalive, actKeepalive},
		}, 0},
		{"the first data counts, not the last", []step{
			{1 * s, recvData, 0},
			{10 * s, recvData, 0},
			{11 * s, sendKeepalive, actKeepalive},
			{12 * s, recvData, 0},
			{22 * s, sendKeepalive, actKeepalive},
		}, 0},
		{"a reply cancels the keepalive", []step{
			{1 * s, recvData, 0},
			{5 * s, sendData, 0},
			{6 * s, recvKeepalive, 0},
		}, 0},
		{"a handshake message cancels the keepalive", []step{
			{1 * s, recvData, 0},
			{5 * s, initiate, 0},
			{6 * s, recvResponse, 0},
		}, 546 * s},
		{"a keepalive arms nothing where it is sent and where it is received", []step{
			{1 * s, sendKeepalive, 0},
			{2 * s, recvKeepalive, 0},
		}, 0},
		{"unanswered data makes a new handshake after 15 s", []step{
			{1 * s, sendData, 0},
			{16*s + j, nothing, actInitiate},
		}, 0},
		{"the first unanswered data counts, not the last", []step{
			{1 * s, sendData, 0},
			{9 * s, sendData, 0},
			{16*s + j, nothing, actInitiate},
		}, 0},
		{"a keepalive is an answer", []step{
			{1 * s, sendData, 0},
			{11 * s, recvKeepalive, 0},
			{12 * s, sendData, 0},
			{27*s + j, nothing, actInitiate},
		}, 0},
		{"an initiation is an answer", []step{
			{1 * s, sendData, 0},
			{11 * s, respond, 0},
		}, 551 * s},
		{"an initiation is repeated after 5 s and jitter", []step{
			{1 * s, initiate, 0},
			{6*s + j, initiate, actRetry},
			{11*s + 2*j, nothing, actRetry},
		}, 0},
		{"a response ends the repetition", []step{
			{1 * s, initiate, 0},
			{2 * s, recvResponse, 0},
		}, 542 * s},
		{"a confirmed session of the peer's ends the repetition", []step{
			{1 * s, initiate, 0},
			{2 * s, respond, 0},
			{3 * s, recvConfirmation, 0},
		}, 542 * s},
		{"keys go 540 s after the last session", []step{
			{1 * s, respond, 0},
			{100 * s, initiate, 0},
			{100 * s, recvResponse, 0},
			{640 * s, nothing, actZero},
		}, 0},
		{"a persistent keepalive follows each silence of its interval", []step{
			{1 * s, every25s, 0},
			{26 * s, sendKeepalive, actKeepalive},
			{30 * s, recvKeepalive, 0},
			{40 * s, sendData, 0},
			{50 * s, recvKeepalive, 0},
			{75 * s, sendKeepalive, actKeepalive},
			{80 * s, initiate, 0},
			{81 * s, recvResponse, 0},
			{106 * s, sendKeepalive, actKeepalive},
		}, 131 * s},
		{"a persistent keepalive goes on where none could be sent", []step{
			{1 * s, every25s, 0},
			{26 * s, nothing, actKeepalive},
			{51 * s, nothing, actKeepalive},
		}, 76 * s},
		{"a shorter interval holds from now on", []step{
			{1 * s, every25s, 0},
			{10 * s, every5s, 0},
			{15 * s, sendKeepalive, actKeepalive},
		}, 20 * s},
		{"interval 0 ends persistent keepalives", []step{
			{1 * s, every25s, 0},
			{10 * s, never, 0},
			{20 * s, sendKeepalive, 0},
		}, 0},
		{"one keepalive is enough for two reasons", []step{
			{1 * s, every25s, 0},
			{16 * s, recvData, 0},
			{26 * s, sendKeepalive, actKeepalive},
		}, 51 * s},
		{"stop disarms all and keeps the interval", []step{
			{1 * s, every25s, 0},
			{2 * s, sendData, 0},
			{2 * s, initiate, 0},
			{3 * s, recvData, 0},
			{4 * s, recvResponse, 0},
			{5 * s, stop, 0},
			{1000 * s, sendKeepalive, 0},
		}, 1025 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const epoch = noise.Instant(1e15)
			var ts timers
			for i, st := range tt.steps {
				now := after(epoch, st.at)
				if next := ts.next(); next != 0 && next < now {
					t.Fatalf("step %d at %v: a timer was due at %v", i, st.at, time.Duration(next-epoch))
				}
				if got := ts.expire(now); got != st.want {
					t.Fatalf("step %d at %v: got action %05b, want %05b", i, st.at, got, st.want)
				}
				st.do(&ts, now)
			}
			want := after(epoch, tt.next)
			if tt.next == 0 {
				want = 0
			}
			if got := ts.next(); got != want {
				t.Errorf("next deadline: got %v, want %v", time.Duration(got-epoch), tt.next)
			}
		})
	}
}

func TestTimersGiveUp(t *testing.T) {
	const epoch = noise.Instant(1e15)
	var ts timers
	now := epoch
	ts.dataReceived(now)
	initiations := 1
	ts.handshakeInitiated(now, testJitter)
	var last noise.Instant
	for last == 0 {
		now = ts.next()
		switch do := ts.expire(now); do {
		case actRetry:
			initiations++
			ts.handshakeInitiated(now, testJitter)
		case actGiveUp:
			last = now
		default:
			t.Fatalf("at %v: got action %05b", time.Duration(now-epoch), do)
		}
	}
	if want := after(epoch, 18*(RekeyTimeout+testJitter)); initiations != 18 || last != want {
		t.Errorf("%d initiations in %v, want 18 in %v", initiations, time.Duration(last-epoch), time.Duration(want-epoch))
	}
	if want := after(last, ZeroKeysAfterTime); ts.next() != want {
		t.Errorf("next deadline %v after giving up, want the wiping of keys after 9m", time.Duration(ts.next()-last))
	}
	if do := ts.expire(ts.next()); do != actZero || ts.next() != 0 {
		t.Errorf("then action %05b, want %05b and nothing armed", do, actZero)
	}
}

func TestGivingUpDoesNotPutOffTheWiping(t *testing.T) {
	var ts timers
	ts.sessionDerived(1)
	ts.retransmit, ts.retries = 10, uint8(maxRetries)
	if do := ts.expire(10); do != actGiveUp {
		t.Fatalf("got action %05b, want %05b", do, actGiveUp)
	}
	if want := after(1, ZeroKeysAfterTime); ts.zeroKeys != want {
		t.Errorf("keys go at %v, want %v", ts.zeroKeys, want)
	}
}

func TestMayInitiate(t *testing.T) {
	const now = noise.Instant(1e15)
	for _, tt := range []struct {
		name       string
		last       noise.Instant // handshake message sent
		complete   bool
		retransmit deadline // before
		want       bool
		then       deadline // retransmit after
	}{
		{"the first", 0, false, 0, true, 0},
		{"5 s after the last", after(now, -RekeyTimeout), true, 0, true, 0},
		{"a moment too early, and a timer tries again", after(now, -RekeyTimeout) + 1, false, 0, false, now + 1 + noise.Instant(testJitter)},
		{"at once, and a timer tries again", now, false, 0, false, after(now, RekeyTimeout+testJitter)},
		{"too early, and a timer that is armed stays", now, false, now + 77, false, now + 77},
		{"just after a handshake that succeeded, and that is enough", now, true, 0, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ts := timers{lastHandshake: tt.last, complete: tt.complete, retransmit: tt.retransmit}
			if got := ts.mayInitiate(now, testJitter); got != tt.want || ts.retransmit != tt.then {
				t.Errorf("got %v, retransmit %v; want %v, %v", got, ts.retransmit, tt.want, tt.then)
			}
		})
	}
}

func TestSetInterval(t *testing.T) {
	var ts timers
	for _, st := range []struct {
		seconds uint16
		on      bool
	}{{0, false}, {25, true}, {25, false}, {10, false}, {0, false}, {65535, true}} {
		if on := ts.setInterval(st.seconds, 1); on != st.on {
			t.Errorf("interval %d: switched on is %v, want %v", st.seconds, on, st.on)
		}
	}
}

// setSent makes a keypair look as if it had sealed n messages.
func setSent(kp *noise.Keypair, n uint64) {
	f := reflect.ValueOf(kp).Elem().FieldByName("sent")
	*(*uint64)(unsafe.Pointer(f.UnsafeAddr())) = n
}

func TestKeypairAge(t *testing.T) {
	const created = noise.Instant(1e15)
	for _, tt := range []struct {
		name                 string
		initiator            bool
		age                  time.Duration
		sent                 uint64
		send, receive, dated bool // rekey after sending, after receiving; expired
	}{
		{"new", true, 0, 1, false, false, false},
		{"an initiator's before 120 s", true, 120*time.Second - 1, 1, false, false, false},
		{"an initiator's at 120 s", true, 120 * time.Second, 1, true, false, false},
		{"a responder's at 120 s", false, 120 * time.Second, 1, false, false, false},
		{"an initiator's before 165 s", true, 165*time.Second - 1, 1, true, false, false},
		{"an initiator's at 165 s", true, 165 * time.Second, 1, true, true, false},
		{"a responder's at 165 s", false, 165 * time.Second, 1, false, false, false},
		{"a responder's before 180 s", false, 180*time.Second - 1, 1, false, false, false},
		{"a responder's at 180 s", false, 180 * time.Second, 1, false, false, true},
		{"an initiator's at 180 s", true, 180 * time.Second, 1, true, true, true},
		{"2^60 messages", false, 0, 1 << 60, false, false, false},
		{"2^60 + 1 messages", false, 0, 1<<60 + 1, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kp := &noise.Keypair{Created: created, Initiator: tt.initiator}
			setSent(kp, tt.sent)
			now := after(created, tt.age)
			var ts timers
			if got := rekeyAfterSending(kp, now); got != tt.send {
				t.Errorf("rekey after sending: got %v, want %v", got, tt.send)
			}
			if got := ts.rekeyAfterReceiving(kp, now); got != tt.receive {
				t.Errorf("rekey after receiving: got %v, want %v", got, tt.receive)
			}
			if ts.rekeyAfterReceiving(kp, now) {
				t.Error("rekey after receiving, twice in one session")
			}
			ts.handshakeComplete()
			if got := ts.rekeyAfterReceiving(kp, now); got != tt.receive {
				t.Errorf("rekey after receiving in the next session: got %v, want %v", got, tt.receive)
			}
			if got := expired(kp, now); got != tt.dated {
				t.Errorf("expired: got %v, want %v", got, tt.dated)
			}
		})
	}
}
