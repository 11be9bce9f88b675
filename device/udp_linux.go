package device

import (
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wgd/internal/ready"
	"wgd/internal/rtnl"
)

// A datagram is one that came in.
type datagram struct {
	data []byte // not empty; begins at a multiple of 4, if there was room for that
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
	// returns; handle may change it in place, and is told whether more waits, if need
	// be in a burst of none. Called once.
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

	// fits returns the length of the longest message that leaves for an endpoint in
	// one piece, or more than any has if that is not known. to must lie in the heap.
	fits(to *endpoint) int

	setMark(mark uint32) error

	// close waits for a running handle: not to be called from it, nor under a
	// lock that it takes. When it returns the port is free.
	close() error
}

// udpOptions say how sockets work.
type udpOptions struct {
	offload Offload // what may be tried
	log     *Logger // says what the kernel refuses
	budget  Budget
}

// newSocket is socket(2); a test stands in for a kernel that lacks a family.
var newSocket = unix.Socket

// listenUDP opens a socket for each address family on the same port, 0 for one
// that is free in both. A family that the kernel does not have gives a nil conn.
func listenUDP(port uint16, mark uint32, o udpOptions) (v4, v6 conn, actual uint16, err error) {
	for try := 1; ; try++ {
		v4, v6, actual, err = listenBoth(port, mark, o)
		// The port that the kernel found for IPv4 may be taken for IPv6.
		if err != unix.EADDRINUSE || port != 0 || try == 10 {
			return v4, v6, actual, err
		}
	}
}

func listenBoth(port uint16, mark uint32, o udpOptions) (v4, v6 conn, actual uint16, err error) {
	four, err4 := openUDP(false, port, mark, o)
	if err4 != nil && !noSuchFamily(err4) {
		return nil, nil, 0, err4
	}
	if four != nil {
		v4, port = four, four.localPort
	}
	six, err6 := openUDP(true, port, mark, o)
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

// A udpConn is a socket without package net, whose reads give no access to what a
// reply from the right address needs without allocating.
type udpConn struct {
	v6        bool
	localPort uint16
	ready     *ready.Waiter // of fd
	closing   atomic.Bool
	fd        int // open while reading or out.mu is held and closing is not set

	reading sync.Mutex             // held for one burst in; comes before the locks of handle
	in      *udpReader             // guarded by reading
	handle  func([]datagram, bool) // guarded by reading; nil: serve was not called yet
	more    bool                   // guarded by reading; what handle was told

	out udpWriter
}

func openUDP(v6 bool, port uint16, mark uint32, o udpOptions) (*udpConn, error) {
	family := unix.AF_INET
	if v6 {
		family = unix.AF_INET6
	}
	fd, err := newSocket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, err
	}
	port, off, err := setUp(fd, v6, port, mark, o)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	c := &udpConn{v6: v6, localPort: port, fd: fd}
	if c.ready, err = ready.NewWaiter(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	c.in = newUDPReader(v6, off&(OffloadGRO|OffloadMmsg) == OffloadMmsg, o.budget.Arena, o.log)
	c.out.init(c, off, o.log)
	c.out.mark = mark
	if off&OffloadGSO != 0 {
		// Here, for it is of this thread's network namespace. Without it nothing is
		// known to be PPP.
		c.out.paths.routes, _ = rtnl.Dial()
		if c.out.evenBug {
			o.log.Verbosef("this kernel may spoil UDP_SEGMENT of segments all of one length: those go one by one")
		}
	}
	return c, nil
}

// setUp sets the options of a socket and binds it. It returns what off may be used.
func setUp(fd int, v6 bool, port uint16, mark uint32, o udpOptions) (actual uint16, has Offload, err error) {
	var local unix.Sockaddr = &unix.SockaddrInet4{Port: int(port)}
	if v6 {
		local = &unix.SockaddrInet6{Port: int(port)}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return 0, 0, err
		}
	}
	if mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
			return 0, 0, err
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
	if try(unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, o.budget.ReceiveBuffer) != nil {
		try(unix.SOL_SOCKET, unix.SO_RCVBUF, o.budget.ReceiveBuffer)
	}
	if try(unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, o.budget.SendBuffer) != nil {
		try(unix.SOL_SOCKET, unix.SO_SNDBUF, o.budget.SendBuffer)
	}

	// UDP_SEGMENT is of Linux 4.18, UDP_GRO of 5.0. An older kernel would take no
	// notice of the former in a message, and send one huge datagram.
	has = o.offload
	for _, x := range []struct {
		off           Offload
		option, value int
		name          string
	}{
		{OffloadGSO, unix.UDP_SEGMENT, 0, "UDP_SEGMENT"},
		{OffloadGRO, unix.UDP_GRO, 1, "UDP_GRO"},
	} {
		if has&x.off == 0 {
			continue
		}
		if err := try(unix.SOL_UDP, x.option, x.value); err != nil {
			has &^= x.off
			o.log.once(LogVerbose, "%s: %v: done without", x.name, err)
		}
	}

	if err := unix.Bind(fd, local); err != nil {
		return 0, 0, err
	}
	local, err = unix.Getsockname(fd)
	switch a := local.(type) {
	case *unix.SockaddrInet4:
		actual = uint16(a.Port)
	case *unix.SockaddrInet6:
		actual = uint16(a.Port)
	}
	return actual, has, err
}

func (c *udpConn) setMark(mark uint32) error {
	s := &c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closing.Load() {
		return os.ErrClosed
	}
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
		return err
	}
	s.mark = mark
	s.paths.forget() // they may lead elsewhere now
	return nil
}

func (c *udpConn) close() error {
	if c.closing.Swap(true) {
		return os.ErrClosed
	}
	c.ready.Close()  // waits for serve
	c.reading.Lock() // and poll
	defer c.reading.Unlock()
	c.out.mu.Lock() // and send
	defer c.out.mu.Unlock()
	err := unix.Close(c.fd)
	c.in.close()
	c.out.paths.close()
	return err
}

func (c *udpConn) serve(handle func([]datagram, bool)) error {
	c.reading.Lock()
	c.handle = handle
	c.reading.Unlock()
	var fatal error
	err := c.ready.Wait(func() bool {
		for !c.closing.Load() {
			c.reading.Lock()
			empty, err := c.burst()
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

// burst hands over one burst, or says that there is no more. reading is held.
func (c *udpConn) burst() (empty bool, err error) {
	empty, err = c.in.burst(c.fd)
	if len(c.in.batch) > 0 || c.more { // or the queue would seem to stand until the next
		c.more = !empty && err == nil
		c.handle(c.in.batch, c.more)
	}
	return empty, err
}

func (c *udpConn) poll() {
	if !c.reading.TryLock() {
		return
	}
	// close waits for the lock before it closes the descriptor.
	if c.handle != nil && !c.closing.Load() {
		c.burst() // an error that lasts comes again, for serve
	}
	c.reading.Unlock()
}
