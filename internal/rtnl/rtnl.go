// Package rtnl speaks rtnetlink, the kernel's interface to links, addresses and
// routes: RFC 3549, netlink(7), rtnetlink(7). Generic netlink differs in the protocol
// and the struct, and serves package wgnl. Every number is in host order and every part
// is padded to 4 bytes:
//
//	0        4      6       8      12     16
//	| length | type | flags | seq  | port | body: a fixed struct, attributes |
//
//	0        2      4
//	| length | type | value | padding |        an attribute
package rtnl

import (
	"encoding/binary"
	"iter"
	"time"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

const (
	headerSize     = unix.SizeofNlMsghdr
	attrHeaderSize = unix.SizeofRtAttr
)

// Lengths of the fixed structs in front of the attributes.
const (
	LinkSize  = unix.SizeofIfInfomsg
	AddrSize  = unix.SizeofIfAddrmsg
	RouteSize = unix.SizeofRtMsg
)

// BufferSize holds any datagram of the kernel: it builds them in pages of at
// most 8 KiB unless the reader offers more.
const BufferSize = 8192

// A Request is a message under construction.
type Request []byte

// NewRequest starts a message with the fixed struct body. NLM_F_REQUEST is
// implied.
func NewRequest(typ, flags uint16, body []byte) Request {
	r := make(Request, headerSize, 128)
	native.PutUint16(r[4:], typ)
	native.PutUint16(r[6:], flags|unix.NLM_F_REQUEST)
	return append(r, body...).sized()
}

// LinkRequest starts a message about the link with this index; 0 leaves it to
// an IFLA_IFNAME attribute.
func LinkRequest(typ, flags uint16, index int) Request {
	var body [LinkSize]byte
	native.PutUint32(body[4:], uint32(index))
	return NewRequest(typ, flags, body[:])
}

// LinkFlags asks to set those flags of the link that are in mask.
func LinkFlags(index int, flags, mask uint32) Request {
	r := LinkRequest(unix.RTM_NEWLINK, 0, index)
	native.PutUint32(r[headerSize+8:], flags)
	native.PutUint32(r[headerSize+12:], mask)
	return r
}

// PutUint32 stores a number of a fixed struct.
func PutUint32(b []byte, v uint32) { native.PutUint32(b, v) }

// Attr appends an attribute.
func (r Request) Attr(typ uint16, value []byte) Request {
	r = native.AppendUint16(r, uint16(attrHeaderSize+len(value)))
	r = native.AppendUint16(r, typ)
	r = append(r, value...)
	r = append(r, make([]byte, align(len(value))-len(value))...)
	return r.sized()
}

// Uint32 appends an attribute with a number.
func (r Request) Uint32(typ uint16, v uint32) Request {
	return r.Attr(typ, native.AppendUint32(nil, v))
}

// String appends an attribute with a zero-terminated string.
func (r Request) String(typ uint16, s string) Request {
	return r.Attr(typ, append([]byte(s), 0))
}

// Nest appends an attribute that holds what is appended until End, which takes at.
func (r Request) Nest(typ uint16) (_ Request, at int) {
	return r.Attr(typ|unix.NLA_F_NESTED, nil), len(r)
}

// End ends the attribute at at. Its length has 16 bits: the caller keeps to them.
func (r Request) End(at int) Request {
	native.PutUint16(r[at:], uint16(len(r)-at))
	return r
}

func (r Request) sized() Request {
	native.PutUint32(r, uint32(len(r)))
	return r
}

func align(n int) int { return (n + 3) &^ 3 }

// A Message is one message of the kernel; Body starts with the fixed struct.
type Message struct {
	Type  uint16
	Flags uint16 // NLM_F_DUMP_INTR: the list changed while it was read
	seq   uint32
	Body  []byte
}

// Messages yields the messages of a datagram up to the first malformed one.
func Messages(b []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for len(b) >= headerSize {
			n := int(native.Uint32(b))
			if n < headerSize || n > len(b) {
				return
			}
			m := Message{Type: native.Uint16(b[4:]), Flags: native.Uint16(b[6:]), seq: native.Uint32(b[8:]), Body: b[headerSize:n]}
			if !yield(m) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// Err is what an NLMSG_ERROR or NLMSG_DONE says: nil for an acknowledgement.
func (m Message) Err() error {
	if len(m.Body) < 4 {
		return unix.EBADMSG
	}
	if e := int32(native.Uint32(m.Body)); e != 0 {
		return unix.Errno(-e)
	}
	return nil
}

// Attrs yields the attributes behind a fixed struct of size bytes, up to the
// first malformed one.
func (m Message) Attrs(size int) iter.Seq2[uint16, []byte] {
	return Attrs(m.Body[min(size, len(m.Body)):])
}

// Attrs yields the attributes that b consists of, as a nested one does.
func Attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		b := b
		for len(b) >= attrHeaderSize {
			n := int(native.Uint16(b))
			if n < attrHeaderSize || n > len(b) {
				return
			}
			if !yield(native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[attrHeaderSize:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// A Link is what an RTM_NEWLINK or RTM_DELLINK says of an interface.
type Link struct {
	Index int
	Name  string
	MTU   int
	Flags uint32 // IFF_UP and others
}

// Link parses a message about an interface. It is false for messages in which
// another family, such as AF_BRIDGE, speaks of the interface.
func (m Message) Link() (l Link, ok bool) {
	if len(m.Body) < LinkSize || m.Body[0] != unix.AF_UNSPEC {
		return l, false
	}
	l.Index = int(int32(native.Uint32(m.Body[4:])))
	l.Flags = native.Uint32(m.Body[8:])
	for typ, v := range m.Attrs(LinkSize) {
		switch {
		case typ == unix.IFLA_IFNAME:
			l.Name = unix.ByteSliceToString(v)
		case typ == unix.IFLA_MTU && len(v) == 4:
			l.MTU = int(native.Uint32(v))
		}
	}
	return l, true
}

// Groups of RTM_NEWNETCONF, as RTMGRP_ bits.
const GroupNetconf = 1<<(unix.RTNLGRP_IPV4_NETCONF-1) | 1<<(unix.RTNLGRP_IPV6_NETCONF-1)

// Attributes of RTM_NEWNETCONF, include/uapi/linux/netconf.h.
const (
	netconfSize       = 4 // struct netconfmsg, padded
	netconfIndex      = 1
	netconfForwarding = 2
)

// NetconfRequest asks for the settings of a link in one address family: Linux 3.8.
func NetconfRequest(family byte, index int) Request {
	return NewRequest(unix.RTM_GETNETCONF, 0, []byte{family, 0, 0, 0}).Uint32(netconfIndex, uint32(index))
}

// A Netconf is what an RTM_NEWNETCONF says of a link.
type Netconf struct {
	Family     byte
	Index      int
	Forwarding bool // packets that arrive on it are forwarded
}

// Netconf parses a message about settings. It is false if forwarding is not among them.
func (m Message) Netconf() (c Netconf, ok bool) {
	if m.Type != unix.RTM_NEWNETCONF || len(m.Body) < netconfSize {
		return c, false
	}
	c.Family = m.Body[0]
	for typ, v := range m.Attrs(netconfSize) {
		switch {
		case typ == netconfIndex && len(v) == 4:
			c.Index = int(int32(native.Uint32(v)))
		case typ == netconfForwarding && len(v) == 4:
			c.Forwarding, ok = native.Uint32(v) != 0, true
		}
	}
	return c, ok
}

// A Conn carries requests, one at a time, in the network namespace of the
// thread that opened it.
type Conn struct {
	fd  int
	seq uint32
	buf [BufferSize]byte
}

// Dial opens a Conn.
func Dial() (*Conn, error) { return dial(unix.NETLINK_ROUTE) }

// DialGeneric opens a Conn to the families of generic netlink.
func DialGeneric() (*Conn, error) { return dial(unix.NETLINK_GENERIC) }

func dial(protocol int) (*Conn, error) {
	fd, err := socket(0, protocol, 0)
	if err != nil {
		return nil, err
	}
	// The kernel answers before sendto returns; the timeout is for a bug.
	tv := unix.NsecToTimeval(int64(5 * time.Second))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Conn{fd: fd}, nil
}

// Socket opens a bound socket that receives the groups (RTMGRP_ bits). flags is
// 0 or SOCK_NONBLOCK.
func Socket(flags int, groups uint32) (int, error) {
	return socket(flags, unix.NETLINK_ROUTE, groups)
}

func socket(flags, protocol int, groups uint32) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|flags, protocol)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (c *Conn) Close() error { return unix.Close(c.fd) }

// Wipe zeroes the buffer, for answers that hold secrets. A refusal does, if the request did.
func (c *Conn) Wipe() { clear(c.buf[:]) }

// Ioctl runs an interface request: any socket serves them.
func (c *Conn) Ioctl(req uint, ifr *unix.Ifreq) error { return unix.IoctlIfreq(c.fd, req, ifr) }

// Do sends a request and waits for the kernel's verdict: nil or a unix.Errno.
func (c *Conn) Do(r Request) error {
	return c.exchange(r, unix.NLM_F_ACK, nil)
}

// Dump sends a request for a list and hands its messages to f; they are valid
// until f returns.
func (c *Conn) Dump(r Request, f func(Message)) error {
	return c.exchange(r, unix.NLM_F_DUMP, f)
}

// Get sends a request for one object and hands the answer to f.
func (c *Conn) Get(r Request, f func(Message)) error {
	return c.exchange(r, unix.NLM_F_ACK, f)
}

// exchange reads until NLMSG_ERROR, which is the acknowledgement too, or
// NLMSG_DONE.
func (c *Conn) exchange(r Request, flags uint16, f func(Message)) error {
	c.seq++
	native.PutUint16(r[6:], native.Uint16(r[6:])|flags)
	native.PutUint32(r[8:], c.seq)
	if err := unix.Sendto(c.fd, r, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		for m := range Messages(c.buf[:n]) {
			switch {
			case m.seq != c.seq:
			case m.Type == unix.NLMSG_ERROR, m.Type == unix.NLMSG_DONE:
				return m.Err()
			case f != nil:
				f(m)
			}
		}
	}
}
