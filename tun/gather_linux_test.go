package tun

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A system takes what a gatherer writes, and cuts it again.
type system struct {
	t       testing.TB
	s       *Super
	big     bool
	packets [][]byte
	writes  []int         // packets of each
	refuse  syscall.Errno // of runs
	down    syscall.Errno // of all
}

func (y *system) write(iov []unix.Iovec) syscall.Errno {
	var b []byte
	for _, v := range iov {
		b = append(b, unsafe.Slice(v.Base, int(v.Len))...)
	}
	switch {
	case y.down != 0:
		return y.down
	case y.refuse != 0 && b[1] != 0:
		return y.refuse
	}
	h := parseVnet(b, y.big)
	if h.kind == vnetNone && (len(iov) != 1 || h != vnetHeader{}) || h.kind != vnetNone && len(iov) < 2 {
		y.t.Errorf("%d parts with vnet header %+v", len(iov), h)
	}
	if len(iov) > 1024 {
		y.t.Errorf("%d parts, IOV_MAX is 1024", len(iov))
	}
	if y.s == nil {
		y.s = NewSuper()
	}
	y.s.readVnet(h, b[vnetSize:], y.big)
	if y.s.headers != int(h.headerLen) {
		y.t.Errorf("header length %d, is %d", h.headerLen, y.s.headers)
	}
	n := 0
	for p := y.s.Next(); p != nil; p = y.s.Next() {
		y.packets = append(y.packets, bytes.Clone(p))
		n++
	}
	if n != len(iov) {
		y.t.Errorf("%d parts were cut into %d packets: %.100x", len(iov), n, b)
	}
	y.writes = append(y.writes, n)
	return 0
}

func withRoom(packet []byte) []byte {
	return append([]byte("the header, used"), packet...)
}

// Which second packet joins the first.
func TestWhatIsGathered(t *testing.T) {
	type change func(x *parcel)
	first := parcel{src: 1, dst: 2, port: 4000, id: 100, tos: 2, seq: 1000, ack: 5, flags: tcpACK, window: 500, options: timestamps, payload: make([]byte, 100)}
	second := first
	second.id, second.seq = 101, 1100
	second.payload = bytes.Repeat([]byte{7}, 100)
	for _, c := range []struct {
		name   string
		change change
		joins  bool
	}{
		{"what comes next", func(x *parcel) {}, true},
		{"the last, with PSH", func(x *parcel) { x.flags |= tcpPSH }, true},
		{"a shorter one", func(x *parcel) { x.payload = x.payload[:1] }, true},
		{"a longer one", func(x *parcel) { x.payload = make([]byte, 101) }, false},
		{"an empty one", func(x *parcel) { x.payload = nil }, false},
		{"another source", func(x *parcel) { x.src = 3 }, false},
		{"another destination", func(x *parcel) { x.dst = 3 }, false},
		{"another port", func(x *parcel) { x.port++ }, false},
		{"another acknowledgement", func(x *parcel) { x.ack++ }, false},
		{"another window", func(x *parcel) { x.window++ }, false},
		{"another urgent pointer", func(x *parcel) { x.urgent++ }, false},
		{"another reserved bit", func(x *parcel) { x.reserved = 1 }, false},
		{"another type of service", func(x *parcel) { x.tos++ }, false},
		{"another time to live", func(x *parcel) { x.ttl = 63 }, false},
		{"other options", func(x *parcel) { x.options = []byte{1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 9} }, false},
		{"more options", func(x *parcel) { x.options = append([]byte{1, 1, 1, 1}, timestamps...) }, false},
		{"no options", func(x *parcel) { x.options = nil }, false},
		{"a gap", func(x *parcel) { x.seq++ }, false},
		{"the same again", func(x *parcel) { x.seq = 1000 }, false},
		{"FIN", func(x *parcel) { x.flags |= tcpFIN }, false},
		{"SYN", func(x *parcel) { x.flags |= 0x02 }, false},
		{"RST", func(x *parcel) { x.flags |= 0x04 }, false},
		{"URG", func(x *parcel) { x.flags |= 0x20 }, false},
		{"ECE", func(x *parcel) { x.flags |= 0x40 }, false},
		{"CWR", func(x *parcel) { x.flags |= 0x80 }, false},
		{"no ACK", func(x *parcel) { x.flags = 0 }, false},
	} {
		for _, version := range []string{"IPv4", "IPv6"} {
			t.Run(version+" "+c.name, func(t *testing.T) {
				a, b := first, second
				a.v6 = version == "IPv6"
				b.v6 = a.v6
				c.change(&b)
				tryGather(t, c.joins, a.bytes(false), b.bytes(false))
			})
		}
	}
	v4 := func(change change) []byte { x := second; change(&x); return x.bytes(false) }
	tryGather(t, false, first.bytes(false), v4(func(x *parcel) { x.id++ }))
	tryGather(t, false, first.bytes(false), v4(func(x *parcel) { x.id = 100 }))
	tryGather(t, false, first.bytes(false), v4(func(x *parcel) { x.fragment = 0x4000 }))
	tryGather(t, false, first.bytes(false), v4(func(x *parcel) { x.fragment = 0x2000 }))
	tryGather(t, false, first.bytes(false), v4(func(x *parcel) { x.fragment = 1 }))
	tryGather(t, false, first.bytes(false), v4(func(x *parcel) { x.between = []byte{1, 1, 1, 0} }))
	tryGather(t, false, first.bytes(false), v4(func(x *parcel) { x.v6 = true }))
	a, b := first, second
	a.fragment, b.fragment = 0x4000, 0x4000
	b.id = a.id
	tryGather(t, true, a.bytes(false), b.bytes(false))
	a.flags |= tcpPSH
	tryGather(t, false, a.bytes(false), b.bytes(false))
	a, b = first, second
	a.v6, b.v6, b.label = true, true, 5
	tryGather(t, false, a.bytes(false), b.bytes(false))
	for i := range 20 + 20 + len(timestamps) + 1 { // any wrong bit, also in a checksum
		if i == 0 || i == 9 {
			continue // another version or protocol
		}
		q := second.bytes(false)
		q[i] ^= 0x10
		tryGather(t, false, first.bytes(false), q)
		q = first.bytes(false)
		q[i] ^= 0x10
		tryGather(t, false, q, second.bytes(false))
	}

	u := parcel{udp: true, src: 1, dst: 2, port: 53, id: 1, payload: make([]byte, 100)}
	w := u
	w.id = 2
	tryGather(t, true, u.bytes(false), w.bytes(false))
	w.payload = w.payload[:3]
	tryGather(t, true, u.bytes(false), w.bytes(false))
	w.payload = nil
	tryGather(t, false, u.bytes(false), w.bytes(false))
	w.payload = make([]byte, 101)
	tryGather(t, false, u.bytes(false), w.bytes(false))
	w = u
	w.id = 2
	q := w.bytes(false)
	q[26], q[27] = 0, 0 // no checksum
	tryGather(t, false, u.bytes(false), q)
	q = w.bytes(false)
	q[26]++
	tryGather(t, false, u.bytes(false), q)
	u.v6, w.v6 = true, true
	tryGather(t, true, u.bytes(false), w.bytes(false))
}

// No super-packet is longer than an IP packet can be, of however few it consists.
func TestLongPacketsAreNotGathered(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, udp := range []bool{false, true} {
			for _, n := range []int{30000, 33000, 60000} {
				a := parcel{v6: v6, udp: udp, src: 1, dst: 2, port: 4000, id: 100, seq: 1000, flags: tcpACK, payload: make([]byte, n)}
				b := a
				b.id, b.seq = 101, a.seq+uint32(n)
				b.payload = bytes.Repeat([]byte{7}, n)
				tryGather(t, n == 30000, a.bytes(false), b.bytes(false))
			}
		}
	}
}

// tryGather gathers two packets. Both come out unchanged but for the identification of
// what must not be fragmented.
func tryGather(t *testing.T, joins bool, a, b []byte) {
	t.Helper()
	y := &system{t: t}
	g := newGatherer(true, true, false, y.write)
	g.add(withRoom(a))
	g.add(withRoom(b))
	g.flush()
	if err := g.report(); err != nil {
		t.Error(err)
	}
	if got := len(y.writes) == 1; got != joins {
		t.Errorf("joined: %v, want %v:\n%.80x\n%.80x", got, joins, a, b)
	}
	if len(y.packets) != 2 || !bytes.Equal(canonical(y.packets[0]), canonical(a)) || !bytes.Equal(canonical(y.packets[1]), canonical(b)) {
		t.Errorf("came out as\n%.80x\nnot\n%.80x\n%.80x", y.packets, a, b)
	}
}

// canonical returns a packet without the IPv4 identification if it does not matter, and
// with one form of the checksum 0.
func canonical(p []byte) []byte {
	p = bytes.Clone(p)
	if len(p) < 20 {
		return p
	}
	at := 40
	if p[0]>>4 == 4 {
		at = 20
		if p[0] == 0x45 && p[6] == 0x40 && p[7] == 0 && slowSum(p[:20]) == 0xffff {
			p[4], p[5], p[10], p[11] = 0, 0, 0, 0
			copy(p[10:], be16(int(^slowSum(p[:20]))))
		}
		if p[10] == 0xff && p[11] == 0xff {
			p[10], p[11] = 0, 0
		}
	}
	if at += 16; len(p) >= at+2 && p[at] == 0 && p[at+1] == 0 {
		p[at], p[at+1] = 0xff, 0xff
	}
	return p
}

// stream returns what must keep its order with regard to other packets.
func stream(p []byte) string {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		s := string(p[9:10]) + string(p[12:20])
		if ip := int(p[0]&15) * 4; (p[9] == protocolTCP || p[9] == protocolUDP) && ip >= 20 && len(p) >= ip+4 {
			s += string(p[ip : ip+4])
		}
		return s
	case len(p) >= 44 && p[0]>>4 == 6:
		return string(p[6:7]) + string(p[8:44])
	}
	return ""
}

// check compares what went in with what the system got, stream by stream.
func (y *system) check(in [][]byte) {
	y.t.Helper()
	if len(in) != len(y.packets) {
		y.t.Errorf("%d packets of %d", len(y.packets), len(in))
	}
	byStream := func(packets [][]byte) map[string][][]byte {
		m := make(map[string][][]byte)
		for _, p := range packets {
			m[stream(p)] = append(m[stream(p)], canonical(p))
		}
		return m
	}
	want, got := byStream(in), byStream(y.packets)
	for s := range want {
		if !slices.EqualFunc(want[s], got[s], bytes.Equal) {
			y.t.Errorf("stream %x: got\n%.100x\nwant\n%.100x", s, got[s], want[s])
		}
	}
}

// Streams that are mixed are gathered all the same, up to maxRuns of them.
func TestMixedStreams(t *testing.T) {
	for _, c := range []struct{ streams, writes int }{{1, 3}, {2, 4}, {maxRuns, maxRuns}, {maxRuns + 1, 12 * (maxRuns + 1)}} {
		y := &system{t: t, big: true}
		g := newGatherer(true, true, true, y.write)
		var in [][]byte
		for i := range 12 {
			for s := range c.streams {
				x := parcel{v6: s%2 == 1, udp: s%3 == 2, src: 1, dst: 2, port: uint16(s), id: uint16(i), seq: uint32(i * 1300), flags: tcpACK, payload: make([]byte, 1300)}
				in = append(in, x.bytes(false))
			}
		}
		for i, p := range in {
			g.add(withRoom(p))
			if c.streams <= 2 && i%(len(in)/c.writes*c.streams) == len(in)/c.writes*c.streams-1 {
				g.flush()
			}
		}
		g.flush()
		y.check(in)
		if len(y.writes) != c.writes {
			t.Errorf("%d streams: %d writes, want %d", c.streams, len(y.writes), c.writes)
		}
	}
}

// What cannot be gathered does not overtake what was before, nor the other way round.
func TestMixedWithWhatIsNotGathered(t *testing.T) {
	for name, odd := range map[string]parcel{
		"IPv6 extension header": {v6: true, next: 60, between: []byte{protocolTCP, 0, 1, 4, 0, 0, 0, 0}},
		"IPv4 options":          {between: []byte{1, 1, 1, 0}},
		"first fragment":        {fragment: 0x2000},
		"later fragment":        {fragment: 1},
		"acknowledgement":       {flags: tcpACK},
		"FIN":                   {flags: tcpACK | tcpFIN},
	} {
		y := &system{t: t}
		g := newGatherer(true, true, false, y.write)
		var in [][]byte
		for i := range 9 {
			x := parcel{v6: odd.v6, flags: tcpACK}
			if i%3 == 2 {
				x = odd
			}
			x.src, x.dst, x.port, x.id, x.seq = 1, 2, 4000, uint16(i), uint32(i*100)
			if name != "acknowledgement" || i%3 != 2 {
				x.payload = make([]byte, 100)
			}
			p := x.bytes(false)
			in = append(in, p)
			g.add(withRoom(p))
		}
		g.flush()
		if !slices.EqualFunc(in, y.packets, bytes.Equal) {
			t.Errorf("%s: got\n%.60x\nwant\n%.60x", name, y.packets, in)
		}
	}
}

// A super-packet has at most 65535 bytes and maxRunLen packets.
func TestRunsAreBounded(t *testing.T) {
	for _, size := range []int{1, 1368, 8948, 30000} {
		for _, v6 := range []bool{false, true} {
			y := &system{t: t}
			g := newGatherer(true, false, false, y.write)
			var in [][]byte
			for i := range 200 {
				p := parcel{v6: v6, src: 1, dst: 2, id: uint16(i), seq: uint32(i * size), flags: tcpACK, payload: make([]byte, size)}.bytes(false)
				in = append(in, p)
				g.add(withRoom(p))
			}
			g.flush()
			y.check(in)
			if most, want := slices.Max(y.writes), min(maxRunLen, (maxPacket-40)/size); most > want || most < want-1 {
				t.Errorf("%d packets of %d bytes in one, want %d", most, size, want)
			}
		}
	}
}

// C06: a kernel that refuses runs gets single packets, the same and in order, from then on;
// this is said once.
func TestRefusedRuns(t *testing.T) {
	for _, udp := range []bool{false, true} {
		for _, v6 := range []bool{false, true} {
			y := &system{t: t, refuse: unix.EINVAL}
			g := newGatherer(true, true, false, y.write)
			var in [][]byte
			said := 0
			var refused *RefusedError
			add := func(i, port int, flags byte, n int) {
				p := parcel{v6: v6, udp: udp, src: 1, dst: 2, port: uint16(port), id: uint16(i), seq: uint32(i * 100), flags: flags, payload: bytes.Repeat([]byte{byte(i)}, n)}.bytes(false)
				in = append(in, p)
				g.add(withRoom(p))
				if err := g.report(); errors.As(err, &refused) {
					said++
				} else if err != nil {
					t.Error(err)
				}
			}
			for i := range 10 {
				add(i, 1, tcpACK, 100)
				add(i, 2, tcpACK, 100)
			}
			add(10, 1, tcpACK|tcpPSH, 50) // ends the run of port 1
			add(10, 2, tcpACK, 100)
			add(11, 2, tcpACK, 100)
			g.flush()
			y.check(in)
			if said != 1 || slices.Max(y.writes) != 1 {
				t.Errorf("udp %v, IPv6 %v: said %d times (%v), writes %v", udp, v6, said, refused, y.writes)
			}
			if g.tcp == !udp || g.udp == udp {
				t.Errorf("udp %v: TCP is on %v, UDP %v", udp, g.tcp, g.udp)
			}
			// A kernel that would do it now is not asked.
			y.refuse, y.writes = 0, nil
			add(20, 1, tcpACK, 100)
			add(21, 1, tcpACK, 100)
			g.flush()
			if len(y.writes) != 2 {
				t.Errorf("writes %v after a refusal", y.writes)
			}
		}
	}
}

func TestErrorsOfWrites(t *testing.T) {
	two := func(y *system) (*gatherer, error) {
		g := newGatherer(true, true, false, y.write)
		for i := range 2 {
			g.add(withRoom(parcel{id: uint16(i), seq: uint32(i), flags: tcpACK, payload: []byte{1}}.bytes(false)))
		}
		g.flush()
		return g, g.report()
	}
	// Short of memory, it is tried in pieces, and with super-packets the next time.
	y := &system{t: t, refuse: unix.ENOMEM}
	if g, err := two(y); err != nil || !g.tcp || len(y.writes) != 2 {
		t.Errorf("ENOMEM: %v, writes %v, on %v", err, y.writes, g.tcp)
	}
	y = &system{t: t, down: unix.EIO}
	if g, err := two(y); err != unix.EIO || !g.tcp {
		t.Errorf("EIO: %v, on %v", err, g.tcp)
	}
}

func TestGatherDoesNotAllocate(t *testing.T) {
	var bufs [][]byte
	for i := range 50 {
		bufs = append(bufs, withRoom(parcel{src: byte(i % 2), id: uint16(i / 2), seq: uint32(i / 2 * 1368), flags: tcpACK, payload: make([]byte, 1368), v6: i%5 == 4}.bytes(false)))
	}
	runs, errno := 0, syscall.Errno(0)
	g := newGatherer(true, true, false, func(iov []unix.Iovec) syscall.Errno {
		if len(iov) > 1 {
			runs++
		}
		return errno
	})
	for _, errno = range []syscall.Errno{0, unix.EIO, unix.ENOMEM, unix.EINVAL} {
		n := testing.AllocsPerRun(100, func() {
			for _, b := range bufs {
				g.add(b)
				g.report()
			}
			g.flush()
			g.report()
		})
		if n != 0 || runs == 0 {
			t.Errorf("%v: %v allocations, %d runs", errno, n, runs)
		}
	}
}

// C11: whatever packets come, the system gets the same, in the order of their streams, also
// if it refuses runs.
func FuzzGather(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(r.Uint32()) & byte(r.Uint32()) & byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Add(make([]byte, 200))
	super := NewSuper()
	f.Fuzz(func(t *testing.T, script []byte) {
		next := func() (b byte) {
			if len(script) > 0 {
				b, script = script[0], script[1:]
			}
			return b
		}
		y := &system{t: t, s: super}
		if next()&0x80 != 0 {
			y.refuse = unix.EINVAL
		}
		g := newGatherer(true, true, false, y.write)
		var in [][]byte
		var seqs [256]uint32
		var ids [256]uint16
		flush := func() {
			g.flush()
			g.report()
			y.check(in)
			in, y.packets = nil, nil
		}
		for len(script) > 0 {
			// Six bytes a packet; zeros are the next of the stream.
			what, who, odd := next(), next(), next()
			x := parcel{v6: what&1 != 0, udp: what&2 != 0, src: who & 1, dst: who >> 1 & 1, port: uint16(who >> 2 & 31),
				flags: tcpACK ^ next(), fragment: 0x4000 * uint16(what>>2&1), payload: make([]byte, 100)}
			if what&8 != 0 {
				x.payload = x.payload[:int(next())%101]
			}
			if what&16 != 0 {
				x.options = timestamps
			}
			x.seq, x.id = seqs[who]+uint32(odd&1), ids[who]+uint16(odd>>1&1)
			x.tos, x.ack, x.window = odd>>2&1, uint32(odd>>3&1), uint16(odd>>4&1)
			if odd&32 != 0 {
				x.between, x.next = []byte{protocolTCP, 0, 0, 0, 0, 0, 0, 0}, 60
			}
			if odd&64 != 0 {
				x.fragment |= 0x2000
			}
			seqs[who] += uint32(len(x.payload))
			ids[who]++
			p := x.bytes(false)
			if at := next(); at != 0 && int(at) < len(p) {
				p[at] ^= next()
			}
			if odd&128 != 0 {
				p = p[:max(20, len(p)-int(next()))]
				if p[0]>>4 == 6 {
					p = append(p, make([]byte, 20)...)
				}
			}
			if v := p[0] >> 4; v != 4 && v != 6 {
				continue // the device sees to it
			}
			in = append(in, p)
			g.add(withRoom(p))
			g.report()
			if what&64 != 0 {
				flush()
			}
		}
		flush()
	})
}

func BenchmarkGather(b *testing.B) {
	for _, streams := range []int{1, 4} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			var bufs [][]byte
			for i := range 44 {
				bufs = append(bufs, withRoom(parcel{port: uint16(i % streams), id: uint16(i / streams), seq: uint32(i / streams * 1368), flags: tcpACK, options: timestamps, payload: make([]byte, 1368)}.bytes(false)))
			}
			flags := make([]byte, len(bufs))
			for i := range bufs {
				flags[i] = bufs[i][Headroom+33]
			}
			head := make([][60]byte, len(bufs))
			for i := range bufs {
				copy(head[i][:], bufs[i][Headroom:])
			}
			g := newGatherer(true, true, false, func(iov []unix.Iovec) syscall.Errno {
				if len(iov) != 44/streams {
					b.Fatal(len(iov))
				}
				return 0
			})
			b.SetBytes(44 * 1368)
			b.ReportAllocs()
			for b.Loop() {
				for i := range streams { // what was written over
					copy(bufs[i][Headroom:], head[i][:])
				}
				for _, p := range bufs {
					g.add(p)
				}
				g.flush()
			}
		})
	}
}
