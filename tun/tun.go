// Package tun gives the device its network interface: a Linux TUN, or one in
// memory for tests. Packets are whole IP packets without any header in front.
package tun

import "errors"

// ErrRemoved says that the interface was deleted while it was open.
var ErrRemoved = errors.New("interface removed")

// DefaultMTU leaves room on a 1500-byte path for the outer IPv6 and UDP headers
// (40 + 8), the message header and the tag (16 + 16).
const DefaultMTU = 1420

// A Device is a network interface on which the system's packets for the tunnel
// arrive and to which decrypted packets are written.
//
// Drain with TryRead belongs to one goroutine, Watch to another; Write and the
// rest may be called from any.
type Device interface {
	// Drain parks until packets may be readable and calls f, which takes them
	// with TryRead; it repeats while f returns true. A call of f that stopped
	// before TryRead returned 0 is repeated without parking. It returns nil
	// after Close and ErrRemoved when the interface is gone.
	Drain(f func() bool) error

	// TryRead reads one packet into buf, which must hold the MTU: a longer
	// packet is cut. It returns 0, nil when there is none now, or none any more.
	// It is called from Drain's f only.
	TryRead(buf []byte) (int, error)

	// Write hands one packet to the system. It fails with EIO while the
	// interface is down.
	Write(packet []byte) error

	Name() string
	MTU() int

	// Watch calls f with the first state and with each change until Close,
	// which makes it return nil, or until the interface is gone: ErrRemoved.
	// Name and MTU return what f was last told.
	Watch(f func(State)) error

	// Close must not be called from f of Drain: it waits for it.
	Close() error
}

// A State is what the system says about the interface.
type State struct {
	Name  string
	Index int
	MTU   int  // bytes of an IP packet
	Up    bool // administratively up
}
