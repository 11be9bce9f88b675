package device

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"wgd/noise"
)

// Handshake messages served for one source, the kernel's figures.
const (
	handshakesPerSecond = 20
	handshakeBurst      = 5

	handshakeCost = noise.Instant(time.Second / handshakesPerSecond)
)

// The table of sources: 2,048 buckets, 32 KiB while in use.
const (
	rateSets = 256
	rateWays = 8
)

// A rateLimiter is a token bucket for each source: an IPv4 address, or the /64
// of an IPv6 address. Its memory is fixed; a source can only take the place of
// others that hash to the same set, and the hash is keyed, so nobody can aim.
// The zero value is ready. Instants are not negative.
type rateLimiter struct {
	burst int // messages at once; 0: handshakeBurst

	mu       sync.Mutex // a leaf
	seed     maphash.Seed
	sets     *[rateSets][rateWays]rateBucket // nil: every bucket is full
	lastFull noise.Instant                   // when the last of them will be full again
}

// A rateBucket holds its level as the instant at which it is full again; each
// message moves that by handshakeCost. An unused one was always full.
type rateBucket struct {
	source uint64
	full   noise.Instant
}

// allow takes one token of src and reports whether there was one.
func (r *rateLimiter) allow(src netip.Addr, now noise.Instant) bool {
	source := rateSource(src)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sets == nil {
		r.sets = new([rateSets][rateWays]rateBucket)
		r.seed = maphash.MakeSeed()
	}

	// The fullest bucket is given up when the source has none: what it forgets
	// is the least, and nothing at all if it is full.
	set := &r.sets[maphash.Comparable(r.seed, source)%rateSets]
	b := &set[0]
	for i := range set {
		if set[i].source == source {
			b = &set[i]
			break
		}
		if set[i].full < b.full {
			b = &set[i]
		}
	}
	if b.source != source {
		*b = rateBucket{source: source}
	}

	burst := noise.Instant(handshakeBurst)
	if r.burst != 0 {
		burst = noise.Instant(r.burst)
	}
	// No bucket is emptier than empty, also if the clock went back.
	b.full = min(max(b.full, now), now+burst*handshakeCost)
	if b.full > now+(burst-1)*handshakeCost {
		return false
	}
	b.full += handshakeCost
	r.lastFull = max(r.lastFull, b.full)
	return true
}

// release gives the memory back if every bucket is full.
func (r *rateLimiter) release(now noise.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now >= r.lastFull {
		r.sets = nil
	}
}

// rateSource maps a source to one word. IPv4 addresses go where the multicast
// prefixes ffff::/16 are, which are never a source.
func rateSource(src netip.Addr) uint64 {
	if src = src.Unmap(); src.Is4() {
		a := src.As4()
		return 0xffff<<48 | uint64(binary.BigEndian.Uint32(a[:]))
	}
	a := src.As16()
	return binary.BigEndian.Uint64(a[:8])
}
