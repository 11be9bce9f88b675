package tun

import (
	"encoding/binary"
	"math/bits"
)

// vnetSize is the size of struct virtio_net_hdr, include/uapi/linux/virtio_net.h, with
// which the kernel says in front of a packet what is still to be done to it:
//
//	0       1      2            4          6            8             10
//	| flags | type | header len | gso size | csum start | csum offset |
const vnetSize = 10

const (
	vnetNeedsChecksum = 1 // flags: the checksum field holds the pseudo-header's sum

	// Types: what a super-packet is cut into.
	vnetNone  = 0
	vnetTCP4  = 1
	vnetTCP6  = 4
	vnetUDP   = 5    // Linux 6.2
	vnetECN   = 0x80 // a bit beside the TCP types: CWR is set
	tcpOffset = 16   // of the checksum field
	udpOffset = 6
)

type vnetHeader struct {
	flags, kind    byte
	headerLen      uint16 // bytes of headers; a hint, wrong for forwarded packets
	size           uint16 // payload bytes of each packet but the last
	start, checkAt uint16 // the checksum is over the packet from start on, its field at start+checkAt
}

// The numbers are little-endian, where the kernel can be told so. It cannot before Linux
// 4.0; they are big-endian then if the machine is.

func parseVnet(b []byte, big bool) vnetHeader {
	le := binary.LittleEndian
	b = b[:vnetSize]
	h := vnetHeader{b[0], b[1], le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint16(b[8:])}
	if big {
		h = h.swapped()
	}
	return h
}

func (h vnetHeader) put(b []byte, big bool) {
	if big {
		h = h.swapped()
	}
	le := binary.LittleEndian
	b = b[:vnetSize]
	b[0], b[1] = h.flags, h.kind
	le.PutUint16(b[2:], h.headerLen)
	le.PutUint16(b[4:], h.size)
	le.PutUint16(b[6:], h.start)
	le.PutUint16(b[8:], h.checkAt)
}

func (h vnetHeader) swapped() vnetHeader {
	swap := bits.ReverseBytes16
	return vnetHeader{h.flags, h.kind, swap(h.headerLen), swap(h.size), swap(h.start), swap(h.checkAt)}
}

// Offsets and bits of inner headers: RFC 791, 8200, 9293, 768.
const (
	ipv4Size, ipv6Size = 20, 40
	tcpSize, udpSize   = 20, 8
	protocolTCP        = 6
	protocolUDP        = 17
	protocolICMP6      = 58

	tcpFIN, tcpPSH, tcpACK, tcpCWR = 0x01, 0x08, 0x10, 0x80
)

// pseudo returns the sum of a packet's pseudo-header but for the length: RFC 9293
// §3.1, RFC 8200 §8.1.
func pseudo(packet []byte, protocol uint32) uint32 {
	if packet[0]>>4 == 4 {
		return Sum(packet[12:20], protocol)
	}
	return Sum(packet[8:40], protocol)
}
