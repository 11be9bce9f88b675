package device

import (
	"fmt"
	"testing"
)

// The packet path allocates nothing.
func TestNoAllocations(t *testing.T) {
	b := newBench(t)
	p4, p6 := packet4("10.0.0.1", "10.0.0.2", 1420), packet6("fd00::1", "fd00::2", 61)
	if n := testing.AllocsPerRun(200, func() {
		b.tx.mu.Lock()
		for range maxBurst + 3 {
			b.read(p4)
			b.read(p6)
		}
		b.flush(b.clock.Now())
		b.tx.mu.Unlock()
		b.sendStaged(b.last, true, b.clock.Now())
	}); n != 0 {
		t.Errorf("sending allocates %v times", n)
	}

	var q pressure
	burst := make([]datagram, 64)
	r4, r6 := packet4("10.0.0.2", "10.0.0.1", 1420), packet6("fd00::2", "fd00::1", 61)
	for i := range burst {
		burst[i].data = make([]byte, 0, 2000)
		burst[i].from = b.from
	}
	b.tun.last = make([]byte, 0, 2000)
	b.tun.packets = 0
	runs := 0
	if n := testing.AllocsPerRun(200, func() {
		runs++
		for i := range burst {
			packet := [][]byte{r4, r6, nil}[i%3]
			n, _ := b.far.Seal(burst[i].data[:2000], packet)
			burst[i].data = burst[i].data[:n]
		}
		b.receiveBurst(burst, false, &q)
	}); n != 0 {
		t.Errorf("receiving allocates %v times", n)
	}
	if want := runs * 43; b.tun.packets != want {
		t.Errorf("%d packets received, want %d", b.tun.packets, want)
	}

	// Nor do packets that are dropped or answered.
	nobody := packet4("10.0.0.1", "10.0.0.3", 60)
	if n := testing.AllocsPerRun(200, func() {
		b.unreachables = tokenBucket{}
		b.transmits(nobody)
		burst[0].data = burst[0].data[:60]
		b.receiveBurst(burst[:1], false, &q)
	}); n != 0 {
		t.Errorf("refusing allocates %v times", n)
	}
}

func BenchmarkSend(b *testing.B) {
	for _, size := range []int{64, 1420} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x := newBench(b)
			packet := packet4("10.0.0.1", "10.0.0.2", size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			n := 0
			x.tx.mu.Lock()
			defer x.tx.mu.Unlock()
			for b.Loop() {
				x.read(packet)
				if n++; n%64 == 0 {
					x.flush(x.clock.Now())
				}
			}
		})
	}
}

// BenchmarkReceive includes the sealing of what is received.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{64, 1420} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x := newBench(b)
			packet := packet4("10.0.0.2", "10.0.0.1", size)
			var q pressure
			burst := make([]datagram, 64)
			for i := range burst {
				burst[i] = datagram{data: make([]byte, size+32), from: x.from}
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				x.far.Seal(burst[n].data, packet)
				if n++; n == len(burst) {
					x.receiveBurst(burst, false, &q)
					n = 0
				}
			}
		})
	}
}
