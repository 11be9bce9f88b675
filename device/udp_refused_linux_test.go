package device

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
	"wgd/internal/seccomp"
	"wgd/noise"
)

// A logBook keeps the lines of a Logger.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(strings.Lines(l.b.String()))
}

// logged makes the sockets log into a book.
func logged(conns ...*udpConn) *logBook {
	book := &logBook{}
	for _, c := range conns {
		c.out.log = NewLogger(book, "udp", LogVerbose)
		c.in.log = c.out.log
	}
	return book
}

// sends sends segments and checks that each arrives.
func sends(t *testing.T, c *udpConn, to *endpoint, at <-chan datagram, lengths ...int) {
	t.Helper()
	buf, segs := joined(lengths...)
	if err := c.send(to, buf, segs); err != nil {
		t.Errorf("send: %v", err)
	}
	arrive(t, at, buf, segs)
}

func arrive(t *testing.T, at <-chan datagram, buf []byte, segs []segment) {
	t.Helper()
	for i, seg := range segs {
		if d := next(t, at); !bytes.Equal(d.data, buf[seg.off:seg.off+seg.len]) {
			t.Fatalf("number %d of %d bytes: got %d bytes", i, seg.len, len(d.data))
		}
	}
}

// pathOf returns a copy of what is known of a destination.
func (s *udpWriter) pathOf(to *endpoint) path {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.paths.find(to.addr.Addr(), to.scope); p.is(to.addr.Addr(), to.scope) {
		return *p
	}
	return path{}
}

// later moves the clock of paths.
func (s *udpWriter) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.now
	s.now = func() noise.Instant { return after(was(), d) }
}

// lookAgain has the route to an endpoint looked up and returns what is known then.
func (s *udpWriter) lookAgain(t *testing.T, to *endpoint) path {
	t.Helper()
	idle := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.paths.looking
	}
	eventually(t, idle)
	s.later(pathFresh)
	s.mu.Lock()
	s.to = to
	s.choosePath(s.now())
	if !s.paths.looking {
		t.Error("the route is not looked up again")
	}
	s.mu.Unlock()
	eventually(t, idle)
	return s.pathOf(to)
}

// A03: a route whose MTU is smaller than the messages.
func TestUDPRouteWithASmallMTU(t *testing.T) {
	we, far := twoHosts(t)
	we.ip("route add 10.9.0.2/32 dev w0 mtu 1280")
	we.ip("route add fd09::2/128 dev w0 mtu 1280")
	v4, v6 := we.listen(7000)
	far4, far6 := far.listen(7001)
	at4, at6 := arrivals(t, far4), arrivals(t, far6)
	for _, tt := range []struct {
		c      *udpConn
		at     <-chan datagram
		to, ok *endpoint // over the route, and over another
		route  string
	}{
		{v4, at4, endpointT(t, "10.9.0.2:7001"), endpointT(t, "10.9.0.3:7001"), "route del 10.9.0.2/32 dev w0"},
		{v6, at6, endpointT(t, "[fd09::2]:7001"), endpointT(t, "[fd09::3]:7001"), "route del fd09::2/128 dev w0"},
	} {
		book := logged(tt.c)
		knows(t, tt.c, tt.to)
		knows(t, tt.c, tt.ok)
		for range 3 {
			sends(t, tt.c, tt.to, tt.at, append(same(100, 1452), 10)...)
		}
		sends(t, tt.c, tt.to, tt.at, same(20, 500)...)
		sends(t, tt.c, tt.ok, tt.at, same(44, 1452)...)
		if p := tt.c.out.pathOf(tt.to); p.limit != 1452 || tt.c.out.noGSO {
			t.Errorf("%v: segments from %d bytes on go alone, from 1452 on should; none join: %v", tt.to, p.limit, tt.c.out.noGSO)
		}
		if p := tt.c.out.pathOf(tt.ok); p.limit != noLimit {
			t.Errorf("%v: limit %d", tt.ok, p.limit)
		}
		if lines := book.lines(); len(lines) != 1 || !strings.Contains(lines[0], tt.to.addr.Addr().String()+": ") {
			t.Errorf("logged: %q", lines)
		}

		// The source and the size are wrong, and the source is blamed first.
		tt.c.out.later(pathRetry)
		src := *tt.to
		src.src = netip.MustParseAddr(map[bool]string{false: "10.9.0.22", true: "fd09::22"}[tt.c.v6])
		buf, segs := joined(same(100, 1452)...)
		if err := tt.c.sendRefused(&src, buf, segs, unix.ENETUNREACH); err != nil {
			t.Error(err)
		}
		arrive(t, tt.at, buf, segs)
		if p := tt.c.out.pathOf(tt.to); src.src.IsValid() || p.limit != 1452 {
			t.Errorf("source %v, limit %d", src.src, p.limit)
		}

		// The route changes.
		we.ip(tt.route)
		tt.c.out.later(pathRetry)
		sends(t, tt.c, tt.to, tt.at, same(44, 1452)...)
		if p := tt.c.out.pathOf(tt.to); p.limit != noLimit {
			t.Errorf("%v: still limited to %d", tt.to, p.limit)
		}
	}
}

// What else joined segments are refused for on a real kernel: a socket that is to
// compute no checksum gets EINVAL, as others do on older kernels.
func TestUDPSocketThatCannotJoin(t *testing.T) {
	for _, addr := range []string{"127.0.0.", "[::1]"} {
		a, b, port := udpPair(t, addr)
		if a == nil {
			continue
		}
		at := arrivals(t, b)
		unix.SetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
		unix.SetsockoptInt(a.fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_TX, 1)
		if a.v6 {
			unix.SetsockoptInt(b.fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1)
			to := endpointT(t, "%s:%d", addr, port)
			knows(t, a, to)
			sends(t, a, to, at, same(50, 1452)...)
			if p := a.out.pathOf(to); p.limit != 1452 {
				t.Errorf("%v: limit %d", to, p.limit)
			}
			continue
		}
		book := logged(a)
		now := after(a.out.now(), time.Hour)
		a.out.now = func() noise.Instant { return now } // however long it takes here
		for i := range maxRefusals + 1 {
			if i == maxRefusals-1 && a.out.noGSO {
				t.Errorf("given up after %d destinations", i)
			}
			to := endpointT(t, "%s%d:%d", addr, i+1, port)
			knows(t, a, to)
			sends(t, a, to, at, same(50, 1452)...)
			sends(t, a, to, at, same(50, 100)...)
		}
		if !a.out.noGSO {
			t.Error("tried for ever")
		}
		if lines := book.lines(); len(lines) != 2 || !strings.Contains(lines[0], "127.0.0.1: ") || !strings.Contains(lines[1], "everywhere") {
			t.Errorf("logged: %q", lines)
		}
	}
}

// sendRefused is send when the kernel answers to the first message with errno.
func (c *udpConn) sendRefused(to *endpoint, buf []byte, segs []segment, errno unix.Errno) error {
	s := &c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(to, buf, segs)
	s.build()
	s.refused(uintptr(c.fd), errno)
	s.flush()
	return s.err
}

// Errors that no kernel here gives. Nothing is lost to them.
func TestUDPJoinedRefused(t *testing.T) {
	for _, tt := range []struct {
		errno unix.Errno
		limit int32
	}{
		{unix.EIO, 0},
		{unix.EINVAL, 1452},
		{unix.EMSGSIZE, 1452},
		{unix.EOPNOTSUPP, 1452},
		{unix.ENOBUFS, noLimit}, // not its fault
		{unix.ENOMEM, noLimit},
	} {
		a, b, port := udpPair(t, "127.0.0.1")
		at := arrivals(t, b)
		to := endpointT(t, "127.0.0.1:%d", port)
		knows(t, a, to)
		buf, segs := joined(same(100, 1452)...)
		if err := a.sendRefused(to, buf, segs, tt.errno); err != nil {
			t.Errorf("%v: %v", tt.errno, err)
		}
		arrive(t, at, buf, segs)
		if p := a.out.pathOf(to); p.limit != tt.limit || a.out.noGSO {
			t.Errorf("%v: limit %d, want %d; none join: %v", tt.errno, p.limit, tt.limit, a.out.noGSO)
		}
		sends(t, a, to, at, same(10, 1000)...)

		// Of one segment it says nothing, and of some errors neither.
		a.sendRefused(to, buf, segs[:1], tt.errno)
		if p := a.out.pathOf(to); p.limit != tt.limit {
			t.Errorf("%v for one: limit %d", tt.errno, p.limit)
		}
	}

	// The whole message goes, in one call, with an error that is not for its size.
	a, b, port := udpPair(t, "127.0.0.1")
	at := arrivals(t, b)
	to := endpointT(t, "127.0.0.1:%d", port)
	knows(t, a, to)
	buf, segs := joined(same(60, 1452)...)
	if err := a.sendRefused(to, buf, segs, unix.EPERM); err != unix.EPERM {
		t.Errorf("got %v", err)
	}
	arrive(t, at, buf, segs[45:])

	// One success, and the socket is not given up.
	for i := range 2 * maxRefusals {
		to := endpointT(t, "127.0.0.%d:%d", i+1, port)
		knows(t, a, to)
		a.sendRefused(to, buf, segs, unix.EIO)
		arrive(t, at, buf, segs)
	}
	if a.out.noGSO {
		t.Error("given up")
	}

	// Without one it is, but not for small MTUs.
	a, b, port = udpPair(t, "127.0.0.1")
	at = arrivals(t, b)
	for _, errno := range []unix.Errno{unix.EMSGSIZE, unix.EIO} {
		for range maxRefusals {
			if a.out.noGSO {
				t.Error("given up too early")
			}
			host := byte(2 + a.out.paths.refusals)
			if errno == unix.EMSGSIZE {
				host += 100
			}
			to := endpointT(t, "127.0.0.%d:%d", host, port)
			knows(t, a, to)
			a.sendRefused(to, buf, segs[:45], errno)
			arrive(t, at, buf, segs[:45])
			a.out.later(pathRetry)
		}
	}
	if !a.out.noGSO {
		t.Error("not given up")
	}
}

// C02: a source that is gone is EINVAL, too, and not the fault of being joined.
func TestUDPJoinedFromASourceThatIsGone(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "[::1]"} {
		a, b, port := udpPair(t, addr)
		if a == nil {
			continue
		}
		at := arrivals(t, b)
		to := endpointT(t, "%s:%d", addr, port)
		knows(t, a, to)
		to.src = netip.MustParseAddr(map[bool]string{false: "192.0.2.77", true: "2001:db8::77"}[a.v6])
		buf, segs := joined(same(100, 1000)...)
		for i := range segs {
			segs[i].tos = 0x88
		}
		if err := a.send(to, buf, segs); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		arrive(t, at, buf, segs)
		if p := a.out.pathOf(to); to.src.IsValid() || p.limit != noLimit || a.out.noTOS || a.out.noGSO {
			t.Errorf("%s: source %v, limit %d, no class %v, none join %v", addr, to.src, p.limit, a.out.noTOS, a.out.noGSO)
		}
	}
}

// A refused traffic class, on messages of several segments.
func TestUDPJoinedWithRefusedTrafficClass(t *testing.T) {
	a, b, port := udpPair(t, "127.0.0.1")
	at := arrivals(t, b)
	a.out.tosKind = 99
	to := endpointT(t, "127.0.0.1:%d", port)
	knows(t, a, to)
	buf, segs := joined(same(100, 1000)...)
	for i := range segs {
		segs[i].tos = 0x88
	}
	if err := a.send(to, buf, segs); err != nil {
		t.Error(err)
	}
	arrive(t, at, buf, segs)
	if p := a.out.pathOf(to); !a.out.noTOS || p.limit != noLimit {
		t.Errorf("no class: %v, limit %d", a.out.noTOS, p.limit)
	}
}

// C09: older kernels, and what sandboxes refuse.
func TestUDPOlderKernels(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules []seccomp.Rule
		want  string // of the lines logged
	}{
		{"no UDP_SEGMENT", []seccomp.Rule{"setsockopt:17:103=ENOPROTOOPT"}, "UDP_SEGMENT"},
		{"no UDP_GRO", []seccomp.Rule{"setsockopt:17:104=ENOPROTOOPT"}, "UDP_GRO"},
		{"neither", []seccomp.Rule{"setsockopt:17=ENOPROTOOPT"}, "UDP_SEGMENT UDP_GRO"},
		{"no sendmmsg", []seccomp.Rule{"setsockopt:17:103=ENOPROTOOPT", "sendmmsg=ENOSYS"}, "UDP_SEGMENT sendmmsg"},
		{"no recvmmsg", []seccomp.Rule{"setsockopt:17:104=ENOPROTOOPT", "recvmmsg=ENOSYS"}, "UDP_GRO recvmmsg"},
		{"Linux 2.6.32", []seccomp.Rule{"setsockopt:17=ENOPROTOOPT", "recvmmsg=ENOSYS", "sendmmsg=ENOSYS"}, "UDP_SEGMENT UDP_GRO sendmmsg recvmmsg"},
	} {
		for _, v6 := range []bool{false, true} {
			book := &logBook{}
			var got []datagram
			var buf []byte
			var segs []segment
			err := seccomp.Do(tt.rules, func() {
				o := udpOptions{offload: allOffloads, log: NewLogger(book, "udp", LogVerbose), budget: testBudget}
				a, err := openUDP(v6, 0, 0, o)
				if err != nil {
					if noSuchFamily(err) {
						loud.Skip(t, "no such family here")
					}
					t.Error(err)
					return
				}
				defer a.close()
				to := endpointT(t, "127.0.0.1:%d", a.localPort)
				if v6 {
					to = endpointT(t, "[::1]:%d", a.localPort)
				}
				buf, segs = joined(append(same(100, 1452), 4000, 4000)...)
				knows(t, a, to)
				if err := a.send(to, buf, segs); err != nil {
					t.Errorf("%s: send: %v", tt.name, err)
				}
				// Not by the poller's goroutine: it is here that the rules hold.
				for empty := false; !empty; {
					var err error
					if empty, err = a.in.burst(a.fd); err != nil {
						t.Errorf("%s: %v", tt.name, err)
						return
					}
					for _, d := range a.in.batch {
						d.data = bytes.Clone(d.data)
						got = append(got, d)
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(segs) {
				t.Errorf("%s: %d of %d arrived", tt.name, len(got), len(segs))
				continue
			}
			for i, seg := range segs {
				if !bytes.Equal(got[i].data, buf[seg.off:seg.off+seg.len]) {
					t.Errorf("%s: number %d is wrong", tt.name, i)
				}
			}
			var names []string
			for _, line := range book.lines() {
				name, _, _ := strings.Cut(strings.TrimPrefix(line, "udp: "), ":")
				names = append(names, name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("%s: logged %q", tt.name, book.lines())
			}
		}
	}
}

// C07
func TestUDPEvenTail(t *testing.T) {
	for release, bug := range map[string]bool{
		"6.16.9": false, "6.17.0-41-generic": true, "6.17": true, "6.17.13": true, "6.18.44-fc-v669": false,
		"6.170.1": false, "5.17.2": false, "7.0.0": true, "7.0.0-rc1": true, "7.0-rc7": true, "7.0.2-6-pve": true,
		"7.1.0": true, "7.1.4-arch1-1": true, "7.1.4+": true, "7.1.5": false, "7.2.0-rc1": false, "8.0.1": false, "3.2.0": false, "": false, "x.y": false,
	} {
		if got := evenTailBug(release); got != bug {
			t.Errorf("%s: %v", release, got)
		}
	}

	a, b, port := udpPair(t, "127.0.0.1")
	read := rawReader(t, b)
	to := endpointT(t, "127.0.0.1:%d", port)
	knows(t, a, to)
	a.out.evenBug = true
	buf, segs := joined(100, 100, 100, 99, 50, 50, 50, 10, 10)
	if err := a.send(to, buf, segs); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]int{{399, 100}, {160, 50}, {10, 0}} {
		if n, size := read(); n != want[0] || size != want[1] {
			t.Errorf("message %d has %d bytes in segments of %d, want %v", i, n, size, want)
		}
	}
	if err := a.send(to, buf, segs[:3]); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, size := read(); n != 100 || size != 0 {
			t.Errorf("%d bytes in segments of %d", n, size)
		}
	}
}

// A TUN that says that it is PPP stands in for one.
func TestUDPOverPPP(t *testing.T) {
	we, far := twoHosts(t)
	var tunFD int
	var err error
	we.do(func() {
		if tunFD, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		ifr, _ := unix.NewIfreq("ppp0")
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err = unix.IoctlIfreq(tunFD, unix.TUNSETIFF, ifr); err == nil {
			err = unix.IoctlSetInt(tunFD, unix.TUNSETLINK, unix.ARPHRD_PPP)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tunFD)
	we.ip("addr add 10.8.0.1/24 dev ppp0")
	we.ip("link set ppp0 up")
	we.ip("addr add fd08::1/64 dev ppp0 nodad")
	v4, v6 := we.listen(7000)
	far4, _ := far.listen(7001)
	book := logged(v4, v6)

	gone := endpointT(t, "10.8.0.3:7001")
	gone.src = netip.MustParseAddr("10.9.0.77")
	for _, tt := range []struct {
		c   *udpConn
		to  *endpoint
		ppp bool
	}{
		{v4, gone, true},
		{v4, endpointT(t, "10.8.0.2:7001"), true},
		{v6, endpointT(t, "[fd08::2]:7001"), true},
		{v4, endpointT(t, "10.9.0.2:7001"), false},
		{v6, endpointT(t, "[fd09::2]:7001"), false},
		{v4, endpointT(t, "127.0.0.1:7001"), false},
		{v4, endpointT(t, "192.0.2.1:7001"), false}, // no route
	} {
		knows(t, tt.c, tt.to)
		if p := tt.c.out.pathOf(tt.to); p.ppp != tt.ppp {
			t.Errorf("%v: PPP: %v", tt.to, p.ppp)
		}
	}
	eventually(t, func() bool { return len(book.lines()) >= 3 })
	if lines := slices.Sorted(slices.Values(book.lines())); len(lines) != 3 || !strings.Contains(lines[0], "10.8.0.2 ") || !strings.Contains(lines[1], "10.8.0.3 ") || !strings.Contains(lines[2], "fd08::2 ") {
		t.Errorf("logged: %q", lines)
	}

	// What goes there goes one by one: none is longer than the MTU.
	buf, segs := joined(same(10, 1000)...)
	if err := v4.send(endpointT(t, "10.8.0.2:7001"), buf, segs); err != nil {
		t.Error(err)
	}
	if v4.out.paths.works {
		t.Error("joined segments went to PPP")
	}
	packet := make([]byte, 70000)
	for got := 0; got < 10; {
		n, err := unix.Read(tunFD, packet)
		if err != nil {
			t.Fatal(err)
		}
		if packet[0]>>4 == 4 {
			if got++; n != 1028 {
				t.Errorf("%d bytes", n)
			}
		}
	}

	// Routes change, by mark and by source.
	to := endpointT(t, "10.9.0.2:7001")
	is := func(ppp bool) {
		t.Helper()
		if p := v4.out.lookAgain(t, to); p.ppp != ppp {
			t.Errorf("PPP: %v", p.ppp)
		}
	}
	we.ip("route add default dev ppp0 table 99")
	we.ip("rule add fwmark 7 table 99 pref 10")
	is(false)
	limit := func() {
		p := v4.out.paths.find(to.addr.Addr(), 0)
		p.limit, p.until = 500, v4.out.now()+1<<50
	}
	limit()
	is(false)
	if p := v4.out.pathOf(to); p.limit != 500 {
		t.Errorf("limit %d by the same device", p.limit)
	}
	v4.setMark(7)
	is(true)
	if p := v4.out.pathOf(to); p.limit != noLimit {
		t.Errorf("limit %d by another device", p.limit)
	}
	eventually(t, func() bool { return len(book.lines()) == 4 })
	is(true)
	if lines := book.lines(); len(lines) != 4 {
		t.Errorf("logged again: %q", lines)
	}
	v4.setMark(0)
	is(false)
	we.ip("rule add from 10.9.0.22 table 99 pref 11")
	to.src = netip.MustParseAddr("10.9.0.22")
	is(true)
	we.do(func() {
		i, _ := interfaceIndex("w0")
		to.srcIf = uint32(i)
	})
	is(false) // sent by the interface on which the peer dialled
	to.src, to.srcIf = netip.MustParseAddr("10.9.0.77"), 0
	is(false) // not ours: the kernel chooses
	at := arrivals(t, far4)
	to.src = netip.Addr{}
	sends(t, v4, to, at, same(44, 1452)...)
}

// The look-up does not keep a socket, nor its goroutine, from ending.
func TestUDPCloseWhileLookingUp(t *testing.T) {
	for range 50 {
		c, err := openUDP(false, 0, 0, udpOptions{offload: OffloadGSO, budget: testBudget})
		if err != nil {
			t.Fatal(err)
		}
		buf, segs := joined(100, 100)
		c.send(endpointT(t, "127.0.0.1:9"), buf, segs)
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool {
			c.out.mu.Lock()
			defer c.out.mu.Unlock()
			return !c.out.paths.looking
		})
		if c.out.paths.routes.Close() == nil {
			t.Fatal("the netlink socket was open")
		}
	}
}

// More destinations than are remembered.
func TestUDPManyDestinations(t *testing.T) {
	a, _, _ := listenT(t, 0, allOffloads)
	s := &a.out
	const n = 4 * pathSets * pathWays
	for range 2 {
		for i := range n {
			to := endpointT(t, "10.0.%d.%d:1", i/256, i%256)
			s.mu.Lock()
			s.to = to
			if p := s.choosePath(s.now()); !p.is(to.addr.Addr(), 0) || p.limit != noLimit {
				t.Fatalf("%v: %+v", to, p)
			}
			s.mu.Unlock()
		}
	}
	known := 0
	for i := range s.paths.sets {
		for j := range s.paths.sets[i] {
			if s.paths.sets[i][j].addr.IsValid() {
				known++
			}
		}
	}
	if known < pathSets*pathWays*9/10 {
		t.Errorf("%d of %d places are used", known, pathSets*pathWays)
	}
}

// Whatever control messages say, the bytes that came are handed over once each.
func FuzzUDPControl(f *testing.F) {
	pktinfo := padControl(append(appendControl(nil, unix.IPPROTO_IP, unix.IP_PKTINFO, 12), make([]byte, 12)...))
	gro := padControl(append(appendControl(nil, unix.SOL_UDP, unix.UDP_GRO, 4), 0xac, 5, 0, 0))
	f.Add(slices.Concat(pktinfo, gro), 44*1452, 0, false)
	f.Add(gro, 1452*3+1, 16, true)
	f.Add(gro[:len(gro)-5], 70000, 32, true)
	f.Add(padControl(append(appendControl(nil, unix.SOL_UDP, unix.UDP_GRO, 4), 0, 0, 5, 0xad)), 5000, 48, false)
	r := newUDPReader(false, false, 0, nil)
	f.Fuzz(func(t *testing.T, control []byte, n, off int, v6 bool) {
		off = int(uint(off)%maxDatagram) &^ 15
		n = 1 + int(uint(n)%maxDatagram)
		want := r.arena[off : off+n]
		for i := range want {
			want[i] = byte(i * 7)
		}
		want = bytes.Clone(want)
		d := datagram{}
		size := d.describe(v6, &r.from, control)
		if size < 0 || size > maxDatagram {
			t.Fatalf("datagrams of %d bytes", size)
		}
		d.tos = 3
		r.batch = r.batch[:0]
		checkSplit(t, r, want, off, r.split(d, off, n, size), size)
	})
}

// An empty socket is told to be empty, or serve would never sleep.
func TestUDPEmptySocket(t *testing.T) {
	for _, off := range mixes {
		c, _, _ := listenT(t, 0, off)
		if empty, err := c.in.burst(c.fd); !empty || err != nil || len(c.in.batch) != 0 {
			t.Errorf("%07b: %v, %v, %d datagrams", off, empty, err, len(c.in.batch))
		}
	}
}

// The reader's buffers are as large as was asked for, and the area of recvmmsg does
// not stay larger.
func TestUDPReaderMemory(t *testing.T) {
	const size = 64 << 10
	a, _, _ := listenT(t, 0, 0)
	small := testBudget
	small.Arena = size
	b, err := openUDP(false, 0, 0, udpOptions{offload: OffloadMmsg, budget: small})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	m := b.in.many
	buf, segs := batchOf(same(4, 65507)...)
	resident := func() int {
		page := unix.Getpagesize()
		vec := make([]byte, len(m.area)/page+1)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m.area[0])), uintptr(len(m.area)), uintptr(unsafe.Pointer(&vec[0]))); errno != 0 {
			t.Fatal(errno)
		}
		n := 0
		for _, v := range vec {
			n += int(v&1) * page
		}
		return n
	}
	most := 0
	for range 10 {
		if err := a.send(endpointT(t, "127.0.0.1:%d", b.localPort), buf, segs); err != nil {
			t.Fatal(err)
		}
		if empty, err := b.in.burst(b.fd); !empty || err != nil || len(b.in.batch) != len(segs) {
			t.Fatalf("%d datagrams, %v, %v", len(b.in.batch), empty, err)
		}
		most = max(most, resident())
	}
	b.in.burst(b.fd)
	if n := resident(); n > size {
		t.Errorf("%d bytes are kept, %d were asked for; at most %d", n, size, most)
	}
	if b.close(); unix.Madvise(m.area, unix.MADV_DONTNEED) != unix.ENOMEM {
		t.Error("the area is still there")
	}
	mapMemory = func(int, int64, int, int, int) ([]byte, error) { return nil, unix.ENOMEM }
	defer func() { mapMemory = unix.Mmap }()
	if r := newUDPReader(false, true, 1<<20, nil); r.many != nil || len(r.arena) != 1<<20 {
		t.Errorf("%d bytes", len(r.arena))
	}
}
