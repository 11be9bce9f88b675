package device

import (
	"encoding/base64"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"wgd/noise"
	"wgd/tun"
)

// A Peer is one remote WireGuard node.
//
// Lock order: see Device. Nothing is sent, computed or logged under Peer.mu.
type Peer struct {
	public noise.PublicKey // immutable after newPeer

	mu       sync.Mutex
	remote   noise.Remote    // guarded by mu, like all down to keypairs
	epoch    uint32          // counts what invalidates a handshake under way: identity, PSK, down, removal
	running  bool            // the interface is up and the peer not removed
	endpoint endpoint        // learned from the last authenticated datagram
	timers   timers          // deadlines
	armed    deadline        // when the schedule will look at timers; 0: never
	staged   stagedPackets   // waiting for a keypair
	cookies  noise.CookieJar // for mac2
	stamps   noise.TimestampClock

	initiation    noise.Handshake // ours, until the response
	lastTimestamp noise.Timestamp // greatest in an initiation from the peer: §5.1
	lastConsumed  noise.Instant   // when that came
	lastHandshake time.Time       // wall clock; zero: never

	keypairs noise.Keypairs // written under mu, current read without

	// UDP payload bytes, handshakes included. 32-bit MIPS and ARM have no cheap
	// 64-bit atomics: each path adds once per burst, not once per packet.
	rxBytes, txBytes atomic.Uint64

	asked asked // guarded by initiations.mu

	heapAt  deadline // guarded by schedule.mu
	heapPos int      // guarded by schedule.mu

	allowed []netip.Prefix // guarded by Device.mu, like those below; in order of insertion
	changed bool           // allowed has entries that are not the peer's any more
	removed bool
}

func newPeer(public noise.PublicKey) *Peer {
	return &Peer{public: public, remote: noise.NewRemote(public, noise.PresharedKey{}), heapPos: -1}
}

// String is how logs name a peer: the ends of its public key.
func (p *Peer) String() string {
	s := base64.StdEncoding.EncodeToString(p.public[:])
	return "peer " + s[:4] + "…" + s[len(s)-5:len(s)-1]
}

// reschedule tells the schedule about new deadlines. It is called with mu held after
// timers has changed. Deadlines mostly move to later: then the schedule's look is
// early, and cheap. True: the alarm must be set, after mu is released.
func (p *Peer) reschedule(s *schedule) bool {
	next := p.timers.next()
	if next == 0 || p.armed != 0 && p.armed <= next {
		return false
	}
	p.armed = next
	return s.set(p, next)
}

// maxStaged is how many packets wait for one peer's handshake.
const maxStaged = 128

// stagedPackets is a queue of copies of packets, bounded by maxStaged and by the
// device's stagedBytes: the oldest gives way. A queue is never longer than what it
// leaves for others, so that peers that do not answer cannot take it all: n of them get
// 1/(n+1) each.
type stagedPackets struct {
	ring  [][]byte // grows up to maxStaged
	first int
	n     int
	bytes int32
}

// push appends a copy of packet, with room for its padding. budget is what the device has left in bytes.
func (q *stagedPackets) push(packet []byte, budget *atomic.Int32) {
	size := int32(len(packet))
	for q.n == maxStaged || q.n > 0 && budget.Load() < q.bytes+2*size {
		q.drop(budget)
	}
	if budget.Add(-size) < 0 {
		budget.Add(size)
		return // other peers have it all
	}
	if q.n == len(q.ring) {
		ring := make([][]byte, min(max(2*q.n, 4), maxStaged))
		for i := range q.n {
			ring[i] = q.ring[(q.first+i)%len(q.ring)]
		}
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.n)%len(q.ring)] = append(make([]byte, 0, len(packet)+tun.MaxPadding), packet...)
	q.n++
	q.bytes += size
}

// pop takes out the oldest packet; nil: there is none.
func (q *stagedPackets) pop(budget *atomic.Int32) []byte {
	if q.n == 0 {
		return nil
	}
	packet := q.ring[q.first]
	q.drop(budget)
	if q.n == 0 {
		*q = stagedPackets{}
	}
	return packet
}

// unpop puts back what pop has just returned.
func (q *stagedPackets) unpop(packet []byte, budget *atomic.Int32) {
	if q.n == 0 {
		q.push(packet, budget)
		return
	}
	budget.Add(-int32(len(packet)))
	q.bytes += int32(len(packet))
	q.first = (q.first + len(q.ring) - 1) % len(q.ring)
	q.ring[q.first] = packet
	q.n++
}

func (q *stagedPackets) drop(budget *atomic.Int32) {
	size := int32(len(q.ring[q.first]))
	budget.Add(size)
	q.bytes -= size
	q.ring[q.first] = nil
	q.first = (q.first + 1) % len(q.ring)
	q.n--
}

func (q *stagedPackets) clear(budget *atomic.Int32) {
	for q.n > 0 {
		q.drop(budget)
	}
	*q = stagedPackets{}
}
