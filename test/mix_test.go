package test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/device"
	"wgd/internal/loud"
)

// A mix is what each end may use: WGD_OFFLOAD.
type mix struct {
	a, b string
	both bool // a and b are the same
}

func (m mix) String() string {
	if m.both {
		return m.a
	}
	return m.a + " to " + m.b
}

// mixes are all there are with the same at both ends, then some that differ.
func mixes() (all []mix) {
	for _, tun := range []string{"", "vnet", "vnet,tso,uso"} { // nothing goes without vnet
		for bits := range 1 << 3 {
			list := strings.Split(tun, ",")
			for i, name := range []string{"gso", "gro", "mmsg"} {
				if bits>>i&1 != 0 {
					list = append(list, name)
				}
			}
			name := strings.Trim(strings.Join(list, ","), ",")
			if name == "" {
				name = "none"
			}
			all = append(all, mix{name, name, true})
		}
	}
	for _, m := range [][2]string{{"all", "none"}, {"vnet,tso,uso", "gso,gro,mmsg"}, {"all,ugro", "vnet,mmsg"}} {
		all = append(all, mix{m[0], m[1], false}, mix{m[1], m[0], false})
	}
	return append(all, mix{"all,ugro", "all,ugro", true})
}

// offloads parses what a mix says.
func offloads(t *testing.T, list string) func(device.Offload) bool {
	t.Helper()
	o, err := device.ParseOffload(list)
	if err != nil {
		t.Fatal(err)
	}
	return func(x device.Offload) bool { return o&x != 0 }
}

// outer makes the tunnel go over the other family, both ways.
func (tun tunnel) outer(v6 bool) {
	tun.a.t.Helper()
	to, from := outerB+":"+port, outerA+":"+port
	if v6 {
		to, from = "["+outerB6+"]:"+port, "["+outerA6+"]:"+port
	}
	tun.a.wg("set", "{if}", "peer", tun.b.key.public, "endpoint", to)
	tun.a.ping(tun.b.inner4, 1)
	if got := tun.b.endpoint(); got != from {
		tun.a.t.Fatalf("b sends to %s, want %s", got, from)
	}
}

func (e *end) inner(v6 bool) string {
	if v6 {
		return e.inner6
	}
	return e.inner4
}

// proc reads a file of /proc/net of the host.
func (h *host) proc(name string) (text string) {
	h.t.Helper()
	var b []byte
	var err error
	h.do(func() { b, err = os.ReadFile("/proc/thread-self/net/" + name) })
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

// counter reads one of the host's counters, such as Tcp InCsumErrors or Udp6 InErrors.
func (h *host) counter(protocol, name string) int {
	h.t.Helper()
	var value string
	if strings.HasSuffix(protocol, "6") {
		for line := range strings.Lines(h.proc("snmp6")) {
			if f := strings.Fields(line); f[0] == protocol+name {
				value = f[1]
			}
		}
	} else {
		var names []string
		for line := range strings.Lines(h.proc("snmp")) {
			f := strings.Fields(line)
			switch {
			case f[0] != protocol+":":
			case names == nil:
				names = f
			default:
				for i := range names {
					if names[i] == name {
						value = f[i]
					}
				}
			}
		}
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		h.t.Fatalf("counter %s %s: %v", protocol, name, err)
	}
	return n
}

// A traffic is how many packets a device has passed, and their bytes. Joined packets
// are one.
type traffic struct{ packets, bytes int }

// mean is the mean length of the packets since.
func (now traffic) mean(since traffic) int {
	return (now.bytes - since.bytes) / max(now.packets-since.packets, 1)
}

func (h *host) traffic(dev string) (in, out traffic) {
	h.t.Helper()
	for line := range strings.Lines(h.proc("dev")) {
		name, rest, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == dev {
			f := strings.Fields(rest)
			n := func(i int) int {
				v, err := strconv.Atoi(f[i])
				if err != nil {
					h.t.Fatal(err)
				}
				return v
			}
			return traffic{n(1), n(0)}, traffic{n(9), n(8)}
		}
	}
	h.t.Fatalf("no device %s", dev)
	return in, out
}

// A look is what can be seen of the offloads that two ends use.
type look struct {
	read, written  traffic // of a's TUN, of b's
	sent, received traffic // on the wire by a, by b's socket
}

func lookAt(a, b *end, outer6 bool) (l look) {
	a.t.Helper()
	_, l.read = a.traffic(a.ifname)
	l.written, _ = b.traffic(b.ifname)
	_, l.sent = a.traffic(linkDev)
	l.received, _ = b.traffic(linkDev)
	l.received.packets = b.counter("Udp"+map[bool]string{true: "6"}[outer6], "InDatagrams")
	return l
}

// A mixedTransfer is TCP through a tunnel, and what was seen of it.
type mixedTransfer struct {
	rate                          int // MB/s
	read, sent, received, written int // mean lengths of what a's TUN gave, a sent, b's socket and b's TUN got
}

func (m mixedTransfer) String() string {
	return fmt.Sprintf("%4d MB/s; mean bytes read %5d, sent %5d, received %5d, written %5d", m.rate, m.read, m.sent, m.received, m.written)
}

// transfers sends size bytes from a to b, and checks that each end uses what it may
// and nothing else. A first transfer may be too short for that: an end joins nothing
// before it has looked up the route.
func transfers(t *testing.T, a, b *end, inA, inB string, outer6, inner6 bool, size int64) (m mixedTransfer) {
	t.Helper()
	const mtu, frame = 1420, 14 + 40 + 8 + 32 + 1420
	mayA, mayB := offloads(t, inA), offloads(t, inB)
	for try := 1; ; try++ {
		damaged := a.counter("Tcp", "InCsumErrors") + b.counter("Tcp", "InCsumErrors")
		before, start := lookAt(a, b, outer6), time.Now()
		a.transfer(b.host, b.inner(inner6), size)
		took, after := time.Since(start), lookAt(a, b, outer6)
		if n := a.counter("Tcp", "InCsumErrors") + b.counter("Tcp", "InCsumErrors"); n != damaged {
			t.Errorf("TCP: %d packets arrived damaged", n-damaged)
		}
		m = mixedTransfer{int(float64(size) / 1e6 / took.Seconds()), after.read.mean(before.read), after.sent.mean(before.sent),
			after.received.mean(before.received), after.written.mean(before.written)}
		var wrong []string
		for _, x := range []struct {
			what      string
			got, most int // without the offload
			may       bool
		}{
			{"super-packets from the TUN", m.read, mtu, mayA(device.OffloadTSO)},
			{"joined datagrams out", m.sent, frame, mayA(device.OffloadGSO)},
			{"joined datagrams in", m.received, 2 * frame, mayA(device.OffloadGSO) && mayB(device.OffloadGRO)},
			{"super-packets to the TUN", m.written, mtu, mayB(device.OffloadVnet)},
		} {
			switch uses := x.got > x.most; {
			case uses && !x.may:
				t.Errorf("%s: %d bytes in the mean with the offloads %s to %s", x.what, x.got, inA, inB)
			case !uses && x.may:
				wrong = append(wrong, fmt.Sprintf("no %s: %d bytes in the mean", x.what, x.got))
			}
		}
		if len(wrong) == 0 {
			return m
		}
		if try == 5 {
			t.Fatalf("%s with the offloads %s to %s", strings.Join(wrong, ", "), inA, inB)
		}
	}
}

// arrive reads datagrams and compares them with those that were sent, none of which may
// be missing. They may come in another order: veth puts each into the queue of the CPU
// that sends it.
func arrive(t *testing.T, c *net.UDPConn, sent [][]byte) {
	t.Helper()
	missing := map[string]int{}
	for _, p := range sent {
		missing[string(p)]++
	}
	buf := make([]byte, 1<<16)
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	for i := range sent {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("UDP at %v: %d of %d datagrams, then %v", c.LocalAddr(), i, len(sent), err)
		}
		if missing[string(buf[:n])]--; missing[string(buf[:n])] < 0 {
			t.Fatalf("UDP at %v: number %d of %d bytes was not sent, or comes twice", c.LocalAddr(), i, n)
		}
	}
}

// datagrams sends UDP of all lengths to b and the same back. The window is small enough
// for every buffer on the way, so that nothing may be lost. Where it is not asked for,
// none are joined for the system (C08).
func datagrams(t *testing.T, a, b *end, m mix, inner6 bool, lengths []int) {
	t.Helper()
	const window, count, size = 48 << 10, 40, 1200 // bytes; datagrams, bytes of each
	ca := a.udp(netip.AddrPortFrom(netip.MustParseAddr(a.inner(inner6)), 0).String())
	defer ca.Close()
	cb := b.udp(netip.AddrPortFrom(netip.MustParseAddr(b.inner(inner6)), 0).String())
	defer cb.Close()
	source := rand.NewChaCha8([32]byte{3})
	ways := []struct {
		from, to *net.UDPConn
		at       *end
		joins    bool
	}{{ca, cb, b, offloads(t, m.b)(device.OffloadUGRO)}, {cb, ca, a, offloads(t, m.a)(device.OffloadUGRO)}}
	write := func(from, to *net.UDPConn, p []byte) {
		t.Helper()
		if _, err := from.WriteToUDPAddrPort(p, to.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
			t.Fatal(err)
		}
	}
	for len(lengths) > 0 {
		var sent [][]byte
		for room := window; len(lengths) > 0 && len(sent) < count && lengths[0] <= room; lengths = lengths[1:] {
			p := make([]byte, lengths[0])
			source.Read(p)
			sent = append(sent, p)
			room -= len(p)
		}
		for _, way := range ways {
			for _, p := range sent {
				write(way.from, way.to, p)
			}
			arrive(t, way.to, sent)
		}
	}

	// As QUIC sends them: one write, many datagrams.
	super := make([]byte, size*count-100)
	source.Read(super)
	for _, way := range ways {
		raw, err := way.from.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, size) })
		if err != nil {
			loud.Skip(t, "no UDP_SEGMENT: ", err)
		}
		before, _ := way.at.traffic(way.at.ifname)
		write(way.from, way.to, super)
		arrive(t, way.to, slices.Collect(slices.Chunk(super, size)))
		after, _ := way.at.traffic(way.at.ifname)
		if n := after.packets - before.packets; n < count && !way.joins {
			t.Errorf("%d datagrams came in as %d packets with the offloads %v", count, n, m)
		}
	}
}

// inject puts packets into a device as if the host had sent them, checksums as they are.
func (h *host) inject(dev string, packets [][]byte) {
	h.t.Helper()
	var err error
	h.do(func() {
		var ifi *net.Interface
		if ifi, err = net.InterfaceByName(dev); err != nil {
			return
		}
		var fd int
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		for _, p := range packets {
			proto := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, map[byte]uint16{4: unix.ETH_P_IP, 6: unix.ETH_P_IPV6}[p[0]>>4]))
			err = errors.Join(err, unix.Sendto(fd, p, 0, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: ifi.Index}))
		}
	})
	if err != nil {
		h.t.Fatalf("inject into %s: %v", dev, err)
	}
}

// ipPacket is a TCP or UDP packet, what is behind its IP header given, whose checksum it
// computes.
func ipPacket(protocol byte, src, dst netip.Addr, body []byte) []byte {
	at := 16
	if protocol == unix.IPPROTO_UDP {
		at = 6
		binary.BigEndian.PutUint16(body[4:], uint16(len(body)))
	}
	addresses := append(src.AsSlice(), dst.AsSlice()...)
	pseudo := append(bytes.Clone(addresses), 0, protocol)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(body)))
	binary.BigEndian.PutUint16(body[at:], checksum(append(pseudo, body...)))
	if src.Is6() {
		ip := []byte{0x60, 0, 0, 0, 0, 0, protocol, 64}
		binary.BigEndian.PutUint16(ip[4:], uint16(len(body)))
		return append(append(ip, addresses...), body...)
	}
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(body)))
	ip = append(ip, addresses...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return append(ip, body...)
}

// wrongChecksums sends streams to b in which some packets are damaged. Those arrive as
// they are, and b's system finds each of them wrong, the others right.
func wrongChecksums(t *testing.T, a, b *end, inner6 bool) {
	t.Helper()
	const packets, size = 24, 900
	src, dst := netip.MustParseAddr(a.inner(inner6)), netip.MustParseAddr(b.inner(inner6))
	udp := "Udp" + map[bool]string{true: "6"}[inner6]
	receiver := b.udp(netip.AddrPortFrom(dst, 0).String())
	defer receiver.Close()
	seen := b.sniff(b.ifname)
	source := rand.NewChaCha8([32]byte{4})
	damaged := func(i int) bool { return i%8 == 2 || i%8 == 3 || i%8 == 6 }

	for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		header, counter, to := 20, "Tcp", uint16(9)
		if protocol == unix.IPPROTO_UDP {
			header, counter, to = 8, udp, receiver.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		}
		// The system gives up on a TCP packet for nobody after it has looked at its checksum.
		wrong, before := 0, b.counter(counter, "InCsumErrors")
		var sent, good [][]byte
		for i := range packets {
			body := make([]byte, header+size)
			binary.BigEndian.PutUint16(body, 4000)
			binary.BigEndian.PutUint16(body[2:], to)
			if protocol == unix.IPPROTO_TCP {
				binary.BigEndian.PutUint32(body[4:], uint32(1000+i*size)) // as one stream
				body[12], body[13], body[14] = 5<<4, 0x10, 8              // ACK, a window
			}
			source.Read(body[header:])
			p := ipPacket(protocol, src, dst, body)
			at := len(p) - len(body)
			switch {
			case !damaged(i):
				good = append(good, p[at+header:])
			case wrong%3 == 0:
				p[len(p)-100] ^= 0x40 // on its way through the stack, say
			case wrong%3 == 1:
				p[at+map[byte]int{unix.IPPROTO_TCP: 17, unix.IPPROTO_UDP: 7}[protocol]]++
			default:
				p[at+1] ^= 1 // another port
			}
			if damaged(i) {
				wrong++
			}
			sent = append(sent, p)
		}
		a.inject(a.ifname, sent)
		if protocol == unix.IPPROTO_UDP {
			arrive(t, receiver, good)
		}
		for i, p := range sent {
			if damaged(i) {
				body := p[len(p)-header-size:]
				if protocol == unix.IPPROTO_UDP {
					body = body[header:] // as parsePacket does
				}
				seen.find(fmt.Sprintf("damaged packet %d of protocol %d, as it was sent", i, protocol), func(q packet) bool {
					return !q.sent && bytes.Equal(q.payload, body)
				})
			}
		}
		eventually(t, 10*time.Second, "InCsumErrors", func() bool {
			if protocol == unix.IPPROTO_UDP { // of which the system sums what is read, and only then
				receiver.SetReadDeadline(time.Now().Add(time.Millisecond))
				receiver.Read(make([]byte, size))
			}
			return b.counter(counter, "InCsumErrors") >= before+wrong
		})
		if n := b.counter(counter, "InCsumErrors") - before; n != wrong {
			t.Errorf("%s: %d packets were damaged, %d arrived so", counter, wrong, n)
		}
	}
}

// Each mix of offloads carries TCP and UDP of both families over both, both ways, and
// mends no packet that is damaged. With WGD_SOAK set each TCP transfer is of 200 MB.
func TestMixes(t *testing.T) {
	t.Parallel()
	soak := os.Getenv("WGD_SOAK") != ""
	for i, m := range mixes() {
		t.Run(m.String(), func(t *testing.T) {
			size := int64(1 << 20)
			lengths := []int{0, 1, 2, 3, 15, 16, 17, 1371, 1372, 1373, 1392, 1393, 1399, 1400, 8192, 8192}
			if soak {
				size = 200e6
				for n := range 1400 {
					lengths = append(lengths, 1+n)
				}
			} else {
				t.Parallel()
				for n := 1 + i; n < 1400; n += len(mixes()) { // together they have all
					lengths = append(lengths, n)
				}
			}
			tun := newTunnel(t, tunnelOptions{a: []string{"WGD_OFFLOAD=" + m.a, wgd(t)}, b: []string{"WGD_OFFLOAD=" + m.b, wgd(t)}})
			a, b := tun.a, tun.b
			a.ping(b.inner6, 1)
			for _, outer6 := range []bool{i%2 == 0, i%2 != 0} {
				tun.outer(outer6)
				for _, inner6 := range []bool{false, true} {
					there := transfers(t, a, b, m.a, m.b, outer6, inner6, size)
					back := transfers(t, b, a, m.b, m.a, outer6, inner6, size)
					if soak {
						t.Logf("IPv6 inside, outside: %-5v %-5v a to b %v", inner6, outer6, there)
						t.Logf("IPv6 inside, outside: %-5v %-5v b to a %v", inner6, outer6, back)
					}
					datagrams(t, a, b, m, inner6, lengths)
				}
			}
			for _, inner6 := range []bool{false, true} {
				wrongChecksums(t, a, b, inner6)
				wrongChecksums(t, b, a, inner6)
			}
		})
	}
}
