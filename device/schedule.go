package device

import (
	"container/heap"
	"sync"

	"wgd/noise"
)

// A schedule knows when each peer's timers must be looked at: a heap of the peers
// that have any armed, so that idle ones cost nothing. Its lock is a leaf.
type schedule struct {
	mu    sync.Mutex
	peers peerHeap
}

// set makes sure that p is looked at no later than at. It reports whether that is
// now the earliest instant of all, so that the alarm must be set.
func (s *schedule) set(p *Peer, at deadline) (earliest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.heapPos < 0:
		p.heapAt = at
		heap.Push(&s.peers, p)
	case at < p.heapAt:
		p.heapAt = at
		heap.Fix(&s.peers, p.heapPos)
	}
	return s.peers[0] == p
}

// remove forgets p.
func (s *schedule) remove(p *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.heapPos >= 0 {
		heap.Remove(&s.peers, p.heapPos)
	}
}

// pop takes out a peer that is due; nil: none is.
func (s *schedule) pop(now noise.Instant) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.peers) == 0 || s.peers[0].heapAt > now {
		return nil
	}
	return heap.Pop(&s.peers).(*Peer)
}

// first returns the earliest instant, or 0.
func (s *schedule) first() deadline {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.peers) == 0 {
		return 0
	}
	return s.peers[0].heapAt
}

// peerHeap is ordered by Peer.heapAt; a peer that is not in it has heapPos -1.
type peerHeap []*Peer

func (h peerHeap) Len() int           { return len(h) }
func (h peerHeap) Less(i, j int) bool { return h[i].heapAt < h[j].heapAt }
func (h peerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapPos, h[j].heapPos = i, j
}

func (h *peerHeap) Push(x any) {
	p := x.(*Peer)
	p.heapPos = len(*h)
	*h = append(*h, p)
}

func (h *peerHeap) Pop() any {
	old := *h
	n := len(old) - 1
	p := old[n]
	old[n] = nil
	*h = old[:n]
	p.heapPos = -1
	return p
}
