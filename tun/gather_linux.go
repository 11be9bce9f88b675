package tun

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A gatherer makes super-packets of the packets of a stream that follow each other, as
// a network card does: the system then handles many as one. A run, which becomes one,
// has only packets that cutting it gives back as they were. Nothing is copied:
//
//	writev: | vnet header | headers | payload |, | payload |, | payload |, …
type gatherer struct {
	write    func(iov []unix.Iovec) syscall.Errno // hands over what starts with a vnet header
	tcp, udp bool                                 // whose packets are gathered
	big      bool                                 // vnet headers are big-endian

	n    int           // runs that are open
	runs [maxRuns]*run // the open ones first, in the order in which they began
	last *run          // the run that the last packet joined, if it is still open
	one  [1]unix.Iovec
	err  error // see report
}

const (
	maxRuns   = 16 // streams that are gathered at a time
	maxRunLen = 64 // packets; 65535 bytes are less of full size
)

type run struct {
	first    []byte // packet
	ports    uint32
	protocol byte
	verified bool   // first has right checksums
	ip       int    // bytes of the IP header
	headers  int    // bytes of the IP and the TCP or UDP header
	size     int    // payload bytes of each packet but the last
	total    int    // bytes of the super-packet
	seq      uint32 // that comes next, TCP
	iov      [maxRunLen]unix.Iovec
	n        int // packets
}

func newGatherer(tcp, udp, big bool, write func([]unix.Iovec) syscall.Errno) *gatherer {
	g := &gatherer{write: write, tcp: tcp, udp: udp, big: big}
	runs := make([]run, maxRuns)
	for i := range runs {
		g.runs[i] = &runs[i]
	}
	return g
}

// report returns the first error since the last report; a RefusedError is never lost.
func (g *gatherer) report() error {
	err := g.err
	g.err = nil
	return err
}

func (g *gatherer) failed(err error) {
	if _, refused := err.(*RefusedError); refused || g.err == nil {
		g.err = err
	}
}

// add takes a packet, buf[Headroom:], and keeps buf until the next flush.
func (g *gatherer) add(buf []byte) {
	be := binary.BigEndian
	p := buf[Headroom:]
	var protocol byte
	var ip int
	plain := false // there is nothing between the IP header and that of protocol
	switch {
	case len(p) >= ipv4Size && p[0]>>4 == 4:
		protocol, ip = p[9], ipv4Size
		plain = p[0] == 0x45 && int(be.Uint16(p[2:])) == len(p) && be.Uint16(p[6:])&0x3fff == 0
	case len(p) >= ipv6Size && p[0]>>4 == 6:
		protocol, ip = p[6], ipv6Size
		plain = int(be.Uint16(p[4:])) == len(p)-ipv6Size
		if protocol != protocolTCP && protocol != protocolUDP && protocol != protocolICMP6 {
			g.flush() // TCP may be behind extension headers, and must not overtake
		}
	}

	gathers, closes := true, false // the packet may be in a run; only as its last
	headers := ip + udpSize
	switch {
	case !g.gathers(protocol):
		g.alone(buf)
		return
	case protocol == protocolTCP:
		if plain = plain && len(p) >= ip+tcpSize; !plain {
			break
		}
		t := p[ip:]
		headers = ip + int(t[12]>>4)*4
		plain = headers >= ip+tcpSize && headers <= len(p)
		gathers = t[13]&^tcpPSH == tcpACK
		closes = t[13]&tcpPSH != 0
	default:
		plain = plain && len(p) >= headers && int(be.Uint16(p[ip+4:])) == len(p)-ip
		gathers = plain && be.Uint16(p[ip+udpOffset:]) != 0
	}
	if !plain {
		g.flush() // whatever stream it belongs to keeps its order
		g.alone(buf)
		return
	}
	gathers = gathers && len(p) > headers
	ports := be.Uint32(p[ip:])

	r := g.find(p, protocol, ports)
	if r != nil && gathers && r.goesOn(p, headers) {
		if r.verified = r.verified || valid(r.first, r.ip, protocol); r.verified {
			if !valid(p, ip, protocol) {
				gathers = false // it arrives as it is, for whoever counts such
			} else {
				r.append(p)
				if closes || len(p)-headers < r.size || r.n == maxRunLen || r.total+r.size > maxPacket {
					g.close(r)
				}
				return
			}
		}
	}
	if r != nil {
		g.close(r)
	}
	if !gathers || closes {
		g.alone(buf)
		return
	}
	if g.n == maxRuns {
		g.close(g.runs[0])
	}
	if !g.gathers(protocol) { // since just now, see refused
		g.alone(buf)
		return
	}
	g.open(buf, protocol, ports, ip, headers)
}

func (g *gatherer) gathers(protocol byte) bool {
	return protocol == protocolTCP && g.tcp || protocol == protocolUDP && g.udp
}

// find returns the run of a packet's stream.
func (g *gatherer) find(p []byte, protocol byte, ports uint32) *run {
	if r := g.last; r != nil && r.ports == ports && r.sameStream(p, protocol) {
		return r
	}
	for _, r := range g.runs[:g.n] {
		if r.ports == ports && r.sameStream(p, protocol) {
			return r
		}
	}
	return nil
}

func (r *run) sameStream(p []byte, protocol byte) bool {
	q := r.first
	if p[0]>>4 != q[0]>>4 || protocol != r.protocol {
		return false
	}
	if p[0]>>4 == 4 {
		return equal(p[12:20], q[12:20])
	}
	return equal(p[8:40], q[8:40])
}

// goesOn reports whether p, of the same stream, continues the run.
func (r *run) goesOn(p []byte, headers int) bool {
	be := binary.BigEndian
	q := r.first
	size := len(p) - headers
	if headers != r.headers || size > r.size || r.total+size > maxPacket {
		return false
	}
	if p[0]>>4 == 4 {
		// Type of service, time to live, flags. The identification matters only to
		// what may be fragmented, RFC 6864.
		dontFragment := p[6]&0x40 != 0
		if p[1] != q[1] || p[8] != q[8] || p[6] != q[6] ||
			!dontFragment && be.Uint16(p[4:]) != be.Uint16(q[4:])+uint16(r.n) {
			return false
		}
	} else if be.Uint32(p) != be.Uint32(q) || p[7] != q[7] { // traffic class, flow label, hop limit
		return false
	}
	if r.protocol == protocolUDP {
		return true
	}
	t, u := p[r.ip:headers], q[r.ip:headers]
	// Acknowledgement, window, urgent pointer and options are the same.
	return be.Uint32(t[4:]) == r.seq && equal(t[8:12], u[8:12]) && t[12] == u[12] &&
		t[14] == u[14] && t[15] == u[15] && t[18] == u[18] && t[19] == u[19] && equal(t[20:], u[20:])
}

// valid verifies the checksums of a packet.
func valid(p []byte, ip int, protocol byte) bool {
	if p[0]>>4 == 4 && Sum(p[:ip], 0) != 0xffff {
		return false
	}
	t := p[ip:]
	return Sum(t, pseudo(p, uint32(protocol))+uint32(len(t))) == 0xffff
}

// open begins a run.
func (g *gatherer) open(buf []byte, protocol byte, ports uint32, ip, headers int) {
	r := g.runs[g.n]
	g.n++
	g.last = r
	p := buf[Headroom:]
	r.first, r.protocol, r.ports, r.verified = p, protocol, ports, false
	r.ip, r.headers, r.size, r.total = ip, headers, len(p)-headers, len(p)
	if protocol == protocolTCP {
		r.seq = binary.BigEndian.Uint32(p[ip+4:]) + uint32(r.size)
	}
	r.iov[0] = withVnet(buf)
	r.n = 1
}

// withVnet returns a packet with the vnet header in front of it.
func withVnet(buf []byte) (v unix.Iovec) {
	v.Base = &buf[Headroom-vnetSize]
	v.SetLen(len(buf) - (Headroom - vnetSize))
	return v
}

// append adds a packet, which goesOn found to continue the run and which is valid.
func (r *run) append(p []byte) {
	v := &r.iov[r.n]
	v.Base = &p[r.headers]
	v.SetLen(len(p) - r.headers)
	r.n++
	r.total += len(p) - r.headers
	r.seq += uint32(len(p) - r.headers)
	if r.protocol == protocolTCP {
		r.first[r.ip+13] |= p[r.ip+13] & tcpPSH
	}
}

// flush hands over all that is gathered.
func (g *gatherer) flush() {
	for g.n > 0 {
		g.close(g.runs[0])
	}
}

// close hands over a run, and forgets it.
func (g *gatherer) close(r *run) {
	g.last = nil
	g.n--
	for i := 0; i < g.n; i++ {
		if g.runs[i] == r {
			copy(g.runs[i:], g.runs[i+1:g.n+1])
			g.runs[g.n] = r
			break
		}
	}
	if r.n == 1 {
		g.hand(r.iov[:1])
	} else {
		r.putHeaders(r.total)
		h := vnetHeader{
			flags: vnetNeedsChecksum, kind: vnetTCP4,
			headerLen: uint16(r.headers), size: uint16(r.size),
			start: uint16(r.ip), checkAt: tcpOffset,
		}
		switch {
		case r.protocol == protocolUDP:
			h.kind, h.checkAt = vnetUDP, udpOffset
		case r.ip == ipv6Size:
			h.kind = vnetTCP6
		}
		h.put(unsafe.Slice(r.iov[0].Base, vnetSize), g.big)
		if errno := g.write(r.iov[:r.n]); errno != 0 {
			g.refused(r, errno)
		}
	}
	// What was gathered may be freed.
	clear(r.iov[:r.n])
	r.first = nil
}

// refused deals with a run that was not taken.
func (g *gatherer) refused(r *run, errno syscall.Errno) {
	switch errno {
	case unix.EIO, unix.EBADF, unix.EBADFD, unix.EAGAIN:
		g.failed(errno) // would fail in any form: down, gone, full
		return
	case unix.ENOMEM, unix.ENOBUFS:
		// Smaller pieces may do.
	default:
		// Some kernels take no super-packets, or not all that are valid.
		e := &RefusedError{What: "coalesced TCP packets", Errno: errno}
		if r.protocol == protocolUDP {
			e.What = "coalesced UDP packets"
			g.udp = false
		} else {
			g.tcp = false
		}
		g.failed(e)
	}
	if r.protocol == protocolTCP {
		r.first[r.ip+13] &^= tcpPSH // it is the last one's
	}
	r.putHeaders(r.headers + r.size)
	complete(r.first, r.ip, checksumOffset(r.protocol))
	g.hand(r.iov[:1])
	for _, v := range r.iov[1:r.n] {
		// Its headers are still in front of the payload, and so is the headroom.
		n := Headroom + r.headers
		g.alone(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(v.Base), -n)), n+int(v.Len)))
	}
	if !g.gathers(r.protocol) {
		g.flush() // what comes now must not overtake
	}
}

func checksumOffset(protocol byte) int {
	if protocol == protocolUDP {
		return udpOffset
	}
	return tcpOffset
}

// putHeaders makes the first packet's headers those of a packet of total bytes; the
// checksum field gets the pseudo-header's sum.
func (r *run) putHeaders(total int) {
	be := binary.BigEndian
	p := r.first
	if r.ip == ipv4Size {
		be.PutUint16(p[2:], uint16(total))
		clear(p[10:12])
		be.PutUint16(p[10:], ^uint16(Sum(p[:ipv4Size], 0)))
	} else {
		be.PutUint16(p[4:], uint16(total-ipv6Size))
	}
	n := uint32(total - r.ip)
	if r.protocol == protocolUDP {
		be.PutUint16(p[r.ip+4:], uint16(n))
	}
	be.PutUint16(p[r.ip+checksumOffset(r.protocol):], uint16(fold(pseudo(p, uint32(r.protocol))+n)))
}

// alone hands over one packet.
func (g *gatherer) alone(buf []byte) {
	g.one[0] = withVnet(buf)
	g.hand(g.one[:])
	g.one[0].Base = nil
}

// hand hands over one packet as it is.
func (g *gatherer) hand(iov []unix.Iovec) {
	*(*[vnetSize]byte)(unsafe.Pointer(iov[0].Base)) = [vnetSize]byte{}
	if errno := g.write(iov); errno != 0 {
		g.failed(errno)
	}
}
