// Package tun gives the device its network interface: a Linux TUN, or one in
// memory for tests. Packets are whole IP packets without any header in front.
package tun

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrRemoved says that the interface was deleted while it was open.
var ErrRemoved = errors.New("interface removed")

// DefaultMTU leaves room on a 1500-byte path for the outer IPv6 and UDP headers
// (40 + 8), the message header and the tag (16 + 16).
const DefaultMTU = 1420

// A Device is a network interface on which the system's packets for the tunnel
// arrive and to which decrypted packets are written.
//
// Drain belongs to one goroutine, Watch to another; Write and what is not said
// otherwise may be called from any.
type Device interface {
	// Drain parks until packets may be readable and calls f, which takes them
	// with TryRead; it repeats while f returns true. A call of f that stopped
	// before TryRead returned false is repeated without parking. It returns nil
	// after Close and ErrRemoved when the interface is gone, at the latest when Watch
	// finds it so.
	Drain(f func() bool) error

	// Poll calls f, which may call TryRead, in whatever goroutine, unless another
	// goroutine is in Poll. That no f calls TryRead while another does, Drain's
	// included, is up to the caller.
	Poll(f func())

	// TryRead reads what the system sent: a packet, or a super-packet that s cuts
	// into packets of the MTU at most. False: there is none now, or none any more.
	// It is called from f only.
	TryRead(s *Super) (bool, error)

	// Write hands one packet, buf[Headroom:], to the system; what is in front of it
	// is scratch. It fails with EIO while the interface is down.
	Write(buf []byte) error

	// Gather is Write for many packets: it may keep buf, which nobody changes until
	// then, to hand it over in Flush together with its neighbours in a stream. Errors
	// are those of Write; which packet they concern is not known. Both belong to one
	// goroutine at a time.
	Gather(buf []byte) error
	Flush() error

	Name() string
	MTU() int

	// Watch calls f with the first state and with each change until Close,
	// which makes it return nil, or until the interface is gone: ErrRemoved.
	// Name and MTU return what f was last told.
	Watch(f func(State)) error

	// Close must not be called from f of Drain or Poll: it waits for it.
	Close() error
}

// An Offload is a set of what the kernel may leave to us and we to it, so that one
// system call carries many packets. What a kernel refuses is done without.
type Offload uint8

const (
	Vnet Offload = 1 << iota // checksums; packets of one TCP stream are handed over as one
	TSO                      // TCP super-packets are read; with Vnet
	USO                      // UDP super-packets are read; with Vnet
	UGRO                     // packets of one UDP stream are handed over as one; with Vnet
)

// A RefusedError of Write, Gather or Flush says, once, that the kernel does not take what
// is written to it in one way. If there is another, the packets in hand were written in
// that, which is kept to from then on.
type RefusedError struct {
	What  string // "coalesced TCP packets"
	Errno syscall.Errno
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the kernel does not take %s (%v)", e.What, e.Errno)
}

// A State is what the system says about the interface.
type State struct {
	Name  string
	Index int
	MTU   int  // bytes of an IP packet
	Up    bool // administratively up
}
