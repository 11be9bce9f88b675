package device

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// An allowedEntry says that a prefix belongs to a peer.
type allowedEntry struct {
	prefix netip.Prefix
	peer   *Peer
}

// allowedIPs finds the peer with the longest prefix that holds an address. It
// is immutable: the packet path reads it through an atomic pointer and a new
// one takes its place when the configuration changes. A nil table is empty.
//
// The prefixes are flattened: between two starts every address has the same
// answer, so a lookup is one binary search over words that lie side by side,
// and a prefix costs at most two spans (24 bytes for IPv4, 48 for IPv6).
type allowedIPs struct {
	starts4 []uint32
	peers4  []*Peer // peers4[i] owns starts4[i] to starts4[i+1]-1; nil: nobody does

	starts6 []addr6
	peers6  []*Peer
}

// An addr6 is an IPv6 address as two words in host order.
type addr6 struct{ hi, lo uint64 }

// newAllowedIPs builds the table. Of two entries with one prefix the later counts.
func newAllowedIPs(entries []allowedEntry) *allowedIPs {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].prefix = entries[i].prefix.Masked()
	}
	// A prefix comes before those inside it, IPv4 before IPv6.
	slices.SortStableFunc(entries, func(a, b allowedEntry) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		return a.prefix.Bits() - b.prefix.Bits()
	})

	var s spans
	var open []allowedEntry // the prefixes around the current one, outermost first
	leave := func() {
		end := lastAddr(open[len(open)-1].prefix).Next()
		open = open[:len(open)-1]
		if !end.IsValid() {
			return // ended with the address range
		}
		if len(open) > 0 {
			s.add(end, open[len(open)-1].peer)
		} else {
			s.add(end, nil)
		}
	}
	for _, e := range entries {
		for len(open) > 0 && !open[len(open)-1].prefix.Contains(e.prefix.Addr()) {
			leave()
		}
		s.add(e.prefix.Addr(), e.peer)
		open = append(open, e)
	}
	for len(open) > 0 {
		leave()
	}
	return s.table()
}

// lookup4 returns the peer that owns an IPv4 address, nil if there is none.
func (t *allowedIPs) lookup4(addr uint32) *Peer {
	if t == nil {
		return nil
	}
	// The answer is the last start that is not after addr.
	lo, hi := 0, len(t.starts4)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if t.starts4[mid] <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	return t.peers4[lo-1]
}

// lookup6 returns the peer that owns an IPv6 address, nil if there is none.
func (t *allowedIPs) lookup6(hiWord, loWord uint64) *Peer {
	if t == nil {
		return nil
	}
	lo, hi := 0, len(t.starts6)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if s := &t.starts6[mid]; s.hi < hiWord || s.hi == hiWord && s.lo <= loWord {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	return t.peers6[lo-1]
}

// A span begins at an address and lasts until the next span.
type span struct {
	start netip.Addr
	peer  *Peer
}

// spans are in ascending order and each has another peer than the one before.
type spans struct{ v4, v6 []span }

// add begins a span at start, which is not before the last one.
func (s *spans) add(start netip.Addr, peer *Peer) {
	list := &s.v6
	if start.Is4() {
		list = &s.v4
	}
	// A longer prefix that begins or ends at the same place has the last word.
	if n := len(*list); n > 0 && (*list)[n-1].start == start {
		*list = (*list)[:n-1]
	}
	var before *Peer
	if n := len(*list); n > 0 {
		before = (*list)[n-1].peer
	}
	if peer != before {
		*list = append(*list, span{start, peer})
	}
}

func (s *spans) table() *allowedIPs {
	t := &allowedIPs{
		starts4: make([]uint32, len(s.v4)),
		peers4:  make([]*Peer, len(s.v4)),
		starts6: make([]addr6, len(s.v6)),
		peers6:  make([]*Peer, len(s.v6)),
	}
	for i, sp := range s.v4 {
		a := sp.start.As4()
		t.starts4[i], t.peers4[i] = binary.BigEndian.Uint32(a[:]), sp.peer
	}
	for i, sp := range s.v6 {
		a := sp.start.As16()
		t.starts6[i] = addr6{binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])}
		t.peers6[i] = sp.peer
	}
	return t
}

// lastAddr returns the highest address of a masked prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	if p.Addr().Is4() {
		a := p.Addr().As4()
		setHostBits(a[:], p.Bits())
		return netip.AddrFrom4(a)
	}
	a := p.Addr().As16()
	setHostBits(a[:], p.Bits())
	return netip.AddrFrom16(a)
}

// setHostBits sets every bit of a after the first n.
func setHostBits(a []byte, n int) {
	for i := n / 8; i < len(a); i++ {
		a[i] |= byte(0xff >> max(0, n-8*i))
	}
}
