package curve25519

import "math/bits"

// The products of field51 in Go, and the oracle of the assembly.

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

// mulGeneric sets z to x·y.
func (z *field51) mulGeneric(x, y *field51) {
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

// squareGeneric sets z to x².
func (z *field51) squareGeneric(x *field51) {
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
