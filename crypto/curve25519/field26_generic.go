package curve25519

// The arithmetic of field26 in Go: what runs where there is no assembly, and the
// oracle of that.
//
// A loose limb is less than 1.0625·2²⁹, so a product of two is less than 1.13·2⁵⁸, the
// ten of column 9 less than 2⁶¹·⁶, and a carry, the upper word, less than 2²⁹·⁶. Column
// 18 has one product: c19 < 2²⁶·². What folds is less than 608·2³² < 2⁴²; column 9 at
// the end is less than 2⁴², the last carry less than 2¹⁰, and with that limb 0 less than
// 2²⁹+2²²·³. All have signs, except l9 and the h's.

func m(a, b int32) int64 { return int64(a) * int64(b) }

// mulGeneric sets z to x·y.
func (z *field26) mulGeneric(x, y *field26) {
	x0, x1, x2, x3, x4, x5, x6, x7, x8, x9 := x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9]
	y0, y1, y2, y3, y4, y5, y6, y7, y8, y9 := y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7], y[8], y[9]

	s := m(x0, y9) + m(x1, y8) + m(x2, y7) + m(x3, y6) + m(x4, y5) +
		m(x5, y4) + m(x6, y3) + m(x7, y2) + m(x8, y1) + m(x9, y0)
	l9, c := uint32(s), s>>32
	s = 64*c + m(x1, y9) + m(x2, y8) + m(x3, y7) + m(x4, y6) + m(x5, y5) +
		m(x6, y4) + m(x7, y3) + m(x8, y2) + m(x9, y1)
	h10, c := uint32(s), s>>32
	s = 64*c + m(x2, y9) + m(x3, y8) + m(x4, y7) + m(x5, y6) + m(x6, y5) +
		m(x7, y4) + m(x8, y3) + m(x9, y2)
	h11, c := uint32(s), s>>32
	s = 64*c + m(x3, y9) + m(x4, y8) + m(x5, y7) + m(x6, y6) + m(x7, y5) +
		m(x8, y4) + m(x9, y3)
	h12, c := uint32(s), s>>32
	s = 64*c + m(x4, y9) + m(x5, y8) + m(x6, y7) + m(x7, y6) + m(x8, y5) +
		m(x9, y4)
	h13, c := uint32(s), s>>32
	s = 64*c + m(x5, y9) + m(x6, y8) + m(x7, y7) + m(x8, y6) + m(x9, y5)
	h14, c := uint32(s), s>>32
	s = 64*c + m(x6, y9) + m(x7, y8) + m(x8, y7) + m(x9, y6)
	h15, c := uint32(s), s>>32
	s = 64*c + m(x7, y9) + m(x8, y8) + m(x9, y7)
	h16, c := uint32(s), s>>32
	s = 64*c + m(x8, y9) + m(x9, y8)
	h17, c := uint32(s), s>>32
	s = 64*c + m(x9, y9)
	h18, c := uint32(s), s>>32
	c19 := c

	s = fold*int64(h10) + m(x0, y0)
	z[0], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h11) + m(x0, y1) + m(x1, y0)
	z[1], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h12) + m(x0, y2) + m(x1, y1) + m(x2, y0)
	z[2], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h13) + m(x0, y3) + m(x1, y2) + m(x2, y1) + m(x3, y0)
	z[3], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h14) + m(x0, y4) + m(x1, y3) + m(x2, y2) + m(x3, y1) + m(x4, y0)
	z[4], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h15) + m(x0, y5) + m(x1, y4) + m(x2, y3) + m(x3, y2) + m(x4, y1) +
		m(x5, y0)
	z[5], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h16) + m(x0, y6) + m(x1, y5) + m(x2, y4) + m(x3, y3) + m(x4, y2) +
		m(x5, y1) + m(x6, y0)
	z[6], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h17) + m(x0, y7) + m(x1, y6) + m(x2, y5) + m(x3, y4) + m(x4, y3) +
		m(x5, y2) + m(x6, y1) + m(x7, y0)
	z[7], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h18) + m(x0, y8) + m(x1, y7) + m(x2, y6) + m(x3, y5) + m(x4, y4) +
		m(x5, y3) + m(x6, y2) + m(x7, y1) + m(x8, y0)
	z[8], c = int32(uint32(s)>>3), s>>32
	s = 64*c + 64*fold*c19 + int64(l9)
	z[9], c = int32(uint32(s)>>3), s>>32
	z[0] += 8 * fold * int32(c)
}

// squareGeneric sets z to x².
func (z *field26) squareGeneric(x *field26) {
	x0, x1, x2, x3, x4, x5, x6, x7, x8, x9 := x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9]
	x0d, x1d, x2d, x3d, x4d, x5d, x6d, x7d, x8d := 2*x0, 2*x1, 2*x2, 2*x3, 2*x4, 2*x5, 2*x6, 2*x7, 2*x8

	s := m(x0d, x9) + m(x1d, x8) + m(x2d, x7) + m(x3d, x6) + m(x4d, x5)
	l9, c := uint32(s), s>>32
	s = 64*c + m(x1d, x9) + m(x2d, x8) + m(x3d, x7) + m(x4d, x6) + m(x5, x5)
	h10, c := uint32(s), s>>32
	s = 64*c + m(x2d, x9) + m(x3d, x8) + m(x4d, x7) + m(x5d, x6)
	h11, c := uint32(s), s>>32
	s = 64*c + m(x3d, x9) + m(x4d, x8) + m(x5d, x7) + m(x6, x6)
	h12, c := uint32(s), s>>32
	s = 64*c + m(x4d, x9) + m(x5d, x8) + m(x6d, x7)
	h13, c := uint32(s), s>>32
	s = 64*c + m(x5d, x9) + m(x6d, x8) + m(x7, x7)
	h14, c := uint32(s), s>>32
	s = 64*c + m(x6d, x9) + m(x7d, x8)
	h15, c := uint32(s), s>>32
	s = 64*c + m(x7d, x9) + m(x8, x8)
	h16, c := uint32(s), s>>32
	s = 64*c + m(x8d, x9)
	h17, c := uint32(s), s>>32
	s = 64*c + m(x9, x9)
	h18, c := uint32(s), s>>32
	c19 := c

	s = fold*int64(h10) + m(x0, x0)
	z[0], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h11) + m(x0d, x1)
	z[1], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h12) + m(x0d, x2) + m(x1, x1)
	z[2], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h13) + m(x0d, x3) + m(x1d, x2)
	z[3], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h14) + m(x0d, x4) + m(x1d, x3) + m(x2, x2)
	z[4], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h15) + m(x0d, x5) + m(x1d, x4) + m(x2d, x3)
	z[5], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h16) + m(x0d, x6) + m(x1d, x5) + m(x2d, x4) + m(x3, x3)
	z[6], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h17) + m(x0d, x7) + m(x1d, x6) + m(x2d, x5) + m(x3d, x4)
	z[7], c = int32(uint32(s)>>3), s>>32
	s = 64*c + fold*int64(h18) + m(x0d, x8) + m(x1d, x7) + m(x2d, x6) + m(x3d, x5) + m(x4, x4)
	z[8], c = int32(uint32(s)>>3), s>>32
	s = 64*c + 64*fold*c19 + int64(l9)
	z[9], c = int32(uint32(s)>>3), s>>32
	z[0] += 8 * fold * int32(c)
}

// mulAddGeneric sets z to x·n + y, n < 2¹⁷.
func (z *field26) mulAddGeneric(x *field26, n int32, y *field26) {
	n *= 8
	s := m(x[9], n) + m(y[9], 8)
	l9, c := uint32(s), s>>32
	c *= fold
	for i := range 9 {
		s = 64*c + m(x[i], n) + m(y[i], 8)
		z[i], c = int32(uint32(s)>>3), s>>32
	}
	s = 64*c + int64(l9)
	z[9], c = int32(uint32(s)>>3), s>>32
	z[0] += 8 * fold * int32(c)
}

// sumDiffGeneric sets z to x+y and diff to x-y; x and y are tight. 32p is taken from the
// sum, so that it is loose.
func (z *field26) sumDiffGeneric(diff, x, y *field26) {
	x0, y0 := x[0], y[0]
	z[0], diff[0] = x0+y0-p32first, x0-y0
	for i := 1; i < 10; i++ {
		xi, yi := x[i], y[i]
		z[i], diff[i] = xi+yi-p32other, xi-yi
	}
}

// subGeneric sets z to x-y; x and y are tight.
func (z *field26) subGeneric(x, y *field26) {
	for i := range z {
		z[i] = x[i] - y[i]
	}
}

// chooseGeneric sets z to x if bit is 1, and leaves it if bit is 0.
func (z *field26) chooseGeneric(x *field26, bit uint32) {
	mask := -int32(bit)
	for i := range z {
		z[i] ^= mask & (z[i] ^ x[i])
	}
}
