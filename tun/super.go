package tun

import "encoding/binary"

// Headroom is the room in front of a packet in each buffer that is written: there
// was the header of the transport message (§5.4.6); a header for the kernel goes
// there. A packet that was read lies as far behind the start of its buffer, so that
// it is aligned to words behind the ten bytes of a vnet header.
const Headroom = 16

// MaxPadding is how far a packet from Next may be padded in place.
const MaxPadding = 15

const maxPacket = 65535 // bytes of an IP packet

// A Super is what one read from the interface gave: a packet, or a super-packet that
// Next cuts into packets in place.
//
//	          pos→
//	| headers | payload | payload | payload |
//	          | headers ^ of the second packet, over the first payload, which has been sealed
type Super struct {
	buf      []byte // headroom, what was read, room for padding
	pos, end int    // in buf: what Next has not given out

	// Of a super-packet. All but saved is constant after cut.
	headers int    // bytes of headers in front of each payload; 0: it is one packet
	ip      int    // of them, bytes of IP header
	size    int    // payload bytes of each packet but the last
	udp     bool   // else TCP
	flags   byte   // of TCP
	id      uint16 // of the first packet, IPv4
	seq     uint32 // of the first packet, TCP
	ipSum   uint32 // of the IPv4 header without what differs from packet to packet
	sum     uint32 // of pseudo-header and TCP or UDP header, without the same

	n     int              // packets that Next has given out
	saved [MaxPadding]byte // what was at pos
}

// NewSuper returns an empty one for Device.TryRead to fill.
func NewSuper() *Super { return &Super{buf: make([]byte, Headroom+maxPacket+MaxPadding)} }

// Set makes s one packet.
func (s *Super) Set(packet []byte) { s.set(copy(s.buf[Headroom:Headroom+maxPacket], packet)) }

// set makes s the packet of n bytes that is in its buffer.
func (s *Super) set(n int) { s.pos, s.end, s.headers = Headroom, Headroom+n, 0 }

// setVnet makes s what is in its buffer: n bytes with the vnet header, in big-endian
// order or not, in front. What does not add up is nothing, as if it had been lost.
func (s *Super) setVnet(n int, big bool) {
	h := parseVnet(s.buf[Headroom-vnetSize:], big)
	p := s.buf[Headroom : Headroom+n]
	s.set(0)
	if h.kind != vnetNone {
		if s.cut(p, h) {
			s.end = Headroom + n
		}
		return
	}
	if h.flags&vnetNeedsChecksum != 0 && !complete(p, int(h.start), int(h.checkAt)) {
		return
	}
	s.end = Headroom + n
}

// complete replaces the sum in the checksum field by the checksum.
func complete(p []byte, start, at int) bool {
	if start+at+2 > len(p) {
		return false
	}
	putChecksum(p[start+at:], Sum(p[start:], 0))
	return true
}

// putChecksum writes the complement of sum, and 0 in its other form: 0 itself means
// that there is no checksum in UDP, RFC 768.
func putChecksum(field []byte, sum uint32) {
	c := ^uint16(fold(sum))
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(field, c)
}

// cut prepares a super-packet for Next.
func (s *Super) cut(p []byte, h vnetHeader) bool {
	be := binary.BigEndian
	ip, fixed, at := int(h.start), tcpSize, tcpOffset
	protocol := byte(protocolTCP)
	version := byte(4)
	switch h.kind &^ vnetECN {
	case vnetTCP4:
	case vnetTCP6:
		version = 6
	case vnetUDP:
		fixed, at, protocol = udpSize, udpOffset, protocolUDP
		if len(p) > 0 {
			version = p[0] >> 4
		}
	default:
		return false
	}
	// The kernel always leaves the checksum of a super-packet to whoever cuts it.
	if h.flags&vnetNeedsChecksum == 0 || int(h.checkAt) != at || h.size == 0 || len(p) < ip+fixed || p[0]>>4 != version {
		return false
	}
	// Its header length is not looked at: for a packet that was forwarded it may be
	// anything.
	t := p[ip:]
	headers := ip + fixed
	if protocol == protocolTCP {
		headers = ip + int(t[12]>>4)*4
	}
	if headers < ip+fixed || headers >= len(p) {
		return false
	}
	switch version {
	case 4:
		if ip < ipv4Size || ip != int(p[0]&15)*4 || p[9] != protocol || int(be.Uint16(p[2:])) != len(p) || be.Uint16(p[6:])&0x3fff != 0 {
			return false
		}
		s.id = be.Uint16(p[4:])
		clear(p[2:6])
		clear(p[10:12])
		s.ipSum = Sum(p[:ip], 0)
	case 6:
		// Extension headers may lie in between.
		if ip < ipv6Size || ip == ipv6Size && p[6] != protocol || int(be.Uint16(p[4:]))+ipv6Size != len(p) {
			return false
		}
	default:
		return false
	}
	// The checksum field has the sum of the pseudo-header, with the length of the whole.
	s.sum = uint32(be.Uint16(t[at:])) + 0xffff - uint32(len(t))
	clear(t[at : at+2])
	if s.udp = protocol == protocolUDP; s.udp {
		clear(t[4:6])
	} else {
		s.flags, s.seq = t[13], be.Uint32(t[4:])
		clear(t[4:8])
		t[13] = 0
	}
	s.sum = Sum(p[ip:headers], s.sum)
	s.pos, s.headers, s.ip, s.size, s.n = Headroom+headers, headers, ip, int(h.size), 0
	return true
}

// Headers returns the IP header, and more, of what Next will cut into several packets;
// nil if it will not.
func (s *Super) Headers() []byte {
	if s.headers == 0 || s.pos+s.size >= s.end {
		return nil
	}
	return s.buf[s.pos-s.headers : s.pos]
}

// Limit makes the packets of a TCP super-packet no longer than n bytes, if each still
// has minPayload. It is called before Next.
func (s *Super) Limit(n int) {
	if s.headers != 0 && !s.udp && n >= s.headers+minPayload {
		s.size = min(s.size, n-s.headers)
	}
}

// minPayload keeps a path that is next to useless from making a flood of tiny packets.
const minPayload = 256

// Next returns the next packet, or nil. The MaxPadding bytes behind it, which are
// within its capacity, may be changed until the next call; the packet itself must not.
func (s *Super) Next() []byte {
	if s.pos >= s.end {
		return nil
	}
	if s.headers == 0 {
		p := s.buf[s.pos : s.end : s.end+MaxPadding]
		s.pos = s.end
		return p
	}
	start := s.pos - s.headers
	if s.n > 0 {
		copy(s.buf[s.pos:], s.saved[:])
		copy(s.buf[start:s.pos], s.buf[start-s.size:])
	}
	size := min(s.size, s.end-s.pos)
	s.rewrite(s.buf[start:s.pos+size], s.pos+size == s.end)
	s.n++
	s.pos += size
	copy(s.saved[:], s.buf[s.pos:])
	return s.buf[start : s.pos : s.pos+MaxPadding]
}

// rewrite puts what differs from packet to packet into the headers of p.
func (s *Super) rewrite(p []byte, last bool) {
	be := binary.BigEndian
	if p[0]>>4 == 4 {
		id := s.id + uint16(s.n)
		be.PutUint16(p[2:], uint16(len(p)))
		be.PutUint16(p[4:], id)
		be.PutUint16(p[10:], ^uint16(fold(s.ipSum+uint32(len(p))+uint32(id))))
	} else {
		be.PutUint16(p[4:], uint16(len(p)-ipv6Size))
	}
	t := p[s.ip:]
	n := uint32(len(t))
	c := Sum(p[s.headers:], s.sum+n) // n is in the pseudo-header
	if s.udp {
		be.PutUint16(t[4:], uint16(n))
		putChecksum(t[udpOffset:], c+n)
		return
	}
	flags := s.flags
	if s.n > 0 {
		flags &^= tcpCWR
	}
	if !last {
		flags &^= tcpFIN | tcpPSH
	}
	seq := s.seq + uint32(s.n)*uint32(s.size)
	be.PutUint32(t[4:], seq)
	t[13] = flags
	putChecksum(t[tcpOffset:], c+seq>>16+seq&0xffff+uint32(flags))
}
