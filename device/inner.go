package device

import "encoding/binary"

// Inner packets: the few header fields that a tunnel looks at. RFC 791, RFC 8200.

const (
	ipv4HeaderSize = 20
	ipv6HeaderSize = 40
)

// destination returns the peer whose allowed IPs have the packet's destination;
// ok: the packet has an IP header.
func (t *allowedIPs) destination(packet []byte) (p *Peer, ok bool) {
	switch {
	case isIPv4(packet):
		return t.lookup4(binary.BigEndian.Uint32(packet[16:])), true
	case isIPv6(packet):
		return t.lookup6(binary.BigEndian.Uint64(packet[24:]), binary.BigEndian.Uint64(packet[32:])), true
	}
	return nil, false
}

// source returns the peer whose allowed IPs have the packet's source.
func (t *allowedIPs) source(packet []byte) *Peer {
	switch {
	case isIPv4(packet):
		return t.lookup4(binary.BigEndian.Uint32(packet[12:]))
	case isIPv6(packet):
		return t.lookup6(binary.BigEndian.Uint64(packet[8:]), binary.BigEndian.Uint64(packet[16:]))
	}
	return nil
}

func isIPv4(packet []byte) bool { return len(packet) >= ipv4HeaderSize && packet[0]>>4 == 4 }
func isIPv6(packet []byte) bool { return len(packet) >= ipv6HeaderSize && packet[0]>>4 == 6 }

// trim cuts the padding (§5.4.6) off a decrypted packet: what its own header does
// not count. nil: not an IP packet, or shorter than it says.
func trim(packet []byte) []byte {
	n := 0
	switch {
	case isIPv4(packet):
		n = int(binary.BigEndian.Uint16(packet[2:]))
		if n < ipv4HeaderSize {
			return nil
		}
	case isIPv6(packet):
		n = ipv6HeaderSize + int(binary.BigEndian.Uint16(packet[4:]))
	}
	if n == 0 || n > len(packet) {
		return nil
	}
	return packet[:n]
}

// padding returns how many zero bytes follow a packet of n bytes: up to a multiple of
// 16, §5.4.6, but not beyond the MTU, so that a full packet still fits its path.
func padding(n, mtu int) int {
	last := n
	if mtu > 0 && last > mtu {
		last %= mtu
	}
	padded := (last + 15) &^ 15
	if mtu > 0 && padded > mtu {
		padded = mtu
	}
	return padded - last
}

// ECN codepoints: the low bits of the IPv4 TOS and the IPv6 traffic class, RFC 3168.
const (
	ecnMask = 3
	ecnECT0 = 2
	ecnCE   = 3
)

// ecn returns the codepoint of a packet that has an IP header.
func ecn(packet []byte) byte {
	if packet[0]>>4 == 4 {
		return packet[1] & ecnMask
	}
	return packet[1] >> 4 & ecnMask
}

// outerTOS returns the outer TOS byte for an inner packet: its codepoint, with CE
// sent as ECT(0); no other bit, or the tunnel would tell what is inside. RFC 6040.
func outerTOS(packet []byte) byte {
	if c := ecn(packet); c != ecnCE {
		return c
	}
	return ecnECT0
}

// setCE carries the congestion mark of the outer header to an inner packet that
// is ECN-capable; others pass unchanged.
func setCE(packet []byte) {
	c := ecn(packet)
	if c == 0 || c == ecnCE {
		return
	}
	if packet[0]>>4 == 6 {
		packet[1] |= ecnCE << 4
		return
	}
	// RFC 1624, equation 3: the checksum follows the one word that changes.
	old := binary.BigEndian.Uint16(packet)
	packet[1] |= ecnCE
	sum := uint32(^binary.BigEndian.Uint16(packet[10:])) + uint32(^old) + uint32(binary.BigEndian.Uint16(packet))
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum))
}
