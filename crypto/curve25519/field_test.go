package curve25519

import (
	"math/big"
	"testing"
)

// A form is field26 or field51, and what is needed to test it against math/big.
type form[F comparable] struct {
	name    string
	value   func(*F) *big.Int
	tight   func() *F // a random number, limbs at their extremes half of the time
	loose   func() *F
	fill    func(z *F, v *big.Int) bool // sets z to v itself; false: no tight number is v
	isTight func(*F) bool
	isLoose func(*F) bool

	setBytes    func(z *F, b *[32]byte)
	bytes       func(z *F, b *[32]byte)
	mul         func(z, x, y *F)
	square      func(z, x *F)
	mulAdd      func(z, x, y *F)
	sumDiff     func(z, diff, x, y *F)
	sub         func(z, x, y *F)
	choose      func(z, x *F, bit uint32)
	genericMul  func(z, x, y *F)
	genericSq   func(z, x *F)
	genericMAdd func(z, x, y *F)
}

// pick returns a number from lo to hi, one of the two or near half of the time.
func pick(lo, hi int64) int64 {
	switch random.IntN(6) {
	case 0:
		return lo
	case 1:
		return hi
	case 2:
		return min(hi, max(lo, lo+random.Int64N(40)))
	default:
		return lo + random.Int64N(hi-lo+1)
	}
}

// digit returns n bits of v, the first of them bit i.
func digit(v *big.Int, i, n int) (d uint64) {
	for j := n - 1; j >= 0; j-- {
		d = d<<1 | uint64(v.Bit(i+j))
	}
	return d
}

var form26 = form[field26]{
	name: "field26",
	value: func(f *field26) *big.Int {
		v := new(big.Int)
		for i := 9; i >= 0; i-- {
			v.Lsh(v, 26).Add(v, big.NewInt(int64(f[i]>>3)))
		}
		return v.Mod(v, prime)
	},
	tight: func() *field26 {
		f := &field26{int32(pick(-1<<23/8+1, (1<<29+1<<23)/8-1) * 8)}
		for i := 1; i < 10; i++ {
			f[i] = int32(pick(0, 1<<26-1) * 8)
		}
		return f
	},
	loose: func() *field26 {
		f := new(field26)
		for i := range f {
			f[i] = int32(pick(-(1<<29+1<<25)/8+1, (1<<29+1<<25)/8-1) * 8)
		}
		return f
	},
	fill: func(z *field26, v *big.Int) bool {
		if v.Sign() < 0 {
			z[0] = int32(v.Int64() * 8)
			return true
		}
		for i := range z {
			z[i] = int32(digit(v, 26*i, 26) * 8)
		}
		return v.BitLen() <= 260
	},
	isTight: func(f *field26) bool {
		ok := f[0] > -1<<23 && f[0] < 1<<29+1<<23
		for _, limb := range f {
			ok = ok && limb&7 == 0
		}
		for _, limb := range f[1:] {
			ok = ok && limb >= 0 && limb < 1<<29
		}
		return ok
	},
	isLoose: func(f *field26) bool {
		ok := true
		for _, limb := range f {
			ok = ok && limb&7 == 0 && limb > -(1<<29+1<<25) && limb < 1<<29+1<<25
		}
		return ok
	},
	setBytes:    (*field26).setBytes,
	bytes:       (*field26).bytes,
	mul:         (*field26).mul,
	square:      (*field26).square,
	mulAdd:      func(z, x, y *field26) { z.mulAdd(x, a24, y) },
	sumDiff:     (*field26).sumDiff,
	sub:         (*field26).sub,
	choose:      (*field26).choose,
	genericMul:  (*field26).mulGeneric,
	genericSq:   (*field26).squareGeneric,
	genericMAdd: func(z, x, y *field26) { z.mulAddGeneric(x, a24, y) },
}

var form51 = form[field51]{
	name: "field51",
	value: func(f *field51) *big.Int {
		v := new(big.Int)
		for i := 4; i >= 0; i-- {
			v.Lsh(v, 51).Add(v, new(big.Int).SetUint64(f[i]))
		}
		return v.Mod(v, prime)
	},
	tight: func() *field51 {
		f := new(field51)
		for i := range f {
			f[i] = uint64(pick(0, 1<<51-1))
		}
		f[1] += uint64(pick(0, 1<<10))
		return f
	},
	loose: func() *field51 {
		f := new(field51)
		for i := range f {
			f[i] = uint64(pick(0, 1<<52+1<<51+1<<10-1))
		}
		return f
	},
	fill: func(z *field51, v *big.Int) bool {
		for i := range z {
			z[i] = digit(v, 51*i, 51)
		}
		if v.Bit(255) == 1 { // 2²⁵⁵, if less than 2⁵¹ is beside it
			*z = field51{z[0], 1 << 51, mask51, mask51, mask51}
		}
		return v.Sign() >= 0 && v.Cmp(power(255).Add(power(255), power(51))) < 0
	},
	isTight: func(f *field51) bool {
		ok := f[1] < 1<<51+1<<10
		for i, limb := range f {
			ok = ok && (i == 1 || limb < 1<<51)
		}
		return ok
	},
	isLoose: func(f *field51) bool {
		ok := true
		for _, limb := range f {
			ok = ok && limb < 1<<52+1<<51+1<<10
		}
		return ok
	},
	setBytes: (*field51).setBytes,
	bytes:    (*field51).bytes,
	mul:      (*field51).mul,
	square:   (*field51).square,
	mulAdd:   func(z, x, y *field51) { z.mulAdd(x, a24, y) },
	sumDiff:  (*field51).sumDiff,
	sub:      (*field51).sub,
	choose:   (*field51).choose,
}

func TestField26(t *testing.T) { testField(t, form26) }
func TestField51(t *testing.T) { testField(t, form51) }

func testField[F comparable](t *testing.T, f form[F]) {
	n := 3000
	if testing.Short() {
		n = 300
	}
	calc := func(what func(v *big.Int)) *big.Int {
		v := new(big.Int)
		what(v)
		return v.Mod(v, prime)
	}
	check := func(op string, z *F, want *big.Int, inside bool, operands ...*F) {
		t.Helper()
		if got := f.value(z); got.Cmp(want) != 0 || !inside {
			t.Fatalf("%s %s of %v:\n got %v = %x, within bounds: %t\nwant %x", f.name, op, operands, *z, got, inside, want)
		}
	}
	for range n {
		x, y := f.loose(), f.loose()
		vx, vy := f.value(x), f.value(y)

		product := calc(func(v *big.Int) { v.Mul(vx, vy) })
		var z, g F
		f.mul(&z, x, y)
		check("mul", &z, product, f.isTight(&z), x, y)
		a := *x
		f.mul(&a, &a, y)
		check("mul into x", &a, product, a == z, x, y)
		a = *y
		f.mul(&a, x, &a)
		check("mul into y", &a, product, a == z, x, y)
		if f.genericMul != nil {
			f.genericMul(&g, x, y)
			check("generic mul", &g, product, g == z, x, y)
		}

		square := calc(func(v *big.Int) { v.Mul(vx, vx) })
		f.square(&z, x)
		check("square", &z, square, f.isTight(&z), x)
		a = *x
		f.square(&a, &a)
		check("square into x", &a, square, a == z, x)
		f.mul(&a, x, x)
		check("mul by itself", &a, square, a == z, x)
		a = *x
		f.mul(&a, &a, &a)
		check("mul by and into itself", &a, square, a == z, x)
		if f.genericSq != nil {
			f.genericSq(&g, x)
			check("generic square", &g, square, g == z, x)
		}

		p, q := f.tight(), f.tight()
		vp, vq := f.value(p), f.value(q)

		sum := calc(func(v *big.Int) { v.Mul(vx, big.NewInt(a24)).Add(v, vp) })
		f.mulAdd(&z, x, p)
		check("mulAdd", &z, sum, f.isTight(&z), x, p)
		a = *x
		f.mulAdd(&a, &a, p)
		check("mulAdd into x", &a, sum, a == z, x, p)
		a = *p
		f.mulAdd(&a, x, &a)
		check("mulAdd into y", &a, sum, a == z, x, p)
		if f.genericMAdd != nil {
			f.genericMAdd(&g, x, p)
			check("generic mulAdd", &g, sum, g == z, x, p)
		}

		sum = calc(func(v *big.Int) { v.Add(vp, vq) })
		diff := calc(func(v *big.Int) { v.Sub(vp, vq) })
		var d F
		f.sumDiff(&z, &d, p, q)
		check("sum", &z, sum, f.isLoose(&z), p, q)
		check("difference", &d, diff, f.isLoose(&d), p, q)
		a, b := *p, *q
		f.sumDiff(&a, &b, &a, &b)
		check("sum into x", &a, sum, a == z, p, q)
		check("difference into y", &b, diff, b == d, p, q)
		a, b = *p, *q
		f.sumDiff(&b, &a, &a, &b)
		check("sum into y", &b, sum, b == z, p, q)
		check("difference into x", &a, diff, a == d, p, q)
		f.sub(&z, p, q)
		check("sub", &z, diff, f.isLoose(&z), p, q)
		a = *p
		f.sub(&a, &a, q)
		check("sub into x", &a, diff, a == z, p, q)
		a = *q
		f.sub(&a, p, &a)
		check("sub into y", &a, diff, a == z, p, q)

		a = *x
		f.choose(&a, y, 0)
		check("choose 0", &a, vx, a == *x, x, y)
		f.choose(&a, y, 1)
		check("choose 1", &a, vy, a == *y, x, y)

		var out [32]byte
		a = *p
		f.bytes(&a, &out)
		if out != little(vp) {
			t.Fatalf("%s bytes of %v: got %x, want %x", f.name, *p, out, little(vp))
		}
		in := randomBytes()
		f.setBytes(&a, &in)
		in[31] &= 0x7f
		for i, j := 0, 31; i < j; i, j = i+1, j-1 {
			in[i], in[j] = in[j], in[i]
		}
		v := new(big.Int).SetBytes(in[:])
		check("setBytes", &a, v.Mod(v, prime), f.isTight(&a))
	}
}

// The ends of what bytes reduces.
func TestCanonical(t *testing.T) { testCanonical(t, form26); testCanonical(t, form51) }

func testCanonical[F comparable](t *testing.T, f form[F]) {
	var zero F
	for i := int64(-40); i <= 40; i++ {
		for _, multiple := range []int64{0, 1, 2, 16, 31, 32} {
			// i + multiple·p, as far as a tight number can be.
			v := new(big.Int).Mul(prime, big.NewInt(multiple))
			v.Add(v, big.NewInt(i))
			z := zero
			if !f.fill(&z, v) {
				continue
			}
			want := new(big.Int).Mod(v, prime)
			var out [32]byte
			if f.bytes(&z, &out); out != little(want) {
				t.Errorf("%s bytes of %d·p%+d: got %x, want %x", f.name, multiple, i, out, little(want))
			}
		}
	}
}
