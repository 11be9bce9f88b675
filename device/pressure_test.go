package device

import (
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
		{"five times", 20000, true, 40, 150 * time.Millisecond, 3000},
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
				at, atOther := sent*1e6/tt.flood, sentOther*1e6/100
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
