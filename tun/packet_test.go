package tun

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// Packets for tests, and a judge of them that shares no code with the package.

// A parcel is a TCP or UDP packet in parts.
type parcel struct {
	v6       bool
	udp      bool
	src, dst byte // last bytes of the addresses
	port     uint16
	tos, ttl byte
	id       uint16
	fragment uint16 // flags and offset, IPv4
	label    uint32 // flow label, IPv6
	between  []byte // IPv4 options, or IPv6 extension headers
	next     byte   // first next header, if there are extension headers
	seq, ack uint32
	flags    byte
	window   uint16
	urgent   uint16
	reserved byte // of TCP
	options  []byte
	payload  []byte
}

// slowSum is the Internet checksum by the book: not complemented.
func slowSum(parts ...[]byte) uint16 {
	s := uint32(0)
	for _, b := range parts {
		for i := range b {
			v := uint32(b[i])
			if i%2 == 0 {
				v <<= 8
			}
			if s += v; s > 0xffff {
				s -= 0xffff
			}
		}
	}
	return uint16(s)
}

func be16(v int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }

// bytes builds the packet with its checksums; partial: the transport's is the
// pseudo-header's sum, as the kernel leaves it to a card.
func (x parcel) bytes(partial bool) []byte {
	protocol, transport := byte(protocolTCP), 20+len(x.options)
	if x.udp {
		protocol, transport = protocolUDP, 8
	}
	if x.ttl == 0 {
		x.ttl = 64
	}
	n := transport + len(x.payload)
	var p, addresses []byte
	if x.v6 {
		p = binary.BigEndian.AppendUint32(nil, 6<<28|uint32(x.tos)<<20|x.label)
		p = append(p, be16(len(x.between)+n)...)
		next := protocol
		if len(x.between) > 0 {
			next = x.next
		}
		p = append(p, next, x.ttl)
		src, dst := [16]byte{0: 0xfd, 15: x.src}, [16]byte{0: 0xfd, 15: x.dst}
		addresses = append(src[:], dst[:]...)
		p = append(append(p, addresses...), x.between...)
	} else {
		ip := 20 + len(x.between)
		p = []byte{4<<4 | byte(ip/4), x.tos}
		p = append(p, be16(ip+n)...)
		p = append(p, be16(int(x.id))...)
		p = append(p, be16(int(x.fragment))...)
		p = append(p, x.ttl, protocol, 0, 0)
		addresses = []byte{10, 0, 0, x.src, 10, 0, 0, x.dst}
		p = append(append(p, addresses...), x.between...)
		copy(p[10:], be16(int(^slowSum(p))))
	}
	start, at := len(p), 16
	p = append(p, be16(int(x.port))...)
	p = append(p, be16(443)...)
	if x.udp {
		at = 6
		p = append(append(p, be16(n)...), 0, 0)
	} else {
		p = binary.BigEndian.AppendUint32(p, x.seq)
		p = binary.BigEndian.AppendUint32(p, x.ack)
		p = append(p, byte(transport/4)<<4|x.reserved, x.flags)
		p = append(p, be16(int(x.window))...)
		p = append(p, 0, 0)
		p = append(p, be16(int(x.urgent))...)
		p = append(p, x.options...)
	}
	p = append(p, x.payload...)
	pseudo := slowSum(addresses, be16(int(protocol)), be16(n))
	if partial {
		copy(p[start+at:], be16(int(pseudo)))
		return p
	}
	c := ^slowSum(be16(int(pseudo)), p[start:])
	if c == 0 {
		c = 0xffff
	}
	copy(p[start+at:], be16(int(c)))
	return p
}

// judge returns what is wrong with a packet: lengths and checksums of IP, TCP and UDP
// without options in between.
func judge(p []byte) error {
	var protocol byte
	var addresses, t []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		ip := int(p[0]&15) * 4
		if ip < 20 || len(p) < ip || int(binary.BigEndian.Uint16(p[2:])) != len(p) {
			return fmt.Errorf("%d bytes, header says %d", len(p), binary.BigEndian.Uint16(p[2:]))
		}
		if s := slowSum(p[:ip]); s != 0xffff {
			return fmt.Errorf("IPv4 checksum: sum %#x", s)
		}
		protocol, addresses, t = p[9], p[12:20], p[ip:]
	case len(p) >= 40 && p[0]>>4 == 6:
		if int(binary.BigEndian.Uint16(p[4:]))+40 != len(p) {
			return fmt.Errorf("%d bytes, header says 40+%d", len(p), binary.BigEndian.Uint16(p[4:]))
		}
		protocol, addresses, t = p[6], p[8:40], p[40:]
	default:
		return fmt.Errorf("not IP: %.60x", p)
	}
	switch protocol {
	case protocolUDP:
		if len(t) < 8 || int(binary.BigEndian.Uint16(t[4:])) != len(t) || t[6]|t[7] == 0 {
			return fmt.Errorf("UDP header %.8x with %d bytes", t, len(t))
		}
	case protocolTCP:
		if n := int(t[12]>>4) * 4; n < 20 || n > len(t) {
			return fmt.Errorf("TCP header of %d bytes in %d", n, len(t))
		}
	default:
		return nil
	}
	if s := slowSum(addresses, be16(int(protocol)), be16(len(t)), t); s != 0xffff {
		return fmt.Errorf("checksum of protocol %d: sum %#x of %.80x", protocol, s, p)
	}
	return nil
}

// The judge accepts what bytes builds, and nothing with a bit flipped.
func TestJudge(t *testing.T) {
	for _, x := range []parcel{{}, {udp: true}, {v6: true}, {v6: true, udp: true}} {
		x.payload = []byte("odd")
		p := x.bytes(false)
		if err := judge(p); err != nil {
			t.Errorf("%+v: %v", x, err)
		}
		for i := range p {
			p[i] ^= 4
			if x.v6 && i < 8 && i != 4 && i != 5 || judge(p) != nil {
				p[i] ^= 4
				continue
			}
			t.Errorf("%+v: accepted with byte %d changed", x, i)
		}
	}
}
