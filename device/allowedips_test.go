package device

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

// naiveLookup is what the table must agree with.
func naiveLookup(entries []allowedEntry, addr netip.Addr) *Peer {
	var best *Peer
	bits := -1
	for _, e := range entries {
		if e.prefix.Contains(addr) && e.prefix.Bits() >= bits {
			best, bits = e.peer, e.prefix.Bits()
		}
	}
	return best
}

func lookupAddr(t *allowedIPs, addr netip.Addr) *Peer {
	if addr.Is4() {
		a := addr.As4()
		return t.lookup4(binary.BigEndian.Uint32(a[:]))
	}
	a := addr.As16()
	return t.lookup6(binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:]))
}

// compare looks at both ends of every prefix, at their neighbours, and at the
// ends of the address range.
func compareWithNaive(t *testing.T, entries []allowedEntry, more ...netip.Addr) {
	t.Helper()
	table := newAllowedIPs(entries)
	probes := append(more, netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{255, 255, 255, 255}), netip.IPv6Unspecified(),
		netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"))
	for _, e := range entries {
		first, last := e.prefix.Masked().Addr(), lastAddr(e.prefix.Masked())
		probes = append(probes, first, last, first.Prev(), last.Next())
	}
	for _, a := range probes {
		if !a.IsValid() {
			continue
		}
		if got, want := lookupAddr(table, a), naiveLookup(entries, a); got != want {
			t.Fatalf("%v: got peer %p, want %p of %v", a, got, want, entries)
		}
	}
}

func TestAllowedIPs(t *testing.T) {
	peers := make([]*Peer, 8)
	for i := range peers {
		peers[i] = new(Peer)
	}
	for _, tt := range []struct {
		name     string
		prefixes []string // each of another peer
	}{
		{"nothing", nil},
		{"everything", []string{"0.0.0.0/0", "::/0"}},
		{"first and last host", []string{"0.0.0.0/32", "255.255.255.255/32", "::/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"}},
		{"same first address", []string{"0.0.0.0/0", "0.0.0.0/8", "0.0.0.0/32", "::/0", "::/1", "::/64", "::/128"}},
		{"same last address", []string{"128.0.0.0/1", "255.0.0.0/8", "255.255.255.255/32", "8000::/1", "ffff:ffff:ffff:ffff::/64", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"}},
		{"neighbours", []string{"10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/24", "fd00::/65", "fd00:0:0:0:8000::/65", "fd00:0:0:1::/64"}},
		{"a hole inside", []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.1.1/32"}},
		{"IPv4-mapped is IPv6", []string{"::ffff:1.2.3.4/128", "1.2.3.4/32"}},
		{"host bits set", []string{"10.1.2.3/8", "fd00::1/16"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var entries []allowedEntry
			for i, p := range tt.prefixes {
				entries = append(entries, allowedEntry{netip.MustParsePrefix(p), peers[i]})
			}
			compareWithNaive(t, entries)
		})
	}

	var none *allowedIPs
	if none.lookup4(0) != nil || none.lookup6(0, 0) != nil {
		t.Error("a nil table has an answer")
	}
}

func TestAllowedIPsLaterEntryOfOnePrefixCounts(t *testing.T) {
	a, b := new(Peer), new(Peer)
	p := netip.MustParsePrefix("10.0.0.0/8")
	if got := newAllowedIPs([]allowedEntry{{p, a}, {p, b}}).lookup4(10 << 24); got != b {
		t.Error("the earlier entry won")
	}
}

func TestAllowedIPsRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		entries := randomEntries(rng, 40)
		var probes []netip.Addr
		for range 100 {
			probes = append(probes, randomAddr(rng))
		}
		compareWithNaive(t, entries, probes...)
	}
}

// randomAddr has few bits set, so that prefixes nest.
func randomAddr(rng *rand.Rand) netip.Addr {
	var a [16]byte
	for range rng.IntN(5) {
		a[rng.IntN(16)] = byte(rng.Uint32())
	}
	if rng.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte(a[:4]))
	}
	return netip.AddrFrom16(a)
}

func randomEntries(rng *rand.Rand, n int) []allowedEntry {
	peers := make([]Peer, 5)
	seen := map[netip.Prefix]bool{}
	var entries []allowedEntry
	for range n {
		a := randomAddr(rng)
		p := netip.PrefixFrom(a, rng.IntN(a.BitLen()+1)).Masked()
		if !seen[p] {
			seen[p] = true
			entries = append(entries, allowedEntry{p, &peers[rng.IntN(len(peers))]})
		}
	}
	return entries
}

// hostEntries are n separate /32, the worst case of memory: a gap after each.
func hostEntries(n int) []allowedEntry {
	peers := make([]Peer, n)
	entries := make([]allowedEntry, n)
	for i := range entries {
		a := binary.BigEndian.AppendUint32(nil, 10<<24|uint32(i)*2)
		entries[i] = allowedEntry{netip.PrefixFrom(netip.AddrFrom4([4]byte(a)), 32), &peers[i]}
	}
	return entries
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAllowedIPsMemory(t *testing.T) {
	const n = 20_000
	entries := hostEntries(n)
	before := heapInUse()
	begin := time.Now()
	table := newAllowedIPs(entries)
	took := time.Since(begin)
	if each := float64(heapInUse()-before) / n; each > 32 {
		t.Errorf("%.1f bytes a prefix, want at most 32", each)
	}
	t.Logf("%d prefixes built in %v", n, took)
	if table.lookup4(10<<24) != entries[0].peer || table.lookup4(10<<24|1) != nil {
		t.Error("wrong peer")
	}

	// Whatever was inserted and removed, nothing stays.
	for i := range 50 {
		table = newAllowedIPs(entries[:n-i*(n/50)])
	}
	table = newAllowedIPs(nil)
	if left := heapInUse() - before; left > 16<<10 {
		t.Errorf("%d bytes left after all prefixes were removed", left)
	}
	runtime.KeepAlive(table)
	runtime.KeepAlive(entries)
}

func FuzzAllowedIPs(f *testing.F) {
	// Each entry: peer and family, prefix length, address.
	f.Add([]byte{0, 8, 10, 0, 0, 0, 2, 16, 10, 1, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		peers := make([]Peer, 4)
		var entries []allowedEntry
		for len(entries) < 64 && len(in) >= 18 {
			p := &peers[in[0]>>1&3]
			if in[0]&1 == 0 {
				entries = append(entries, allowedEntry{netip.PrefixFrom(netip.AddrFrom4([4]byte(in[2:6])), int(in[1])%33), p})
				in = in[6:]
			} else {
				entries = append(entries, allowedEntry{netip.PrefixFrom(netip.AddrFrom16([16]byte(in[2:18])), int(in[1])%129), p})
				in = in[18:]
			}
		}
		compareWithNaive(t, entries)
	})
}

func BenchmarkAllowedIPsLookup4(b *testing.B) {
	table := newAllowedIPs(hostEntries(20_000))
	for i := 0; b.Loop(); i++ {
		table.lookup4(10<<24 | uint32(i)%40_000)
	}
}

func BenchmarkAllowedIPsBuild20k(b *testing.B) {
	entries := hostEntries(20_000)
	for b.Loop() {
		newAllowedIPs(entries)
	}
}
