package device

import (
	"math/rand/v2"
	"testing"
	"time"

	"wgd/noise"
)

// Two peers share a queue of 500 messages. Carrying one takes 250 us, dropping one
// 25 us: a small router. Who sends moderately waits a moment and loses nothing, even
// when the other sends far more than can be carried.
func TestPressure(t *testing.T) {
	const carry, drop, room = 250, 25, 500 // us, us, messages
	for _, tt := range []struct {
		what    string
		flood   int           // messages a second of the one
		pressed bool          // messages of it were dropped
		loss    int           // of the other, percent at most after the first second
		wait    time.Duration // of the other, at most
		carried int           // messages a second of both, at least
	}{
		{"half the load", 1900, false, 0, 10 * time.Millisecond, 1900},
		{"a little too much", 4200, true, 0, 30 * time.Millisecond, 3800},
		{"twice", 8000, true, 0, 40 * time.Millisecond, 3300},
		{"five times", 20000, true, 50, 150 * time.Millisecond, 3000},
	} {
		type message struct {
			of *Peer
			at int
		}
		q := pressure{limit: receiveLimit}
		var queue []message
		one, other := &Peer{}, &Peer{}
		now, sent, sentOther, lost, carried := 0, 0, 0, 0, 0
		var worst int
		pressed := false
		arrive := func(p *Peer, at int) {
			if len(queue) < room {
				queue = append(queue, message{p, at})
			} else if p == other && at > 1e6 {
				lost++
			}
		}
		for now < 5e6 {
			for {
				at, atOther := int(int64(sent)*1e6/int64(tt.flood)), sentOther*1e4
				if min(at, atOther) > now {
					break
				}
				if at < atOther {
					sent++
					arrive(one, at)
				} else {
					sentOther++
					arrive(other, atOther)
				}
			}
			if len(queue) == 0 {
				now += 100
				q.tell(false, noise.Instant(now)*1000)
				continue
			}
			burst := min(len(queue), 40)
			for _, m := range queue[:burst] {
				if q.drop(m.of) {
					now += drop
					pressed = true
					if m.of == other && now > 1e6 {
						lost++
					}
					continue
				}
				q.carried(m.of)
				now += carry
				carried++
				if m.of == other && now > 1e6 {
					worst = max(worst, now-m.at)
				}
			}
			queue = queue[burst:]
			q.tell(len(queue) > 0, noise.Instant(now)*1000)
		}
		for range shares {
			now += int(standingTime / 1000)
			q.tell(false, noise.Instant(now)*1000)
		}
		if q.level != 0 {
			t.Errorf("%s: level %d after some time of peace", tt.what, q.level)
		}
		wait := time.Duration(worst) * time.Microsecond
		loss := lost * 100 / (sentOther * 4 / 5)
		t.Logf("%s: %d of %d of the other's lost, %v at worst, %d carried a second", tt.what, lost, sentOther, wait, carried/5)
		if pressed != tt.pressed || loss > tt.loss || wait > tt.wait || carried/5 < tt.carried {
			t.Errorf("%s: pressed %v, want %v; loss %d%%, at most %d%%; wait %v, at most %v; carried %d, at least %d", tt.what, pressed, tt.pressed, loss, tt.loss, wait, tt.wait, carried/5, tt.carried)
		}
	}
}

// Two peers that send the same lose the same, in whatever order it comes.
func TestPressureAmongEquals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		order string
		who   func(i int) int
	}{
		{"in turns", func(i int) int { return i % 2 }},
		{"in bursts", func(i int) int { return i / 40 % 2 }},
		{"at random", func(int) int { return r.IntN(2) }},
	} {
		q := pressure{limit: receiveLimit}
		peers := [2]*Peer{{}, {}}
		var dropped [2]int
		for i := range 400000 {
			if p := peers[tt.who(i)]; q.drop(p) {
				dropped[tt.who(i)]++
			} else {
				q.carried(p)
			}
			if i%40 == 39 {
				q.tell(true, noise.Instant(1e15)+noise.Instant(i/40)*1e6)
			}
		}
		if d := dropped[0] - dropped[1]; max(d, -d) > (dropped[0]+dropped[1])/20 || dropped[0] < 1000 {
			t.Errorf("%s: %v are dropped", tt.order, dropped)
		}
	}
}

// Fragments of a datagram mostly arrive together or not at all, wherever it begins.
func TestPressureOnFragments(t *testing.T) {
	for level := 5; level <= receiveLimit; level++ {
		q := pressure{limit: receiveLimit, level: level, pressing: true}
		whole, some := 0, 0
		const sent, fragments = 20000, 6
		for range sent {
			n := 0
			for range fragments {
				if !q.drop(nil) {
					n++
				}
			}
			some += n
			if n == fragments {
				whole++
			}
			q.drop(nil) // and something else
		}
		share := float64(10000-shares[level]) / 10000
		if got := float64(some) / (sent * fragments); got < share*0.9 || got > share*1.1 {
			t.Errorf("level %d: %.3f of all fragments arrive, want %.3f", level, got, share)
		}
		if got := float64(whole) / sent; got < share*0.6 {
			t.Errorf("level %d: %.3f of the datagrams arrive, of %.3f of the fragments", level, got, share)
		}
	}
}

// Who has seen a receiver index and floods with forgeries takes nothing from the peer
// whose it is.
func TestForgeriesDoNotPress(t *testing.T) {
	b := newBench(t)
	c := b.clock.(stoppedClock)
	q := &pressure{limit: receiveLimit}
	const rounds = 1000
	for i := range rounds {
		b.clock = stoppedClock{c.fakeClock, noise.Instant(1e15) + noise.Instant(i)*1e6}
		var burst []datagram
		for j := range 40 {
			m := b.sealed(packet4("10.0.0.2", "10.0.0.1", 100))
			if j != 17 {
				m[30] ^= 1
			}
			burst = append(burst, datagram{data: m, from: b.from})
		}
		b.received(burst, true, q)
	}
	if b.tun.packets != rounds || !q.pressing {
		t.Errorf("%d of %d authentic messages arrived, pressing %v", b.tun.packets, rounds, q.pressing)
	}
}
