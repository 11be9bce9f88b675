package device

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
)

// hire gives the bench helpers in both directions, as a machine with cores to spare.
func (b *bench) hire(helpers int) {
	for _, c := range []*crew{&b.tx.crew, &b.rx.crew} {
		c.init(helpers, c.do)
		for range helpers {
			b.run(func() { c.help(b.closed) })
		}
	}
}

func TestCrewDoesEachMessageOnce(t *testing.T) {
	var c crew
	var counts [100]atomic.Int32
	var running atomic.Bool
	c.init(3, func(i int) {
		if !running.Load() {
			t.Error("at work after run has returned")
		}
		counts[i].Add(1)
	})
	closed := make(chan struct{})
	for range 3 {
		go c.help(closed)
	}
	defer close(closed)
	for round := range 20000 {
		n := round % 65
		c.rest = 0 // call them each time
		running.Store(true)
		c.run(n)
		running.Store(false)
		for i := range counts {
			want := int32(0)
			if i < n {
				want = 1
			}
			if got := counts[i].Swap(0); got != want {
				t.Fatalf("round %d: message %d of %d was done %d times", round, i, n, got)
			}
		}
	}
}

// A crew for which nobody has time is left alone for a while.
func TestCrewGivesUpForAWhile(t *testing.T) {
	var c crew
	c.init(1, func(int) {})
	calls := 0
	for range 2 * (crewVain + crewRest) {
		c.run(64)
		select {
		case <-c.call:
			calls++
		default:
		}
	}
	if calls != 2*crewVain {
		t.Errorf("called %d times in vain, want %d", calls, 2*crewVain)
	}
}

// With a crew the same messages pass, in the same order, as without.
func TestCrewSealsAndOpens(t *testing.T) {
	b := newBench(t)
	b.hire(3)
	b.out.keep = true
	for range 50 {
		b.out.sent = nil
		b.tx.mu.Lock()
		const n = maxBurst + 20
		for i := range n {
			b.read(numberedPacket(i))
		}
		b.flush(b.clock.Now())
		b.tx.mu.Unlock()
		if len(b.out.sent) != n {
			t.Fatalf("%d messages sent, want %d", len(b.out.sent), n)
		}
		for i, m := range b.out.sent {
			if got, ok := b.far.Open(m); !ok || !bytes.HasPrefix(got, numberedPacket(i)) {
				t.Fatalf("message %d: authentic %v, %x", i, ok, got)
			}
		}

		var burst []datagram
		for i := range n {
			g := datagram{data: b.sealed(packet4("10.0.0.2", "10.0.0.1", 100+i)), from: b.from}
			burst = append(burst, g)
			switch i % 5 {
			case 1: // again
				g.data = bytes.Clone(g.data)
			case 2: // forged
				g.data = bytes.Clone(g.data)
				g.data[20] ^= 1
			case 3: // for nobody
				g.data = bytes.Clone(g.data)
				g.data[4] ^= 1
			default:
				continue
			}
			burst = append(burst, g)
		}
		b.tun.packets = 0
		b.receiveBurst(burst, false, new(pressure))
		if b.tun.packets != n || !bytes.Equal(b.tun.last, packet4("10.0.0.2", "10.0.0.1", 100+n-1)) {
			t.Fatalf("%d packets received, want %d; the last %x", b.tun.packets, n, b.tun.last)
		}
	}
}

func numberedPacket(i int) []byte { return packet4("10.0.0.1", "10.0.0.2", 60+16*i) }

// BenchmarkCrew seals bursts of full packets with 0 to 3 helpers.
func BenchmarkCrew(b *testing.B) {
	for helpers := range 4 {
		b.Run(fmt.Sprint(helpers), func(b *testing.B) {
			x := newBench(b)
			if helpers > 0 {
				x.hire(helpers)
			}
			packet := packet4("10.0.0.1", "10.0.0.2", 1420)
			b.SetBytes(int64(len(packet) * 44))
			b.ReportAllocs()
			x.tx.mu.Lock()
			defer x.tx.mu.Unlock()
			for b.Loop() {
				for range 44 {
					x.read(packet)
				}
				x.flush(x.clock.Now())
			}
		})
	}
}
