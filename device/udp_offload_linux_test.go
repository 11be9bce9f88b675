package device

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// joined is batchOf without gaps.
func joined(lengths ...int) (buf []byte, segs []segment) {
	for i, n := range lengths {
		segs = append(segs, segment{off: len(buf), len: n})
		buf = append(buf, bytes.Repeat([]byte{byte(i)}, n)...)
	}
	return buf, segs
}

// same is n times the same length.
func same(n, length int) []int { return slices.Repeat([]int{length}, n) }

// rawReader returns a function that reads the next message of c, whole: its bytes and
// the length of the datagrams that it was put together from, 0: one.
func rawReader(t *testing.T, c *udpConn) func() (n, size int) {
	t.Helper()
	r := newUDPReader(c.v6, false, 0, nil)
	return func() (n, size int) {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(100 * time.Microsecond) {
			var errno unix.Errno
			n, errno = r.receive(c.fd, r.arena)
			switch {
			case errno == 0:
				var d datagram
				return n, d.describe(r.v6, &r.from, r.control[:r.msg.Controllen])
			case errno != unix.EAGAIN:
				t.Fatal(errno)
			case time.Since(begin) > patience:
				t.Fatal("nothing arrived")
			}
		}
	}
}

// knows waits until c knows the way to an endpoint, without which it joins nothing.
func knows(t testing.TB, c *udpConn, to *endpoint) {
	t.Helper()
	eventually(t, func() bool {
		s := &c.out
		s.mu.Lock()
		defer s.mu.Unlock()
		s.to = to
		return s.choosePath(s.now()).looked
	})
}

// eventually waits for what another goroutine does.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Since(begin) > patience {
			t.Fatal("it never came to pass")
		}
	}
}

// What is sent together, as the other end of a loopback sees it.
func TestUDPSegmentsGoTogether(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "[::1]"} {
		a, b, port := udpPair(t, addr)
		if a == nil {
			continue
		}
		read := rawReader(t, b)
		to := endpointT(t, "%s:%d", addr, port)
		knows(t, a, to)
		type message struct{ bytes, size int }
		for _, tt := range []struct {
			name    string
			lengths []int
			tos     []byte
			want    []message
		}{
			{"a super-packet", same(44, 1452), nil, []message{{44 * 1452, 1452}}},
			{"with a short tail", append(same(44, 1452), 100), nil, []message{{44*1452 + 100, 1452}}},
			{"a pair", same(2, 32), nil, []message{{64, 32}}},
			{"one alone", same(1, 1452), nil, []message{{1452, 0}}},
			{"a longer one begins anew", []int{100, 100, 200, 200, 100}, nil, []message{{200, 100}, {500, 200}}},
			{"nothing follows a shorter one", []int{100, 50, 50, 20}, nil, []message{{150, 100}, {70, 50}}},
			{"at most 64 segments", same(130, 100), nil, []message{{6400, 100}, {6400, 100}, {200, 100}}},
			{"at most 65469 bytes", same(64, 1452), nil, []message{{45 * 1452, 1452}, {19 * 1452, 1452}}},
			{"exactly 65469 bytes", append(same(45, 1452), 129), nil, []message{{65469, 1452}}},
			{"a byte more", append(same(45, 1452), 130), nil, []message{{45 * 1452, 1452}, {130, 0}}},
			{"each traffic class for itself", same(4, 100), []byte{1, 1, 2, 2}, []message{{200, 100}, {200, 100}}},
		} {
			buf, segs := joined(tt.lengths...)
			for i, tos := range tt.tos {
				segs[i].tos = tos
			}
			if err := a.send(to, buf, segs); err != nil {
				t.Errorf("%s, %s: %v", addr, tt.name, err)
			}
			for i, want := range tt.want {
				if n, size := read(); n != want.bytes || size != want.size {
					t.Errorf("%s, %s: message %d has %d bytes in segments of %d, want %v", addr, tt.name, i, n, size, want)
				}
			}
		}

		// A gap.
		buf, segs := batchOf(100, 100)
		if err := a.send(to, buf, segs); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n, size := read(); n != 100 || size != 0 {
				t.Errorf("%s: across a gap: %d bytes in segments of %d", addr, n, size)
			}
		}
	}
}

// What may not be joined does not keep what follows from it.
func TestUDPLimitedSegmentsGoAlone(t *testing.T) {
	a, b, port := udpPair(t, "127.0.0.1")
	read := rawReader(t, b)
	to := endpointT(t, "127.0.0.1:%d", port)
	knows(t, a, to)
	a.out.paths.find(to.addr.Addr(), 0).limit = 1000
	a.out.paths.find(to.addr.Addr(), 0).until = a.out.now() + 1<<40
	buf, segs := joined(slices.Concat(same(100, 1000), same(2, 1001), same(64, 900), same(2, 1001), same(2, 10))...)
	if err := a.send(to, buf, segs); err != nil {
		t.Fatal(err)
	}
	// Each takes the first of a shorter length along, alone as well.
	want := slices.Concat(slices.Repeat([][2]int{{1000, 0}}, 100), [][2]int{{1001, 0}, {1001, 0}, {900, 0}, {63 * 900, 900}, {1001, 0}, {1001, 0}, {10, 0}, {10, 0}})
	for i, want := range want {
		if n, size := read(); n != want[0] || size != want[1] {
			t.Fatalf("message %d has %d bytes in segments of %d, want %v", i, n, size, want)
		}
	}
}

// Whatever goes together is taken apart again, with the source and class of each.
func TestUDPCoalescedAreSplit(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "[::1]"} {
		for _, off := range mixes {
			a4, a6, _ := listenT(t, 0, allOffloads)
			b4, b6, port := listenT(t, 0, off)
			a, b := a4, b4
			if addr[0] == '[' {
				a, b = a6, b6
			}
			if a == nil {
				continue
			}
			at := arrivals(t, b)
			to := endpointT(t, "%s:%d", addr, port)
			knows(t, a, to)
			for _, lengths := range [][]int{
				same(44, 1452), append(same(44, 1452), 1), same(64, 1000), {7, 7, 7, 3}, same(60, 1091), append(same(8, 8001), 5), same(64, 1),
			} {
				buf, segs := joined(lengths...)
				for i := range segs {
					segs[i].tos = 0x88
				}
				if err := a.send(to, buf, segs); err != nil {
					t.Fatal(err)
				}
				for i, seg := range segs {
					d := next(t, at)
					if !bytes.Equal(d.data, buf[seg.off:seg.off+seg.len]) {
						t.Fatalf("%s, %07b, %d of %d: number %d: got %d bytes", addr, off, len(lengths), lengths[0], i, len(d.data))
					}
					if d.tos != 0x88 || d.from.src != to.addr.Addr() || d.from.addr.Addr() != to.addr.Addr() {
						t.Fatalf("%s, %07b: number %d: class %#x, from %v at %v", addr, off, i, d.tos, d.from.addr, d.from.src)
					}
				}
			}
		}
	}
}

// The kernel writes an int in host order.
func TestCoalescedSize(t *testing.T) {
	for _, tt := range []struct {
		order binary.ByteOrder
		data  []byte
		want  int
	}{
		{binary.LittleEndian, []byte{0xac, 0x05, 0, 0}, 1452},
		{binary.BigEndian, []byte{0, 0, 0x05, 0xac}, 1452},
		{binary.LittleEndian, []byte{0xac, 0x05, 0, 0, 1, 1, 1, 1}, 1452},
		{binary.LittleEndian, []byte{0xac, 0x05}, 1452},
		{binary.BigEndian, []byte{0x05, 0xac}, 1452},
		{binary.LittleEndian, []byte{0xac}, 0},
		{binary.LittleEndian, nil, 0},
		{binary.LittleEndian, []byte{0, 0, 0, 0}, 0},
		{binary.LittleEndian, []byte{0, 0, 2, 0}, 0},
		{binary.BigEndian, []byte{0xff, 0xff, 0xff, 0xff}, 0},
	} {
		if got := coalescedSize(tt.data, tt.order); got != tt.want {
			t.Errorf("%v % x: %d, want %d", tt.order, tt.data, got, tt.want)
		}
	}
}

func TestUDPSplit(t *testing.T) {
	for _, tt := range []struct{ room, off, n, size, count int }{
		{maxDatagram, 0, 1452 * 44, 1452, 44},
		{maxDatagram, 0, 1452*44 + 1, 1452, 45},
		{maxDatagram, 16, 1000, 0, 1},
		{maxDatagram, 16, 1000, 1000, 1},
		{maxDatagram, 16, 1000, 1001, 1},
		{maxDatagram, 16, 1000, 333, 4},
		{maxDatagram, 16, 10, 1, 10},
		{maxDatagram, 0, 600, 1, 600}, // more than any kernel joins
		{maxDatagram, 32, maxDatagram - 32, 1421, 47},
		{maxDatagram, 32, 1421 * 40, 1421, 40},
	} {
		r := newUDPReader(false, false, tt.room, nil)
		want := make([]byte, tt.n)
		for i := range want {
			want[i] = byte(i * 7)
		}
		copy(r.arena[tt.off:], want)
		free := r.split(datagram{tos: 3}, tt.off, tt.n, tt.size)
		checkSplit(t, r, want, tt.off, free, tt.size)
		if len(r.batch) != tt.count {
			t.Errorf("%+v: %d datagrams", tt, len(r.batch))
		}
	}
}

// checkSplit checks what split made of want, which lay at off.
func checkSplit(t *testing.T, r *udpReader, want []byte, off, free, size int) {
	t.Helper()
	name := fmt.Sprintf("%d bytes of %d each at %d", len(want), size, off)
	if size <= 0 || size > len(want) {
		size = len(want)
	}
	count := (len(want) + size - 1) / size
	var got []byte
	end := off
	for i, d := range r.batch {
		if len(d.data) != size && i != len(r.batch)-1 || len(d.data) == 0 || cap(d.data) != len(d.data) || d.tos != 3 {
			t.Fatalf("%s: number %d has %d bytes, room for %d, class %d", name, i, len(d.data), cap(d.data), d.tos)
		}
		at := end
		for ; &r.arena[at] != &d.data[0]; at++ {
			if at-end == 3 {
				t.Fatalf("%s: number %d does not follow the one before", name, i)
			}
		}
		if at%4 != 0 && off+count*((size+3)&^3) <= len(r.arena) {
			t.Errorf("%s: number %d begins at %d", name, i, at)
		}
		end = at + len(d.data)
		got = append(got, d.data...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: the bytes have changed", name)
	}
	if free < end || free%16 != 0 || free >= end+16 {
		t.Errorf("%s: the next is to lie at %d, this ends at %d", name, free, end)
	}
}

// Datagrams of all lengths, many at once, where there is no UDP_GRO.
func TestUDPManyTakesAnyLength(t *testing.T) {
	a, _, _ := listenT(t, 0, 0)
	b, _, port := listenT(t, 0, OffloadMmsg)
	if b.in.many == nil {
		t.Fatal("no recvmmsg")
	}
	at := arrivals(t, b)
	for _, lengths := range [][]int{
		same(100, 1452), same(40, 9000), {1, 65507, 65507, 65507, 2, 65507}, {2047, 2048, 2049, 4095, 4096, 4097},
		slices.Concat(same(20, 9000), same(20, 100), same(3, 65507), same(20, 1500)), same(5, 65507), same(5, 65507),
	} {
		buf, segs := batchOf(lengths...)
		if err := a.send(endpointT(t, "127.0.0.1:%d", port), buf, segs); err != nil {
			t.Fatal(err)
		}
		for i, seg := range segs {
			if d := next(t, at); !bytes.Equal(d.data, buf[seg.off:seg.off+seg.len]) {
				t.Fatalf("number %d of %d bytes: got %d bytes", i, seg.len, len(d.data))
			}
		}
	}
}

// Of a message that was cut off nothing is handed over, and the others are.
func TestUDPTruncatedIsSkipped(t *testing.T) {
	a, _, _ := listenT(t, 0, 0)
	b, _, port := listenT(t, 0, OffloadMmsg)
	for i := range b.in.many.iovs {
		b.in.many.iovs[i].SetLen(1000)
	}
	at := arrivals(t, b)
	buf, segs := batchOf(1000, 1001, 999, 65507, 1452, 1)
	if err := a.send(endpointT(t, "127.0.0.1:%d", port), buf, segs); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2, 5} {
		if d := next(t, at); !bytes.Equal(d.data, buf[segs[i].off:segs[i].off+segs[i].len]) {
			t.Fatalf("number %d of %d bytes: got %d bytes", i, segs[i].len, len(d.data))
		}
	}
}

// Whoever was told that more waits is told when it does not, also when a burst took all
// there was.
func TestUDPTellsThatNothingWaits(t *testing.T) {
	for _, off := range mixes {
		a, _, _ := listenT(t, 0, OffloadMmsg)
		b, _, port := listenT(t, 0, off)
		var arrived atomic.Int32
		var waits atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.serve(func(burst []datagram, more bool) {
				waits.Store(more)
				arrived.Add(int32(len(burst)))
			})
		}()
		to := endpointT(t, "127.0.0.1:%d", port)
		for n := 1; n <= 2*udpBurst; n++ {
			arrived.Store(0)
			// All at once: serve waits for the lock.
			b.reading.Lock()
			buf, segs := joined(same(n, 1000)...)
			if err := a.send(to, buf, segs); err != nil {
				t.Fatal(err)
			}
			b.reading.Unlock()
			eventually(t, func() bool { return arrived.Load() == int32(n) && !waits.Load() })
		}
		b.close()
		<-ended
	}
}

// BenchmarkUDP carries 44 messages of 1,452 bytes over the loopback, by each way there
// is. What sending costs and what receiving costs is told apart.
func BenchmarkUDP(b *testing.B) {
	for _, way := range []struct {
		name    string
		out, in Offload
	}{
		{"sendmsg", 0, 0},
		{"sendmmsg", OffloadMmsg, 0},
		{"sendmmsg+recvmmsg", OffloadMmsg, OffloadMmsg},
		{"sendmmsg+UDP_GRO", OffloadMmsg, OffloadGRO},
		{"UDP_SEGMENT", OffloadGSO, 0},
		{"UDP_SEGMENT+UDP_GRO", OffloadGSO, OffloadGRO},
	} {
		b.Run(way.name, func(b *testing.B) {
			x, err := openUDP(false, 0, 0, udpOptions{offload: way.out, budget: testBudget})
			if err != nil {
				b.Fatal(err)
			}
			defer x.close()
			y, err := openUDP(false, 0, 0, udpOptions{offload: way.in, budget: testBudget})
			if err != nil {
				b.Fatal(err)
			}
			defer y.close()
			to := &endpoint{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), y.localPort)}
			buf, segs := joined(same(44, 1452)...)
			knows(b, x, to)
			var sending, receiving time.Duration
			for range b.N {
				t0 := time.Now()
				if err := x.send(to, buf, segs); err != nil {
					b.Fatal(err)
				}
				sending += time.Since(t0)
				time.Sleep(time.Millisecond) // until all are in the queue
				t0 = time.Now()
				got := 0
				for empty := false; !empty; {
					empty, err = y.in.burst(y.fd)
					if err != nil {
						b.Fatal(err)
					}
					got += len(y.in.batch)
				}
				if got != len(segs) {
					b.Fatalf("%d of %d arrived", got, len(segs))
				}
				receiving += time.Since(t0)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(sending.Microseconds())/float64(b.N), "µs/send")
			b.ReportMetric(float64(receiving.Microseconds())/float64(b.N), "µs/receive")
		})
	}
}
