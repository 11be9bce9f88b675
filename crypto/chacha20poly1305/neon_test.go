//go:build (arm || arm64) && !purego

package chacha20poly1305

import (
	"bytes"
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
