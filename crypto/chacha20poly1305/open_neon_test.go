//go:build (arm || arm64) && !purego

package chacha20poly1305

import "testing"

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
