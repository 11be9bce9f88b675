// Package noise is WireGuard's use of the Noise protocol: the IKpsk2 handshake,
// its messages, the MACs and cookies, keypairs and the replay window.
//
// It is pure: no sockets, goroutines, clocks or locks. Time and randomness are
// arguments, so that a transcript can be a test vector. The section numbers are
// those of the WireGuard paper (Donenfeld, NDSS 2017, revised 2020).
//
// # Secrets in memory
//
// Every intermediate secret is overwritten before its function returns, and
// session keys are derived straight into the Keypair. Two things are out of reach.
// BLAKE2s and the AEAD leave words in dead stack frames: call ScrubStack after
// handshake work. And the runtime does not clear a stack that it outgrows: call
// ScrubStack before handshake work too, which makes the stack deep enough for all
// of it.
package noise

import (
	"encoding/binary"
	"errors"
	"runtime"
)

// Message types: the first byte of a message. The next three are zero, §5.4.
const (
	TypeInitiation  = 1
	TypeResponse    = 2
	TypeCookieReply = 3
	TypeTransport   = 4
)

// Sizes in bytes. A transport message is header, sealed data, tag.
const (
	InitiationSize  = 148
	ResponseSize    = 92
	CookieReplySize = 64
	HeaderSize      = 16
	TagSize         = 16
)

// Limits of one keypair in messages, §6.1 and §6.2.
const (
	RekeyAfterMessages  = 1 << 60
	RejectAfterMessages = 1<<64 - 1<<13 - 1
)

// An Instant is nanoseconds on a monotonic clock that counts suspend
// (CLOCK_BOOTTIME).
type Instant int64

var (
	ErrMalformed   = errors.New("noise: malformed message")
	ErrAuth        = errors.New("noise: message does not authenticate")
	ErrUnknownPeer = errors.New("noise: unknown static public key")
	ErrState       = errors.New("noise: not the next step of this handshake")
	ErrLowOrder    = errors.New("noise: public key of low order")
)

// MessageType returns the type of a message, or 0 if it is malformed: a length
// that its type does not have, or reserved bytes that are not zero. Of a transport
// message only the least length is known; multiples of 16 are not insisted on.
func MessageType(msg []byte) byte {
	if len(msg) < HeaderSize+TagSize || msg[1]|msg[2]|msg[3] != 0 {
		return 0
	}
	n := len(msg)
	switch t := msg[0]; {
	case t == TypeTransport,
		t == TypeInitiation && n == InitiationSize,
		t == TypeResponse && n == ResponseSize,
		t == TypeCookieReply && n == CookieReplySize:
		return t
	}
	return 0
}

// SenderIndex returns the sender's index of an initiation or a response.
func SenderIndex(msg []byte) uint32 { return binary.LittleEndian.Uint32(msg[4:]) }

// ReceiverIndex returns the receiver's index of a response, a cookie reply or a
// transport message: the index that we chose.
func ReceiverIndex(msg []byte) uint32 {
	if msg[0] == TypeResponse {
		return binary.LittleEndian.Uint32(msg[8:])
	}
	return binary.LittleEndian.Uint32(msg[4:])
}

// putType writes a message type and the three reserved bytes.
func putType(msg []byte, typ uint32) { binary.LittleEndian.PutUint32(msg, typ) }

// wipe overwrites a secret. Not inlined: the stores to a variable that dies could
// be dropped as dead.
//
//go:noinline
func wipe(b []byte) { clear(b) }

// scrubSize is in bytes. The deepest handshake function uses 2 KiB of stack (amd64
// and mips, measured by painting it); a signal on top of that is room enough.
const scrubSize = 8 << 10

// ScrubStack overwrites the dead stack below its caller, where callees that have
// returned left copies of secrets. Called in advance, it grows the stack so that
// none of the work that follows has to move it.
//
//go:noinline
func ScrubStack() {
	var dead [scrubSize]byte
	wipe(dead[:])
	runtime.KeepAlive(&dead)
}
