package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The link between the two hosts of a test, and the addresses on it.
const (
	outerA, outerB   = "192.0.2.1", "192.0.2.2"
	outerA6, outerB6 = "2001:db8::1", "2001:db8::2"
	linkDev          = "veth0"
)

// A host is a network namespace.
type host struct {
	t    testing.TB
	name string
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{t, fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), serial.Add(1))}
	command(t, "ip", "netns", "add", h.name)
	t.Cleanup(func() { removeNamespace(h.name) })
	h.ip("link set lo up")
	return h
}

// removeNamespace ends what still runs in the namespace, then deletes it.
func removeNamespace(name string) {
	pids, _ := exec.Command("ip", "netns", "pids", name).Output()
	for _, f := range strings.Fields(string(pids)) {
		if pid, err := strconv.Atoi(f); err == nil && pid != os.Getpid() {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	exec.Command("ip", "netns", "del", name).Run()
}

// newPair returns two hosts on one link, with IPv4 and IPv6.
func newPair(t testing.TB) (a, b *host) {
	t.Helper()
	a, b = newHost(t), newHost(t)
	connect(a, linkDev, b, linkDev)
	a.ip("addr add "+outerA+"/24 dev "+linkDev, "addr add "+outerA6+"/64 dev "+linkDev+" nodad")
	b.ip("addr add "+outerB+"/24 dev "+linkDev, "addr add "+outerB6+"/64 dev "+linkDev+" nodad")
	return a, b
}

// connect lays a cable between devA of a and devB of b.
func connect(a *host, devA string, b *host, devB string) {
	a.t.Helper()
	command(a.t, "ip", "link", "add", devA, "netns", a.name, "type", "veth", "peer", "name", devB, "netns", b.name)
	a.ip("link set " + devA + " up")
	b.ip("link set " + devB + " up")
}

// ip runs lines of the ip command in the host.
func (h *host) ip(lines ...string) {
	h.t.Helper()
	cmd := exec.Command("ip", "-n", h.name, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("ip %q: %v\n%s", lines, err, out)
	}
}

// command runs a program that must succeed, and returns what it wrote to stdout.
func command(t testing.TB, args ...string) string {
	t.Helper()
	out, err := attempt(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const commandLimit = 60 * time.Second

func attempt(args ...string) (stdout string, err error) {
	return attemptInput("", args...)
}

func attemptInput(stdin string, args ...string) (stdout string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	cmd.WaitDelay = time.Second // a daemon may keep the pipes
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), err
}

func (h *host) in(args []string) []string {
	return append([]string{"ip", "netns", "exec", h.name}, args...)
}

// run runs a program in the host; it must succeed.
func (h *host) run(args ...string) string {
	h.t.Helper()
	return command(h.t, h.in(args)...)
}

func (h *host) try(args ...string) (string, error) { return attempt(h.in(args)...) }

// do calls f in the host. Sockets that f opens stay there.
func (h *host) do(f func()) {
	h.t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		ns, e := os.Open("/run/netns/" + h.name)
		if e != nil {
			err = e
			return
		}
		defer ns.Close()
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			f()
		}
	}()
	<-done
	if err != nil {
		h.t.Fatalf("enter %s: %v", h.name, err)
	}
}

// udp opens a socket in the host; it is closed with the test.
func (h *host) udp(addr string) *net.UDPConn {
	h.t.Helper()
	var c *net.UDPConn
	var err error
	h.do(func() { c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr))) })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c
}

// eventually waits until ok returns true.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// ping expects each of count echo requests to be answered. One process each, for
// ping waits for two round trips only once it has had a reply.
func (h *host) ping(addr string, count int) {
	h.t.Helper()
	for range count {
		h.run("ping", "-n", "-q", "-W", "10", "-c", "1", addr)
	}
}

// transfer sends n bytes from h to addr on another host over TCP and checks that
// the same bytes arrive.
func (h *host) transfer(to *host, addr string, n int64) {
	h.t.Helper()
	const limit = 2 * time.Minute
	var l net.Listener
	var err error
	to.do(func() { l, err = net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr(addr), 0).String()) })
	if err != nil {
		h.t.Fatal(err)
	}
	defer l.Close()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(limit))

	type result struct {
		sum [32]byte
		n   int64
		err error
	}
	received := make(chan result, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			received <- result{err: err}
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(limit))
		hash := sha256.New()
		n, err := io.Copy(hash, c)
		received <- result{[32]byte(hash.Sum(nil)), n, err}
	}()

	var c net.Conn
	h.do(func() { c, err = net.DialTimeout("tcp", l.Addr().String(), 20*time.Second) })
	if err != nil {
		h.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(limit))
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(c, hash), io.LimitReader(rand.NewChaCha8([32]byte{1}), n))
	c.Close()
	if err != nil {
		h.t.Fatalf("TCP to %s: %v", addr, err)
	}
	got := <-received
	switch {
	case got.err != nil:
		h.t.Fatalf("TCP to %s: %d bytes arrived, then %v", addr, got.n, got.err)
	case got.n != n || got.sum != [32]byte(hash.Sum(nil)):
		h.t.Fatalf("TCP to %s: %d bytes of %d arrived, or others than were sent", addr, got.n, n)
	}
}

// A packet is an IP packet seen on a device.
type packet struct {
	sent     bool // by the host whose device it was seen on
	src, dst netip.AddrPort
	tos      byte
	protocol byte
	damaged  bool   // the IPv4 header's checksum is wrong
	payload  []byte // behind the UDP header; else behind the IP header
}

// messageType is the first byte of a WireGuard message.
func (p *packet) messageType() byte {
	if p.protocol != unix.IPPROTO_UDP || len(p.payload) < 32 {
		return 0
	}
	return p.payload[0]
}

// A sniffer keeps the packets that pass a device.
type sniffer struct {
	t  testing.TB
	mu sync.Mutex
	// guarded by mu
	packets []packet
}

func (h *host) sniff(device string) *sniffer {
	h.t.Helper()
	s := &sniffer{t: h.t}
	var fd int
	var err error
	h.do(func() {
		var ifi *net.Interface
		if ifi, err = net.InterfaceByName(device); err != nil {
			return
		}
		const all = unix.ETH_P_ALL
		proto := uint16(all<<8&0xff00 | all>>8)
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(proto)); err != nil {
			return
		}
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: ifi.Index})
	})
	if err != nil {
		h.t.Fatalf("sniff %s: %v", device, err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer unix.Close(fd)
		buf := make([]byte, 1<<16)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				continue
			}
			if p, ok := parsePacket(buf[:n]); ok {
				p.sent = from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING
				s.mu.Lock()
				if s.packets = append(s.packets, p); len(s.packets) > 20_000 {
					s.packets = append([]packet(nil), s.packets[10_000:]...)
				}
				s.mu.Unlock()
			}
		}
	}()
	h.t.Cleanup(func() { close(stop); <-stopped })
	return s
}

// parsePacket understands IPv4 and IPv6 without extension headers.
func parsePacket(b []byte) (p packet, ok bool) {
	var src, dst netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		p.tos, p.protocol = b[1], b[9]
		src, dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
		if n := int(b[0]&15) * 4; n <= len(b) {
			p.damaged = checksum(b[:n]) != 0
			b = b[n:]
		}
	case len(b) >= 40 && b[0]>>4 == 6:
		p.tos, p.protocol = b[0]<<4|b[1]>>4, b[6]
		src, dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
		b = b[40:]
	default:
		return p, false
	}
	var srcPort, dstPort uint16
	if p.protocol == unix.IPPROTO_UDP && len(b) >= 8 {
		srcPort, dstPort = uint16(b[0])<<8|uint16(b[1]), uint16(b[2])<<8|uint16(b[3])
		b = b[8:]
	}
	p.src, p.dst = netip.AddrPortFrom(src, srcPort), netip.AddrPortFrom(dst, dstPort)
	p.payload = bytes.Clone(b)
	return p, true
}

// forget drops what was seen so far.
func (s *sniffer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packets = nil
}

// all returns the packets seen so far that match.
func (s *sniffer) all(match func(packet) bool) (found []packet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.packets {
		if match(p) {
			found = append(found, p)
		}
	}
	return found
}

// find waits for a packet that matches.
func (s *sniffer) find(what string, match func(packet) bool) (found packet) {
	s.t.Helper()
	eventually(s.t, 15*time.Second, "a packet: "+what, func() bool {
		if all := s.all(match); len(all) > 0 {
			found = all[0]
			return true
		}
		return false
	})
	return found
}
