package curve25519

// A field26 is a number modulo p = 2²⁵⁵-19 for CPUs that multiply 32-bit words:
//
//	(f[0] + 2²⁶·f[1] + … + 2²³⁴·f[9]) / 8
//
// Ten limbs of 26 bits, with sign, stored as multiples of 8. A product of two limbs
// then is a multiple of 64: its upper word is the carry to the next column, and
// its lower word 64 times the limb, without a shift or a mask. There are 260 bits
// in ten limbs and 2²⁶⁰ = 32·19 = 608 (mod p), so columns 10 to 18 of a product are
// added to 0 to 8 times 608.
//
// Numbers come in two widths:
//
//	tight  0 <= f[i] < 2²⁹, but -2²³ < f[0] < 2²⁹+2²³: from bytes, products
//	loose  |f[i]| < 2²⁹+2²⁵: sums and differences of tight numbers
//
// Every operation takes loose numbers where nothing else is said. The results are
// tight except of sumDiff and sub. z may be an operand everywhere.
type field26 [10]int32

// fold is 2²⁶⁰ mod p.
const fold = 608

// p32 is 32p = 2²⁶⁰-608, as a field26.
const (
	p32first = 8 * (1<<26 - fold)
	p32other = 8 * (1<<26 - 1)
)

// setBytes sets z to the number in b, little-endian, without its top bit.
func (z *field26) setBytes(b *[32]byte) {
	// Limb i begins at bit 26·i: an even bit of a byte, so four bytes hold it.
	for i := range 9 {
		at := 26 * i / 8
		w := uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16 | uint32(b[at+3])<<24
		z[i] = int32(w >> (26 * i % 8) & (1<<26 - 1) << 3)
	}
	w := uint32(b[29]) | uint32(b[30])<<8 | uint32(b[31])<<16
	z[9] = int32(w >> 2 & (1<<21 - 1) << 3)
}

// bytes writes z, tight, to b: the number from 0 to p-1, little-endian. It leaves
// z unusable.
func (z *field26) bytes(b *[32]byte) {
	for i := range z {
		z[i] >>= 3
	}
	// -2²⁰ < z < 2²⁶⁰+2²⁰. Bring down what is above 2²⁵⁵, at most 31 times 19, then
	// -19, 0 or 19: 0 <= z < 2²⁵⁵.
	for range 2 {
		top := z[9] >> 21
		z[9] &= 1<<21 - 1
		z.carry(19 * top)
	}
	// If z+19 reaches 2²⁵⁵, z >= p, and z-p = z+19-2²⁵⁵. If not, take the 19 off.
	z.carry(19)
	z.carry(19 * (z[9]>>21 - 1))
	z[9] &= 1<<21 - 1

	var acc uint64
	n, at := 0, 0
	for i := range z {
		acc |= uint64(z[i]) << n // n < 8
		for n += 26; n >= 8; n -= 8 {
			b[at&31] = byte(acc) // 260 bits: at reaches 32, the last 4 bits stay
			acc >>= 8
			at++
		}
	}
}

// carry adds c to z, in limbs of 26 bits, and moves what is above each limb but
// the last to the next.
func (z *field26) carry(c int32) {
	for i := range 9 {
		c += z[i]
		z[i] = c & (1<<26 - 1)
		c >>= 26
	}
	z[9] += c
}
