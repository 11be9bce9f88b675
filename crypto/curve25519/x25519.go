// Package curve25519 is X25519, Diffie-Hellman on Curve25519: RFC 7748.
//
// It runs in constant time: no branch and no address depends on a scalar, a point
// or anything computed from them. (Some old cores multiply by short numbers in
// fewer cycles; nothing is done about that.) It allocates nothing, and overwrites
// its copies of secrets before it returns.
//
// The field arithmetic comes in two forms: field26.go for CPUs with 32-bit words,
// with assembly for MIPS and ARM, and field51.go for those with 64-bit words.
package curve25519

import (
	"errors"
	"runtime"
)

// ErrLowOrder is returned for a point whose multiples by any valid scalar are all
// zero.
var ErrLowOrder = errors.New("curve25519: point of low order")

// a24 is (486662-2)/4, RFC 7748 §5.
const a24 = 121665

// X25519 sets dst to the product of scalar and point, RFC 7748 §5. The scalar is
// clamped, the top bit of the point ignored. If the product is zero it is stored
// all the same, and the error is ErrLowOrder. dst may be scalar or point.
func X25519(dst, scalar, point *[32]byte) error {
	var l ladder
	l.multiply(dst, scalar, point)
	l.wipe()

	var or byte
	for _, b := range dst {
		or |= b
	}
	if or == 0 {
		return ErrLowOrder
	}
	return nil
}

var basePoint = [32]byte{9}

// Public sets dst to the public key of scalar: its product with the base point.
func Public(dst, scalar *[32]byte) {
	var l ladder
	l.multiply(dst, scalar, &basePoint)
	l.wipe()
}

// A ladder is the state of one scalar multiplication: two points, x2:z2 and x3:z3,
// whose difference is the point x1:1, and room for what RFC 7748 §5 calls by the
// other names.
type ladder struct {
	x1, x2, z2, x3, z3     field
	a, b, c, d, aa, bb, da field
}

// multiply sets dst to the x coordinate of scalar·point.
//
// A clamped scalar begins with bit 254 set and ends with bits 2, 1, 0 clear. These
// four are not read, and need no addition: with bit 254 the points become 2·point
// and point, with the last three the first point is doubled.
func (l *ladder) multiply(dst, scalar, point *[32]byte) {
	l.x1.setBytes(point)
	l.x3, l.z3 = l.x1, one
	l.a.sumDiff(&l.b, &l.x3, &l.z3)
	l.double()

	swap := uint32(1) // the last bit, which says which point is the lower multiple
	for t := 253; t >= 3; t-- {
		bit := uint32(scalar[t>>3]) >> (t & 7) & 1

		l.a.sumDiff(&l.b, &l.x2, &l.z2)
		l.c.sumDiff(&l.d, &l.x3, &l.z3)
		l.da.mul(&l.d, &l.a)
		l.x3.mul(&l.c, &l.b)

		// The RFC swaps the points here when the bit changes. Then DA and CB change
		// places, which the two squares below do not notice; all that is left is to
		// double the other point.
		l.a.choose(&l.c, swap^bit)
		l.b.choose(&l.d, swap^bit)
		l.double()

		l.c.sumDiff(&l.d, &l.da, &l.x3)
		l.x3.square(&l.c)
		l.d.square(&l.d)
		l.z3.mul(&l.x1, &l.d)
		swap = bit
	}
	l.x2.choose(&l.x3, swap)
	l.z2.choose(&l.z3, swap)
	for range 3 {
		l.a.sumDiff(&l.b, &l.x2, &l.z2)
		l.double()
	}

	l.invert()
	l.x2.mul(&l.x2, &l.z2)
	l.x2.bytes(dst)
}

// double sets x2:z2 to twice the point of which a is the sum of the coordinates and
// b the difference.
func (l *ladder) double() {
	l.aa.square(&l.a)
	l.bb.square(&l.b)
	l.x2.mul(&l.aa, &l.bb)
	l.b.sub(&l.aa, &l.bb)        // E
	l.a.mulAdd(&l.b, a24, &l.aa) // AA + a24·E
	l.z2.mul(&l.b, &l.a)
}

// invert sets z2 to 1/z2, which is z2 to the power of p-2 = 2²⁵⁵-21; 0 stays 0.
// The comments are exponents.
func (l *ladder) invert() {
	z, t := &l.z2, &l.a
	l.x3.square(z)        // 2
	t.squares(&l.x3, 2)   // 8
	l.b.mul(t, z)         // 9
	l.x3.mul(&l.b, &l.x3) // 11
	t.square(&l.x3)       // 22
	l.b.mul(t, &l.b)      // 2⁵-1 = 31
	t.squares(&l.b, 5)    //
	l.b.mul(t, &l.b)      // 2¹⁰-1
	t.squares(&l.b, 10)   //
	l.c.mul(t, &l.b)      // 2²⁰-1
	t.squares(&l.c, 20)   //
	t.mul(t, &l.c)        // 2⁴⁰-1
	t.squares(t, 10)      //
	l.b.mul(t, &l.b)      // 2⁵⁰-1
	t.squares(&l.b, 50)   //
	l.c.mul(t, &l.b)      // 2¹⁰⁰-1
	t.squares(&l.c, 100)  //
	t.mul(t, &l.c)        // 2²⁰⁰-1
	t.squares(t, 50)      //
	t.mul(t, &l.b)        // 2²⁵⁰-1
	t.squares(t, 5)       // 2²⁵⁵-2⁵
	z.mul(t, &l.x3)       // 2²⁵⁵-21
}

// squares sets z to x to the power of 2ⁿ, n > 0.
func (z *field) squares(x *field, n int) {
	z.square(x)
	for range n - 1 {
		z.square(z)
	}
}

// deadStack is in bytes: more than the frames below X25519 take.
const deadStack = 1 << 10

// wipe overwrites l and the dead stack below the caller, where the field's functions
// left limbs. Not inlined: the stores to l would be dead.
//
//go:noinline
func (l *ladder) wipe() {
	*l = ladder{}
	var dead [deadStack]byte
	runtime.KeepAlive(&dead)
}
