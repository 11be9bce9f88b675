package curve25519

import (
	"encoding/binary"
	"math/bits"
)

// A field51 is a number modulo p = 2²⁵⁵-19 for CPUs that multiply 64-bit words:
//
//	f[0] + 2⁵¹·f[1] + 2¹⁰²·f[2] + 2¹⁵³·f[3] + 2²⁰⁴·f[4]
//
// Numbers come in two widths:
//
//	tight  f[i] < 2⁵¹, but f[1] < 2⁵¹+2¹⁰: from bytes, products
//	loose  f[i] < 2⁵²+2⁵¹+2¹⁰: sums and differences of tight numbers
//
// Every operation takes loose numbers where nothing else is said. The results are
// tight except of sumDiff and sub. z may be an operand everywhere.
type field51 [5]uint64

const mask51 = 1<<51 - 1

// 2p, as a field51.
const (
	p2first = 2 * (1<<51 - 19)
	p2other = 2 * (1<<51 - 1)
)

// setBytes sets z to the number in b, little-endian, without its top bit.
func (z *field51) setBytes(b *[32]byte) {
	w0 := binary.LittleEndian.Uint64(b[0:])
	w1 := binary.LittleEndian.Uint64(b[8:])
	w2 := binary.LittleEndian.Uint64(b[16:])
	w3 := binary.LittleEndian.Uint64(b[24:])
	*z = field51{
		w0 & mask51,
		(w0>>51 | w1<<13) & mask51,
		(w1>>38 | w2<<26) & mask51,
		(w2>>25 | w3<<39) & mask51,
		w3 >> 12 & mask51,
	}
}

// bytes writes z, tight, to b: the number from 0 to p-1, little-endian. It leaves
// z unusable.
func (z *field51) bytes(b *[32]byte) {
	// z < 2²⁵⁵+2⁶¹. Bring down what is above 2²⁵⁵, at first in limb 1 only: z < 2²⁵⁵.
	z.carry(0)
	top := z[4] >> 51
	z[4] &= mask51
	z.carry(19 * top)
	// If z+19 reaches 2²⁵⁵, z >= p, and z-p = z+19-2²⁵⁵. If not, take the 19 off,
	// by adding 2²⁵⁵-19 and dropping bit 255.
	z.carry(19)
	low := z[4]>>51 - 1 // 0, or all ones
	z[4] &= mask51
	z[1] += low & mask51
	z[2] += low & mask51
	z[3] += low & mask51
	z[4] += low & mask51
	z.carry(low & (mask51 - 18))
	z[4] &= mask51

	binary.LittleEndian.PutUint64(b[0:], z[0]|z[1]<<51)
	binary.LittleEndian.PutUint64(b[8:], z[1]>>13|z[2]<<38)
	binary.LittleEndian.PutUint64(b[16:], z[2]>>26|z[3]<<25)
	binary.LittleEndian.PutUint64(b[24:], z[3]>>39|z[4]<<12)
}

// carry adds c to z and moves what is above each limb but the last to the next.
func (z *field51) carry(c uint64) {
	for i := range 4 {
		c += z[i]
		z[i] = c & mask51
		c >>= 51
	}
	z[4] += c
}

// sumDiff sets z to x+y and diff to x-y; x and y are tight. 2p is added to the
// difference, so that no limb is negative.
func (z *field51) sumDiff(diff, x, y *field51) {
	x0, x1, x2, x3, x4 := x[0], x[1], x[2], x[3], x[4]
	y0, y1, y2, y3, y4 := y[0], y[1], y[2], y[3], y[4]
	*z = field51{x0 + y0, x1 + y1, x2 + y2, x3 + y3, x4 + y4}
	*diff = field51{
		x0 + p2first - y0,
		x1 + p2other - y1,
		x2 + p2other - y2,
		x3 + p2other - y3,
		x4 + p2other - y4,
	}
}

// sub sets z to x-y; x and y are tight.
func (z *field51) sub(x, y *field51) {
	*z = field51{
		x[0] + p2first - y[0],
		x[1] + p2other - y[1],
		x[2] + p2other - y[2],
		x[3] + p2other - y[3],
		x[4] + p2other - y[4],
	}
}

// choose sets z to x if bit is 1, and leaves it if bit is 0.
func (z *field51) choose(x *field51, bit uint32) {
	mask := -uint64(bit)
	for i := range z {
		z[i] ^= mask & (z[i] ^ x[i])
	}
}

// A uint128 is a column of a product.
type uint128 struct{ hi, lo uint64 }

func mul64(a, b uint64) uint128 {
	hi, lo := bits.Mul64(a, b)
	return uint128{hi, lo}
}

// add returns s + a·b.
func (s uint128) add(a, b uint64) uint128 {
	hi, lo := bits.Mul64(a, b)
	lo, c := bits.Add64(lo, s.lo, 0)
	hi, _ = bits.Add64(hi, s.hi, c)
	return uint128{hi, lo}
}

// plus returns s + c.
func (s uint128) plus(c uint64) uint128 {
	lo, c := bits.Add64(s.lo, c, 0)
	return uint128{s.hi + c, lo}
}

// split returns the limb of a column < 2¹¹⁵ and the carry to the next.
func (s uint128) split() (limb, carry uint64) { return s.lo & mask51, s.hi<<13 | s.lo>>51 }

// In the products below 2²⁵⁵ = 19 (mod p): 19·x[i] < 2⁵⁷. A product of two limbs is
// less than 2.26·2¹⁰⁴, at most 4 of 5 in a column times 19, so columns 0 to 3 with the
// carry are less than 2¹¹¹·⁵, and column 4, which has none of these, less than 2¹⁰⁷·⁶.
// Its carry is less than 2⁵⁶·⁶, times 19 less than 2⁶⁰·⁹, and what that carries to limb
// 1 less than 2¹⁰.

// mul sets z to x·y.
func (z *field51) mul(x, y *field51) {
	x0, x1, x2, x3, x4 := x[0], x[1], x[2], x[3], x[4]
	y0, y1, y2, y3, y4 := y[0], y[1], y[2], y[3], y[4]
	x1f, x2f, x3f, x4f := 19*x1, 19*x2, 19*x3, 19*x4

	z0, c := mul64(x0, y0).add(x4f, y1).add(x3f, y2).add(x2f, y3).add(x1f, y4).split()
	z1, c := mul64(x0, y1).add(x1, y0).add(x4f, y2).add(x3f, y3).add(x2f, y4).plus(c).split()
	z2, c := mul64(x0, y2).add(x1, y1).add(x2, y0).add(x4f, y3).add(x3f, y4).plus(c).split()
	z3, c := mul64(x0, y3).add(x1, y2).add(x2, y1).add(x3, y0).add(x4f, y4).plus(c).split()
	z4, c := mul64(x0, y4).add(x1, y3).add(x2, y2).add(x3, y1).add(x4, y0).plus(c).split()

	z0 += 19 * c
	z[0], z[1], z[2], z[3], z[4] = z0&mask51, z1+z0>>51, z2, z3, z4
}

// square sets z to x².
func (z *field51) square(x *field51) {
	x0, x1, x2, x3, x4 := x[0], x[1], x[2], x[3], x[4]
	x0d, x1d, x3f, x4f := 2*x0, 2*x1, 19*x3, 19*x4

	z0, c := mul64(x0, x0).add(2*x4f, x1).add(2*x3f, x2).split()
	z1, c := mul64(x0d, x1).add(2*x4f, x2).add(x3f, x3).plus(c).split()
	z2, c := mul64(x0d, x2).add(x1, x1).add(2*x4f, x3).plus(c).split()
	z3, c := mul64(x0d, x3).add(x1d, x2).add(x4f, x4).plus(c).split()
	z4, c := mul64(x0d, x4).add(x1d, x3).add(x2, x2).plus(c).split()

	z0 += 19 * c
	z[0], z[1], z[2], z[3], z[4] = z0&mask51, z1+z0>>51, z2, z3, z4
}

// mulAdd sets z to x·n + y, n < 2¹⁷.
func (z *field51) mulAdd(x *field51, n uint64, y *field51) {
	z0, c := mul64(x[0], n).plus(y[0]).split()
	z1, c := mul64(x[1], n).plus(y[1] + c).split()
	z2, c := mul64(x[2], n).plus(y[2] + c).split()
	z3, c := mul64(x[3], n).plus(y[3] + c).split()
	z4, c := mul64(x[4], n).plus(y[4] + c).split()

	z0 += 19 * c
	z[0], z[1], z[2], z[3], z[4] = z0&mask51, z1+z0>>51, z2, z3, z4
}
