package tun

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
	"wgd/internal/rtnl"
	"wgd/internal/seccomp"
)

// A space is a network namespace with a TUN.
type space struct {
	k    *Kernel
	jobs chan func()

	// What the pumps saw of it.
	reads, supers, packets atomic.Int64 // read
	cwr, ece               atomic.Int64 // packets read with these flags
	longest                atomic.Int64 // packets of a super-packet read
	single, runs, inRuns   atomic.Int64 // written; packets in runs
	refused                atomic.Int64 // RefusedErrors
}

// newSpace makes one, with addresses 10.1.0.n and fd01::n.
func newSpace(t *testing.T, n int, off Offload) *space {
	t.Helper()
	return newSpaceFor(t, n, func(name string) (*Kernel, error) { return Create(name, Options{DefaultMTU, off}) })
}

// bareSpace makes one without a TUN.
func bareSpace(t *testing.T) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	s := &space{jobs: make(chan func())}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread and its namespace end with the goroutine
		started <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range s.jobs {
			f()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal("unshare:", err)
	}
	t.Cleanup(func() { close(s.jobs) })
	s.ip(t, "link set lo up")
	return s
}

func newSpaceFor(t *testing.T, n int, create func(name string) (*Kernel, error)) *space {
	t.Helper()
	s := bareSpace(t)
	var err error
	s.do(func() { s.k, err = create(fmt.Sprintf("t%d", n)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.k.Close() })
	if g := s.k.gather; g != nil {
		write := g.write
		g.write = func(iov []unix.Iovec) syscall.Errno {
			if len(iov) == 1 {
				s.single.Add(1)
			} else {
				s.runs.Add(1)
				s.inRuns.Add(int64(len(iov)))
			}
			return write(iov)
		}
	}
	await, _ := watch(t, s.k) // which bounds super-packets
	await("the first state", func(s State) bool { return s.Index != 0 })
	s.ip(t, fmt.Sprintf("addr add 10.1.0.%d/24 dev t%[1]d", n))
	s.ip(t, fmt.Sprintf("addr add fd01::%d/64 dev t%[1]d nodad", n))
	s.ip(t, fmt.Sprintf("link set t%d up", n))
	// The system takes on an IPv6 address in its own time, also without looking for
	// another who has it.
	for start := time.Now(); s.ip(t, fmt.Sprintf("-6 addr show dev t%d tentative", n)) != ""; time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Fatal("the IPv6 address stays tentative")
		}
	}
	return s
}

func (s *space) do(f func()) {
	done := make(chan struct{})
	s.jobs <- func() { defer close(done); f() }
	<-done
}

func (s *space) ip(t *testing.T, args string) (out string) {
	t.Helper()
	s.do(func() { out = ip(t, strings.Fields(args)...) })
	return out
}

// awaitLink waits until the system says something of TUN n.
func (s *space) awaitLink(t *testing.T, n, want string) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		got := s.ip(t, "-d link show t"+n)
		if strings.Contains(got, want) {
			return
		}
		if time.Since(start) > 5*time.Second {
			t.Fatalf("want %s in %s", want, got)
		}
	}
}

func (s *space) sysctl(t *testing.T, name, value string) {
	t.Helper()
	var err error
	s.do(func() { err = os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
	if err != nil {
		t.Fatal(err)
	}
}

// counter reads a counter of /proc/net/snmp, such as Tcp InErrs.
func (s *space) counter(t *testing.T, protocol, name string) (n int) {
	t.Helper()
	s.do(func() {
		b, _ := os.ReadFile("/proc/thread-self/net/snmp")
		lines := strings.Split(string(b), "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
			for j := range names {
				if names[0] == protocol+":" && names[j] == name {
					fmt.Sscan(values[j], &n)
					return
				}
			}
		}
		t.Errorf("no counter %s of %s", name, protocol)
	})
	return n
}

// pump carries packets from one TUN to another until the test ends, as a tunnel would.
// touch may change a packet; false: it is lost. The kernel refuses what the rules say.
func pump(t *testing.T, from, to *space, touch func(p []byte) bool, rules ...seccomp.Rule) {
	t.Helper()
	super := NewSuper()
	var area [256][Headroom + 2048]byte
	mtu := from.k.MTU()
	n := 0
	check := func(err error) {
		var refused *RefusedError
		if errors.As(err, &refused) {
			t.Log(refused)
			to.refused.Add(1)
		} else if err != nil && !to.k.closed.Load() {
			t.Errorf("write: %v", err)
		}
	}
	flush := func() {
		n = 0
		check(to.k.Flush())
	}
	burst := func() bool {
		for {
			ok, err := from.k.TryRead(super)
			if err != nil {
				t.Errorf("read: %v", err)
			}
			if !ok || err != nil {
				break
			}
			from.reads.Add(1)
			i := 0
			for p := super.Next(); p != nil; p = super.Next() {
				if err := judge(p); err != nil {
					t.Errorf("packet %d of a super-packet: %v", i, err)
				}
				if len(p) > mtu {
					t.Errorf("packet %d of a super-packet: %d bytes, MTU %d", i, len(p), mtu)
					continue
				}
				flags := byte(0) // of TCP
				switch {
				case p[0]>>4 == 4 && p[9] == protocolTCP:
					flags = p[33]
				case p[0]>>4 == 6 && p[6] == protocolTCP:
					flags = p[53]
				}
				if flags&tcpCWR != 0 {
					from.cwr.Add(1)
				}
				if flags&0x40 != 0 {
					from.ece.Add(1)
				}
				if i++; i == 2 {
					from.supers.Add(1)
				}
				from.longest.Store(max(from.longest.Load(), int64(i)))
				from.packets.Add(1)
				buf := area[n][:Headroom+copy(area[n][Headroom:], p)]
				for i := range MaxPadding { // what Next allows
					p[:len(p)+1+i][len(p)+i] = 0xee
				}
				if touch != nil && !touch(buf[Headroom:]) {
					continue
				}
				check(to.k.Gather(buf))
				if n++; n == len(area) {
					flush()
				}
			}
		}
		flush()
		return true
	}
	ended := make(chan error)
	go func() {
		if len(rules) == 0 {
			ended <- from.k.Drain(burst)
			return
		}
		var err error
		ended <- errors.Join(seccomp.Do(rules, func() { err = from.k.Drain(burst) }), err)
	}()
	t.Cleanup(func() {
		from.k.Close()
		if err := <-ended; err != nil {
			t.Errorf("pump: %v", err)
		}
	})
}

// join makes two spaces with TUNs that are connected.
func join(t *testing.T, off1, off2 Offload, touch func(p []byte) bool) (a, b *space) {
	a, b = newSpace(t, 1, off1), newSpace(t, 2, off2)
	pump(t, a, b, touch)
	pump(t, b, a, nil)
	return a, b
}

// transfer sends size random bytes from a to b by TCP and back again at the same time.
func transfer(t *testing.T, a, b *space, host func(n int) string, size int) {
	t.Helper()
	var l net.Listener
	var err error
	b.do(func() { l, err = net.Listen("tcp", net.JoinHostPort(host(2), "7000")) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var near net.Conn
	a.do(func() { near, err = net.DialTimeout("tcp", net.JoinHostPort(host(2), "7000"), 10*time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	var wg sync.WaitGroup
	oneWay := func(from, to net.Conn, seed uint64) {
		deadline := time.Now().Add(60 * time.Second)
		from.SetDeadline(deadline)
		to.SetDeadline(deadline)
		var key [32]byte
		binary.BigEndian.PutUint64(key[:], seed)
		sent, received := sha256.New(), sha256.New()
		wg.Go(func() {
			defer from.(*net.TCPConn).CloseWrite()
			source := io.TeeReader(io.LimitReader(rand.NewChaCha8(key), int64(size)), sent)
			if _, err := io.CopyBuffer(struct{ io.Writer }{from}, source, make([]byte, 128<<10)); err != nil {
				t.Errorf("send: %v", err)
			}
		})
		wg.Go(func() {
			n, err := io.Copy(received, to)
			if err != nil || n != int64(size) {
				t.Errorf("received %d bytes of %d, %v", n, size, err)
			}
		})
		t.Cleanup(func() {
			if !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
				t.Error("the content differs")
			}
		})
	}
	oneWay(near, far, 1)
	oneWay(far, near, 2)
	wg.Wait()
}

func host4(n int) string { return fmt.Sprintf("10.1.0.%d", n) }
func host6(n int) string { return fmt.Sprintf("fd01::%d", n) }

const allOffloads = Vnet | TSO | USO | UGRO

func (s *space) log(t *testing.T, name string) {
	t.Logf("%s: %d reads gave %d packets, %d of them super-packets; written: %d single, %d in %d runs", name,
		s.reads.Load(), s.packets.Load(), s.supers.Load(), s.single.Load(), s.inRuns.Load(), s.runs.Load())
}

func TestTCPThroughTwoTUNs(t *testing.T) {
	for _, c := range []struct {
		name       string
		off1, off2 Offload
		host       func(int) string
	}{
		{"IPv4", allOffloads, allOffloads, host4},
		{"IPv6", allOffloads, allOffloads, host6},
		{"IPv4 without TSO", Vnet, Vnet, host4},
		{"IPv4 with one plain end", allOffloads, 0, host4},
		{"IPv6 with one plain end", 0, allOffloads, host6},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := join(t, c.off1, c.off2, nil)
			transfer(t, a, b, c.host, 16<<20)
			a.log(t, "a")
			b.log(t, "b")
			for _, s := range []*space{a, b} {
				off := c.off1
				if s == b {
					off = c.off2
				}
				if supers := s.supers.Load(); (supers > 20) != (off&TSO != 0) {
					t.Errorf("offloads %b: %d super-packets read", off, supers)
				}
				if runs := s.runs.Load(); (runs > 20) != (off&Vnet != 0) {
					t.Errorf("offloads %b: %d runs written", off, runs)
				}
				for _, x := range [][2]string{{"Tcp", "InErrs"}, {"Tcp", "InCsumErrors"}, {"Ip", "InHdrErrors"}} {
					if n := s.counter(t, x[0], x[1]); n != 0 {
						t.Errorf("%s %s is %d", x[0], x[1], n)
					}
				}
				// 65507 bytes are 45 messages of 1420 + 32.
				if n := s.longest.Load(); off&TSO != 0 && n != 45 {
					t.Errorf("the longest super-packet had %d packets", n)
				}
				// Single packets overrun the TUN's queue.
				if n := s.counter(t, "Tcp", "RetransSegs"); n > 50 && off&TSO != 0 {
					t.Errorf("%d segments retransmitted where none is lost", n)
				}
			}
		})
	}
}

// What is forwarded into the TUN comes as super-packets too, as a network card joined
// or another host's TCP made them:
//
//	c 10.2.0.2 — veth — 10.2.0.1 a 10.1.0.1 — TUNs — 10.1.0.2 b
func TestForwardedThroughTwoTUNs(t *testing.T) {
	for _, host := range []func(int) string{host4, host6} {
		a, b := join(t, allOffloads, allOffloads, nil)
		c := bareSpace(t)
		var thread string
		c.do(func() { thread = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid()) })
		name := uniqueName("c")
		a.ip(t, "link add v0 mtu 1420 type veth peer name "+name+" mtu 1420")
		moveLink(t, a, name, thread)
		for _, args := range []string{"addr add 10.2.0.1/24 dev v0", "addr add fd02::1/64 dev v0 nodad", "link set v0 up"} {
			a.ip(t, args)
		}
		for _, args := range []string{"addr add 10.2.0.2/24 dev " + name, "addr add fd02::2/64 dev " + name + " nodad",
			"link set " + name + " up", "route add default via 10.2.0.1", "-6 route add default via fd02::1"} {
			c.ip(t, args)
		}
		b.ip(t, "route add default dev t2")
		b.ip(t, "-6 route add default dev t2")
		if host(1) == host4(1) {
			a.sysctl(t, "ipv4/ip_forward", "1")
		} else {
			a.sysctl(t, "ipv6/conf/all/forwarding", "1")
		}
		a.awaitLink(t, "1", "gso_max_size 65536 gso_max_segs 65535 ")
		transfer(t, c, b, host, 16<<20)
		a.log(t, "a")
		b.log(t, "b")
		// As many as a's own TCP would make: the kernel has not cut those of c.
		if reads, packets := a.reads.Load(), a.packets.Load(); reads > packets/5 {
			t.Errorf("%d packets in %d reads", packets, reads)
		}
		if n := b.counter(t, "Tcp", "InErrs"); n != 0 {
			t.Errorf("%d packets arrived wrong", n)
		}
	}
}

// moveLink moves an interface of s to another namespace.
func moveLink(t *testing.T, s *space, name, namespace string) {
	t.Helper()
	ns, err := os.Open(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	s.do(func() {
		var c *rtnl.Conn
		if c, err = rtnl.Dial(); err != nil {
			return
		}
		defer c.Close()
		err = c.Do(rtnl.LinkRequest(unix.RTM_NEWLINK, 0, 0).String(unix.IFLA_IFNAME, name).Uint32(unix.IFLA_NET_NS_FD, uint32(ns.Fd())))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Marks of congestion on the way: CWR is on the first packet of a super-packet alone,
// and packets with ECE or CWR pass.
func TestECNThroughTwoTUNs(t *testing.T) {
	for _, host := range []func(int) string{host4, host6} {
		n := 0
		a, b := join(t, allOffloads, allOffloads, func(p []byte) bool {
			if n++; n%2000 == 0 {
				switch {
				case p[0]>>4 == 4 && p[1]&3 != 0:
					p[1] |= 3
					p[10], p[11] = 0, 0
					copy(p[10:], be16(int(^slowSum(p[:20]))))
				case p[0]>>4 == 6 && p[1]>>4&3 != 0:
					p[1] |= 0x30
				}
			}
			return true
		})
		for _, s := range []*space{a, b} {
			s.sysctl(t, "ipv4/tcp_ecn", "1")
		}
		transfer(t, a, b, host, 16<<20)
		a.log(t, "a")
		if a.cwr.Load() < 2 || b.ece.Load() < 2 { // one of each is in the handshake
			t.Errorf("%d packets with CWR, %d with ECE", a.cwr.Load(), b.ece.Load())
		}
	}
}

// A packet with a wrong checksum arrives as one, and TCP mends it.
func TestWrongChecksumsStayWrong(t *testing.T) {
	for _, host := range []func(int) string{host4, host6} {
		n, wrong := 0, 0
		a, b := join(t, allOffloads, allOffloads, func(p []byte) bool {
			if n++; n%500 == 0 && len(p) > 1000 {
				p[len(p)-7] ^= 1
				wrong++
			}
			return true
		})
		transfer(t, a, b, host, 8<<20)
		b.log(t, "b")
		if got := b.counter(t, "Tcp", "InCsumErrors"); wrong < 5 || got != wrong {
			t.Errorf("%d packets were wrong, %d arrived so", wrong, got)
		}
	}
}

// C06: a kernel that takes no super-packets gets all the same packets one by one.
func TestRefusedWritev(t *testing.T) {
	for _, host := range []func(int) string{host4, host6} {
		a, b := newSpace(t, 1, allOffloads), newSpace(t, 2, allOffloads)
		pump(t, a, b, nil, "writev=EINVAL")
		pump(t, b, a, nil)
		transfer(t, a, b, host, 4<<20)
		b.log(t, "b")
		if b.refused.Load() != 1 || b.runs.Load() != 1 || a.refused.Load() != 0 || a.runs.Load() < 10 {
			t.Errorf("refused %d times, tried %d times; without the filter refused %d times, tried %d times",
				b.refused.Load(), b.runs.Load(), a.refused.Load(), a.runs.Load())
		}
		if n := b.counter(t, "Tcp", "InErrs"); n != 0 {
			t.Errorf("%d packets arrived wrong", n)
		}
	}
}

// Kernels that know less than we ask for.
func TestRefusedOffloads(t *testing.T) {
	for _, c := range []struct {
		name      string
		rules     []seccomp.Rule
		vnet, tso bool
	}{
		{"USO", []seccomp.Rule{"ioctl:0x400454d0:&0x60=EINVAL"}, true, true},
		{"USO and ECN", []seccomp.Rule{"ioctl:0x400454d0:&0x68=EINVAL"}, true, true},
		{"all but checksums", []seccomp.Rule{"ioctl:0x400454d0:&0x6e=EINVAL"}, false, false},
		{"TUNSETOFFLOAD", []seccomp.Rule{"ioctl:0x400454d0=EINVAL"}, false, false},
		{"the size and order of the vnet header", []seccomp.Rule{"ioctl:0x400454d8=EINVAL", "ioctl:0x400454dc=EINVAL", "ioctl:0x400454de=EINVAL"}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newSpaceFor(t, 1, func(name string) (k *Kernel, err error) {
				ns, err := os.Open("/proc/thread-self/ns/net")
				if err != nil {
					return nil, err
				}
				defer ns.Close()
				err2 := seccomp.Do(c.rules, func() {
					if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
						k, err = Create(name, Options{DefaultMTU, allOffloads})
					}
				})
				return k, errors.Join(err2, err)
			})
			b := newSpace(t, 2, allOffloads)
			pump(t, a, b, nil)
			pump(t, b, a, nil)
			transfer(t, a, b, host4, 4<<20)
			a.log(t, "a")
			if a.k.vnet != c.vnet || (a.supers.Load() > 10) != c.tso || (a.runs.Load() > 10) != c.vnet {
				t.Errorf("vnet header: %v, %d super-packets", a.k.vnet, a.supers.Load())
			}
		})
	}
}

// Another process made the TUN, with vnet headers of another form.
func TestFromFDWithVnet(t *testing.T) {
	for _, off := range []Offload{0, allOffloads} {
		a := newSpaceFor(t, 1, func(name string) (*Kernel, error) {
			fd, err := unix.Open(clonePath, unix.O_RDWR, 0)
			if err != nil {
				return nil, err
			}
			ifr, _ := unix.NewIfreq(name)
			ifr.SetUint16(deviceFlags | unix.IFF_VNET_HDR)
			err = errors.Join(unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr),
				unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, 12),
				unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4))
			if err != nil {
				return nil, err
			}
			return FromFD(fd, off)
		})
		b := newSpace(t, 2, allOffloads)
		a.ip(t, "link set t1 mtu 1420")
		pump(t, a, b, nil)
		pump(t, b, a, nil)
		transfer(t, a, b, host4, 4<<20)
		a.log(t, "a")
		if got := a.supers.Load() > 10; got != (off != 0) {
			t.Errorf("offloads %b: %d super-packets", off, a.supers.Load())
		}
		if got := a.runs.Load() > 10; got != (off != 0) {
			t.Errorf("offloads %b: %d runs", off, a.runs.Load())
		}
	}
}

// UDP super-packets, as QUIC sends them, are cut, and joined again only where that is
// asked for (C08); the receiver sees datagrams.
func TestUDPThroughTwoTUNs(t *testing.T) {
	for _, c := range []struct {
		off2 Offload
		host func(int) string
	}{{Vnet | TSO | USO, host4}, {allOffloads, host4}, {allOffloads, host6}, {0, host6}} {
		a, b := join(t, allOffloads, c.off2, nil)
		const size, count, rounds = 1200, 40, 20
		var near, far *net.UDPConn
		var err, err2 error
		b.do(func() { far, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(c.host(2)), Port: 7000}) })
		a.do(func() {
			near, err2 = net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(c.host(2)), Port: 7000})
		})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		defer near.Close()
		in := make([]byte, 4000)
		raw, err := near.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, size) })
		if err != nil {
			loud.Skip(t, "no UDP_SEGMENT:", err)
		}
		out := make([]byte, size*count-300)
		far.SetReadDeadline(time.Now().Add(20 * time.Second))
		for round := range rounds {
			for i := range out {
				out[i] = byte(i/size + round)
			}
			if _, err := near.Write(out); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				want := out[i*size : min((i+1)*size, len(out))]
				if n, err := far.Read(in); err != nil || !bytes.Equal(in[:n], want) {
					t.Fatalf("datagram %d: %d bytes, want %d, %v", i, n, len(want), err)
				}
			}
		}
		a.log(t, "a")
		b.log(t, "b")
		if n := b.counter(t, "Udp", "InErrors"); n != 0 {
			t.Errorf("%d datagrams with errors", n)
		}
		if n := a.longest.Load(); n != count {
			t.Errorf("the longest super-packet had %d packets, want %d", n, count)
		}
		if got := b.inRuns.Load() >= rounds*count; got != (c.off2&UGRO != 0) {
			t.Errorf("offloads %b: %d datagrams in %d runs", c.off2, b.inRuns.Load(), b.runs.Load())
		}
	}
}

func TestSuperBound(t *testing.T) {
	for _, mtu := range []int{576, 1280, 1372, 1412, 1420, 1440, 2000, 4000, 8920} {
		size, packets := superBound(mtu)
		if best := min(65507/(mtu+32), 64); packets != best {
			t.Errorf("MTU %d: %d packets in a super-packet, %d fit", mtu, packets, best)
		}
		for headers := 40; headers <= 100; headers += 4 {
			if n := (size - 1 - tcpHeaderMax) / (mtu - headers); n < packets {
				t.Errorf("MTU %d: %d packets with headers of %d bytes in %d, want %d", mtu, n, headers, size, packets)
			}
		}
	}

	a := newSpace(t, 1, allOffloads)
	for _, mtu := range []int{1420, 1280} {
		a.ip(t, fmt.Sprintf("link set t1 mtu %d", mtu))
		size, packets := superBound(mtu)
		want := fmt.Sprintf("gso_max_size %d gso_max_segs %d ", size, packets)
		a.awaitLink(t, "1", want)
	}
	a.sysctl(t, "ipv4/ip_forward", "1")
	a.awaitLink(t, "1", "gso_max_size 65536 gso_max_segs 65535 ")
	a.sysctl(t, "ipv4/ip_forward", "0")
	size, packets := superBound(1280)
	a.awaitLink(t, "1", fmt.Sprintf("gso_max_size %d gso_max_segs %d ", size, packets))
	for _, n := range []int{77, 78} { // it never grows
		if err := a.k.LimitQueue(n); err != nil {
			t.Error(err)
		}
		if got := a.ip(t, "link show t1"); !strings.Contains(got, "qlen 77") {
			t.Errorf("at most %d: %s", n, got)
		}
	}
}
