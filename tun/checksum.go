package tun

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// The Internet checksum, RFC 1071: a sum of 16-bit words with the carries added at the
// end, which does not depend on the order of the bytes in memory but for a swap of the
// result.

// Sum adds the 16-bit words of b, which has less than 2¹⁸ bytes, first byte high, to
// initial < 2³¹. The result is at most 0xffff, and 0 only if all was. Its complement is
// the checksum.
func Sum(b []byte, initial uint32) uint32 {
	var s uint32
	if bits.UintSize == 64 {
		s = sum64(b)
	} else {
		s = sum32(b)
	}
	if littleEndian {
		s = s>>8 | s&0xff<<8
	}
	return fold(initial + s)
}

// fold adds the carries: the upper half of s.
func fold(s uint32) uint32 {
	s = s>>16 + s&0xffff
	return s>>16 + s&0xffff
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// sum64 adds words in the order of the machine, which is known to load them from any
// address in one instruction, or is not worth a thought.
func sum64(b []byte) uint32 {
	var s, c uint64
	for len(b) >= 64 {
		w := b[:64]
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w), 0)
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w[8:]), c)
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w[16:]), c)
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w[24:]), c)
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w[32:]), c)
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w[40:]), c)
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w[48:]), c)
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(w[56:]), c)
		s, c = bits.Add64(s, 0, c) // does not carry: s+c < 2⁶⁴ after a carry
		b = b[64:]
	}
	for len(b) >= 8 {
		s, c = bits.Add64(s, binary.NativeEndian.Uint64(b), 0)
		s += c
		b = b[8:]
	}
	s = s>>32 + s&0xffffffff // < 2³³, and there is room for the rest
	if len(b) >= 4 {
		s += uint64(binary.NativeEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		s += uint64(binary.NativeEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(binary.NativeEndian.Uint16([]byte{b[0], 0}))
	}
	s = s>>32 + s&0xffffffff
	s = s>>32 + s&0xffffffff
	return fold(uint32(s>>16 + s&0xffff))
}

// sum32 adds words in the order of the machine, and loads none from an address that is
// not a multiple of its size: MIPS and ARMv5 trap there.
func sum32(b []byte) uint32 {
	p, n := unsafe.Pointer(unsafe.SliceData(b)), len(b)

	// From an odd address on, the bytes of each word are swapped, and so is the sum.
	odd := n > 0 && uintptr(p)&1 != 0
	ends := uint32(0)
	if odd {
		ends = uint32(binary.NativeEndian.Uint16([]byte{0, *(*byte)(p)}))
		p, n = unsafe.Add(p, 1), n-1
	}
	if n >= 2 && uintptr(p)&2 != 0 {
		ends += uint32(*(*uint16)(p))
		p, n = unsafe.Add(p, 2), n-2
	}

	// No carry is looked at: upper adds the upper halves of less than 2¹⁶ words, and
	// all less that is the sum of the lower halves, both below 2³².
	var all, upper uint32
	for ; n >= 32; n -= 32 {
		w := (*[8]uint32)(p)
		all += w[0]
		upper += w[0] >> 16
		all += w[1]
		upper += w[1] >> 16
		all += w[2]
		upper += w[2] >> 16
		all += w[3]
		upper += w[3] >> 16
		all += w[4]
		upper += w[4] >> 16
		all += w[5]
		upper += w[5] >> 16
		all += w[6]
		upper += w[6] >> 16
		all += w[7]
		upper += w[7] >> 16
		p = unsafe.Add(p, 32)
	}
	for ; n >= 4; n -= 4 {
		w := *(*uint32)(p)
		all += w
		upper += w >> 16
		p = unsafe.Add(p, 4)
	}
	if n >= 2 {
		ends += uint32(*(*uint16)(p))
		p, n = unsafe.Add(p, 2), n-2
	}
	if n == 1 {
		ends += uint32(binary.NativeEndian.Uint16([]byte{*(*byte)(p), 0}))
	}
	s := fold(ends + fold(upper) + fold(all-upper<<16))
	if odd {
		s = s>>8 | s&0xff<<8
	}
	return s
}

// equal compares parts of packets, of the same length. What the runtime has goes byte by
// byte on MIPS.
func equal(a, b []byte) bool {
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b))
	if bits.UintSize == 64 || (uintptr(p)|uintptr(q)|uintptr(len(a)))&3 != 0 {
		return string(a) == string(b)
	}
	for n := len(a); n > 0; n -= 4 {
		if *(*uint32)(p) != *(*uint32)(q) {
			return false
		}
		p, q = unsafe.Add(p, 4), unsafe.Add(q, 4)
	}
	return true
}
