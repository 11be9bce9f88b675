package curve25519

import (
	"crypto/rand"
	"testing"

	xcurve25519 "golang.org/x/crypto/curve25519"
)

// The contract is that of x/crypto's package: the same product, the same points refused.
func TestAgainstXCrypto(t *testing.T) {
	points := [][32]byte{{}, {1}, {9}}
	for range 20 {
		var p [32]byte
		rand.Read(p[:])
		points = append(points, p)
	}
	for _, p := range points {
		var k, got, public [32]byte
		rand.Read(k[:])
		want, refused := xcurve25519.X25519(k[:], p[:])
		err := X25519(&got, &k, &p)
		if (err != nil) != (refused != nil) || err == nil && [32]byte(want) != got {
			t.Errorf("point %x: %x, %v; want %x, %v", p, got, err, want, refused)
		}
		Public(&public, &k)
		if want, _ := xcurve25519.X25519(k[:], xcurve25519.Basepoint); [32]byte(want) != public {
			t.Errorf("public key %x, want %x", public, want)
		}
	}
}
