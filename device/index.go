package device

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"wgd/noise"
)

// An indexEntry says what a receiver index stands for. It is immutable.
type indexEntry struct {
	index   uint32
	peer    *Peer
	keypair *noise.Keypair // nil: a handshake under way
}

// An indexTable maps the receiver indices that we gave out to peer and keypair.
// lookup takes no lock and sees a change as soon as the writer's call returns.
// Indices exist while a handshake or a session does, so an idle peer costs
// nothing. The zero value is empty and ready.
type indexTable struct {
	slots atomic.Pointer[indexSlots] // nil: empty

	mu   sync.Mutex // a leaf; guards writes to slots and below
	live int        // entries
	used int        // entries and the marks of removed ones
}

// indexSlots is an open hash table, linear probing, its length a power of two.
// An index is random, so its low bits are the hash. At least a quarter of the
// slots is nil, which ends every search.
type indexSlots []atomic.Pointer[indexEntry]

const minIndexSlots = 8

// removedIndex marks a slot whose entry was removed: a search goes on past it.
var removedIndex = new(indexEntry)

// find returns the slot of index, or the free one that ends the search.
func (s indexSlots) find(index uint32) (slot *atomic.Pointer[indexEntry], e *indexEntry) {
	for i := index; ; i++ {
		slot = &s[i&uint32(len(s)-1)]
		e = slot.Load()
		if e == nil || e.index == index && e != removedIndex {
			return slot, e
		}
	}
}

// lookup returns what index stands for, nil if nothing.
func (t *indexTable) lookup(index uint32) *indexEntry {
	s := t.slots.Load()
	if s == nil {
		return nil
	}
	_, e := s.find(index)
	return e
}

// add gives out a new index, drawn from rand.
func (t *indexTable) add(peer *Peer, keypair *noise.Keypair, rand io.Reader) (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fit(t.live + 1)
	for range 64 { // the second draw is as good as never needed
		var b [4]byte
		if _, err := io.ReadFull(rand, b[:]); err != nil {
			return 0, err
		}
		index := binary.LittleEndian.Uint32(b[:])
		slot, e := t.slots.Load().find(index)
		if e != nil {
			continue
		}
		slot.Store(&indexEntry{index, peer, keypair})
		t.live++
		t.used++
		return index, nil
	}
	return 0, errors.New("random source repeats itself")
}

// attach gives the handshake at index its keypair. It reports false if the
// index was removed meanwhile.
func (t *indexTable) attach(index uint32, keypair *noise.Keypair) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.slots.Load()
	if s == nil {
		return false
	}
	slot, e := s.find(index)
	if e == nil {
		return false
	}
	slot.Store(&indexEntry{index, e.peer, keypair})
	return true
}

// remove takes an index back. One that is not there is none's loss.
func (t *indexTable) remove(index uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.slots.Load()
	if s == nil {
		return
	}
	slot, e := s.find(index)
	if e == nil {
		return
	}
	slot.Store(removedIndex)
	t.live--
	t.fit(t.live)
}

// fit makes room for n entries, and gives room back when most of it is unused.
func (t *indexTable) fit(n int) {
	var old indexSlots
	if s := t.slots.Load(); s != nil {
		old = *s
	}
	if n == 0 {
		t.slots.Store(nil)
		t.used = 0
		return
	}
	full := 4*(t.used+n-t.live) > 3*len(old)
	sparse := 8*n < len(old) && len(old) > minIndexSlots
	if !full && !sparse {
		return
	}
	size := minIndexSlots
	for size < 2*n {
		size *= 2
	}
	// Readers go on in the old slots until the new ones are complete.
	slots := make(indexSlots, size)
	for i := range old {
		if e := old[i].Load(); e != nil && e != removedIndex {
			slot, _ := slots.find(e.index)
			slot.Store(e)
		}
	}
	t.used = t.live
	t.slots.Store(&slots)
}
