package device

import (
	"time"

	"wgd/noise"
)

// A pressure decides what to let go of when more comes than we can carry. The queues
// in front of us are the kernel's: first in first out, and full they drop what comes
// last, whosever it is. Left alone, one peer's load would make all wait as long as
// the queue is, and lose as much. So when a queue has not been empty for a while,
// messages of the peer that has most of it are dropped unsealed, or unopened, which
// costs a fraction of carrying them: one at first, which is what TCP needs to be told,
// and ever more as long as the queue stands, as CoDel does (RFC 8289).
//
// How long a queue has stood says less than how long its packets have waited, but
// costs nothing. Whoever owns the queue guards it.
type pressure struct {
	limit int // the highest level

	standing bool          // the last burst left something
	since    noise.Instant // when that began
	pressing bool          // it has been so for standingTime
	level    int           // of shares
	stepped  noise.Instant // when level changed
	chance   uint32        // decides on the messages in hand
	draws    int           // messages until it changes
	one      bool          // level 1 has had its message

	// The peer with the majority of the messages, if there is one: Boyer and Moore's
	// vote, taken while the queue stands among messages that were carried: what was let
	// go has no vote, or one of two equals would have nothing, nor has what anybody can
	// send.
	candidate *Peer
	votes     int
}

// standingTime is how long a queue may stand, and how long each level gets to help:
// more than a burst takes on the slowest CPU, and than a turn of other processes.
const standingTime = noise.Instant(20 * time.Millisecond)

// shares are the messages in ten thousand that each level drops. Level 1 is one
// message in all.
var shares = [...]int{0, 0, 40, 160, 625, 2500, 5000, 7500}

// To have read a packet from the interface only to drop it costs a quarter of carrying
// it, which is as much as can be spent on fairness; a datagram costs a tenth.
const (
	transmitLimit = 5
	receiveLimit  = 7
)

// tell is called after each burst; left: there is more.
func (q *pressure) tell(left bool, now noise.Instant) {
	if left && !q.standing {
		q.since = now
		q.candidate, q.votes = nil, 0
	}
	q.standing = left
	q.pressing = left && now-q.since >= standingTime
	if now-q.stepped < standingTime {
		return
	}
	switch {
	case q.pressing:
		q.level = min(q.level+1, q.limit)
	case !left && q.level > 0:
		q.level--
	default:
		return
	}
	q.stepped, q.one = now, false
}

// drop reports whether the message in hand, which belongs to p, is let go.
func (q *pressure) drop(p *Peer) bool {
	if !q.pressing || p != q.candidate {
		return false
	}
	if q.level == 1 {
		first := !q.one
		q.one = true
		return first
	}
	// By chance, for what comes in turns must not be hit in step. One at a time, which
	// TCP mends best; where that has not helped it is not TCP, and then several in a row:
	// of the fragments of a datagram none is of use without the others.
	if q.draws--; q.draws <= 0 || q.level < dropRunLevel {
		q.draws = dropRun
		q.chance = q.chance*1664525 + 1013904223
	}
	return int(q.chance>>16)*10000>>16 < shares[q.level]
}

// carried is told whose message was sealed, or was authentic; nil: it was forged.
func (q *pressure) carried(p *Peer) {
	switch {
	case !q.standing:
	case q.votes == 0:
		q.candidate, q.votes = p, 1
	case q.candidate == p:
		q.votes = min(q.votes+1, maxVotes)
	default:
		q.votes--
	}
}

// dropRun is how many messages share a fate from a level on: twice the fragments of
// 8 KiB.
const dropRun, dropRunLevel = 12, 5

// maxVotes bounds what a peer that is quiet now keeps from before.
const maxVotes = 1 << 10
