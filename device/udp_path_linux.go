package device

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"wgd/noise"
)

// What is known of the way to a destination decides whether segments may be joined
// into one message (UDP_SEGMENT). Linux refuses
//
//	EMSGSIZE  segments longer than the route's MTU, which as datagrams would be
//	          fragmented and pass
//	EINVAL    the same before 6.14
//	EIO       on devices that compute no checksums, before 6.12, and where IPsec is
//
// and a change of the route may mend each.

const (
	pathSets = 16
	pathWays = 4

	// After this time it is tried again what was refused.
	pathRetry = 5 * time.Minute

	// As many destinations without a single success turn it off for the socket.
	maxRefusals = 4
)

// A path is what is known of one destination.
type path struct {
	addr  netip.Addr // invalid: a free place
	scope uint32
	used  noise.Instant

	limit int      // segments of this length and longer are not joined
	until deadline // then there is no limit any more
}

const noLimit = maxDatagram + 1

// A pathTable holds the destinations that were used last. It is bounded: who is pushed
// out of it is new when used again.
type pathTable struct {
	sets     [pathSets][pathWays]path
	refusals int  // destinations that refused all
	works    bool // a message of several segments went, once
}

var udpEpoch = time.Now()

// udpNow is the clock of paths. Unlike the device's it costs no system call on most
// machines.
func udpNow() noise.Instant { return noise.Instant(time.Since(udpEpoch)) + 1 }

// find returns the place of a destination.
func (t *pathTable) find(to *endpoint, now noise.Instant) *path {
	addr := to.addr.Addr()
	a := addr.As16()
	hash := (binary.BigEndian.Uint64(a[:8]) ^ binary.BigEndian.Uint64(a[8:])) * 0x9e3779b97f4a7c15 // 2⁶⁴/φ
	set := &t.sets[hash>>32%pathSets]
	p := &set[0]
	for i := range set {
		q := &set[i]
		if q.addr == addr && q.scope == to.scope {
			q.used = now
			if now >= q.until {
				q.limit = noLimit
			}
			return q
		}
		if q.used < p.used {
			p = q
		}
	}
	*p = path{addr: addr, scope: to.scope, used: now, limit: noLimit}
	return p
}

// mayJoin tells whether segments of this size may go together to where the send in
// hand goes.
func (s *udpWriter) mayJoin(size int) bool {
	if s.path == nil {
		s.path = s.paths.find(s.to, udpNow())
	}
	return size < s.path.limit
}

// blame is called when the first segment of a message that was refused went on its own.
func (s *udpWriter) blame() {
	errno := s.suspect
	s.suspect = 0
	if errno == unix.ENOBUFS || errno == unix.ENOMEM {
		return
	}
	p := s.path
	if p.limit == noLimit && errno != unix.EMSGSIZE && !s.paths.works {
		if s.paths.refusals++; s.paths.refusals == maxRefusals {
			s.noGSO = true
		}
	}
	p.limit = s.suspectSize
	if errno == unix.EIO {
		p.limit = 0
	}
	p.until = after(p.used, pathRetry)
}
