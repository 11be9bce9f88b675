//go:build (arm || arm64) && !purego

package chacha20poly1305

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	xcrypto "golang.org/x/crypto/chacha20poly1305"
)

// keyStream leaves nothing of what m was before.
func TestKeyStreamSetsMAC(t *testing.T) { each(t, testKeyStreamSetsMAC) }

func testKeyStreamSetsMAC(t *testing.T) {
	key, nonce := [8]uint32{1, 2, 3, 4, 5, 6, 7, 8}, [4]uint32{0, 9, 10, 11}
	var b [blockSize]byte
	iv := nonce
	xorBlocksGeneric(b[:], b[:], &key, &iv)
	var want, dirty poly1305
	want.init((*[32]byte)(b[:]))
	for i := range dirty.h {
		dirty.h[i]--
	}
	for i := range dirty.r {
		dirty.r[i]--
		dirty.s[i]--
	}
	for _, n := range []int{0, 1, 64, 192, 193, 300} {
		m, iv, text := dirty, nonce, make([]byte, n)
		keyStream(&m, text, text, &key, &iv)
		if m != want {
			t.Errorf("with %d bytes: got %x, want %x", n, m, want)
		}
	}
}

// Blocks are made four or two at a time, and the first three while opening are
// kept: each length at which one way gives over to another.
func TestBatches(t *testing.T) { each(t, testBatches) }

func testBatches(t *testing.T) {
	key, nonce, text := random("key", KeySize), make([]byte, NonceSize), random("plaintext", 850)
	ref, ours := must(xcrypto.New(key)), must(New(key))
	var want, got []byte
	for n := range len(text) {
		want, got = ref.Seal(want[:0], nonce, text[:n], nil), ours.Seal(got[:0], nonce, text[:n], nil)
		if !bytes.Equal(got, want) {
			t.Fatalf("Seal of %d bytes: differ from byte %d", n, firstDifference(got, want))
		}
		opened, err := ours.Open(got[:0], nonce, got, nil)
		if err != nil || !bytes.Equal(opened, text[:n]) {
			t.Fatalf("Open of %d bytes: %v, differ from byte %d", n, err, firstDifference(opened, text))
		}
	}
}

// open wipes the key stream that it makes before it knows the tag, whether that is
// right or not.
func TestOpenLeavesNoKeyStream(t *testing.T) { each(t, testOpenLeavesNoKeyStream) }

func testOpenLeavesNoKeyStream(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's frames are its own")
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	var key [8]uint32
	setKey(&key, (*[KeySize]byte)([]byte(key0)))
	start := [4]uint32{1, 0, 0x01234567, 0x89abcdef}
	ks := make([]byte, 3*blockSize)
	xorBlocksGeneric(ks, ks, &key, &start)
	for _, n := range []int{8, 40, 64, 77, 100, 191, 192, 300} {
		text, sealed := random("plaintext", n), make([]byte, n+Overhead)
		iv := [4]uint32{0, start[1], start[2], start[3]}
		seal(sealed, text, nil, &key, &iv)
		for _, forged := range []bool{false, true} {
			if forged {
				sealed[n] ^= 1
			}
			found := remains(func() {
				iv := [4]uint32{0, start[1], start[2], start[3]}
				if open(text, sealed, nil, &key, &iv) == forged {
					t.Fatalf("%d bytes, forged %t: wrong verdict", n, forged)
				}
			}, func(stack []byte) string {
				for i := 0; i+8 <= min(n, len(ks)); i += 4 {
					if bytes.Contains(stack, ks[i:i+8]) {
						return fmt.Sprintf("key stream at %d", i)
					}
				}
				return ""
			})
			if found != "" {
				t.Errorf("%d bytes, forged %t: %s is left on the stack", n, forged, found)
			}
		}
	}
}
