package device

import (
	"encoding/binary"

	"wgd/noise"
	"wgd/tun"
)

// Packets that no peer can get are answered by ICMP into the TUN, as the kernel
// does, so that a program learns at once that nobody is there. RFC 792, RFC 4443.

const (
	unreachablePerSec = 20
	unreachableBurst  = 20

	// How much of the packet is quoted: RFC 1812 §4.3.2.3 lets an ICMP error have
	// 576 bytes, RFC 4443 §2.4 (c) an ICMPv6 error 1280.
	maxUnreachable4 = 576
	maxUnreachable  = 1280

	protoICMP   = 1
	protoICMPv6 = 58
)

// A tokenBucket bounds how often something happens. Whoever owns it guards it.
type tokenBucket struct {
	tokens noise.Instant // nanoseconds' worth
	last   noise.Instant
}

func (b *tokenBucket) allow(now noise.Instant) bool {
	const cost = noise.Instant(1e9 / unreachablePerSec)
	b.tokens = min(b.tokens+now-b.last, unreachableBurst*cost)
	b.last = now
	if b.tokens < cost {
		return false
	}
	b.tokens -= cost
	return true
}

// sendUnreachable answers a packet read from the TUN. tx.mu is held.
func (d *Device) sendUnreachable(packet []byte, now noise.Instant) {
	if !answerable(packet) || !d.unreachables.allow(now) {
		return
	}
	buf := &d.tx.unreachable
	answer := appendUnreachable(buf[tun.Headroom:tun.Headroom], packet)
	d.written(d.tun.Write(buf[:tun.Headroom+len(answer)]))
}

// answerable reports whether an ICMP error may answer the packet: not if it is one
// itself, a later fragment, or to or from an address of many or of none: RFC 1122
// §3.2.2, RFC 4443 §2.4 (e).
func answerable(packet []byte) bool {
	if isIPv4(packet) {
		src, dst := packet[12:16], packet[16:20]
		if binary.BigEndian.Uint16(packet[6:])&0x1fff != 0 ||
			src[0] == 0 || src[0] >= 224 || dst[0] == 0 || dst[0] >= 224 {
			return false
		}
		if packet[9] != protoICMP {
			return true
		}
		n := int(packet[0]&15) * 4
		if n < ipv4HeaderSize || len(packet) <= n {
			return false
		}
		switch packet[n] {
		case 3, 4, 5, 11, 12: // unreachable, quench, redirect, time exceeded, parameter problem
			return false
		}
		return true
	}
	src, dst := packet[8:24], packet[24:40]
	if src[0] == 0xff || dst[0] == 0xff || isZero(src) {
		return false
	}
	// An error behind extension headers is taken for a packet: the bucket bounds it.
	return packet[6] != protoICMPv6 || len(packet) > ipv6HeaderSize && packet[ipv6HeaderSize] >= 128
}

func isZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// appendUnreachable appends the ICMP error for packet: host unreachable (3/1), or
// address unreachable (1/3). It comes from the address that cannot be reached: one
// of our own would be taken for forged on its way in.
func appendUnreachable(dst, packet []byte) []byte {
	if isIPv4(packet) {
		const head = ipv4HeaderSize + 8
		packet = packet[:min(len(packet), maxUnreachable4-head)]
		b := append(dst, make([]byte, head)...)
		b = append(b, packet...)
		b[0] = 0x45
		b[1] = 0xc0 // internetwork control: RFC 1812 §4.3.2.5
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		b[8] = 64
		b[9] = protoICMP
		copy(b[12:16], packet[16:20])
		copy(b[16:20], packet[12:16])
		binary.BigEndian.PutUint16(b[10:], ^uint16(tun.Sum(b[:ipv4HeaderSize], 0)))
		b[20], b[21] = 3, 1
		binary.BigEndian.PutUint16(b[22:], ^uint16(tun.Sum(b[ipv4HeaderSize:], 0)))
		return b
	}
	const head = ipv6HeaderSize + 8
	packet = packet[:min(len(packet), maxUnreachable-head)]
	b := append(dst, make([]byte, head)...)
	b = append(b, packet...)
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ipv6HeaderSize))
	b[6] = protoICMPv6
	b[7] = 64
	copy(b[8:24], packet[24:40])
	copy(b[24:40], packet[8:24])
	b[40], b[41] = 1, 3
	// The pseudo-header, RFC 8200 §8.1: addresses, length, next header.
	pseudo := tun.Sum(b[8:40], uint32(len(b)-ipv6HeaderSize)+protoICMPv6)
	binary.BigEndian.PutUint16(b[42:], ^uint16(tun.Sum(b[ipv6HeaderSize:], pseudo)))
	return b
}
