package chacha20poly1305

import (
	"encoding/binary"
	"unsafe"
)

// poly1305x32 is Poly1305 (RFC 8439 §2.5) for CPUs whose widest product is
// 32 x 32 = 64 bits. Four full words instead of five of 26 bits: 16 long products
// a block instead of 25, and no shifts to cut the message up.
// The zero value is not usable; init keys it.
type poly1305x32 struct {
	h [5]uint32 // accumulator, little-endian words; h[4] <= 4 between blocks
	r [4]uint32 // clamped: r[i] < 2²⁸, r[1], r[2], r[3] multiples of 4
	s [4]uint32
}

func (m *poly1305x32) init(key *[32]byte) {
	*m = poly1305x32{
		r: [4]uint32{
			binary.LittleEndian.Uint32(key[0:]),
			binary.LittleEndian.Uint32(key[4:]),
			binary.LittleEndian.Uint32(key[8:]),
			binary.LittleEndian.Uint32(key[12:]),
		},
		s: [4]uint32{
			binary.LittleEndian.Uint32(key[16:]),
			binary.LittleEndian.Uint32(key[20:]),
			binary.LittleEndian.Uint32(key[24:]),
			binary.LittleEndian.Uint32(key[28:]),
		},
	}
	m.clamp()
}

// clamp clears the bits of r that RFC 8439 §2.5 clears.
func (m *poly1305x32) clamp() {
	m.r[0] &= 0x0fffffff
	m.r[1] &= 0x0ffffffc
	m.r[2] &= 0x0ffffffc
	m.r[3] &= 0x0ffffffc
}

func (m *poly1305x32) blocksGeneric(p []byte, hibit uint32) {
	h0, h1, h2, h3, h4 := m.h[0], m.h[1], m.h[2], m.h[3], m.h[4]
	r0, r1, r2, r3 := m.r[0], m.r[1], m.r[2], m.r[3]

	// 2¹³⁰ = 5 (mod p) and r[i] is a multiple of 4, so a product with r[i] that
	// would stand 2¹²⁸ higher keeps its place when multiplied by 5/4:
	// 2¹²⁸·r[i] = 2¹³⁰·(r[i]/4).
	s1, s2, s3 := r1+r1>>2, r2+r2>>2, r3+r3>>2 // < 1.25·2²⁸

	for len(p) >= 16 {
		var b0, b1, b2, b3 uint32
		if wordFetch && wordAligned(p) {
			b := (*[4]uint32)(unsafe.Pointer(unsafe.SliceData(p)))
			b0, b1, b2, b3 = leWord(b[0]), leWord(b[1]), leWord(b[2]), leWord(b[3])
		} else {
			b0, b1 = binary.LittleEndian.Uint32(p[0:4]), binary.LittleEndian.Uint32(p[4:8])
			b2, b3 = binary.LittleEndian.Uint32(p[8:12]), binary.LittleEndian.Uint32(p[12:16])
		}

		// h += block and the bit above it.
		t := uint64(h0) + uint64(b0)
		h0 = uint32(t)
		t = t>>32 + uint64(h1) + uint64(b1)
		h1 = uint32(t)
		t = t>>32 + uint64(h2) + uint64(b2)
		h2 = uint32(t)
		t = t>>32 + uint64(h3) + uint64(b3)
		h3 = uint32(t)
		h4 += uint32(t>>32) + hibit // <= 4 + 1 + 1

		// d = h·r, one column a line. h0..h3 < 2³² and h4 <= 6: a long product is
		// < 1.25·2⁶⁰ and a column of four and the carry < 4.75·2⁶⁰ + 2³³ < 2⁶³;
		// h4·s[i] < 7.5·2²⁸ and h4·r0 < 6·2²⁸ need one word.
		t = uint64(h0)*uint64(r0) + uint64(h1)*uint64(s3) + uint64(h2)*uint64(s2) + uint64(h3)*uint64(s1)
		d0 := uint32(t)
		t = t>>32 + uint64(h0)*uint64(r1) + uint64(h1)*uint64(r0) + uint64(h2)*uint64(s3) + uint64(h3)*uint64(s2) + uint64(h4*s1)
		d1 := uint32(t)
		t = t>>32 + uint64(h0)*uint64(r2) + uint64(h1)*uint64(r1) + uint64(h2)*uint64(r0) + uint64(h3)*uint64(s3) + uint64(h4*s2)
		d2 := uint32(t)
		t = t>>32 + uint64(h0)*uint64(r3) + uint64(h1)*uint64(r2) + uint64(h2)*uint64(r1) + uint64(h3)*uint64(r0) + uint64(h4*s3)
		d3 := uint32(t)
		d4 := h4*r0 + uint32(t>>32) // <= 6·2²⁸ + 4·2²⁸ + 2

		// Bring down what is above 2¹³⁰: with d4 = 4q + d4 mod 4, 2¹²⁸·4q = 5q,
		// and 5q = 4q + q < 1.25·10.1·2²⁸ stays in the word.
		t = uint64(d0) + uint64(d4&^3+d4>>2)
		h0 = uint32(t)
		t = t>>32 + uint64(d1)
		h1 = uint32(t)
		t = t>>32 + uint64(d2)
		h2 = uint32(t)
		t = t>>32 + uint64(d3)
		h3 = uint32(t)
		h4 = d4&3 + uint32(t>>32) // <= 4

		p = p[16:]
	}
	m.h = [5]uint32{h0, h1, h2, h3, h4}
}

// sum writes the tag, (h mod 2¹³⁰-5) + s mod 2¹²⁸, and ends the use of m.
func (m *poly1305x32) sum(tag *[tagSize]byte) {
	// h < 5·2¹²⁸ < 2p, so one conditional subtraction is enough. h >= p when h+5
	// reaches 2¹³⁰, and then h-p = h+5 - 2¹³⁰.
	c := uint64(5)
	for _, w := range m.h[:4] {
		c = (c + uint64(w)) >> 32
	}
	five := 5 * ((m.h[4] + uint32(c)) >> 2 & 1) // 5 if h >= p, else 0

	c = uint64(five)
	var out uint64 // carry of + s
	for i, w := range m.h[:4] {
		c += uint64(w)
		out += uint64(uint32(c)) + uint64(m.s[i])
		binary.LittleEndian.PutUint32(tag[4*i:], uint32(out))
		c >>= 32
		out >>= 32
	}
}
