package tun

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
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
)

// A space is a network namespace with a TUN.
type space struct {
	k    *Kernel
	jobs chan func()

	// What the pumps saw of it.
	reads, supers, packets atomic.Int64 // read
	cwr, ece               atomic.Int64 // packets read with these flags
	single, runs, inRuns   atomic.Int64 // written; packets in runs
}

// newSpace makes one, with addresses 10.1.0.n and fd01::n.
func newSpace(t *testing.T, n int, off Offload) *space {
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
	var err error
	s.do(func() { s.k, err = Create(fmt.Sprintf("t%d", n), Options{DefaultMTU, off}) })
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
	s.ip(t, "link set lo up")
	s.ip(t, fmt.Sprintf("addr add 10.1.0.%d/24 dev t%[1]d", n))
	s.ip(t, fmt.Sprintf("addr add fd01::%d/64 dev t%[1]d nodad", n))
	s.ip(t, fmt.Sprintf("link set t%d up", n))
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
// touch may change a packet; false: it is lost.
func pump(t *testing.T, from, to *space, touch func(p []byte) bool) {
	t.Helper()
	super := NewSuper()
	var area [256][Headroom + 2048]byte
	mtu := from.k.MTU()
	n := 0
	flush := func() {
		n = 0
		if err := to.k.Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
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
				if p[0]>>4 == 4 && p[9] == protocolTCP {
					if p[33]&tcpCWR != 0 {
						from.cwr.Add(1)
					}
					if p[33]&0x40 != 0 {
						from.ece.Add(1)
					}
				}
				if i++; i == 2 {
					from.supers.Add(1)
				}
				from.packets.Add(1)
				buf := area[n][:Headroom+copy(area[n][Headroom:], p)]
				for i := range MaxPadding { // what Next allows
					p[:len(p)+1+i][len(p)+i] = 0xee
				}
				if touch != nil && !touch(buf[Headroom:]) {
					continue
				}
				if err := to.k.Gather(buf); err != nil {
					t.Errorf("gather: %v", err)
				}
				if n++; n == len(area) {
					flush()
				}
			}
		}
		flush()
		return true
	}
	go from.k.Drain(burst)
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
				// Single packets overrun the TUN's queue.
				if n := s.counter(t, "Tcp", "RetransSegs"); n > 50 && off&TSO != 0 {
					t.Errorf("%d segments retransmitted where none is lost", n)
				}
			}
		})
	}
}
