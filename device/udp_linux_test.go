package device

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
)

const patience = 10 * time.Second // for what should happen at once

const allOffloads = OffloadMmsg | OffloadGSO | OffloadGRO

// mixes are of offloads that a socket may use.
var mixes = []Offload{0, OffloadMmsg, OffloadGSO, OffloadGRO, OffloadMmsg | OffloadGSO, OffloadGSO | OffloadGRO, allOffloads}

// listenT opens sockets that the test's end closes.
func listenT(t *testing.T, port uint16, off Offload) (v4, v6 *udpConn, actual uint16) {
	t.Helper()
	four, six, actual, err := listenUDP(port, 0, udpOptions{offload: off, budget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	v4, _ = four.(*udpConn)
	v6, _ = six.(*udpConn)
	for _, c := range []*udpConn{v4, v6} {
		if c != nil {
			t.Cleanup(func() { c.close() })
		}
	}
	return v4, v6, actual
}

// arrivals serves c and returns copies of what arrives.
func arrivals(t *testing.T, c *udpConn) <-chan datagram {
	t.Helper()
	ch, served := make(chan datagram, 10_000), make(chan error, 1)
	go func() {
		served <- c.serve(func(batch []datagram, _ bool) {
			for _, d := range batch {
				if at := uintptr(unsafe.Pointer(&d.data[0])); at%4 != 0 {
					t.Errorf("a datagram begins at %#x", at)
				}
				d.data = bytes.Clone(d.data)
				ch <- d
			}
		})
	}()
	t.Cleanup(func() {
		c.close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ch
}

func next(t *testing.T, ch <-chan datagram) datagram {
	t.Helper()
	select {
	case d := <-ch:
		return d
	case <-time.After(patience):
		t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

func endpointT(t *testing.T, format string, args ...any) *endpoint {
	t.Helper()
	a, err := netip.ParseAddrPort(fmt.Sprintf(format, args...))
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEndpoint(a)
	if err != nil {
		t.Fatal(err)
	}
	return &e
}

// batchOf makes messages of these lengths, each filled with its number.
func batchOf(lengths ...int) (buf []byte, segs []segment) {
	for i, n := range lengths {
		segs = append(segs, segment{off: len(buf), len: n})
		buf = append(buf, bytes.Repeat([]byte{byte(i)}, n)...)
		buf = append(buf, 0xee) // between the messages, never sent
	}
	return buf, segs
}

// Also run on big-endian machines under emulation: no namespaces here.
func TestUDPLoopback(t *testing.T) {
	for _, off := range mixes {
		a4, a6, portA := listenT(t, 0, off)
		b4, b6, portB := listenT(t, 0, off)
		for _, tt := range []struct {
			name string
			a, b *udpConn
			addr string // of b and a
		}{
			{"IPv4", a4, b4, "127.0.0.1"},
			{"IPv6", a6, b6, "[::1]"},
		} {
			t.Run(fmt.Sprintf("%s/%07b", tt.name, off), func(t *testing.T) {
				if tt.a == nil {
					loud.Skip(t, "no such family here")
				}
				atA, atB := arrivals(t, tt.a), arrivals(t, tt.b)
				lengths := make([]int, 150) // more than two batches
				for i := range lengths {
					lengths[i] = 32 + i
				}
				lengths[3], lengths[70] = 1, 65507 // the shortest and the longest
				buf, segs := batchOf(lengths...)
				if err := tt.a.send(endpointT(t, "%s:%d", tt.addr, portB), buf, segs); err != nil {
					t.Fatal(err)
				}
				var from endpoint
				for i, seg := range segs {
					d := next(t, atB)
					if !bytes.Equal(d.data, buf[seg.off:seg.off+seg.len]) {
						t.Fatalf("message %d: got %d bytes that begin with %x, want %d bytes", i, len(d.data), d.data[:1], seg.len)
					}
					from = d.from
				}
				addr := netip.MustParseAddrPort(fmt.Sprintf("%s:%d", tt.addr, portA))
				if from.addr != addr || from.src != addr.Addr() {
					t.Errorf("from %v to %v, want both %v", from.addr, from.src, addr)
				}
				reply, segs := batchOf(100)
				if err := tt.b.send(&from, reply, segs); err != nil {
					t.Fatal(err)
				}
				if !from.src.IsValid() {
					t.Error("the source was cleared")
				}
				if d := next(t, atA); len(d.data) != 100 || d.from.addr.Port() != portB {
					t.Errorf("reply: got %d bytes from %v", len(d.data), d.from.addr)
				}
			})
		}
	}
}

// A lost message would be one that another segment's refusal took along.
func TestUDPRefusedSegmentKeepsNoOther(t *testing.T) {
	for _, off := range mixes {
		a, _, _ := listenT(t, 0, off)
		b, _, port := listenT(t, 0, off)
		ch := arrivals(t, b)
		buf, segs := batchOf(65508, 10, 20, 65508, 65508, 30, 65508)
		if err := a.send(endpointT(t, "127.0.0.1:%d", port), buf, segs); err != unix.EMSGSIZE {
			t.Errorf("got error %v, want %v", err, unix.EMSGSIZE)
		}
		for _, n := range []int{10, 20, 30} {
			if d := next(t, ch); len(d.data) != n {
				t.Errorf("got %d bytes, want %d", len(d.data), n)
			}
		}
	}
}

func TestUDPEmptyDatagramsAreSkipped(t *testing.T) {
	c, _, port := listenT(t, 0, allOffloads)
	ch := arrivals(t, c)
	s, err := net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 * udpBurst {
		s.Write(nil)
	}
	s.Write([]byte{1})
	if d := next(t, ch); len(d.data) != 1 {
		t.Errorf("got %d bytes", len(d.data))
	}
}

func TestUDPOtherFamilyIsRefused(t *testing.T) {
	c, _, _ := listenT(t, 0, allOffloads)
	buf, segs := batchOf(1)
	if err := c.send(endpointT(t, "[::1]:9"), buf, segs); err != unix.EAFNOSUPPORT {
		t.Errorf("got %v, want %v", err, unix.EAFNOSUPPORT)
	}
}

func TestUDPCloseEndsServe(t *testing.T) {
	c, _, port := listenT(t, 0, allOffloads)
	served := make(chan error)
	go func() { served <- c.serve(func([]datagram, bool) {}) }()
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("serve goes on")
	}
	buf, segs := batchOf(1)
	if err := c.send(endpointT(t, "127.0.0.1:9"), buf, segs); err != os.ErrClosed {
		t.Errorf("send: got %v, want %v", err, os.ErrClosed)
	}
	if c, err := openUDP(false, port, 0, udpOptions{offload: allOffloads, budget: testBudget}); err != nil {
		t.Errorf("the port is not free: %v", err)
	} else {
		c.close()
	}
}

// The socket is never empty, so only serve itself can end the loop.
func TestUDPCloseAmongTraffic(t *testing.T) {
	c, _, port := listenT(t, 0, allOffloads)
	other, _, _ := listenT(t, 0, allOffloads) // closed first: then the traffic ends also if the test fails
	to := endpointT(t, "127.0.0.1:%d", port)
	buf, segs := batchOf(make([]int, maxBatch)...)
	for i := range segs {
		segs[i] = segment{off: i, len: 1}
	}
	for range 3 {
		if err := other.send(to, buf, segs); err != nil {
			t.Fatal(err)
		}
	}
	got, served := make(chan struct{}), make(chan error, 1)
	var bursts atomic.Int64
	go func() {
		served <- c.serve(func(batch []datagram, _ bool) {
			if bursts.Add(1) == 10 {
				close(got)
			}
			other.send(to, buf, segs[:len(batch)])
		})
	}()
	<-got
	closed := make(chan error)
	go func() { closed <- c.close() }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("close waits for ever")
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestUDPBurstThatFillsTheArena(t *testing.T) {
	a, _, _ := listenT(t, 0, allOffloads)
	b, _, port := listenT(t, 0, allOffloads)
	buf, segs := batchOf(60000, 60000, 100, 60000, 60000, 60000, 1, 60000)
	if err := a.send(endpointT(t, "127.0.0.1:%d", port), buf, segs); err != nil {
		t.Fatal(err)
	}
	ch := arrivals(t, b)
	for i, seg := range segs {
		if d := next(t, ch); !bytes.Equal(d.data, buf[seg.off:seg.off+seg.len]) {
			t.Errorf("message %d: got %d bytes", i, len(d.data))
		}
	}
}

func TestUDPSendersAtOnce(t *testing.T) {
	a, _, _ := listenT(t, 0, allOffloads)
	const senders, messages = 4, 50
	var wg sync.WaitGroup
	for i := range senders {
		b, _, port := listenT(t, 0, allOffloads)
		ch := arrivals(t, b)
		to := endpointT(t, "127.0.0.1:%d", port)
		wg.Go(func() {
			buf, segs := batchOf(100+i, 100+i)
			for range messages {
				if err := a.send(to, buf, segs); err != nil {
					t.Errorf("send: %v", err)
				}
			}
			for range messages * len(segs) {
				select {
				case d := <-ch:
					if len(d.data) != 100+i {
						t.Errorf("receiver %d got %d bytes", i, len(d.data))
					}
				case <-time.After(patience):
					t.Error("a message was lost")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestUDPDoesNotAllocate(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "[::1]"} {
		for _, off := range mixes {
			a, b, port := udpPairOf(t, addr, off)
			if a == nil {
				continue
			}
			got := 0
			wake := make(chan endpoint, 1)
			go b.serve(func(batch []datagram, _ bool) {
				if got += len(batch); len(batch) > 0 && got%udpSendBatch == 0 {
					wake <- batch[0].from
				}
			})
			to := endpointT(t, "%s:%d", addr, port)
			knows(t, a, to)
			buf, segs := joined(same(udpSendBatch, 1001)...)
			for i := range segs {
				segs[i].tos = byte(i / 8)
			}
			n := testing.AllocsPerRun(50, func() {
				if err := a.send(to, buf, segs); err != nil {
					t.Fatal(err)
				}
				back := <-wake
				to.src, to.srcIf = back.src, back.srcIf // on to a send with all options
			})
			if n != 0 {
				t.Errorf("%s, %07b: %v allocations a batch", addr, off, n)
			}
			b.close()
		}
	}
}

// udpPair opens two sockets of the family of addr, nil if there is none; port is
// that of the second.
func udpPair(t *testing.T, addr string) (a, b *udpConn, port uint16) {
	t.Helper()
	return udpPairOf(t, addr, allOffloads)
}

func udpPairOf(t *testing.T, addr string, off Offload) (a, b *udpConn, port uint16) {
	t.Helper()
	a4, a6, _ := listenT(t, 0, off)
	b4, b6, port := listenT(t, 0, off)
	if strings.HasPrefix(addr, "[") {
		return a6, b6, port
	}
	return a4, b4, port
}

// socketDouble stands in for socket(2) until the test ends.
func socketDouble(t *testing.T, f func(family, kind, proto int) (int, error)) {
	newSocket = f
	t.Cleanup(func() { newSocket = unix.Socket })
}

func TestUDPKernelWithoutAFamily(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EAFNOSUPPORT, unix.EADDRNOTAVAIL} {
		for _, missing := range []int{unix.AF_INET, unix.AF_INET6} {
			socketDouble(t, func(family, kind, proto int) (int, error) {
				if family == missing {
					return -1, errno
				}
				return unix.Socket(family, kind, proto)
			})
			// The plain interface: a nil *udpConn in it would not be nil.
			v4, v6, port, err := listenUDP(0, 0, udpOptions{offload: allOffloads, budget: testBudget})
			if err != nil {
				t.Fatal(err)
			}
			there, absent := v4, v6
			if missing == unix.AF_INET {
				there, absent = v6, v4
			}
			if absent != nil || there == nil || port == 0 || there.(*udpConn).localPort != port {
				t.Fatalf("without family %d: %v, %v, port %d", missing, v4, v6, port)
			}
			there.close()
		}
	}
	socketDouble(t, func(int, int, int) (int, error) { return -1, unix.EAFNOSUPPORT })
	if v4, v6, port, err := listenUDP(0, 0, udpOptions{offload: allOffloads, budget: testBudget}); err != unix.EAFNOSUPPORT || v4 != nil || v6 != nil || port != 0 {
		t.Errorf("without both: %v, %v, %d, %v", v4, v6, port, err)
	}
}

func TestUDPAnyOtherErrorClosesAll(t *testing.T) {
	var four int
	socketDouble(t, func(family, kind, proto int) (int, error) {
		if family == unix.AF_INET6 {
			return -1, unix.EMFILE
		}
		fd, err := unix.Socket(family, kind, proto)
		four = fd
		return fd, err
	})
	v4, v6, port, err := listenUDP(0, 0, udpOptions{offload: allOffloads, budget: testBudget})
	if err != unix.EMFILE || v4 != nil || v6 != nil || port != 0 {
		t.Errorf("got %v, %v, %d, %v", v4, v6, port, err)
	}
	if _, err := unix.Getsockname(four); err != unix.EBADF {
		t.Errorf("the IPv4 socket is open: %v", err)
	}
}

func TestUDPPortInUse(t *testing.T) {
	v4, v6, port := listenT(t, 0, allOffloads)
	if v6 == nil {
		loud.Skip(t, "no IPv6 here")
	}
	if v4.localPort != port || v6.localPort != port {
		t.Errorf("ports %d and %d, want both %d", v4.localPort, v6.localPort, port)
	}
	if _, _, _, err := listenUDP(port, 0, udpOptions{offload: allOffloads, budget: testBudget}); err != unix.EADDRINUSE {
		t.Errorf("both in use: %v", err)
	}
	v4.close()
	if _, _, _, err := listenUDP(port, 0, udpOptions{offload: allOffloads, budget: testBudget}); err != unix.EADDRINUSE {
		t.Errorf("IPv6 in use: %v", err)
	}
	v6.close()
	if v4, v6, got, err := listenUDP(port, 0, udpOptions{offload: allOffloads, budget: testBudget}); err != nil || got != port {
		t.Errorf("the port is still held: %d, %v", got, err)
	} else {
		v4.close()
		v6.close()
	}
}

func TestUDPAnyPortIsFreeInBoth(t *testing.T) {
	var four int
	var blockers []int
	socketDouble(t, func(family, kind, proto int) (int, error) {
		fd, err := unix.Socket(family, kind, proto)
		if family == unix.AF_INET {
			four = fd
		} else if len(blockers) < 3 { // somebody else has the port in IPv6
			sa, _ := unix.Getsockname(four)
			other, _ := unix.Socket(family, kind, proto)
			unix.SetsockoptInt(other, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
			if err := unix.Bind(other, &unix.SockaddrInet6{Port: sa.(*unix.SockaddrInet4).Port}); err != nil {
				t.Error(err)
			}
			blockers = append(blockers, other)
		}
		return fd, err
	})
	v4, v6, port := listenT(t, 0, allOffloads)
	if len(blockers) != 3 || v4.localPort != port || v6.localPort != port {
		t.Errorf("after %d busy ports: %d and %d, want both %d", len(blockers), v4.localPort, v6.localPort, port)
	}
	for _, fd := range blockers {
		unix.Close(fd)
	}
}

// A host is a network namespace with a thread of its own.
type host struct {
	t    *testing.T
	tid  int
	work chan func()
}

func newHost(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	h := &host{t: t, work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: thread and namespace end together
		h.tid = unix.Gettid()
		err := unix.Unshare(unix.CLONE_NEWNET)
		ready <- err
		for f := range h.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal("unshare:", err)
	}
	t.Cleanup(func() { close(h.work) })
	h.ip("link set lo up")
	return h
}

// do runs f in the namespace. f must not end the test.
func (h *host) do(f func()) {
	done := make(chan struct{})
	h.work <- func() { defer close(done); f() }
	<-done
}

func (h *host) ip(args string) string {
	h.t.Helper()
	var out []byte
	var err error
	h.do(func() { out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput() })
	if err != nil {
		h.t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// addr6 gives an interface an IPv6 address and waits for its host route, which
// the kernel adds a little later.
func (h *host) addr6(dev, addr string, bits int) {
	h.t.Helper()
	h.ip(fmt.Sprintf("addr add %s/%d dev %s nodad", addr, bits, dev))
	for begin := time.Now(); !strings.Contains(h.ip("-6 route show table local"), "local "+addr+" dev "+dev+" "); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			h.t.Fatalf("%s: address %s is not usable", dev, addr)
		}
	}
}

func (h *host) listen(port uint16) (v4, v6 *udpConn) {
	h.t.Helper()
	var err error
	var four, six conn
	h.do(func() { four, six, _, err = listenUDP(port, 0, udpOptions{offload: allOffloads, budget: testBudget}) })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { four.close(); six.close() })
	return four.(*udpConn), six.(*udpConn)
}

// dial is a plain connected socket: it hears only the address it dialled.
func (h *host) dial(local, remote string) *net.UDPConn {
	h.t.Helper()
	var c net.Conn
	var err error
	h.do(func() {
		c, err = (&net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.MustParseAddrPort(local))}).Dial("udp", remote)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c.(*net.UDPConn)
}

func hears(t *testing.T, c *net.UDPConn, want string) {
	t.Helper()
	b := make([]byte, 100)
	c.SetReadDeadline(time.Now().Add(patience))
	if n, err := c.Read(b); err != nil || string(b[:n]) != want {
		t.Errorf("%v from %v: got %q, %v; want %q", c.LocalAddr(), c.RemoteAddr(), b[:n], err, want)
	}
}

func say(t *testing.T, c *udpConn, to *endpoint, what string) {
	t.Helper()
	if err := c.send(to, []byte(what), []segment{{len: len(what)}}); err != nil {
		t.Errorf("send to %v from %v: %v", to.addr, to.src, err)
	}
}

// twoHosts are joined by a link:
//
//	we: w0  10.9.0.1, .22, fd09::1, ::22 ——— f0  10.9.0.2, .3, fd09::2, ::3 :far
func twoHosts(t *testing.T) (we, far *host) {
	t.Helper()
	we, far = newHost(t), newHost(t)
	we.ip(fmt.Sprintf("link add w0 type veth peer name f0 netns %d", far.tid))
	we.ip("link set w0 up")
	far.ip("link set f0 up")
	for h, dev := range map[*host]string{we: "w0", far: "f0"} {
		for _, n := range map[*host][]string{we: {"1", "22"}, far: {"2", "3"}}[h] {
			h.ip("addr add 10.9.0." + n + "/24 dev " + dev)
			h.addr6(dev, "fd09::"+n, 64)
		}
	}
	return we, far
}

// A01
func TestUDPRepliesFromTheDialledAddress(t *testing.T) {
	we, far := twoHosts(t)
	v4, v6 := we.listen(7000)
	at4, at6 := arrivals(t, v4), arrivals(t, v6)
	for _, tt := range []struct {
		c             *udpConn
		at            <-chan datagram
		local, remote string
	}{
		{v4, at4, "10.9.0.2:0", "10.9.0.1:7000"},
		{v4, at4, "10.9.0.2:0", "10.9.0.22:7000"},
		{v6, at6, "[fd09::2]:0", "[fd09::1]:7000"},
		{v6, at6, "[fd09::2]:0", "[fd09::22]:7000"},
	} {
		peer := far.dial(tt.local, tt.remote)
		peer.Write([]byte("hello"))
		d := next(t, tt.at)
		if d.from.src != netip.MustParseAddrPort(tt.remote).Addr() || d.from.srcIf == 0 {
			t.Errorf("dialled %s, received at %v, interface %d", tt.remote, d.from.src, d.from.srcIf)
		}
		say(t, tt.c, &d.from, "reply")
		hears(t, peer, "reply")
	}

	// Also what comes in one piece.
	far4, far6 := far.listen(7001)
	for _, to := range []*endpoint{endpointT(t, "10.9.0.22:7000"), endpointT(t, "[fd09::22]:7000")} {
		c, at := far4, at4
		if !to.is4() {
			c, at = far6, at6
		}
		knows(t, c, to)
		buf, segs := joined(append(same(20, 1001), 7)...)
		if err := c.send(to, buf, segs); err != nil {
			t.Error(err)
		}
		for i := range segs {
			if d := next(t, at); d.from.src != to.addr.Addr() || d.from.srcIf == 0 || len(d.data) != segs[i].len {
				t.Errorf("number %d to %v, %d bytes, came to %v, interface %d", i, to.addr, len(d.data), d.from.src, d.from.srcIf)
			}
		}
	}
}

// Two daemons on one host that know each other by an address that is not loopback.
func TestUDPRepliesToTheSameHost(t *testing.T) {
	we, _ := twoHosts(t)
	v4, v6 := we.listen(7000)
	at4, at6 := arrivals(t, v4), arrivals(t, v6)
	for _, tt := range []struct {
		c             *udpConn
		at            <-chan datagram
		local, remote string
	}{
		{v4, at4, "10.9.0.1:0", "10.9.0.22:7000"},
		{v4, at4, "10.9.0.22:0", "10.9.0.22:7000"},
		{v4, at4, "127.0.0.1:0", "127.0.0.2:7000"},
		{v6, at6, "[fd09::1]:0", "[fd09::22]:7000"},
		{v6, at6, "[::1]:0", "[::1]:7000"},
	} {
		peer := we.dial(tt.local, tt.remote)
		peer.Write([]byte("hello"))
		d := next(t, tt.at)
		say(t, tt.c, &d.from, "reply")
		hears(t, peer, "reply")
	}
}

// A02
func TestUDPEachDatagramGoesToItsOwnHost(t *testing.T) {
	we, far := twoHosts(t)
	v4, v6 := we.listen(7000)
	addrs := []string{"10.9.0.2", "[fd09::2]", "10.9.0.3", "[fd09::3]"}
	var peers []*net.UDPConn
	for _, a := range addrs {
		ours := "10.9.0.1:7000"
		if a[0] == '[' {
			ours = "[fd09::1]:7000"
		}
		peers = append(peers, far.dial(a+":7001", ours))
	}
	for round := range 3 {
		for i, a := range addrs {
			c := v4
			if a[0] == '[' {
				c = v6
			}
			e := endpointT(t, "%s:7001", a)
			e.src = netip.MustParseAddr([]string{"10.9.0.1", "fd09::1"}[i%2])
			knows(t, c, e)
			buf := []byte(fmt.Sprint(round, a))
			segs := []segment{{len: len(buf)}, {off: len(buf), len: len(buf)}, {off: 2 * len(buf), len: 1}}
			if err := c.send(e, append(append(buf, buf...), '.'), segs); err != nil {
				t.Error(err)
			}
		}
	}
	for round := range 3 {
		for i, a := range addrs {
			hears(t, peers[i], fmt.Sprint(round, a))
			hears(t, peers[i], fmt.Sprint(round, a))
			hears(t, peers[i], ".")
		}
	}
}

func TestUDPLinkLocal(t *testing.T) {
	we, far := twoHosts(t)
	we.ip(fmt.Sprintf("link add w1 type veth peer name f1 netns %d", far.tid))
	we.ip("link set w1 up")
	far.ip("link set f1 up")
	_, v6 := we.listen(7000)
	at := arrivals(t, v6)
	for _, link := range []string{"0", "1"} { // one prefix on both
		we.addr6("w"+link, "fe80::a"+link, 64)
		far.addr6("f"+link, "fe80::b"+link, 64)
	}
	for _, link := range []string{"0", "1"} {
		peer := far.dial("[fe80::b"+link+"%f"+link+"]:0", "[fe80::a"+link+"%f"+link+"]:7000")
		peer.Write([]byte("hello"))
		d := next(t, at)
		if d.from.scope == 0 || d.from.addr.Addr().Zone() != "" {
			t.Errorf("from %v, scope %d", d.from.addr, d.from.scope)
		}
		say(t, v6, &d.from, "reply")
		hears(t, peer, "reply")

		d.from.srcIf = 0 // the scope alone finds the way
		say(t, v6, &d.from, "again")
		hears(t, peer, "again")
		var shown netip.AddrPort
		we.do(func() { shown = d.from.addrPort() })
		if shown.Addr().Zone() != "w"+link {
			t.Errorf("shown as %v", shown)
		}
	}
}

// A13 and what goes on the wire.
func TestUDPOuterHeader(t *testing.T) {
	we, far := twoHosts(t)
	v4, v6 := we.listen(7000)
	far4, far6 := far.listen(7001)
	at4, at6 := arrivals(t, far4), arrivals(t, far6)
	wire := far.capture("f0")

	lengths := []int{100, 101, 102, 3000, 103}
	classes := []byte{0x88, 0x01, 0x01, 0x03, 0x00}
	buf, segs := batchOf(lengths...)
	for i := range segs {
		segs[i].tos = classes[i]
	}
	for _, tt := range []struct {
		c  *udpConn
		at <-chan datagram
		to *endpoint
	}{
		{v4, at4, endpointT(t, "10.9.0.2:7001")},
		{v6, at6, endpointT(t, "[fd09::2]:7001")},
	} {
		if err := tt.c.send(tt.to, buf, segs); err != nil {
			t.Fatal(err)
		}
		for i := range segs {
			if d := next(t, tt.at); len(d.data) != lengths[i] || d.tos != classes[i] {
				t.Errorf("%v message %d: %d bytes, class %#x; want %d, %#x", tt.to.addr, i, len(d.data), d.tos, lengths[i], classes[i])
			}
		}
	}

	fragments := 0
	for _, p := range wire() {
		if p[0]>>4 != 4 || p[9] != unix.IPPROTO_UDP {
			continue
		}
		flags := binary.BigEndian.Uint16(p[6:])
		if flags&0x4000 != 0 {
			t.Errorf("DF is set: % x", p[:20])
		}
		if flags&0x3fff != 0 {
			fragments++
		}
	}
	if fragments != 3 {
		t.Errorf("%d fragments of 3000 bytes at MTU 1500, want 3", fragments)
	}
}

// capture collects the IP packets that enter by an interface until it is asked
// for them.
func (h *host) capture(dev string) func() [][]byte {
	h.t.Helper()
	var fd int
	var err error
	h.do(func() {
		var ifi *net.Interface
		if ifi, err = net.InterfaceByName(dev); err != nil {
			return
		}
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return
		}
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifi.Index})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { unix.Close(fd) })
	return func() (packets [][]byte) {
		for {
			b := make([]byte, 64<<10)
			n, from, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				return packets
			}
			if n >= 20 && from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_HOST {
				packets = append(packets, b[:n])
			}
		}
	}
}

// C02
func TestUDPSourceThatIsGone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		breakIt string // on our side
	}{
		{"address removed", "addr del ADDR dev w0"},
		{"interface gone", "link del w1"},
		{"interface down", "link set w1 down"},
	} {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/v6=%v", tt.name, v6), func(t *testing.T) {
				we, far := twoHosts(t)
				we.ip("link add w1 type veth peer name w2")
				we.ip("link set w1 up")
				we.ip("link set w2 up")
				c, c6 := we.listen(7000)
				src, to, mask := "10.9.0.22", endpointT(t, "10.9.0.2:7001"), "/24"
				local, remote := "10.9.0.2:7001", "10.9.0.1:7000"
				if v6 {
					c, src, to, mask = c6, "fd09::22", endpointT(t, "[fd09::2]:7001"), "/64"
					local, remote = "[fd09::2]:7001", "[fd09::1]:7000"
				}
				dev := "w0"
				if strings.Contains(tt.breakIt, "w1") {
					dev = "w1"
					we.ip("addr del " + src + mask + " dev w0")
					if v6 {
						we.addr6("w1", src, 64)
					} else {
						we.ip("addr add " + src + mask + " dev w1")
					}
				}
				to.src = netip.MustParseAddr(src)
				we.do(func() {
					i, _ := interfaceIndex(dev)
					to.srcIf = uint32(i)
				})
				we.ip(strings.ReplaceAll(tt.breakIt, "ADDR", src+mask))
				if v6 { // of the two on the link the kernel shall choose ours
					we.ip("route replace fd09::/64 dev w0 src fd09::1")
				}

				peer := far.dial(local, remote)
				buf, segs := batchOf(3, 3, 3)
				for i := range segs {
					segs[i].tos = 0x88
				}
				if err := c.send(to, buf, segs); err != nil {
					t.Errorf("send: %v", err)
				}
				if to.src.IsValid() || to.srcIf != 0 {
					t.Errorf("source %v, interface %d still held", to.src, to.srcIf)
				}
				if c.out.noTOS {
					t.Error("the traffic class was blamed")
				}
				for i := range segs {
					hears(t, peer, string(bytes.Repeat([]byte{byte(i)}, 3)))
				}
			})
		}
	}
}

func TestUDPRefusedTrafficClass(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "[::1]"} {
		a, b, port := udpPair(t, addr)
		if a == nil {
			continue
		}
		at := arrivals(t, b)
		a.out.tosLevel, a.out.tosKind = unix.IPPROTO_IP, 99 // what an old kernel thinks of IP_TOS
		if a.v6 {
			a.out.tosLevel = unix.IPPROTO_IPV6
		}
		to := endpointT(t, "%s:%d", addr, port)
		to.src = to.addr.Addr()
		buf, segs := batchOf(10, 20, 30)
		segs[1].tos = 0x88
		if err := a.send(to, buf, segs); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		for _, n := range []int{10, 20, 30} {
			if d := next(t, at); len(d.data) != n {
				t.Errorf("%s: got %d bytes, want %d", addr, len(d.data), n)
			}
		}
		if !a.out.noTOS || !to.src.IsValid() {
			t.Errorf("%s: class given up: %v; source: %v", addr, a.out.noTOS, to.src)
		}

		// Both wrong at once.
		a.out.noTOS = false
		to.src = netip.MustParseAddr(map[bool]string{false: "192.0.2.77", true: "2001:db8::77"}[a.v6])
		if err := a.send(to, buf, segs[1:2]); err != nil {
			t.Errorf("%s: both wrong: %v", addr, err)
		}
		next(t, at)
		if !a.out.noTOS || to.src.IsValid() {
			t.Errorf("%s: both wrong: class given up: %v; source: %v", addr, a.out.noTOS, to.src)
		}
	}
}

func TestUDPBadDestinationBlamesNobody(t *testing.T) {
	a, _, _ := listenT(t, 0, allOffloads)
	buf, segs := batchOf(10)
	segs[0].tos = 0x88
	if err := a.send(endpointT(t, "127.0.0.1:0"), buf, segs); err != unix.EINVAL {
		t.Errorf("got %v, want %v", err, unix.EINVAL)
	}
	if a.out.noTOS {
		t.Error("the traffic class was given up")
	}
}

// A neighbour that does not answer keeps the messages in the socket's account. The
// rest is dropped at once, and later there is room again.
func TestUDPFullSocket(t *testing.T) {
	we, far := twoHosts(t)
	far.ip("link set f0 arp off")
	c, _ := we.listen(7000)
	farConn, _ := far.listen(7001)
	at := arrivals(t, farConn)
	unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1) // the least

	lengths := make([]int, 2*udpSendBatch)
	for i := range lengths {
		lengths[i] = 1000
	}
	buf, segs := batchOf(lengths...)
	if err := c.send(endpointT(t, "10.9.0.2:7001"), buf, segs); err != unix.EAGAIN {
		t.Errorf("got %v, want %v", err, unix.EAGAIN)
	}
	we.ip("neigh replace 10.9.0.2 lladdr " + far.mac("f0") + " dev w0 nud permanent")
	first := next(t, at)
	if first.data[0] != 0 {
		t.Errorf("message %d arrived first", first.data[0])
	}
	say(t, c, endpointT(t, "10.9.0.2:7001"), "later")
	for string(next(t, at).data) != "later" {
	}
}

func (h *host) mac(dev string) string {
	h.t.Helper()
	var ifi *net.Interface
	var err error
	h.do(func() { ifi, err = net.InterfaceByName(dev) })
	if err != nil {
		h.t.Fatal(err)
	}
	return ifi.HardwareAddr.String()
}

func TestUDPMark(t *testing.T) {
	we, _ := twoHosts(t)
	var v4, v6 conn
	var err error
	we.do(func() {
		v4, v6, _, err = listenUDP(0, 0xca6c0001, udpOptions{offload: allOffloads, budget: testBudget})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []conn{v4, v6} {
		mark := func() (got int) {
			got, err = unix.GetsockoptInt(c.(*udpConn).fd, unix.SOL_SOCKET, unix.SO_MARK)
			return got
		}
		if got := uint32(mark()); got != 0xca6c0001 {
			t.Errorf("mark %#x", got)
		}
		if err := c.setMark(0); err != nil || mark() != 0 {
			t.Errorf("mark %#x, %v after it was removed", mark(), err)
		}
		c.close()
	}
}

// What ends a socket from outside, such as SOCK_DESTROY, ends serve.
func TestUDPDeadSocketEndsServe(t *testing.T) {
	r := newUDPReader(false, false, 0, nil)
	for errno, dead := range map[unix.Errno]bool{
		unix.ECONNABORTED: true, unix.EBADF: true, unix.ENOTSOCK: true,
		unix.ECONNREFUSED: false, unix.EHOSTUNREACH: false, unix.ENETUNREACH: false, unix.ENOBUFS: false, unix.ENOMEM: false,
	} {
		r.troubles = 0
		if err := r.trouble(errno); (err != nil) != dead {
			t.Errorf("%v: got %v", errno, err)
		}
	}
	if empty, err := r.burst(-1); empty || err != unix.EBADF {
		t.Errorf("a closed descriptor: %v, %v", empty, err)
	}
}

func TestParseControl(t *testing.T) {
	var b []byte
	b = appendControl(b, 1, 2, 3)
	b = padControl(append(b, 7, 8, 9))
	b = appendControl(b, 4, 5, 0)
	level, kind, data, rest := parseControl(b)
	if level != 1 || kind != 2 || !bytes.Equal(data, []byte{7, 8, 9}) {
		t.Errorf("first: %d, %d, %x", level, kind, data)
	}
	level, kind, data, rest = parseControl(rest)
	if level != 4 || kind != 5 || len(data) != 0 || len(rest) != 0 {
		t.Errorf("second: %d, %d, %x, rest %x", level, kind, data, rest)
	}
	for n := range len(b) { // cut short, or its length is a lie
		for _, length := range []byte{0, 1, 15, 200, 255} {
			cut := bytes.Clone(b[:n])
			if n < unix.SizeofCmsghdr {
				continue
			}
			for i := range wordSize {
				cut[i] = length
			}
			parseControl(cut)
		}
	}
}

// poll says whether it left something, as serve does.
func TestUDPPollTellsWhatIsLeft(t *testing.T) {
	a, _, port := listenT(t, 0, OffloadAll&^OffloadGRO)
	b, _, _ := listenT(t, 0, OffloadAll)
	to := endpointT(t, "127.0.0.1:%d", port)
	got, left := 0, true
	a.reading.Lock()
	a.handle = func(burst []datagram, more bool) {
		if !left {
			t.Errorf("%d datagrams after nothing was left", len(burst))
		}
		got += len(burst)
		left = more
	}
	a.reading.Unlock()
	const sent = 300
	for range sent {
		if err := b.send(to, []byte("12345678"), []segment{{0, 8, 0}}); err != nil {
			t.Fatal(err)
		}
	}
	for range sent {
		a.poll()
	}
	if got != sent {
		t.Errorf("%d datagrams of %d", got, sent)
	}
}
