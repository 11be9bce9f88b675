package device

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"wgd/conf"
	"wgd/noise"
	"wgd/tun"
)

// packet6 is an IPv6 packet of n bytes.
func packet6(src, dst string, n int) []byte {
	b := make([]byte, n)
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(n-ipv6HeaderSize))
	b[6], b[7] = 17, 64
	s, d := netip.MustParseAddr(src).As16(), netip.MustParseAddr(dst).As16()
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	return b
}

// packet4 is an IPv4 packet of n bytes.
func packet4(src, dst string, n int) []byte {
	return (&node{inner: netip.MustParseAddr(src)}).packet(&node{inner: netip.MustParseAddr(dst)}, n)
}

// checksumAdd adds b to a ones' complement sum, RFC 1071, slowly. b has at most 64 KiB.
func checksumAdd(sum uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func checksum(sum uint32, b []byte) uint16 {
	sum = checksumAdd(sum, b)
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	return ^uint16(sum)
}

// traffic sets the traffic class of a packet.
func traffic(packet []byte, tos byte) []byte {
	if packet[0]>>4 == 6 {
		packet[0] = 0x60 | tos>>4
		packet[1] = packet[1]&0x0f | tos<<4
		return packet
	}
	packet[1] = tos
	binary.BigEndian.PutUint16(packet[10:], 0)
	binary.BigEndian.PutUint16(packet[10:], checksum(0, packet[:ipv4HeaderSize]))
	return packet
}

func TestPadding(t *testing.T) {
	for _, tt := range []struct{ n, mtu, want int }{
		{0, 1420, 0},
		{1, 1420, 15},
		{15, 1420, 1},
		{16, 1420, 0},
		{17, 1420, 15},
		{1408, 1420, 0},
		{1409, 1420, 11}, // a full packet is not padded beyond the MTU
		{1419, 1420, 1},
		{1420, 1420, 0},
		{1421, 1420, 15}, // larger than the MTU: as its last piece would be
		{1430, 1420, 6},
		{2840, 1420, 0},
		{100, 0, 12}, // MTU unknown
		{100, 10, 0},
		{65535, 65535, 0},
	} {
		if got := padding(tt.n, tt.mtu); got != tt.want {
			t.Errorf("%d bytes at MTU %d: got %d, want %d", tt.n, tt.mtu, got, tt.want)
		}
	}
}

func TestSizesOnTheWire(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		b.got()
		step := func(n, want int) {
			t.Helper()
			w.forget()
			p := a.sends(b, n)
			list := w.sent(func(sentMessage) bool { return true })
			if len(list) != 1 || len(list[0].data) != want {
				t.Fatalf("a packet of %d bytes: got %v, want one of %d bytes", n, list, want)
			}
			if got := b.got(); len(got) != 1 || !bytes.Equal(got[0], p) {
				t.Errorf("a packet of %d bytes: another came out", n)
			}
		}
		step(20, 32+32)
		step(33, 48+32)
		step(1408, 1408+32)
		step(1409, 1420+32)
		step(1420, 1420+32)
		a.tun.SetMTU(1280)
		synctest.Wait()
		step(1270, 1280+32)
		step(1420, 1424+32)
		a.tun.SetMTU(65535)
		synctest.Wait()
		step(1409, 1424+32)
		step(65472, 65504)
		w.forget()
		a.sends(b, 65473) // no datagram can carry its padding
		w.expect(t)
	})
}

func TestOuterTOS(t *testing.T) {
	for _, tt := range []struct{ inner, want byte }{
		{0x00, 0}, {0x01, 1}, {0x02, 2}, {0x03, 2},
		{0xb8, 0}, {0xb9, 1}, {0xba, 2}, {0xbb, 2}, // no DSCP
		{0xff, 2}, {0xfc, 0},
	} {
		for _, packet := range [][]byte{packet4("10.0.0.1", "10.0.0.2", 40), packet6("fd00::1", "fd00::2", 60)} {
			if got := outerTOS(traffic(packet, tt.inner)); got != tt.want {
				t.Errorf("IPv%d, inner %#02x: outer %#02x, want %#02x", packet[0]>>4, tt.inner, got, tt.want)
			}
		}
	}
}

func TestSetCE(t *testing.T) {
	for tos := range 256 {
		want := byte(tos)
		if tos&3 == 1 || tos&3 == 2 {
			want |= 3
		}
		for _, n := range []int{20, 61, 1420} {
			got := traffic(packet4("10.0.0.1", "10.0.0.2", n), byte(tos))
			setCE(got)
			if !bytes.Equal(got, traffic(packet4("10.0.0.1", "10.0.0.2", n), want)) {
				t.Fatalf("IPv4, %#02x: got %x", tos, got[:20])
			}
		}
		got := traffic(packet6("fd00::1", "fd00::2", 60), byte(tos))
		setCE(got)
		if !bytes.Equal(got, traffic(packet6("fd00::1", "fd00::2", 60), want)) {
			t.Fatalf("IPv6, %#02x: got %x", tos, got[:20])
		}
	}
	// Any header checksum stays right, also those around 0 and 0xffff.
	for i := range 1 << 16 {
		p := packet4("10.0.0.1", "10.0.0.2", 20)
		binary.BigEndian.PutUint16(p[4:], uint16(i))
		traffic(p, 1)
		setCE(p)
		if sum := checksum(0, p[:20]); sum != 0 && sum != 0xffff {
			t.Fatalf("identification %#x: checksum is off by %#x", i, sum)
		}
	}
}

// A13 from end to end: inner to outer, and a mark from the path to inner.
func TestECN(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.node(1)
		x.setUp(true)
		r := w.remote(t, 9, x)
		kp := r.session(t, x)
		for _, tt := range []struct{ inner, outer, path, want byte }{
			{0xb8, 0, 0, 0xb8},
			{0xb9, 1, 1, 0xb9},
			{0xb9, 1, 3, 0xbb},
			{0xba, 2, 3, 0xbb},
			{0xbb, 2, 2, 0xbb},
			{0xb8, 0, 3, 0xb8}, // not ECN-capable: passes unchanged
			{0xba, 2, 0xfc, 0xba},
		} {
			w.forget()
			x.tun.Inject(traffic((&node{inner: x.inner}).packet(&node{inner: r.inner}, 100), tt.inner))
			synctest.Wait()
			if list := w.sent(func(sentMessage) bool { return true }); len(list) != 1 || list[0].tos != tt.outer {
				t.Errorf("inner %#02x: sent %v, want TOS %#02x", tt.inner, list, tt.outer)
			}
			x.receiveBurst([]datagram{{data: seal(kp, traffic(r.ping(x, 100), tt.inner)), from: endpoint{addr: r.memConn.addr}, tos: tt.path}}, false, new(pressure))
			got := x.got()
			if len(got) != 1 || !bytes.Equal(got[0], traffic(r.ping(x, 100), tt.want)) {
				t.Errorf("inner %#02x, outer %#02x: received %x, want TOS %#02x", tt.inner, tt.path, got, tt.want)
			}
		}
	})
}

// What is inside an authenticated message is not trusted either.
func TestInnerPackets(t *testing.T) {
	edit := func(packet []byte, at int, b ...byte) []byte {
		copy(packet[at:], b)
		return packet
	}
	short := func(n int) []byte { return packet4("10.0.0.9", "10.0.0.1", 100)[:n] }
	for _, tt := range []struct {
		name   string
		packet []byte
		want   int // bytes that come out; 0: none
	}{
		{"a packet", packet4("10.0.0.9", "10.0.0.1", 100), 100},
		{"padding is cut off", append(packet4("10.0.0.9", "10.0.0.1", 100), make([]byte, 12)...), 100},
		{"any padding is", append(packet4("10.0.0.9", "10.0.0.1", 20), make([]byte, 1400)...), 20},
		{"the source is another's", packet4("10.0.0.8", "10.0.0.1", 100), 0},
		{"the source is nobody's", packet4("10.1.0.9", "10.0.0.1", 100), 0},
		{"the source is ours", packet4("10.0.0.1", "10.0.0.9", 100), 0},
		{"IPv6", packet6("fd00::9", "fd00::1", 100), 100},
		{"IPv6 with padding", append(packet6("fd00::9", "fd00::1", 100), make([]byte, 12)...), 100},
		{"IPv6, the source is another's", packet6("fd00::8", "fd00::1", 100), 0},
		{"IPv6, a header alone", packet6("fd00::9", "fd00::1", 40), 40},
		{"longer than it is", edit(short(100), 2, 0, 101), 0},
		{"shorter than its header", edit(short(100), 2, 0, 19), 0},
		{"19 bytes", short(19), 0},
		{"1 byte", short(1), 0},
		{"IPv6 longer than it is", edit(packet6("fd00::9", "fd00::1", 100), 4, 0, 61), 0},
		{"IPv6 of 39 bytes", packet6("fd00::9", "fd00::1", 40)[:39], 0},
		{"version 0", edit(short(100), 0, 0x05), 0},
		{"version 5", edit(short(100), 0, 0x55), 0},
		{"version 15", edit(short(100), 0, 0xff), 0},
		{"zeros", make([]byte, 64), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.node(1)
				x.setUp(true)
				r := w.remote(t, 9, x)
				w.remote(t, 8, x)
				x.configure(t, conf.Update{Peers: []conf.PeerUpdate{
					{PublicKey: conf.Key(r.local.Public()), AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("fd00::9/128")}}},
				}})
				kp := r.session(t, x)
				x.got()
				want := tt.packet[:tt.want]
				w.inject(r.memConn.addr, x.at(), seal(kp, bytes.Clone(tt.packet)))
				got := x.got()
				if tt.want == 0 && len(got) != 0 || tt.want != 0 && (len(got) != 1 || !bytes.Equal(got[0], want)) {
					t.Errorf("got %x, want %x", got, want)
				}
			})
		})
	}
}

func TestLongestPrefixWins(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.node(1)
		x.setUp(true)
		r, q := w.remote(t, 9, x), w.remote(t, 8, x)
		x.configure(t, conf.Update{Peers: []conf.PeerUpdate{
			{PublicKey: conf.Key(r.local.Public()), AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("0.0.0.0/0")}}},
			{PublicKey: conf.Key(q.local.Public()), AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("10.7.0.0/16")}}},
		}})
		r.session(t, x)
		q.session(t, x)
		for dst, want := range map[string]*remote{"1.2.3.4": r, "10.8.0.1": r, "10.7.255.1": q, "10.0.0.8": q, "10.0.0.9": r} {
			x.tun.Inject(packet4("10.0.0.1", dst, 60))
			synctest.Wait()
			got, other := want.hears(), r
			if want == r {
				other = q
			}
			if got == nil || other.hears() != nil {
				t.Errorf("a packet to %s went to the wrong peer or to none", dst)
			}
		}
	})
}

func TestNotIPPacketsAreDropped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.forget()
		for _, p := range [][]byte{{0}, {0x45}, make([]byte, 19), make([]byte, 100), a.packet(b, 100)[:19], packet6("fd00::1", "fd00::2", 60)[:39]} {
			a.tun.Inject(p)
		}
		w.expect(t)
		if n := len(a.got()); n != 0 {
			t.Errorf("%d packets came back", n)
		}
	})
}

func TestUnreachable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.node(1)
		x.setUp(true)
		for _, tt := range []struct {
			name   string
			packet []byte
		}{
			{"IPv4", packet4("10.0.0.1", "10.0.0.77", 100)},
			{"a header alone", packet4("10.0.0.1", "10.0.0.77", 20)},
			{"odd", packet4("10.0.0.1", "10.0.0.77", 101)},
			{"a long one", packet4("10.0.0.1", "10.0.0.77", 1420)},
			{"IPv6", packet6("fd00::1", "fd00::77", 100)},
			{"IPv6, odd", packet6("fd00::1", "fd00::77", 101)},
			{"IPv6, a long one", packet6("fd00::1", "fd00::77", 1420)},
		} {
			time.Sleep(s)
			x.tun.Inject(tt.packet)
			synctest.Wait()
			got := x.got()
			if len(got) != 1 {
				t.Errorf("%s: %d answers", tt.name, len(got))
				continue
			}
			checkUnreachable(t, tt.packet, got[0])
		}
		w.expect(t)
	})
}

// checkUnreachable compares an ICMP error with the packet that it answers.
func checkUnreachable(t *testing.T, packet, got []byte) {
	t.Helper()
	if packet[0]>>4 == 4 {
		quote := packet[:min(len(packet), 576-28)]
		switch {
		case len(got) != 28+len(quote) || int(binary.BigEndian.Uint16(got[2:])) != len(got):
			t.Errorf("%d bytes, header says %d, want %d", len(got), binary.BigEndian.Uint16(got[2:]), 28+len(quote))
		case got[0] != 0x45 || got[9] != 1 || got[8] == 0:
			t.Errorf("header %x", got[:20])
		case checksum(0, got[:20]) != 0 || checksum(0, got[20:]) != 0:
			t.Errorf("checksums are off by %#x and %#x", checksum(0, got[:20]), checksum(0, got[20:]))
		case !bytes.Equal(got[12:16], packet[16:20]) || !bytes.Equal(got[16:20], packet[12:16]):
			t.Errorf("addresses %v to %v", got[12:16], got[16:20])
		case got[20] != 3 || got[21] != 1 || !bytes.Equal(got[24:28], make([]byte, 4)):
			t.Errorf("ICMP header %x", got[20:28])
		case !bytes.Equal(got[28:], quote):
			t.Errorf("quotes %x", got[28:])
		}
		return
	}
	quote := packet[:min(len(packet), 1280-48)]
	switch {
	case len(got) != 48+len(quote) || int(binary.BigEndian.Uint16(got[4:])) != len(got)-40:
		t.Errorf("%d bytes, header says %d, want %d", len(got), binary.BigEndian.Uint16(got[4:])+40, 48+len(quote))
	case got[0] != 0x60 || got[6] != 58 || got[7] == 0:
		t.Errorf("header %x", got[:40])
	case !bytes.Equal(got[8:24], packet[24:40]) || !bytes.Equal(got[24:40], packet[8:24]):
		t.Errorf("addresses %x to %x", got[8:24], got[24:40])
	case got[40] != 1 || got[41] != 3 || !bytes.Equal(got[44:48], make([]byte, 4)):
		t.Errorf("ICMP header %x", got[40:48])
	case !bytes.Equal(got[48:], quote):
		t.Errorf("quotes %x", got[48:])
	}
	// RFC 8200 §8.1, added up here in another way than in the code.
	pseudo := append(bytes.Clone(got[8:40]), 0, 0, byte((len(got)-40)>>8), byte(len(got)-40), 0, 0, 0, 58)
	if sum := checksum(0, append(pseudo, got[40:]...)); sum != 0 {
		t.Errorf("checksum is off by %#x", sum)
	}
}

func TestNoAnswerByICMP(t *testing.T) {
	icmp := func(typ byte, n int) []byte {
		p := packet4("10.0.0.1", "10.0.0.77", n)
		p[9] = protoICMP
		if n > 20 {
			p[20] = typ
		}
		return p
	}
	icmp6 := func(typ byte, n int) []byte {
		p := packet6("fd00::1", "fd00::77", n)
		p[6] = protoICMPv6
		if n > 40 {
			p[40] = typ
		}
		return p
	}
	fragment := func(offset uint16) []byte {
		p := packet4("10.0.0.1", "10.0.0.77", 100)
		binary.BigEndian.PutUint16(p[6:], offset)
		return p
	}
	for _, tt := range []struct {
		name   string
		packet []byte
		want   bool
	}{
		{"an echo request", icmp(8, 60), true},
		{"an echo reply", icmp(0, 60), true},
		{"unreachable", icmp(3, 60), false},
		{"source quench", icmp(4, 60), false},
		{"redirect", icmp(5, 60), false},
		{"time exceeded", icmp(11, 60), false},
		{"parameter problem", icmp(12, 60), false},
		{"ICMP without a type", icmp(0, 20), false},
		{"the first fragment", fragment(0x2000), true},
		{"a later fragment", fragment(0x2001), false},
		{"the last fragment", fragment(0x0100), false},
		{"to multicast", packet4("10.0.0.1", "224.0.0.251", 60), false},
		{"to all", packet4("10.0.0.1", "255.255.255.255", 60), false},
		{"from nowhere", packet4("0.0.0.0", "10.0.0.77", 60), false},
		{"from multicast", packet4("239.1.1.1", "10.0.0.77", 60), false},
		{"an IPv6 echo request", icmp6(128, 60), true},
		{"an IPv6 error", icmp6(1, 60), false},
		{"another IPv6 error", icmp6(127, 60), false},
		{"ICMPv6 without a type", icmp6(0, 40), false},
		{"to IPv6 multicast", packet6("fd00::1", "ff02::16", 60), false},
		{"from IPv6 nowhere", packet6("::", "fd00::77", 60), false},
	} {
		if got := answerable(tt.packet); got != tt.want {
			t.Errorf("%s: answered is %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestUnreachableIsLimited(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair() // b does not know where a is
		count := func(n int) int {
			for range n {
				b.tun.Inject(b.packet(a, 100))
			}
			synctest.Wait()
			return len(b.got())
		}
		time.Sleep(10 * s)
		if n := count(100); n != unreachableBurst {
			t.Errorf("%d answers to 100 packets, want %d", n, unreachableBurst)
		}
		time.Sleep(s / 2)
		if n := count(100); n != unreachablePerSec/2 {
			t.Errorf("%d answers half a second later, want %d", n, unreachablePerSec/2)
		}
		if n := b.stagedOf(a); n != 0 {
			t.Errorf("%d packets staged for a peer without an endpoint", n)
		}
		w.expect(t)
	})
}

func TestStagedPackets(t *testing.T) {
	numbered := func(a, b *node, i, n int) []byte {
		p := a.packet(b, n)
		binary.BigEndian.PutUint32(p[20:], uint32(i))
		return p
	}
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		b.setUp(false)
		const n = 300
		for i := range n {
			a.tun.Inject(numbered(a, b, i, 100))
		}
		synctest.Wait()
		if got := a.stagedOf(b); got != maxStaged {
			t.Fatalf("%d packets staged, want %d", got, maxStaged)
		}
		if got := a.stagedBytes.Load(); got != maxStagedBytes-maxStaged*100 {
			t.Errorf("%d bytes left, want %d", got, maxStagedBytes-maxStaged*100)
		}
		b.setUp(true)
		w.sleepUntil(6 * s)
		got := b.got()
		if len(got) != maxStaged {
			t.Fatalf("b got %d packets, want %d", len(got), maxStaged)
		}
		for i, p := range got {
			if !bytes.Equal(p, numbered(a, b, n-maxStaged+i, 100)) {
				t.Fatalf("packet %d is not the one that was sent: the oldest are dropped, the others keep their order", i)
			}
		}
		if got := a.stagedBytes.Load(); got != maxStagedBytes {
			t.Errorf("%d bytes left, want %d", got, maxStagedBytes)
		}
	})
}

// A session that cannot send any more does not mix them up.
func TestStagedPacketsKeepTheirOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		b.setUp(false)
		a.private = noise.PrivateKey{3: 1}
		a.private.Clamp()
		a.setKey(t, a.private)
		var want [][]byte
		for i := range 5 {
			want = append(want, a.sends(b, 200+i))
			a.knows(t, b, true) // looks whether they can be sent
		}
		b.knows(t, a, false)
		b.got()
		b.setUp(true)
		time.Sleep(6 * s)
		if got := b.got(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("b got %d packets, want %d, in order", len(got), len(want))
		}
		if n := a.stagedBytes.Load(); n != maxStagedBytes {
			t.Errorf("%d bytes left, want %d", n, maxStagedBytes)
		}
	})
}

func TestStagedBytesOfAllPeers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.node(1)
		x.setUp(true)
		var peers []*node
		for i := range byte(5) {
			y := &node{addr: netip.AddrFrom4([4]byte{192, 0, 2, 20 + i}), inner: netip.AddrFrom4([4]byte{10, 0, 1, i}), private: noise.PrivateKey{5: i}}
			y.private.Clamp()
			x.knows(t, y, true)
			peers = append(peers, y)
		}
		fill := func(y *node, n int) {
			for range n {
				x.tun.Inject(x.packet(y, 1400))
			}
			synctest.Wait()
		}
		// Four that have as much as they may: a fifth each, and one for others.
		for range 8 {
			for _, y := range peers[:4] {
				fill(y, 100)
			}
		}
		const share = maxStagedBytes / 5 / 1400
		for i, y := range peers[:4] {
			if n := x.stagedOf(y); n < share-2 || n > share+2 {
				t.Errorf("peer %d: %d packets staged, want %d", i, n, share)
			}
		}
		// A newcomer gets half of what is left.
		fill(peers[4], 200)
		if n := x.stagedOf(peers[4]); n < share/2-2 || n > share/2+2 {
			t.Errorf("a newcomer: %d packets staged, want %d", n, share/2)
		}
		newest := func() int {
			return inPeer(x, peers[2], func(p *Peer) int {
				return len(p.staged.ring[(p.staged.first+p.staged.n-1)%len(p.staged.ring)])
			})
		}
		before := newest()
		x.tun.Inject(x.packet(peers[2], 1399))
		synctest.Wait()
		if got := newest(); before != 1400 || got != 1399 {
			t.Errorf("the newest packet had %d bytes, and has %d; want 1400, 1399", before, got)
		}

		// The device is full: a peer that has none gets none, one that has some drops
		// what it must.
		left := x.stagedBytes.Swap(0)
		late := &node{addr: netip.AddrFrom4([4]byte{192, 0, 2, 30}), inner: netip.AddrFrom4([4]byte{10, 0, 1, 30}), private: noise.PrivateKey{5: 30}}
		late.private.Clamp()
		x.knows(t, late, true)
		fill(late, 1)
		if n := x.stagedOf(late); n != 0 {
			t.Errorf("%d packets beyond what the device may keep", n)
		}
		fill(peers[2], 1)
		if n := x.stagedOf(peers[2]); n == 0 || x.stagedBytes.Load() < 0 {
			t.Errorf("a peer that had some has %d packets; %d bytes left", n, x.stagedBytes.Load())
		}
		x.stagedBytes.Add(left)
		x.configure(t, conf.Update{ReplacePeers: true})
		if got := x.stagedBytes.Load(); got != maxStagedBytes {
			t.Errorf("%d bytes left after the peers are gone, want %d", got, maxStagedBytes)
		}
	})
}

// A keypair that is used up is replaced, and no packet is lost.
func TestMessageLimits(t *testing.T) {
	for _, tt := range []struct {
		sent uint64
		want []string
	}{
		{noise.RekeyAfterMessages - 1, []string{"10s 1>2 data"}},
		{noise.RekeyAfterMessages, []string{"10s 1>2 data", "10s 1>2 initiation", "10s 2>1 response", "10s 1>2 keepalive"}},
		{noise.RejectAfterMessages, []string{"10s 1>2 initiation", "10s 2>1 response", "10s 1>2 data"}},
	} {
		t.Run(fmt.Sprint(tt.sent), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b := w.pair()
				a.sends(b, 100)
				b.got()
				kp := a.current(b)
				a.tx.mu.Lock()
				setSent(kp, tt.sent)
				a.tx.mu.Unlock()
				w.sleepUntil(10*s - 1)
				w.forget()
				w.sleepUntil(10 * s)
				w.forget()
				a.sends(b, 100)
				w.expect(t, tt.want...)
				if n := len(b.got()); n != 1 {
					t.Errorf("b got %d packets, want 1", n)
				}
			})
		})
	}
}

// A kernel without IPv6, and a peer there.
func TestNoSocketOfTheFamily(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		there := netip.MustParseAddrPort("[2001:db8::2]:51820")
		a.configure(t, conf.Update{Peers: []conf.PeerUpdate{{PublicKey: conf.Key(b.private.Public()), Endpoint: &there}}})
		a.sends(b, 100)
		time.Sleep(6 * s)
		w.expect(t)
		if n := a.State().Peers[0].TxBytes; n != 0 {
			t.Errorf("%d bytes sent, says the state", n)
		}
		a.knows(t, b, true)
		w.sleepUntil(10 * s)
		w.expect(t, append(exchange("10s"), "10s 1>2 data")...)
	})
}

// sourceConn is a socket on which our address does not work any more.
type sourceConn struct{ nullConn }

func (c *sourceConn) send(to *endpoint, buf []byte, segs []segment) error {
	to.forgetSource()
	return c.nullConn.send(to, buf, segs)
}

// The address that a peer dialled is used until it fails, or until the peer does
// not answer.
func TestSourceAddress(t *testing.T) {
	b := newBench(t)
	with := b.from
	with.src, with.srcIf = netip.MustParseAddr("192.0.2.100"), 3
	b.receiveBurst([]datagram{{data: b.sealed(nil), from: with}}, false, new(pressure))
	if b.last.endpoint != with {
		t.Fatalf("endpoint %v, want %v", b.last.endpoint, with)
	}
	packet := packet4("10.0.0.1", "10.0.0.2", 60)
	b.transmits(packet)
	if b.last.endpoint != with {
		t.Errorf("forgotten after a send that succeeded")
	}
	b.bind.Store(&binding{v4: &sourceConn{}})
	b.transmits(packet)
	if b.last.endpoint != b.from {
		t.Errorf("endpoint %v after the address went, want %v", b.last.endpoint, b.from)
	}
	b.last.endpoint = with
	b.runTimers(b.last, after(b.clock.Now(), newHandshakeTime+maxJitter))
	if b.last.endpoint != b.from {
		t.Errorf("endpoint %v after 15 s of silence, want %v", b.last.endpoint, b.from)
	}
}

// On one core each direction is served while the other has more than it can do.
func TestOneCoreServesBothDirections(t *testing.T) {
	for _, one := range []bool{false, true} {
		b := newBench(t)
		b.oneCore = one
		b.tun.SetUp(true)
		for range 210 {
			b.tun.Inject(packet4("10.0.0.1", "10.0.0.2", 1420))
		}
		// 64 KiB at a time: four times there is more, then there is not.
		bursts := 0
		b.out.keep = true
		for len(b.out.sent) < 210 {
			b.transmitBurst()
			bursts++
		}
		want := 0
		if one {
			want = 2 * (bursts - 1) // the sockets of both address families
		}
		if b.out.polls != want || bursts < 4 {
			t.Errorf("one core %v: %d polls of the sockets in %d bursts, want %d", one, b.out.polls, bursts, want)
		}

		for range 10 {
			b.tun.Inject(packet4("10.0.0.1", "10.0.0.2", 100))
		}
		b.out.sent = nil
		b.received([]datagram{{data: b.sealed(nil), from: b.from}}, false, new(pressure))
		b.received([]datagram{{data: b.sealed(nil), from: b.from}}, true, new(pressure))
		want = 0
		if one {
			want = 10
		}
		if len(b.out.sent) != want {
			t.Errorf("one core %v: %d packets of the interface went out between bursts in, want %d", one, len(b.out.sent), want)
		}
	}
}

// A read that gave nothing usable is work, too: the lock is not kept for ever.
type emptyTun struct {
	*nullTun
	reads int
}

func (e *emptyTun) TryRead(s *tun.Super) (bool, error) {
	e.reads++
	s.Set(nil)
	return e.reads < 1e6, nil
}

func TestBurstsEnd(t *testing.T) {
	b := newBench(t)
	e := &emptyTun{nullTun: b.tun}
	b.Device.tun = e
	if more, err := b.takeBurst(); !more || err != nil || e.reads > burstBytes/packetCost {
		t.Errorf("%d reads in one burst, more: %v, %v", e.reads, more, err)
	}
}
