package blake2s

import (
	"encoding/hex"
	"testing"

	xblake2s "golang.org/x/crypto/blake2s"
)

// Everything but the vectors is judged by golang.org/x/crypto/blake2s.

func reference(key []byte, parts ...[]byte) [Size128]byte {
	h, err := xblake2s.New128(key)
	if err != nil {
		panic(err)
	}
	for _, p := range parts {
		h.Write(p)
	}
	return [Size128]byte(h.Sum(nil))
}

// The example of RFC 7693, appendix B, and the hash of nothing.
func TestVectors(t *testing.T) {
	const abc = "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"
	if sum := Sum256([]byte("abc")); hex.EncodeToString(sum[:]) != abc {
		t.Errorf("abc: got %x, want %s", sum, abc)
	}
	const empty = "69217a3079908094e11121d042354a7c1f55b6482ca1a51e1b250dfd1ed0eef9"
	if sum := Sum256(nil); hex.EncodeToString(sum[:]) != empty {
		t.Errorf("nothing: got %x, want %s", sum, empty)
	}
}

// bytesFrom returns n bytes that differ between seeds; 0 is all ones, for carries.
func bytesFrom(seed uint32, n int) []byte {
	b := make([]byte, n)
	x := seed
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
		if seed == 0 {
			b[i] = 0xff
		}
	}
	return b
}

// Each length up to five blocks, at each alignment.
func TestSum256(t *testing.T) {
	for seed := range uint32(4) {
		text := bytesFrom(seed, 5*BlockSize+4)
		for n := range 5*BlockSize + 1 {
			for off := range 4 {
				data := text[off : off+n]
				if got, want := Sum256(data), xblake2s.Sum256(data); got != want {
					t.Fatalf("seed %d, %d bytes at %d: got %x, want %x", seed, n, off, got, want)
				}
			}
		}
	}
}

// Each length of key, with data in two parts of each length around the edges of blocks.
func TestMAC128(t *testing.T) {
	text := bytesFrom(1, 200)
	for n := 1; n <= Size; n++ {
		key := bytesFrom(uint32(n), n)
		for i, a := range []int{0, 1, 63, 64, 65, 116, 128} {
			for _, b := range []int{0, 1, 16, 63, 64, 65, 72} {
				p, q := text[i&3:][:a], text[128:][:b]
				if got, want := MAC128(key, p, q), reference(key, p, q); got != want {
					t.Fatalf("key of %d bytes, %d and %d: got %x, want %x", n, a, b, got, want)
				}
			}
		}
		if got, want := MAC128(key), reference(key); got != want {
			t.Fatalf("key of %d bytes alone: got %x, want %x", n, got, want)
		}
	}
}

func TestMAC128Panics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a key of 33 bytes was taken")
		}
	}()
	MAC128(make([]byte, Size+1))
}

func FuzzBLAKE2s(f *testing.F) {
	f.Add([]byte("key"), []byte("abc"), uint8(1))
	f.Add(make([]byte, 32), make([]byte, 128), uint8(64))
	f.Fuzz(func(t *testing.T, key, data []byte, cut uint8) {
		if got, want := Sum256(data), xblake2s.Sum256(data); got != want {
			t.Errorf("Sum256: got %x, want %x", got, want)
		}
		if len(key) == 0 || len(key) > Size {
			return
		}
		k := min(int(cut), len(data))
		if got, want := MAC128(key, data[:k], data[k:]), reference(key, data); got != want {
			t.Errorf("MAC128: got %x, want %x", got, want)
		}
	})
}

func BenchmarkSum256(b *testing.B) {
	data := make([]byte, 2*BlockSize)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Sum256(data)
	}
}
