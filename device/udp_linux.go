package device

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A datagram is one that came in.
type datagram struct {
	data []byte // not empty; begins at a multiple of 16
	from endpoint
	tos  byte // traffic class of the outer header

	// Of a transport message that a crew has opened: what it belongs to, or nil, and
	// whether it is authentic.
	entry     *indexEntry
	authentic bool
}

// A segment is one message inside the buffer of a batch.
type segment struct {
	off, len int
	tos      byte // for the outer header
}

// A conn is a bound UDP socket of one address family.
type conn interface {
	// serve hands over what arrives, in bursts, until the socket is closed (nil)
	// or dead (why). The data lies in storage that is used again when handle
	// returns; handle may change it in place, and is told whether more waits. Called
	// once.
	serve(handle func(burst []datagram, more bool)) error

	// poll hands over one burst, if there is any, in the calling goroutine, unless
	// serve is at it.
	poll()

	// send sends each segment of buf to one endpoint. A source in to that does
	// not work any more is cleared. A segment that the kernel refuses does not
	// keep the others; the first refusal is returned. A full socket is not waited
	// for: whose link is slow would hold up all other peers. to and buf must lie in
	// the heap if the call is not to allocate. May be called from several goroutines.
	send(to *endpoint, buf []byte, segs []segment) error

	setMark(mark uint32) error
	port() uint16

	// close waits for a running handle: not to be called from it, nor under a
	// lock that it takes. When it returns the port is free.
	close() error
}

const (
	maxDatagram = 64 << 10 // no UDP payload is longer

	udpBurst  = 64
	arenaSize = maxDatagram + udpBurst*1536 // a burst of full Ethernet frames

	// The kernel takes up to 1,024; beyond some dozens there is nothing to win.
	udpSendBatch = 64

	// About 50 ms of 100 Mbit/s. The kernel doubles both for its own book-keeping.
	receiveBuffer = 512 << 10
	// More than the queue of a slow link holds (1,000 packets of 2.3 kB with the
	// kernel's own data), so that it is the queue that drops, for that link alone, and
	// not the socket, for all peers. Memory is used only by what really waits.
	sendBuffer = 4 << 20
)

// newSocket is socket(2); a test stands in for a kernel that lacks a family.
var newSocket = unix.Socket

// listenUDP opens a socket for each address family on the same port, 0 for one
// that is free in both. A family that the kernel does not have gives a nil conn.
func listenUDP(port uint16, mark uint32, off Offload) (v4, v6 conn, actual uint16, err error) {
	for try := 1; ; try++ {
		v4, v6, actual, err = listenBoth(port, mark, off)
		// The port that the kernel found for IPv4 may be taken for IPv6.
		if err != unix.EADDRINUSE || port != 0 || try == 10 {
			return v4, v6, actual, err
		}
	}
}

func listenBoth(port uint16, mark uint32, off Offload) (v4, v6 conn, actual uint16, err error) {
	four, err4 := openUDP(false, port, mark, off)
	if err4 != nil && !noSuchFamily(err4) {
		return nil, nil, 0, err4
	}
	if four != nil {
		v4, port = four, four.localPort
	}
	six, err6 := openUDP(true, port, mark, off)
	if six != nil {
		v6, port = six, six.localPort
	} else if four == nil || !noSuchFamily(err6) {
		if four != nil {
			four.close()
		}
		return nil, nil, 0, err6
	}
	return v4, v6, port, nil
}

func noSuchFamily(err error) bool {
	return err == unix.EAFNOSUPPORT || err == unix.EADDRNOTAVAIL
}

// A udpConn is a socket on Go's netpoller, without package net: its reads give
// no access to what a reply from the right address needs without allocating.
type udpConn struct {
	v6        bool
	localPort uint16
	file      *os.File
	raw       syscall.RawConn
	closing   atomic.Bool

	reading  sync.Mutex             // held for one burst in; comes before the locks of handle
	in       *udpReader             // guarded by reading
	handle   func([]datagram, bool) // guarded by reading; nil: serve was not called yet
	pollOnce func(fd uintptr)       // one burst; allocated once

	out udpWriter
}

func openUDP(v6 bool, port uint16, mark uint32, off Offload) (*udpConn, error) {
	family := unix.AF_INET
	if v6 {
		family = unix.AF_INET6
	}
	fd, err := newSocket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, err
	}
	port, err = setUp(fd, v6, port, mark)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	c := &udpConn{v6: v6, localPort: port, file: os.NewFile(uintptr(fd), "udp")}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.file.Close()
		return nil, err
	}
	c.in = newUDPReader(v6)
	c.pollOnce = func(fd uintptr) {
		// An error that lasts comes again, for serve.
		if c.in.burst(int(fd)); len(c.in.batch) > 0 {
			c.handle(c.in.batch, false)
		}
	}
	c.out.init(c, off)
	c.out.marked.Store(mark != 0)
	return c, nil
}

// setUp sets the options of a socket and binds it.
func setUp(fd int, v6 bool, port uint16, mark uint32) (actual uint16, err error) {
	var local unix.Sockaddr = &unix.SockaddrInet4{Port: int(port)}
	if v6 {
		local = &unix.SockaddrInet6{Port: int(port)}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return 0, err
		}
	}
	if mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
			return 0, err
		}
	}

	// A kernel that refuses one of these still carries packets.
	try := func(level, option, value int) error {
		return unix.SetsockoptInt(fd, level, option, value)
	}
	if v6 {
		try(unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		try(unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
		try(unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DONT)
	} else {
		try(unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		try(unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		// DF clear: too large an outer packet is fragmented, not lost.
		try(unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	}
	// FORCE exceeds the system's limit but wants CAP_NET_ADMIN.
	if try(unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		try(unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	if try(unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer) != nil {
		try(unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	}

	if err := unix.Bind(fd, local); err != nil {
		return 0, err
	}
	local, err = unix.Getsockname(fd)
	switch a := local.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port), err
	case *unix.SockaddrInet6:
		return uint16(a.Port), err
	}
	return 0, err
}

func (c *udpConn) port() uint16 { return c.localPort }

func (c *udpConn) setMark(mark uint32) error {
	var err error
	if e := c.raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark))
	}); e != nil {
		return e
	}
	if err == nil {
		c.out.marked.Store(mark != 0)
	}
	return err
}

func (c *udpConn) close() error {
	c.closing.Store(true)
	return c.file.Close()
}

func (c *udpConn) serve(handle func([]datagram, bool)) error {
	c.reading.Lock()
	c.handle = handle
	c.reading.Unlock()
	var fatal error
	err := c.raw.Read(func(fd uintptr) bool {
		for !c.closing.Load() {
			c.reading.Lock()
			empty, err := c.in.burst(int(fd))
			if len(c.in.batch) > 0 {
				handle(c.in.batch, !empty && err == nil)
			}
			c.reading.Unlock()
			if err != nil {
				fatal = err
				return true
			}
			if empty {
				return false // the poller waits for more
			}
		}
		return true
	})
	switch {
	case c.closing.Load():
		return nil
	case fatal != nil:
		return fatal
	}
	return err
}

func (c *udpConn) poll() {
	if !c.reading.TryLock() {
		return
	}
	if c.handle != nil {
		c.raw.Control(c.pollOnce)
	}
	c.reading.Unlock()
}

// A udpReader reads datagrams into one arena:
//
//	| datagram |pad| datagram |pad| …   | >= maxDatagram free for the next |
//	0              ^ a multiple of 16
type udpReader struct {
	v6    bool
	arena []byte
	batch []datagram

	msg     unix.Msghdr // points to the four below
	iov     unix.Iovec
	from    unix.RawSockaddrInet6 // or Inet4, which is shorter
	control [128]byte

	troubles int // errors in a row
}

func newUDPReader(v6 bool) *udpReader {
	r := &udpReader{v6: v6, arena: make([]byte, arenaSize), batch: make([]datagram, 0, udpBurst)}
	r.msg.Name = (*byte)(unsafe.Pointer(&r.from))
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
	r.msg.Control = &r.control[0]
	return r
}

// burst fills batch with what is there. It reports whether the socket was left
// empty, or the error that it will not recover from.
func (r *udpReader) burst(fd int) (empty bool, err error) {
	r.batch = r.batch[:0]
	free := 0
	for range udpBurst {
		if len(r.arena)-free < maxDatagram {
			break
		}
		n, errno := r.receive(fd, r.arena[free:free+maxDatagram])
		switch errno {
		case 0:
			r.troubles = 0
		case unix.EAGAIN:
			return true, nil
		case unix.EINTR:
			continue
		default:
			return false, r.trouble(errno)
		}
		if n == 0 || r.msg.Flags&unix.MSG_TRUNC != 0 {
			continue // no message of ours is empty or longer than UDP allows
		}
		r.batch = append(r.batch, datagram{data: r.arena[free : free+n : free+n]})
		r.describe(&r.batch[len(r.batch)-1])
		free = (free + n + 15) &^ 15
	}
	return false, nil
}

// receive is recvmsg(2) into buf. A raw call, like those that send: it does not
// block, and the Go scheduler, told of a system call that takes long on a slow CPU,
// would hand our place to another thread (a quarter of all CPU time on a 24Kc).
func (r *udpReader) receive(fd int, buf []byte) (int, unix.Errno) {
	r.iov.Base = &buf[0]
	r.iov.SetLen(len(buf))
	r.msg.Namelen = uint32(unsafe.Sizeof(r.from))
	r.msg.SetControllen(len(r.control))
	r.msg.Flags = 0
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
	return int(n), errno
}

// trouble judges an error of recvmsg. What an earlier datagram met on its way,
// or a moment without memory, passes: nil. Not if it goes on for a second.
func (r *udpReader) trouble(errno unix.Errno) error {
	switch errno {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENETDOWN,
		unix.EMSGSIZE, unix.EPROTO, unix.ENOPROTOOPT, unix.EACCES, unix.EPERM,
		unix.ENOBUFS, unix.ENOMEM:
	default:
		return errno
	}
	if r.troubles++; r.troubles > 100 {
		return errno
	}
	if r.troubles > 4 {
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// describe reads where the datagram in hand came from and how.
func (r *udpReader) describe(d *datagram) {
	sa := unsafe.Slice((*byte)(unsafe.Pointer(&r.from)), unsafe.Sizeof(r.from))
	port := binary.BigEndian.Uint16(sa[2:])
	if r.v6 {
		d.from.addr = netip.AddrPortFrom(netip.AddrFrom16([16]byte(sa[8:24])), port)
		d.from.scope = binary.NativeEndian.Uint32(sa[24:])
	} else {
		d.from.addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), port)
	}

	rest := r.control[:min(int(r.msg.Controllen), len(r.control))]
	for len(rest) >= unix.SizeofCmsghdr {
		level, kind, data, next := parseControl(rest)
		rest = next
		switch {
		case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO && len(data) >= 12:
			// struct in_pktinfo: interface, our address, the header's address. The
			// last is no source for a reply if it is a broadcast address.
			d.from.srcIf = binary.NativeEndian.Uint32(data)
			d.from.src = netip.AddrFrom4([4]byte(data[4:8]))
		case level == unix.IPPROTO_IP && kind == unix.IP_TOS && len(data) >= 1:
			d.tos = data[0]
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO && len(data) >= 20:
			// struct in6_pktinfo: the header's address, interface.
			d.from.srcIf = binary.NativeEndian.Uint32(data[16:])
			if a := netip.AddrFrom16([16]byte(data[:16])); !a.IsMulticast() {
				d.from.src = a
			}
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_TCLASS && len(data) >= 4:
			d.tos = byte(binary.NativeEndian.Uint32(data))
		}
	}
}

// A control message, cmsg(3), in host order; a word is as long as a pointer:
//
//	| length: word | level: 4 | kind: 4 | data … | pad to a word |
//	<----------- length counts --------------->
const wordSize = int(unsafe.Sizeof(uintptr(0)))

func parseControl(b []byte) (level, kind uint32, data, rest []byte) {
	var n uint64
	if wordSize == 8 {
		n = binary.NativeEndian.Uint64(b)
	} else {
		n = uint64(binary.NativeEndian.Uint32(b))
	}
	level = binary.NativeEndian.Uint32(b[wordSize:])
	kind = binary.NativeEndian.Uint32(b[wordSize+4:])
	if n < unix.SizeofCmsghdr || n > uint64(len(b)) {
		return 0, 0, nil, nil
	}
	return level, kind, b[unix.SizeofCmsghdr:n], b[min(len(b), unix.CmsgSpace(int(n)-unix.SizeofCmsghdr)):]
}

// appendControl begins a control message of n bytes of data.
func appendControl(b []byte, level, kind uint32, n int) []byte {
	if wordSize == 8 {
		b = binary.NativeEndian.AppendUint64(b, uint64(unix.CmsgLen(n)))
	} else {
		b = binary.NativeEndian.AppendUint32(b, uint32(unix.CmsgLen(n)))
	}
	b = binary.NativeEndian.AppendUint32(b, level)
	return binary.NativeEndian.AppendUint32(b, kind)
}

func padControl(b []byte) []byte {
	for len(b)%wordSize != 0 {
		b = append(b, 0)
	}
	return b
}

// A mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	msg unix.Msghdr
	n   uint32
}

// PKTINFO of IPv6 and the traffic class.
const maxSendControl = 64

// A udpWriter owns what send(2) needs, so that sending allocates nothing.
type udpWriter struct {
	conn              *udpConn
	flush             func(fd uintptr) bool // method value of tryFlush, allocated once
	tosLevel, tosKind uint32                // of the control message for the traffic class

	marked atomic.Bool // the socket has a mark, see putControl

	mu      sync.Mutex // held while sending; guards all below
	noBatch bool       // no sendmmsg in this kernel
	noTOS   bool       // the kernel takes no traffic class with a message

	// The send in hand.
	to    *endpoint
	buf   []byte
	segs  []segment
	count int   // messages built, of the first segments
	done  int   // of those, sent or given up
	err   error // of the first given up

	name    unix.RawSockaddrInet6 // or Inet4
	msgs    [udpSendBatch]mmsghdr
	iovs    [udpSendBatch]unix.Iovec
	control [udpSendBatch][maxSendControl]byte
}

func (s *udpWriter) init(c *udpConn, off Offload) {
	s.conn = c
	s.flush = s.tryFlush
	s.noBatch = off&OffloadMmsg == 0
	s.tosLevel, s.tosKind = unix.IPPROTO_IP, unix.IP_TOS
	if c.v6 {
		s.tosLevel, s.tosKind = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	for i := range s.msgs {
		m := &s.msgs[i].msg
		m.Name = (*byte)(unsafe.Pointer(&s.name))
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
	defer s.mu.Unlock()
	s.to, s.buf, s.segs, s.err = to, buf, segs, nil
	s.putName()
	for len(s.segs) > 0 {
		s.count = min(len(s.segs), udpSendBatch)
		s.done = 0
		s.build(0)
		if err := c.raw.Write(s.flush); err != nil {
			if c.closing.Load() {
				err = os.ErrClosed
			}
			s.fail(err)
			break
		}
		s.segs = s.segs[s.count:]
	}
	s.to, s.buf, s.segs = nil, nil, nil
	return s.err
}

func (s *udpWriter) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// putName writes the destination as struct sockaddr_in or sockaddr_in6.
func (s *udpWriter) putName() {
	s.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Scope_id: s.to.scope}
	length := unix.SizeofSockaddrInet6
	sa := unsafe.Slice((*byte)(unsafe.Pointer(&s.name)), length)
	binary.BigEndian.PutUint16(sa[2:], s.to.addr.Port())
	if s.conn.v6 {
		s.name.Addr = s.to.addr.Addr().As16()
	} else {
		s.name.Family = unix.AF_INET
		length = unix.SizeofSockaddrInet4
		a := s.to.addr.Addr().As4()
		copy(sa[4:], a[:])
	}
	for i := range min(len(s.segs), udpSendBatch) {
		s.msgs[i].msg.Namelen = uint32(length)
	}
}

// build describes the segments from index first on to the kernel. Neighbours of
// one traffic class share their control messages.
func (s *udpWriter) build(first int) {
	var control []byte
	for i := first; i < s.count; i++ {
		seg := &s.segs[i]
		s.iovs[i].Base = &s.buf[seg.off : seg.off+seg.len][0]
		s.iovs[i].SetLen(seg.len)
		if i == first || seg.tos != s.segs[i-1].tos {
			control = s.putControl(s.control[i][:0], seg.tos, s.to.src.IsValid(), !s.noTOS)
		}
		setControl(&s.msgs[i].msg, control)
	}
}

func setControl(m *unix.Msghdr, control []byte) {
	m.Control = unsafe.SliceData(control)
	if len(control) == 0 {
		m.Control = nil
	}
	m.SetControllen(len(control))
}

// putControl appends the control messages of one message.
//
// Naming the interface, too, makes the answer leave by the line on which the peer
// dialled, also where routes prefer another. But Linux takes a destination for
// on-link when no route leaves by that interface: then a rule on the mark that
// forbids to leave would be passed by. Who sets a mark routes by rules, so there
// the source address alone decides, as in the kernel's WireGuard.
func (s *udpWriter) putControl(b []byte, tos byte, withSource, withTOS bool) []byte {
	via := s.to.srcIf
	if s.marked.Load() {
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
	return b
}

// tryFlush sends what was built. It is the callback of RawConn.Write, which keeps
// the descriptor from being closed meanwhile; true: do not wait for anything.
func (s *udpWriter) tryFlush(fd uintptr) bool {
	for s.done < s.count {
		n, errno := s.transmit(fd)
		switch {
		case errno == 0:
			s.done += n
			continue
		case errno == unix.EINTR:
			continue
		case errno == unix.ENOSYS && !s.noBatch:
			s.noBatch = true
			continue
		case errno != unix.EAGAIN:
			errno = s.repair(fd, errno)
		}
		if errno == unix.EAGAIN {
			s.fail(errno)
			break // there is no room for the rest either
		}
		if errno != 0 {
			s.fail(errno)
		}
		s.done++
	}
	return true
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
	tos := s.segs[s.done].tos
	source := s.to.src.IsValid()
	class := tos != 0 && !s.noTOS && errno == unix.EINVAL
	for _, without := range [...]struct{ source, class bool }{{true, false}, {false, true}, {true, true}} {
		if without.source && !source || without.class && !class {
			continue
		}
		m := &s.msgs[s.done].msg
		setControl(m, s.putControl(s.control[s.done][:0], tos, source && !without.source, !s.noTOS && !without.class))
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
		}
		s.build(s.done)
		return again
	}
	if source {
		s.to.forgetSource()
		s.build(s.done)
	}
	return errno
}
