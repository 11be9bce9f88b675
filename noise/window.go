package noise

// The replay window is a ring of bits, RFC 6479: the word that the highest counter
// is in moves round, and words are cleared as it enters them. Words of 32 bits, as
// our first targets have no others. The oldest word is shared with the newest, so
// WindowSize counters can be told apart.
const (
	wordBits    = 32
	windowWords = 8192 / wordBits
	WindowSize  = (windowWords - 1) * wordBits // 8160
)

// A Window remembers which counters came. The zero value has seen none.
type Window struct {
	next uint64 // the highest counter seen, plus 1
	ring [windowWords]uint32
}

// Update reports whether counter is new, and remembers it. Counters from
// RejectAfterMessages on are refused, and those too old to be told apart.
func (w *Window) Update(counter uint64) bool {
	if counter >= RejectAfterMessages {
		return false
	}
	word := counter / wordBits
	if counter >= w.next {
		// Clear the words between the one that the highest counter was in and
		// ours: at most one round.
		if w.next > 0 {
			last := (w.next - 1) / wordBits
			for n := min(word-last, windowWords); n > 0; n-- {
				last++
				w.ring[last%windowWords] = 0
			}
		}
		w.next = counter + 1
	} else if w.next-counter > WindowSize {
		return false
	}
	seen, bit := &w.ring[word%windowWords], uint32(1)<<(counter%wordBits)
	if *seen&bit != 0 {
		return false
	}
	*seen |= bit
	return true
}
