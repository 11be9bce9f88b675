package noise

import (
	"encoding/binary"
	"sync/atomic"

	"wgd/crypto/chacha20poly1305"
)

// A Keypair is what a handshake leaves: a key for each direction, §5.4.5.
type Keypair struct {
	Created     Instant // immutable, like the three below
	Initiator   bool    // we were
	LocalIndex  uint32  // receiver index of messages to us
	RemoteIndex uint32  // receiver index of messages to the peer

	send    chacha20poly1305.Cipher // the send side is guarded by whoever calls Seal
	sent    uint64
	canSend bool

	receive    chacha20poly1305.Cipher // the receive side by whoever calls Open
	window     Window
	canReceive bool
}

// Seal writes a transport message to dst, which has room for HeaderSize + the
// plaintext + TagSize bytes, §5.4.6. The plaintext lies at dst[HeaderSize:], or
// elsewhere. False: the keypair is used up or wiped.
func (k *Keypair) Seal(dst, plaintext []byte) (n int, ok bool) {
	counter, ok := k.Take()
	if !ok {
		return 0, false
	}
	return k.SealAs(counter, dst, plaintext), true
}

// Take returns the counter of the next message, which SealAs is called with once.
// False: the keypair is used up or wiped.
func (k *Keypair) Take() (counter uint64, ok bool) {
	if !k.canSend || k.sent >= RejectAfterMessages {
		return 0, false
	}
	k.sent++ // whatever happens, no counter is taken twice
	return k.sent - 1, true
}

// SealAs is Seal with a counter from Take. Calls may run at the same time.
func (k *Keypair) SealAs(counter uint64, dst, plaintext []byte) (n int) {
	n = HeaderSize + len(plaintext) + TagSize
	putType(dst, TypeTransport)
	binary.LittleEndian.PutUint32(dst[4:], k.RemoteIndex)
	binary.LittleEndian.PutUint64(dst[8:], counter)
	k.send.Seal(dst[HeaderSize:n], counter, plaintext, nil)
	return n
}

// Open decrypts a transport message in place and returns the plaintext. False: it
// does not authenticate, has come before or may have, or the keypair is used up or
// wiped.
func (k *Keypair) Open(msg []byte) (plaintext []byte, ok bool) {
	return k.Accept(msg, k.Decrypt(msg))
}

// Decrypt is the first half of Open, and may run at the same time for other messages.
func (k *Keypair) Decrypt(msg []byte) (authentic bool) {
	if !k.canReceive || len(msg) < HeaderSize+TagSize {
		return false
	}
	sealed := msg[HeaderSize:]
	return k.receive.Open(sealed, binary.LittleEndian.Uint64(msg[8:]), sealed, nil)
}

// Accept is the second half.
func (k *Keypair) Accept(msg []byte, authentic bool) (plaintext []byte, ok bool) {
	// Advance the window only after the tag verifies, or a forger could move it. It
	// refuses the counters from RejectAfterMessages on.
	if !authentic || !k.window.Update(binary.LittleEndian.Uint64(msg[8:])) {
		return nil, false
	}
	return msg[HeaderSize : len(msg)-TagSize], true
}

// Sent returns the number of messages sealed.
func (k *Keypair) Sent() uint64 { return k.sent }

// WipeSend forgets the sending key: Seal fails from now on.
func (k *Keypair) WipeSend() {
	k.send.Wipe()
	k.canSend = false
}

// WipeReceive forgets the receiving key: Open fails from now on.
func (k *Keypair) WipeReceive() {
	k.receive.Wipe()
	k.canReceive = false
}

// Keypairs are the sessions with one peer: current sends; previous still receives
// what was on its way when current took over; next is a responder's, which must not
// send before the initiator has, for only that proves that it got the response.
// The zero value is none. Writers hold the peer's lock; Current needs none.
type Keypairs struct {
	current        atomic.Pointer[Keypair]
	previous, next *Keypair
}

func (k *Keypairs) Current() *Keypair  { return k.current.Load() }
func (k *Keypairs) Previous() *Keypair { return k.previous }
func (k *Keypairs) Next() *Keypair     { return k.next }

// Install adds a keypair and returns those that dropped out, or nil.
func (k *Keypairs) Install(kp *Keypair) (retired [2]*Keypair) {
	if !kp.Initiator {
		// previous stays until next is confirmed: after initiations that crossed, it is
		// what the peer still sends with.
		retired[0], k.next = k.next, kp
		return retired
	}
	current := k.current.Load()
	if k.next != nil {
		// The peer may hold this one as its current, so we must go on receiving
		// with it; then it is newer than ours.
		retired = [2]*Keypair{current, k.previous}
		k.previous, k.next = k.next, nil
	} else {
		retired = [2]*Keypair{nil, k.previous}
		k.previous = current
	}
	k.current.Store(kp)
	return retired
}

// Confirm is called for each message that authenticates under kp, §5.4.6: the first
// under next makes it current.
func (k *Keypairs) Confirm(kp *Keypair) (rotated bool, retired *Keypair) {
	if kp == nil || kp != k.next {
		return false, nil
	}
	retired = k.previous
	k.previous = k.current.Load()
	k.current.Store(kp)
	k.next = nil
	return true, retired
}

// Clear forgets all keypairs and returns them.
func (k *Keypairs) Clear() (retired [3]*Keypair) {
	retired = [3]*Keypair{k.current.Load(), k.previous, k.next}
	k.current.Store(nil)
	k.previous, k.next = nil, nil
	return retired
}
