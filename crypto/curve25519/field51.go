package curve25519

import "encoding/binary"

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
	z[0], z[1], z[2], z[3], z[4] = x0+y0, x1+y1, x2+y2, x3+y3, x4+y4
	diff[0] = x0 + p2first - y0
	diff[1] = x1 + p2other - y1
	diff[2] = x2 + p2other - y2
	diff[3] = x3 + p2other - y3
	diff[4] = x4 + p2other - y4
}

// sub sets z to x-y; x and y are tight.
func (z *field51) sub(x, y *field51) {
	z[0] = x[0] + p2first - y[0]
	z[1] = x[1] + p2other - y[1]
	z[2] = x[2] + p2other - y[2]
	z[3] = x[3] + p2other - y[3]
	z[4] = x[4] + p2other - y[4]
}

// choose sets z to x if bit is 1, and leaves it if bit is 0.
func (z *field51) choose(x *field51, bit uint32) {
	mask := -uint64(bit)
	for i := range z {
		z[i] ^= mask & (z[i] ^ x[i])
	}
}
