package device

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"wgd/noise"
)

const second = noise.Instant(time.Second)

func TestRateLimiter(t *testing.T) {
	const ms = second / 1000
	type step struct {
		at   noise.Instant
		src  string
		want bool
	}
	burst := func(at noise.Instant, src string) (steps []step) {
		for range handshakeBurst {
			steps = append(steps, step{at, src, true})
		}
		return append(steps, step{at, src, false})
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"a burst of five, then none", burst(second, "192.0.2.1")},
		{"one more every 50 ms", append(burst(second, "192.0.2.1"),
			step{second + 49*ms, "192.0.2.1", false},
			step{second + 50*ms, "192.0.2.1", true},
			step{second + 50*ms, "192.0.2.1", false},
			step{second + 100*ms, "192.0.2.1", true})},
		{"full again after 250 ms and not fuller later", append(burst(second, "192.0.2.1"),
			burst(3600*second, "192.0.2.1")...)},
		{"a refusal costs nothing", append(burst(second, "192.0.2.1"),
			step{second + 10*ms, "192.0.2.1", false},
			step{second + 20*ms, "192.0.2.1", false},
			step{second + 50*ms, "192.0.2.1", true})},
		{"each IPv4 address has its own", append(burst(second, "192.0.2.1"),
			burst(second, "192.0.2.2")...)},
		{"an IPv6 /64 shares one", append(burst(second, "2001:db8::1"),
			step{second, "2001:db8::2", false},
			step{second, "2001:db8::ffff:ffff:ffff:ffff", false})},
		{"each /64 has its own", append(burst(second, "2001:db8:0:1::1"),
			burst(second, "2001:db8:0:2::1")...)},
		{"IPv4 written as IPv6 is IPv4", append(burst(second, "192.0.2.1"),
			step{second, "::ffff:192.0.2.1", false},
			step{second, "::ffff:192.0.2.2", true})},
		{"at the first instant of the clock", burst(0, "192.0.2.1")},
		{"a clock that went back locks nobody out", append(burst(3600*second, "192.0.2.1"),
			step{second, "192.0.2.1", false},
			step{second + 50*ms, "192.0.2.1", true})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r rateLimiter
			for i, st := range tt.steps {
				if got := r.allow(netip.MustParseAddr(st.src), st.at); got != st.want {
					t.Fatalf("step %d at %v from %s: got %v, want %v", i, time.Duration(st.at), st.src, got, st.want)
				}
			}
		})
	}
}

func source4(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i))))
}

func TestRateLimiterOneFloodHurtsNobodyElse(t *testing.T) {
	var r rateLimiter
	served := 0
	for i := range 10_000 { // ten seconds
		now := second + noise.Instant(i)*second/1000
		if r.allow(source4(0), now) {
			served++
		}
		if i%100 == 0 && !r.allow(source4(1), now) {
			t.Fatalf("the quiet source was refused at %v", time.Duration(now))
		}
	}
	if want := 10*handshakesPerSecond + handshakeBurst; served < want-1 || served > want {
		t.Errorf("%d messages of the flood served, want %d", served, want)
	}
}

func TestRateLimiterForgetsTheFullest(t *testing.T) {
	var r rateLimiter
	now := second
	busy := source4(0)
	for r.allow(busy, now) {
	}
	// Many more sources than buckets, each with one message; the emptied bucket
	// is always the last to be given up.
	for i := range 4 * rateSets * rateWays {
		if !r.allow(source4(1+i), now) {
			t.Fatalf("source %d: its first message was refused", i)
		}
	}
	if r.allow(busy, now) {
		t.Error("the busy source got a new bucket")
	}
}

func TestRateLimiterKeepsManySources(t *testing.T) {
	var r rateLimiter
	const sources = 256
	served := make([]int, sources)
	for i := range 16 * sources {
		if r.allow(source4(i%sources), second) {
			served[i%sources]++
		}
	}
	for i, n := range served {
		if n != handshakeBurst {
			t.Errorf("source %d: %d messages served, want %d", i, n, handshakeBurst)
		}
	}
}

func TestRateLimiterRelease(t *testing.T) {
	var r rateLimiter
	for r.allow(source4(0), second) {
	}
	r.release(second + handshakeBurst*handshakeCost - 1)
	if r.allow(source4(0), second) {
		t.Error("released while a bucket was not full")
	}
	r.release(second + handshakeBurst*handshakeCost)
	if r.sets != nil {
		t.Error("not released when all were full")
	}
	if !r.allow(source4(0), 2*second) {
		t.Error("refused after release")
	}
}

func TestRateLimiterDoesNotAllocate(t *testing.T) {
	var r rateLimiter
	r.allow(source4(0), second)
	src := source4(1)
	if n := testing.AllocsPerRun(100, func() { r.allow(src, second) }); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}
