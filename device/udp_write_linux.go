package device

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"wgd/noise"
)

const (
	// The kernel takes up to 1,024; beyond some dozens there is nothing to win.
	udpSendBatch = 64

	// What one UDP_SEGMENT message may carry. Newer kernels take 128 segments, and
	// 65,507 bytes; but a frame with its headers (Ethernet's with a VLAN 18, IPv6 40,
	// UDP 8) of 65,536, the gso_max_size of most devices, is cut up before the device.
	maxGSOSegments = 64
	maxGSOBytes    = 65535 - 18 - 40 - 8
)

// A mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	msg unix.Msghdr
	n   uint32
}

// PKTINFO of IPv6, the traffic class, the size of segments.
const maxSendControl = 88

// A udpWriter owns what send(2) needs, so that sending allocates nothing.
//
// A message that it hands to the kernel is one datagram, or, by UDP_SEGMENT, up to 64
// neighbours of one length:
//
//	buf:  | segment | segment | segment | short |   | segment | …
//	      <------- one message, size -------->      <- the next -
type udpWriter struct {
	conn              *udpConn
	tosLevel, tosKind uint32 // of the control message for the traffic class

	log *Logger

	mu      sync.Mutex // held while sending; guards all below
	mark    uint32     // of the socket
	noBatch bool       // no sendmmsg in this kernel
	noTOS   bool       // the kernel takes no traffic class with a message
	noGSO   bool       // no UDP_SEGMENT on this socket
	evenBug bool       // see evenTailBug
	now     func() noise.Instant
	paths   pathTable

	// The send in hand.
	to    *endpoint
	path  *path // of to; nil: not asked for yet
	buf   []byte
	segs  []segment // what is left, from the first of messages on
	alone int       // so many of segs are not joined
	err   error     // of the first that was given up
	said  []string  // what is to be logged

	// A message of several segments was refused for this reason, 0: none. The next is
	// the first of them on its own, to see whether it was for being joined.
	suspect     unix.Errno
	suspectSize int

	count int               // messages built
	done  int               // of those, sent or given up
	ends  [udpSendBatch]int // where in segs each message ends

	name    unix.RawSockaddrInet6 // or Inet4
	msgs    [udpSendBatch]mmsghdr
	iovs    [udpSendBatch]unix.Iovec
	control [udpSendBatch][maxSendControl]byte
}

func (s *udpWriter) init(c *udpConn, off Offload, log *Logger) {
	s.conn = c
	s.log = log
	s.evenBug = evenTailBug(kernelRelease())
	s.now = udpNow
	s.noBatch = off&OffloadMmsg == 0
	s.noGSO = off&OffloadGSO == 0
	s.tosLevel, s.tosKind = unix.IPPROTO_IP, unix.IP_TOS
	length := unix.SizeofSockaddrInet4
	if c.v6 {
		s.tosLevel, s.tosKind = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		length = unix.SizeofSockaddrInet6
	}
	for i := range s.msgs {
		m := &s.msgs[i].msg
		m.Name = (*byte)(unsafe.Pointer(&s.name))
		m.Namelen = uint32(length)
		m.Iov = &s.iovs[i]
		m.SetIovlen(1)
	}
}

func (c *udpConn) send(to *endpoint, buf []byte, segs []segment) error {
	if c.v6 == to.is4() {
		return unix.EAFNOSUPPORT
	}
	s := &c.out
	s.mu.Lock()
	s.begin(to, buf, segs)
	if c.closing.Load() {
		s.fail(os.ErrClosed)
	} else {
		s.flush()
	}
	s.to, s.buf, s.segs = nil, nil, nil
	err, said := s.err, s.said
	s.said = nil
	s.mu.Unlock()
	for _, line := range said {
		s.log.once(LogError, "%s", line)
	}
	return err
}

func (s *udpWriter) begin(to *endpoint, buf []byte, segs []segment) {
	s.to, s.buf, s.segs = to, buf, segs
	s.path, s.alone, s.err, s.suspect, s.count, s.done = nil, 0, nil, 0, 0, 0
	s.putName()
}

// say has a line logged after the send in hand.
func (s *udpWriter) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *udpWriter) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// putName writes the destination as struct sockaddr_in or sockaddr_in6.
func (s *udpWriter) putName() {
	s.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Scope_id: s.to.scope}
	sa := unsafe.Slice((*byte)(unsafe.Pointer(&s.name)), unsafe.Sizeof(s.name))
	binary.BigEndian.PutUint16(sa[2:], s.to.addr.Port())
	if s.conn.v6 {
		s.name.Addr = s.to.addr.Addr().As16()
	} else {
		s.name.Family = unix.AF_INET
		a := s.to.addr.Addr().As4()
		copy(sa[4:], a[:])
	}
}

// flush sends what is left.
func (s *udpWriter) flush() {
	fd := uintptr(s.conn.fd)
	for s.build() {
		for s.done < s.count {
			n, errno := s.transmit(fd)
			switch {
			case errno == 0:
				s.sent(n)
			case errno == unix.EINTR:
			case errno == unix.ENOSYS && !s.noBatch:
				s.noBatch = true
				s.say("sendmmsg: %v: done without", errno)
			case !s.refused(fd, errno):
				return // there is no room for the rest either
			}
		}
	}
}

// build leaves the messages behind that are done, and describes the next to the
// kernel. Neighbours of one traffic class and size share their control messages. False:
// there are none.
func (s *udpWriter) build() bool {
	if s.done > 0 {
		n := s.ends[s.done-1]
		s.segs = s.segs[n:]
		s.alone = max(s.alone-n, 0)
	}
	s.count, s.done = 0, 0
	most := udpSendBatch
	if s.suspect != 0 {
		most = 1
	}
	var control []byte
	var controlTOS byte
	controlSize := -1
	for i := 0; i < len(s.segs) && s.count < most; s.count++ {
		seg := &s.segs[i]
		end, n := s.join(i)
		size := 0
		if end-i > 1 {
			size = seg.len
		}
		if seg.tos != controlTOS || size != controlSize {
			controlTOS, controlSize = seg.tos, size
			control = s.putControl(s.control[s.count][:0], seg.tos, size, s.to.src.IsValid(), !s.noTOS)
		}
		s.iovs[s.count].Base = &s.buf[seg.off : seg.off+n][0]
		s.iovs[s.count].SetLen(n)
		setControl(&s.msgs[s.count].msg, control)
		s.ends[s.count] = end
		i = end
	}
	return s.count > 0
}

// join returns the end of the message that begins with segs[i], and its bytes.
func (s *udpWriter) join(i int) (end, n int) {
	first := &s.segs[i]
	end, n = i+1, first.len
	if s.noGSO || i < s.alone {
		return end, n
	}
	for end < len(s.segs) && end-i < maxGSOSegments {
		prev, seg := &s.segs[end-1], &s.segs[end]
		if seg.off != prev.off+prev.len || seg.tos != first.tos ||
			prev.len != first.len || seg.len > first.len || seg.len == 0 || n+seg.len > maxGSOBytes {
			break
		}
		n += seg.len
		end++
	}
	if end-i == 1 {
		return end, n
	}
	if s.evenBug && s.segs[end-1].len == first.len || !s.mayJoin(first.len) {
		s.alone = end
		return i + 1, first.len
	}
	return end, n
}

// message returns the bounds in segs of the next message.
func (s *udpWriter) message() (first, end int) {
	if s.done > 0 {
		first = s.ends[s.done-1]
	}
	return first, s.ends[s.done]
}

func setControl(m *unix.Msghdr, control []byte) {
	m.Control = unsafe.SliceData(control)
	if len(control) == 0 {
		m.Control = nil
	}
	m.SetControllen(len(control))
}

// putControl appends the control messages of one message, of segments of size bytes or
// of a single one: 0, for some kernels refuse that what they do not segment is told to
// be.
//
// Naming the interface, too, makes the answer leave by the line on which the peer
// dialled, also where routes prefer another. But Linux takes a destination for
// on-link when no route leaves by that interface: then a rule on the mark that
// forbids to leave would be passed by. Who sets a mark routes by rules, so there
// the source address alone decides, as in the kernel's WireGuard.
func (s *udpWriter) putControl(b []byte, tos byte, size int, withSource, withTOS bool) []byte {
	via := s.to.srcIf
	if s.mark != 0 {
		via = 0
	}
	switch {
	case withSource && s.conn.v6:
		// struct in6_pktinfo: source, interface.
		src := s.to.src.As16()
		b = appendControl(b, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, 20)
		b = append(b, src[:]...)
		b = binary.NativeEndian.AppendUint32(b, via)
		b = padControl(b)
	case withSource:
		// struct in_pktinfo: interface, source, unused.
		src := s.to.src.As4()
		b = appendControl(b, unix.IPPROTO_IP, unix.IP_PKTINFO, 12)
		b = binary.NativeEndian.AppendUint32(b, via)
		b = append(b, src[:]...)
		b = append(b, 0, 0, 0, 0)
		b = padControl(b)
	}
	if withTOS && tos != 0 {
		b = appendControl(b, s.tosLevel, s.tosKind, 4)
		b = binary.NativeEndian.AppendUint32(b, uint32(tos))
		b = padControl(b)
	}
	if size != 0 {
		b = appendControl(b, unix.SOL_UDP, unix.UDP_SEGMENT, 2)
		b = binary.NativeEndian.AppendUint16(b, uint16(size))
		b = padControl(b)
	}
	return b
}

// transmit sends the messages that are left, or one of them, and returns how
// many went. An error is that of the first.
func (s *udpWriter) transmit(fd uintptr) (int, unix.Errno) {
	if s.noBatch || s.count-s.done == 1 {
		return 1, sendmsg(fd, &s.msgs[s.done].msg)
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&s.msgs[s.done])),
		uintptr(s.count-s.done), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

func sendmsg(fd uintptr, m *unix.Msghdr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return errno
}

func (s *udpWriter) sent(n int) {
	if s.suspect != 0 {
		s.blame()
	} else if !s.paths.works {
		first, _ := s.message()
		s.paths.works = s.ends[s.done+n-1]-first > n
	}
	s.done += n
}

// refused deals with the next message, which the kernel did not take. False: there is
// no room for more.
func (s *udpWriter) refused(fd uintptr, errno unix.Errno) bool {
	if errno != unix.EAGAIN {
		if s.divide(errno) {
			return true
		}
		errno = s.repair(fd, errno)
		if errno != 0 && s.divide(errno) {
			return true
		}
	}
	s.suspect = 0 // it was not for being joined, or not only
	if errno != 0 {
		s.fail(errno)
	}
	s.done++
	return errno != unix.EAGAIN
}

// divide makes the next message, which was refused, into one for each segment, if it
// has several and that may help.
func (s *udpWriter) divide(errno unix.Errno) bool {
	first, end := s.message()
	if end-first == 1 {
		return false
	}
	switch errno {
	case unix.EMSGSIZE, // longer than the route's MTU: a datagram alone is fragmented
		unix.EINVAL,               // the same in older kernels, and all else that is wrong
		unix.EIO,                  // a device that computes no checksums, or IPsec, in older kernels
		unix.EOPNOTSUPP,           // not seen
		unix.ENOBUFS, unix.ENOMEM: // a short one may find room
	default:
		return false
	}
	s.suspect, s.suspectSize = errno, s.segs[first].len
	s.alone = end
	s.count = s.done // build anew
	return true
}

// repair is called when the next message was refused. It tries again without
// what may be the reason: the source, whose address or interface or route may be
// gone, or the traffic class, which Linux before 3.13 does not take with an IPv4
// message. What helped stays out of the later messages too. The error is that of
// the last try; EAGAIN says that there is no room.
func (s *udpWriter) repair(fd uintptr, errno unix.Errno) unix.Errno {
	switch errno {
	case unix.EINVAL, unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EADDRNOTAVAIL, unix.ENODEV, unix.ENXIO:
	default:
		return errno
	}
	s.count = s.done + 1 // the others, which may share control messages, are built anew
	first, end := s.message()
	tos, size := s.segs[first].tos, 0
	if end-first > 1 {
		size = s.segs[first].len
	}
	source := s.to.src.IsValid()
	class := tos != 0 && !s.noTOS && errno == unix.EINVAL
	for _, without := range [...]struct{ source, class bool }{{true, false}, {false, true}, {true, true}} {
		if without.source && !source || without.class && !class {
			continue
		}
		m := &s.msgs[s.done].msg
		setControl(m, s.putControl(s.control[s.done][:0], tos, size, source && !without.source, !s.noTOS && !without.class))
		again := sendmsg(fd, m)
		if again != 0 && again != unix.EAGAIN {
			errno = again
			continue
		}
		if without.source {
			s.to.forgetSource()
		}
		if without.class {
			s.noTOS = true
			s.say("a message with a traffic class: %v: sent without", errno)
		}
		return again
	}
	if source {
		s.to.forgetSource()
	}
	return errno
}
