package device

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wgd/internal/rtnl"
	"wgd/noise"
)

// What is known of the way to a destination decides whether segments may be joined
// into one message (UDP_SEGMENT). Linux refuses
//
//	EMSGSIZE  segments longer than the route's MTU, which as datagrams would be
//	          fragmented and pass
//	EINVAL    the same in older kernels
//	EIO       on devices that compute no checksums, in older kernels, and where
//	          IPsec is
//
// and a change of the route may mend each. Over PPP it refuses nothing, but some 50 kB/s
// are all that arrives with some kernels (6.6.47 to 6.18.10 at least, openwrt#17855):
// nothing is joined there.

const (
	pathSets = 64
	pathWays = 4

	// After this time it is tried again what was refused.
	pathRetry = 5 * time.Minute

	// After this time the route is looked up again.
	pathFresh = 30 * time.Second

	// As many destinations without a single success turn it off for the socket.
	maxRefusals = 4

	// Between two lines of the log about destinations.
	pathQuiet = 10 * time.Second
)

// A path is what is known of one destination.
type path struct {
	addr  netip.Addr // invalid: a free place
	scope uint32
	used  noise.Instant

	looked bool     // the route was looked up
	told   bool     // a refusal was logged
	ppp    bool     // it leaves by a PPP device
	device int32    // by that with this index; 0: not known
	mtu    int32    // of the route, or of that device; 0: not known
	limit  int32    // segments of this length and longer are not joined
	until  deadline // then there is no limit any more
	stale  deadline // then the route is looked up again
}

const noLimit = maxDatagram + 1

// A pathTable holds the destinations that were used last. It is bounded: who is pushed
// out of it is new when used again.
type pathTable struct {
	sets     [pathSets][pathWays]path
	refusals int      // destinations that refused all
	works    bool     // a message of several segments went, once
	quiet    deadline // until when no refusal is logged

	routes  *rtnl.Conn  // nil: nothing is looked up
	looking bool        // a goroutine uses routes
	closed  bool        // routes is to be closed, or is
	lookups tokenBucket // of look-ups
}

var udpEpoch = time.Now()

// udpNow is the clock of paths. Unlike the device's it costs no system call on most
// machines.
func udpNow() noise.Instant { return noise.Instant(time.Since(udpEpoch)) + 1 }

// find returns the place of a destination, or one that may be used for it.
func (t *pathTable) find(addr netip.Addr, scope uint32) *path {
	a := addr.As16()
	hash := (binary.BigEndian.Uint64(a[:8]) ^ binary.BigEndian.Uint64(a[8:])) * 0x9e3779b97f4a7c15 // 2⁶⁴/φ
	set := &t.sets[hash>>32%pathSets]
	p := &set[0]
	for i := range set {
		q := &set[i]
		if q.is(addr, scope) {
			return q
		}
		if q.used < p.used {
			p = q
		}
	}
	return p
}

func (p *path) is(addr netip.Addr, scope uint32) bool { return p.addr == addr && p.scope == scope }

// mayJoin tells whether segments of this size may go together to where the send in
// hand goes.
func (s *udpWriter) mayJoin(size int) bool {
	if s.path == nil {
		s.path = s.choosePath(s.now())
	}
	return s.path.looked && !s.path.ppp && size < int(s.path.limit)
}

// choosePath returns what is known of the destination in hand, and has its route
// looked up if that was never done or long ago. Until it is, nothing is joined.
func (s *udpWriter) choosePath(now noise.Instant) *path {
	t := &s.paths
	addr, scope := s.to.addr.Addr(), s.to.scope
	p := t.find(addr, scope)
	if !p.is(addr, scope) {
		*p = path{addr: addr, scope: scope, limit: noLimit, looked: t.routes == nil}
	}
	p.used = now
	if now >= p.until {
		p.limit = noLimit
	}
	if now >= p.stale && t.routes != nil && !t.looking && !t.closed && t.lookups.allow(now) {
		t.looking = true
		// Netlink may wait for whoever changes an interface: not here.
		go s.lookUp(*s.to, s.mark)
	}
	return p
}

// lookUp sees by which kind of device an endpoint is reached.
func (s *udpWriter) lookUp(to endpoint, mark uint32) {
	t := &s.paths
	r := lookUpRoute(t.routes, &to, mark)
	s.mu.Lock()
	t.looking = false
	if t.closed {
		t.routes.Close()
	}
	p := t.find(to.addr.Addr(), to.scope)
	news := false
	if p.is(to.addr.Addr(), to.scope) {
		news = r.ppp && !p.ppp
		if r.device != p.device || r.mtu > p.mtu {
			p.limit = noLimit // that was another's
		}
		// Without an answer there is no reason to fear anything.
		p.looked, p.device, p.mtu, p.ppp, p.stale = true, r.device, r.mtu, r.ppp, after(s.now(), pathFresh)
	}
	s.mu.Unlock()
	if news {
		s.log.Verbosef("%v is reached by PPP: UDP_SEGMENT is not used", to.addr.Addr())
	}
}

// forget makes all destinations new.
func (t *pathTable) forget() { clear(t.sets[:]) }

// close lets go of what looks up routes.
func (t *pathTable) close() {
	if t.routes != nil && !t.closed && !t.looking {
		t.routes.Close()
	}
	t.closed = true
}

// A route is what the kernel says of the way to an endpoint; zeros: it cannot be told.
type route struct {
	device, mtu int32
	ppp         bool
}

func lookUpRoute(c *rtnl.Conn, to *endpoint, mark uint32) route {
	r, err := askRoute(c, to, mark)
	if err != nil && to.src.IsValid() {
		to.forgetSource() // as it will be in sending
		r, err = askRoute(c, to, mark)
	}
	if err != nil {
		return route{}
	}
	c.Get(rtnl.LinkRequest(unix.RTM_GETLINK, 0, int(r.device)), func(m rtnl.Message) {
		if l, ok := m.Link(); ok {
			// struct ifinfomsg: family, pad, type: 2 bytes, …
			r.ppp = binary.NativeEndian.Uint16(m.Body[2:]) == unix.ARPHRD_PPP
			if r.mtu == 0 {
				r.mtu = int32(l.MTU)
			}
		}
	})
	return r
}

// askRoute asks for the device by which packets of the socket leave, and for the MTU
// of the route, if it has one of its own.
func askRoute(c *rtnl.Conn, to *endpoint, mark uint32) (found route, err error) {
	// struct rtmsg: family, bits of the destination, bits of the source, …
	var body [rtnl.RouteSize]byte
	addr, src := to.addr.Addr(), to.src
	body[0], body[1] = unix.AF_INET, byte(addr.BitLen())
	if addr.Is6() {
		body[0] = unix.AF_INET6
	}
	via := to.scope
	if src.IsValid() {
		body[2] = byte(src.BitLen())
		if mark == 0 && via == 0 {
			via = to.srcIf // see putControl
		}
	}
	r := rtnl.NewRequest(unix.RTM_GETROUTE, 0, body[:]).Attr(unix.RTA_DST, addr.AsSlice())
	if src.IsValid() {
		r = r.Attr(unix.RTA_SRC, src.AsSlice())
	}
	if via != 0 {
		r = r.Uint32(unix.RTA_OIF, via)
	}
	if mark != 0 {
		r = r.Uint32(unix.RTA_MARK, mark)
	}
	err = c.Get(r, func(m rtnl.Message) {
		for typ, v := range m.Attrs(rtnl.RouteSize) {
			switch {
			case typ == unix.RTA_OIF && len(v) == 4:
				found.device = int32(binary.NativeEndian.Uint32(v))
			case typ == unix.RTA_METRICS:
				for typ, v := range rtnl.Attrs(v) {
					if typ == unix.RTAX_MTU && len(v) == 4 {
						found.mtu = int32(binary.NativeEndian.Uint32(v))
					}
				}
			}
		}
	})
	if err == nil && found.device == 0 {
		err = unix.ENETUNREACH
	}
	return found, err
}

// fits returns the length of the longest message that leaves for an endpoint in one
// piece, or noLimit.
func (c *udpConn) fits(to *endpoint) int {
	s := &c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	addr := to.addr.Addr()
	p := s.paths.find(addr, to.scope)
	if !p.is(addr, to.scope) || p.mtu == 0 {
		return noLimit
	}
	const udp = 8
	if c.v6 {
		return int(p.mtu) - ipv6HeaderSize - udp
	}
	return int(p.mtu) - ipv4HeaderSize - udp
}

// blame is called when the first segment of a message that was refused went on its own.
func (s *udpWriter) blame() {
	errno := s.suspect
	s.suspect = 0
	if errno == unix.ENOBUFS || errno == unix.ENOMEM {
		return
	}
	p, t := s.path, &s.paths
	if p.limit == noLimit && errno != unix.EMSGSIZE && !t.works {
		if t.refusals++; t.refusals == maxRefusals {
			s.noGSO = true
			s.say("UDP_SEGMENT is refused everywhere (%v): done without", errno)
		}
	}
	p.limit = int32(s.suspectSize)
	if errno == unix.EIO {
		p.limit = 0
	}
	p.until = after(p.used, pathRetry)
	p.stale = 0 // what is known of the route is out of date
	if !p.told && !s.noGSO && p.used >= t.quiet {
		p.told, t.quiet = true, after(p.used, pathQuiet)
		s.say("%v: UDP_SEGMENT of %d bytes: %v: sent one by one", p.addr, s.suspectSize, errno)
	}
}

// evenTailBug tells from uname's release whether the kernel may spoil a message whose
// last segment is as long as the others, on devices that compute only the rest of a
// checksum: Linux 7.0-rc1 to 7.1.4, and 6.17 of distributions that took the change over.
// Such go one by one then. It shows only at the far end, so nothing here can find it.
func evenTailBug(release string) bool {
	major, minor, patch := 0, 0, 0
	release, _, _ = strings.Cut(release, "-")
	for i, part := range strings.SplitN(release, ".", 3) {
		n, err := strconv.Atoi(strings.TrimRight(part, "+~abcdefghijklmnopqrstuvwxyz"))
		if err != nil {
			break
		}
		*[]*int{&major, &minor, &patch}[i] = n
	}
	return major == 6 && minor == 17 || major == 7 && (minor == 0 || minor == 1 && patch <= 4)
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
