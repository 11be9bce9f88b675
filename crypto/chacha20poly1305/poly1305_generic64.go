package chacha20poly1305

import (
	"encoding/binary"
	"math/bits"
)

// poly1305x64 is Poly1305 (RFC 8439 §2.5) for CPUs that multiply 64-bit words.
// The zero value is not usable; init keys it.
type poly1305x64 struct {
	h [3]uint64 // accumulator, little-endian words; h[2] <= 4 between blocks
	r [2]uint64 // clamped: r[0], r[1] < 2⁶⁰, r[1] a multiple of 4
	s [2]uint64
}

func (m *poly1305x64) init(key *[32]byte) {
	*m = poly1305x64{
		r: [2]uint64{
			binary.LittleEndian.Uint64(key[0:]) & 0x0ffffffc0fffffff,
			binary.LittleEndian.Uint64(key[8:]) & 0x0ffffffc0ffffffc,
		},
		s: [2]uint64{
			binary.LittleEndian.Uint64(key[16:]),
			binary.LittleEndian.Uint64(key[24:]),
		},
	}
}

func (m *poly1305x64) blocksGeneric(p []byte, hibit uint32) {
	h0, h1, h2 := m.h[0], m.h[1], m.h[2]
	r0, r1 := m.r[0], m.r[1]

	// 2¹³⁰ = 5 (mod p) and r1 is a multiple of 4, so a product with r1 that would
	// stand at 2¹²⁸ stands at 1 when multiplied by 5/4: 2¹²⁸·r1 = 2¹³⁰·(r1/4).
	s1 := r1 + r1>>2 // < 1.25·2⁶⁰

	for len(p) >= 16 {
		// h += block and the bit above it. h2 <= 4 + 1 + carry.
		var c uint64
		h0, c = bits.Add64(h0, binary.LittleEndian.Uint64(p[0:8]), 0)
		h1, c = bits.Add64(h1, binary.LittleEndian.Uint64(p[8:16]), c)
		h2, _ = bits.Add64(h2, uint64(hibit), c) // <= 6

		// d = h·r in words:
		//
		//	1:     h0·r0 + h1·s1
		//	2⁶⁴:   h0·r1 + h1·r0 + h2·s1
		//	2¹²⁸:  h2·r0
		//
		// h0, h1 < 2⁶⁴ and h2 <= 6, so d0 < 2.25·2¹²⁴; d1 with the carry from d0
		// < 2·2¹²⁴ + 2⁶⁴; h2·s1 < 2⁶³ and h2·r0 < 1.5·2⁶² need one word.
		d0hi, d0 := bits.Mul64(h0, r0)
		hi, lo := bits.Mul64(h1, s1)
		d0, c = bits.Add64(d0, lo, 0)
		d0hi, _ = bits.Add64(d0hi, hi, c)

		d1hi, d1 := bits.Mul64(h0, r1)
		hi, lo = bits.Mul64(h1, r0)
		d1, c = bits.Add64(d1, lo, 0)
		d1hi, _ = bits.Add64(d1hi, hi, c)
		d1, c = bits.Add64(d1, h2*s1, 0)
		d1hi, _ = bits.Add64(d1hi, 0, c)

		d1, c = bits.Add64(d1, d0hi, 0)
		d2, _ := bits.Add64(h2*r0, d1hi, c) // <= 6·2⁶⁰ + 2⁶¹ + 1, about 2⁶³

		// Bring down what is above 2¹³⁰: with d2 = 4q + d2 mod 4, 2¹²⁸·4q = 5q,
		// and 5q = 4q + q, about 1.25·2⁶³, stays in the word.
		h0, c = bits.Add64(d0, d2&^3+d2>>2, 0)
		h1, c = bits.Add64(d1, 0, c)
		h2, _ = bits.Add64(d2&3, 0, c) // <= 4

		p = p[16:]
	}
	m.h = [3]uint64{h0, h1, h2}
}

// sum writes the tag, (h mod 2¹³⁰-5) + s mod 2¹²⁸, and ends the use of m.
func (m *poly1305x64) sum(tag *[tagSize]byte) {
	// h < 5·2¹²⁸ < 2p, so one conditional subtraction is enough. h >= p when h+5
	// reaches 2¹³⁰, and then h-p = h+5 - 2¹³⁰.
	h0, h1, h2 := m.h[0], m.h[1], m.h[2]
	g0, c := bits.Add64(h0, 5, 0)
	g1, c := bits.Add64(h1, 0, c)
	mask := -((h2 + c) >> 2 & 1) // all ones if h >= p
	h0 ^= mask & (h0 ^ g0)
	h1 ^= mask & (h1 ^ g1)

	h0, c = bits.Add64(h0, m.s[0], 0)
	h1, _ = bits.Add64(h1, m.s[1], c)
	binary.LittleEndian.PutUint64(tag[0:], h0)
	binary.LittleEndian.PutUint64(tag[8:], h1)
}
