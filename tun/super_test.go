package tun

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// read puts into s what a read of the TUN would give.
func (s *Super) readVnet(h vnetHeader, packet []byte, big bool) {
	h.put(s.buf[Headroom-vnetSize:], big)
	s.setVnet(copy(s.buf[Headroom:Headroom+maxPacket], packet), big)
}

// super returns x as the kernel hands it over to be cut into packets of size bytes of
// payload.
func (x parcel) super(size int) (vnetHeader, []byte) {
	p := x.bytes(true)
	h := vnetHeader{flags: vnetNeedsChecksum, kind: vnetTCP4, headerLen: 9999, size: uint16(size), checkAt: tcpOffset}
	h.start = uint16(len(p) - len(x.payload) - 20 - len(x.options))
	if x.v6 {
		h.kind = vnetTCP6
	}
	if x.flags&tcpCWR != 0 {
		h.kind |= vnetECN
	}
	if x.udp {
		h.kind, h.checkAt = vnetUDP, udpOffset
		h.start = uint16(len(p) - len(x.payload) - 8)
	}
	return h, p
}

// cut returns the packets that x should be cut into.
func (x parcel) cut(size int) (packets [][]byte) {
	for i, rest := 0, x.payload; len(rest) > 0; i++ {
		y := x
		y.payload = rest[:min(size, len(rest))]
		rest = rest[len(y.payload):]
		y.seq += uint32(i * size)
		y.id += uint16(i)
		if i > 0 {
			y.flags &^= tcpCWR
		}
		if len(rest) > 0 {
			y.flags &^= tcpFIN | tcpPSH
		}
		packets = append(packets, y.bytes(false))
	}
	return packets
}

var timestamps = []byte{1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8}

// Packets of a super-packet are what TCP or UDP would have sent without it, whatever
// happens to the bytes behind each of them.
func TestSuperPacketsAreCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	hopByHop := []byte{protocolTCP, 0, 1, 4, 0, 0, 0, 0}
	hopByHopUDP := []byte{protocolUDP, 0, 1, 4, 0, 0, 0, 0}
	s := NewSuper()
	for _, c := range []struct {
		name string
		x    parcel
	}{
		{"TCP", parcel{id: 0xfff0, flags: tcpACK}},
		{"with timestamps", parcel{options: timestamps, flags: tcpACK | tcpPSH, seq: 0xffff_ff00, window: 500, tos: 0x62}},
		{"with FIN, PSH, CWR and ECE", parcel{flags: tcpACK | tcpPSH | tcpFIN | tcpCWR | 0x40, seq: 1, reserved: 1, urgent: 9}},
		{"with IPv4 options", parcel{between: []byte{7, 7, 4, 1, 2, 3, 4, 0}, flags: tcpACK, fragment: 0x4000}},
		{"TCP over IPv6", parcel{v6: true, flags: tcpACK | tcpPSH, label: 0xabcde, tos: 2}},
		{"with timestamps", parcel{v6: true, options: timestamps, flags: tcpACK | tcpCWR, seq: 1 << 31}},
		{"with an extension header", parcel{v6: true, next: 0, between: hopByHop, flags: tcpACK}},
		{"UDP", parcel{udp: true, id: 7}},
		{"UDP over IPv6", parcel{v6: true, udp: true}},
		{"with an extension header", parcel{v6: true, udp: true, next: 0, between: hopByHopUDP}},
	} {
		for _, size := range []int{1, 2, 3, 14, 15, 16, 17, 31, 60, 61, 536, 1348, 1368, 1380, 8948} {
			for _, n := range []int{1, 2, size - 1, size, size + 1, 2 * size, 5*size + 3, 44 * size, 47*size - 1, 65535 - 120} {
				if n < 1 || n > 65535-120 || n > 2000*size {
					continue
				}
				x := c.x
				x.src, x.dst, x.port, x.ack = 1, 2, 40000, 77
				x.payload = make([]byte, n)
				for i := range x.payload {
					x.payload[i] = byte(r.Uint32())
				}
				if size == 1 {
					clear(x.payload) // checksums of 0
				}
				name := fmt.Sprintf("%s, %d bytes in packets of %d", c.name, n, size)
				h, p := x.super(size)
				big := r.IntN(2) == 0
				s.readVnet(h, p, big)
				for i, want := range x.cut(size) {
					got := s.Next()
					if !bytes.Equal(got, want) {
						t.Fatalf("%s: packet %d:\n got %.80x\nwant %.80x", name, i, got, want)
					}
					if cap(got) != len(got)+MaxPadding {
						t.Fatalf("%s: packet %d: room for %d bytes of padding", name, i, cap(got)-len(got))
					}
					for i := range MaxPadding {
						got[:len(got)+i+1][len(got)+i] = 0xee
					}
				}
				if p := s.Next(); p != nil {
					t.Fatalf("%s: another packet: %x", name, p)
				}
			}
		}
	}
}

// TCP may be cut smaller than the kernel asked for; other packets stay as they are.
func TestSuperPacketsAreLimited(t *testing.T) {
	s := NewSuper()
	for _, tt := range []struct {
		name        string
		x           parcel
		n           int // bytes of payload
		limit, want int // of a packet; of payload in each
	}{
		{"TCP", parcel{flags: tcpACK | tcpPSH}, 5000, 1216, 1176},
		{"with timestamps", parcel{options: timestamps, flags: tcpACK}, 5000, 1216, 1164},
		{"over IPv6", parcel{v6: true, flags: tcpACK}, 5000, 1216, 1156},
		{"by no limit", parcel{flags: tcpACK}, 5000, 65000, 1380},
		{"by one that is not worth it", parcel{flags: tcpACK}, 5000, 295, 1380},
		{"by the smallest", parcel{flags: tcpACK}, 5000, 296, 256},
		{"by nonsense", parcel{flags: tcpACK}, 5000, -16, 1380},
		{"UDP", parcel{udp: true}, 5000, 1216, 1380},
	} {
		x := tt.x
		x.src, x.dst, x.port, x.seq, x.id = 1, 2, 40000, 0xffff_ff00, 7
		x.payload = bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, tt.n)[:tt.n]
		h, p := x.super(1380)
		s.readVnet(h, p, false)
		if s.Headers() == nil || s.Headers()[0]>>4 != p[0]>>4 {
			t.Errorf("%s: headers %x", tt.name, s.Headers())
		}
		s.Limit(tt.limit)
		for i, want := range x.cut(tt.want) {
			if got := s.Next(); !bytes.Equal(got, want) {
				t.Fatalf("%s: packet %d:\n got %.80x\nwant %.80x", tt.name, i, got, want)
			}
		}
		if p := s.Next(); p != nil {
			t.Errorf("%s: another packet: %x", tt.name, p)
		}
	}
	s.Set(parcel{payload: make([]byte, 1000)}.bytes(false))
	s.Limit(500)
	if s.Headers() != nil || len(s.Next()) != 1040 {
		t.Error("a packet was cut")
	}
}

func TestChecksumsAreCompleted(t *testing.T) {
	s := NewSuper()
	for _, x := range []parcel{
		{payload: []byte("odd")}, {v6: true, payload: []byte("even")}, {udp: true}, {v6: true, udp: true, payload: make([]byte, 1000)},
	} {
		for i := range 1 << 16 { // one of them has the checksum 0
			x.port = uint16(i)
			h, p := x.super(0)
			h.kind = vnetNone
			s.readVnet(h, p, false)
			if got, want := s.Next(), x.bytes(false); !bytes.Equal(got, want) {
				t.Fatalf("got %x, want %x", got, want)
			}
			if s.Next() != nil {
				t.Fatal("two packets")
			}
		}
	}
}

// What does not add up is lost.
func TestSuperPacketsThatDoNotAddUp(t *testing.T) {
	s := NewSuper()
	tcp := parcel{flags: tcpACK, payload: make([]byte, 3000)}
	udp := parcel{udp: true, payload: make([]byte, 3000)}
	tcp6 := parcel{v6: true, flags: tcpACK, payload: make([]byte, 3000)}
	for _, c := range []struct {
		name   string
		x      parcel
		change func(h *vnetHeader, p []byte) []byte
	}{
		{"no checksum asked for", tcp, func(h *vnetHeader, p []byte) []byte { h.flags = 0; return p }},
		{"an unknown type", tcp, func(h *vnetHeader, p []byte) []byte { h.kind = 3; return p }},
		{"another unknown type", tcp, func(h *vnetHeader, p []byte) []byte { h.kind = 6; return p }},
		{"packets without payload", tcp, func(h *vnetHeader, p []byte) []byte { h.size = 0; return p }},
		{"the type of IPv6", tcp, func(h *vnetHeader, p []byte) []byte { h.kind = vnetTCP6; return p }},
		{"the type of IPv4", tcp6, func(h *vnetHeader, p []byte) []byte { h.kind = vnetTCP4; return p }},
		{"the type of UDP", tcp, func(h *vnetHeader, p []byte) []byte { h.kind = vnetUDP; return p }},
		{"UDP as TCP", udp, func(h *vnetHeader, p []byte) []byte { h.kind, h.checkAt = vnetTCP4, tcpOffset; return p }},
		{"the checksum elsewhere", tcp, func(h *vnetHeader, p []byte) []byte { h.checkAt = 6; return p }},
		{"the checksum of UDP elsewhere", udp, func(h *vnetHeader, p []byte) []byte { h.checkAt = 4; return p }},
		{"TCP elsewhere", tcp, func(h *vnetHeader, p []byte) []byte { h.start = 24; return p }},
		{"TCP inside the IPv6 header", tcp6, func(h *vnetHeader, p []byte) []byte { h.start = 20; return p }},
		{"TCP behind the end", tcp, func(h *vnetHeader, p []byte) []byte { h.start = 0xfff0; return p }},
		{"a short TCP header", tcp, func(h *vnetHeader, p []byte) []byte { p[32] = 4 << 4; return p }},
		{"a TCP header of all", tcp, func(h *vnetHeader, p []byte) []byte { p[32] = 15 << 4; p[3] = 80; p[2] = 0; return p[:80] }},
		{"an IP version 5", udp, func(h *vnetHeader, p []byte) []byte { p[0] = 0x55; return p }},
		{"another protocol", tcp, func(h *vnetHeader, p []byte) []byte { p[9] = protocolUDP; return p }},
		{"another protocol, IPv6", tcp6, func(h *vnetHeader, p []byte) []byte { p[6] = protocolUDP; return p }},
		{"less than it says", tcp, func(h *vnetHeader, p []byte) []byte { return p[:2000] }},
		{"less than it says, IPv6", tcp6, func(h *vnetHeader, p []byte) []byte { return p[:2000] }},
		{"a fragment", tcp, func(h *vnetHeader, p []byte) []byte { p[6] = 0x20; return p }},
		{"nothing", tcp, func(h *vnetHeader, p []byte) []byte { return nil }},
		{"half a checksum behind the end", tcp, func(h *vnetHeader, p []byte) []byte { h.kind, h.start = vnetNone, uint16(len(p)-17); return p }},
		{"a checksum behind the end", tcp, func(h *vnetHeader, p []byte) []byte { h.kind, h.start = vnetNone, 3030; return p }},
	} {
		h, p := c.x.super(1000)
		s.readVnet(h, p, false)
		if s.Next() == nil {
			t.Fatalf("%s: not even without the change", c.name)
		}
		h, p = c.x.super(1000)
		p = c.change(&h, p)
		s.readVnet(h, p, false)
		if got := s.Next(); got != nil {
			t.Errorf("%s: got a packet: %.60x", c.name, got)
		}
	}
}

// Whatever is read, Next ends, packets lie within what was read, and together have the
// whole payload.
func FuzzNext(f *testing.F) {
	for _, x := range []parcel{
		{flags: tcpACK | tcpPSH, options: timestamps}, {v6: true, flags: tcpACK}, {udp: true}, {v6: true, udp: true},
		{between: []byte{7, 7, 4, 1, 2, 3, 4, 0}, flags: tcpACK}, {v6: true, next: 0, between: []byte{protocolTCP, 0, 1, 4, 0, 0, 0, 0}},
	} {
		x.payload = []byte("some payload of a few bytes for a super-packet")
		for _, size := range []int{0, 1, 10, 1000} {
			h, p := x.super(size)
			if size == 0 {
				h.kind = vnetNone
			}
			b := make([]byte, vnetSize)
			h.put(b, false)
			f.Add(append(b, p...))
		}
	}
	s := NewSuper()
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < vnetSize || len(b) > vnetSize+maxPacket {
			return
		}
		h, packet := parseVnet(b, false), bytes.Clone(b[vnetSize:])
		s.readVnet(h, packet, false)
		headers, size := s.headers, s.size
		var payload []byte
		n := 0
		for p := s.Next(); p != nil; p = s.Next() {
			if n++; n > len(packet) {
				t.Fatal("more packets than bytes")
			}
			if headers == 0 {
				if len(p) != len(packet) {
					t.Fatalf("one packet of %d bytes of %d", len(p), len(packet))
				}
				continue
			}
			if len(p) <= headers || len(p) > headers+size {
				t.Fatalf("a packet of %d bytes, %d of headers, payload at most %d", len(p), headers, size)
			}
			payload = append(payload, p[headers:]...)
			if p[0]>>4 == 4 && slowSum(p[:int(p[0]&15)*4]) != 0xffff {
				t.Fatalf("IPv4 header %x", p[:20])
			}
			for i := range MaxPadding {
				p[:len(p)+i+1][len(p)+i] = 0xee
			}
		}
		if headers != 0 && !bytes.Equal(payload, packet[headers:]) {
			t.Errorf("the payload differs:\n got %x\nwant %x", payload, packet[headers:])
		}
	})
}

func TestNextDoesNotAllocate(t *testing.T) {
	s := NewSuper()
	h, p := parcel{flags: tcpACK, options: timestamps, payload: make([]byte, 45*1368)}.super(1368)
	if n := testing.AllocsPerRun(100, func() {
		s.readVnet(h, p, false)
		for s.Next() != nil {
		}
	}); n != 0 {
		t.Errorf("%v allocations for a super-packet", n)
	}
}

func BenchmarkNext(b *testing.B) {
	s := NewSuper()
	h, p := parcel{flags: tcpACK, options: timestamps, payload: make([]byte, 44*1368)}.super(1368)
	copy(s.buf[Headroom:], p)
	b.SetBytes(int64(44 * 1368))
	b.ReportAllocs()
	for b.Loop() {
		copy(s.buf[Headroom:], p[:52])
		h.put(s.buf[Headroom-vnetSize:], false)
		s.setVnet(len(p), false)
		for s.Next() != nil {
		}
	}
}
