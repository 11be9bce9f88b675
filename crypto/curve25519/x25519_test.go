package curve25519

import (
	"bytes"
	"crypto/ecdh"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"
)

func unhex(s string) (b [32]byte) {
	if n, err := hex.Decode(b[:], []byte(s)); n != 32 || err != nil {
		panic(s)
	}
	return b
}

// random is the same in every run.
var random = rand.New(rand.NewChaCha8([32]byte{25, 5, 19}))

func randomBytes() (b [32]byte) {
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// little returns the 32 bytes of n, little-endian.
func little(n *big.Int) (b [32]byte) {
	n.FillBytes(b[:])
	for i, j := 0, 31; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return b
}

var (
	prime = new(big.Int).Sub(power(255), big.NewInt(19))
	nine  = "0900000000000000000000000000000000000000000000000000000000000000"
)

func power(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }

// RFC 7748 §5.2 and §6.1.
func TestVectors(t *testing.T) {
	alice := "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
	bob := "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
	alicePublic := "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
	bobPublic := "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
	shared := "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
	for _, v := range []struct{ name, scalar, point, want string }{
		{"the first",
			"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
			"e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
			"c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
		{"the second, top bit of the point set",
			"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
			"e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
			"95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
		{"one iteration", nine, nine, "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"},
		{"Alice's public key", alice, nine, alicePublic},
		{"Bob's public key", bob, nine, bobPublic},
		{"Alice's shared secret", alice, bobPublic, shared},
		{"Bob's shared secret", bob, alicePublic, shared},
	} {
		scalar, point := unhex(v.scalar), unhex(v.point)
		var got [32]byte
		if err := X25519(&got, &scalar, &point); err != nil || got != unhex(v.want) {
			t.Errorf("%s: got %x, %v, want %s", v.name, got, err, v.want)
		}
		if v.point == nine {
			Public(&got, &scalar)
			if got != unhex(v.want) {
				t.Errorf("%s: Public: got %x, want %s", v.name, got, v.want)
			}
		}
	}
}

// RFC 7748 §5.2: the scalar becomes the point, the product the scalar.
func TestThousandIterations(t *testing.T) {
	k, u := unhex(nine), unhex(nine)
	for range 1000 {
		var next [32]byte
		if err := X25519(&next, &k, &u); err != nil {
			t.Fatal(err)
		}
		k, u = next, k
	}
	if want := "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"; k != unhex(want) {
		t.Errorf("got %x, want %s", k, want)
	}
}

// lowOrder are the points whose multiples are zero: 0, 1, two of order 8, -1 and, not
// canonical, p and p+1.
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func TestLowOrderRefused(t *testing.T) {
	for _, p := range lowOrder {
		for _, top := range []byte{0, 0x80} {
			point, scalar := unhex(p), randomBytes()
			point[31] |= top
			got := randomBytes()
			if err := X25519(&got, &scalar, &point); err != ErrLowOrder || got != [32]byte{} {
				t.Errorf("%x: got %x, error %v, want zero, %v", point, got, err, ErrLowOrder)
			}
		}
	}
}

// reference is crypto/ecdh.
func reference(t *testing.T, scalar, point *[32]byte) (product [32]byte, ok bool) {
	k, err := ecdh.X25519().NewPrivateKey(scalar[:])
	if err != nil {
		t.Fatal(err)
	}
	p, err := ecdh.X25519().NewPublicKey(point[:])
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.ECDH(p)
	if err != nil {
		return product, false
	}
	return [32]byte(b), true
}

func compare(t *testing.T, scalar, point *[32]byte) {
	t.Helper()
	want, ok := reference(t, scalar, point)
	var got [32]byte
	err := X25519(&got, scalar, point)
	if got != want || (err == nil) != ok {
		t.Errorf("scalar %x, point %x:\n got %x, %v\nwant %x, ok: %t", *scalar, *point, got, err, want, ok)
	}
}

func TestAgainstECDH(t *testing.T) {
	var ones [32]byte
	for i := range ones {
		ones[i] = 0xff
	}
	points := [][32]byte{{}, {9}, ones}
	for _, p := range lowOrder {
		points = append(points, unhex(p))
	}
	// The 19 that are not canonical, their neighbours, and single bits.
	for i := int64(-3); i < 19; i++ {
		points = append(points, little(new(big.Int).Add(prime, big.NewInt(i))))
	}
	for _, n := range []uint{25, 26, 51, 52, 127, 130, 204, 233, 234, 235, 253, 254, 255} {
		points = append(points, little(power(n)), little(new(big.Int).Sub(power(n), big.NewInt(1))))
	}
	scalars := [][32]byte{{}, {1}, {8}, ones, {31: 0x7f}, {31: 0x80}}
	for range 2 {
		scalars = append(scalars, randomBytes())
	}
	for i := range points {
		for j := range scalars {
			compare(t, &scalars[j], &points[i])
		}
	}
	for range 200 {
		scalar, point := randomBytes(), randomBytes()
		compare(t, &scalar, &point)
	}
}

func FuzzX25519(f *testing.F) {
	for _, p := range lowOrder {
		point := unhex(p)
		f.Add(bytes.Repeat([]byte{0x55}, 32), point[:])
	}
	f.Fuzz(func(t *testing.T, scalar, point []byte) {
		if len(scalar) == 32 && len(point) == 32 {
			compare(t, (*[32]byte)(scalar), (*[32]byte)(point))
		}
	})
}

// What clamping decides is not looked at.
func TestClamped(t *testing.T) {
	point := randomBytes()
	scalar := randomBytes()
	var want, got [32]byte
	X25519(&want, &scalar, &point)
	for _, bit := range []int{0, 1, 2, 254, 255} {
		changed := scalar
		changed[bit/8] ^= 1 << (bit % 8)
		if X25519(&got, &changed, &point); got != want {
			t.Errorf("bit %d: got %x, want %x", bit, got, want)
		}
	}
	changed := scalar
	changed[0] ^= 8
	if X25519(&got, &changed, &point); got == want {
		t.Error("bit 3 changes nothing")
	}
}

func TestDestinationIsOperand(t *testing.T) {
	scalar, point := randomBytes(), randomBytes()
	var want [32]byte
	X25519(&want, &scalar, &point)
	s, p := scalar, point
	if X25519(&s, &s, &point); s != want {
		t.Errorf("scalar: got %x, want %x", s, want)
	}
	if X25519(&p, &scalar, &p); p != want {
		t.Errorf("point: got %x, want %x", p, want)
	}
	Public(&want, &scalar)
	s = scalar
	if Public(&s, &s); s != want {
		t.Errorf("Public: got %x, want %x", s, want)
	}
}

func TestNoAllocations(t *testing.T) {
	scalar, point, dst := randomBytes(), randomBytes(), new([32]byte)
	if n := testing.AllocsPerRun(3, func() { X25519(dst, &scalar, &point); Public(dst, &scalar) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// searched is how far below the caller the stack is searched, in bytes.
const searched = 4 << 10

//go:noinline
func clearStack() byte {
	var b [searched + 512]byte
	clear(b[:])
	return b[random.IntN(len(b))]
}

// deadBytes copies what earlier calls left below the caller's frame.
//
//go:noinline
func deadBytes(to *[searched]byte) {
	var here byte
	for i := range to {
		to[i] = *(*byte)(unsafe.Add(unsafe.Pointer(&here), i-searched))
	}
}

//go:noinline
func leak(secret *[32]byte) byte {
	copied := *secret
	return copied[random.IntN(32)]
}

// raceDetector is set in race builds.
var raceDetector bool

// No piece of the scalar or the product, as bytes or as limbs, is left on the
// stack.
func TestNothingLeftOnStack(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's calls spill registers that the real code keeps")
	}
	runtime.GC() // a collection may move the stack, without its dead part
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	scalar, point := randomBytes(), randomBytes()
	var product, public [32]byte
	X25519(&product, &scalar, &point)
	Public(&public, &scalar)

	dst, sink := new([32]byte), byte(0)
	dead := new([searched]byte)
	for _, f := range []struct {
		name string
		call func()
		want bool // something is found: the search works
	}{
		{"a function that leaks the scalar", func() { sink += leak(&scalar) }, true},
		{"a function that leaks the product", func() { sink += leak(&product) }, true},
		{"the ladder without the wiping", func() { var l ladder; l.multiply(dst, &scalar, &point); sink += byte(len(l.x1)) }, true},
		{"X25519", func() { X25519(dst, &scalar, &point) }, false},
		{"Public", func() { Public(dst, &scalar) }, false},
	} {
		clearStack()
		f.call()
		deadBytes(dead)
		found := ""
		for i := 0; i < 32; i += 4 {
			if bytes.Contains(dead[:], scalar[i:i+4]) {
				found += fmt.Sprintf("scalar[%d:%d] ", i, i+4)
			}
			if bytes.Contains(dead[:], product[i:i+4]) {
				found += fmt.Sprintf("product[%d:%d] ", i, i+4)
			}
		}
		for name, n := range map[string]*[32]byte{"product": &product, "public key": &public} {
			var x field
			x.setBytes(n)
			for i := range x {
				for _, limb := range [][]byte{native(x[i]), native(x[i] >> 3)} {
					if bytes.Contains(dead[:], limb) {
						found += fmt.Sprintf("limb %d of the %s ", i, name)
					}
				}
			}
		}
		if (found != "") != f.want {
			t.Errorf("%s: found %q, want some: %t", f.name, found, f.want)
		}
	}
}

// native returns a limb as it lies in memory.
func native[T int32 | uint64](limb T) []byte {
	if unsafe.Sizeof(limb) == 4 {
		return binary.NativeEndian.AppendUint32(nil, uint32(limb))
	}
	return binary.NativeEndian.AppendUint64(nil, uint64(limb))
}

func BenchmarkX25519(b *testing.B) {
	scalar, point, dst := randomBytes(), randomBytes(), new([32]byte)
	for b.Loop() {
		X25519(dst, &scalar, &point)
	}
}

func BenchmarkECDH(b *testing.B) {
	scalar, point := randomBytes(), randomBytes()
	k, _ := ecdh.X25519().NewPrivateKey(scalar[:])
	p, _ := ecdh.X25519().NewPublicKey(point[:])
	for b.Loop() {
		k.ECDH(p)
	}
}
