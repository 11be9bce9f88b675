//go:build (arm || arm64) && !purego

package chacha20poly1305

import (
	"crypto/subtle"
	"unsafe"
)

// open makes use of all of the first four blocks of key stream, which come at the
// price of the one that it needs before it has authenticated.
func open(dst, ciphertext, ad []byte, key *[8]uint32, iv *[4]uint32) bool {
	n := len(ciphertext) - Overhead
	if active != neon || n <= 0 {
		return openByParts(dst, ciphertext, ad, key, iv)
	}
	if n > len(dst) {
		panic("chacha20poly1305: output too short")
	}
	var m poly1305
	// Words: Go zeroes an array of bytes byte by byte on arm.
	var zeros struct {
		tag    [tagSize / 4]uint32
		blocks [3 * blockSize / 4]uint32
	}
	tag := (*[tagSize]byte)(unsafe.Pointer(&zeros.tag))
	ahead := (*[3 * blockSize]byte)(unsafe.Pointer(&zeros.blocks))[:min(n, 3*blockSize)]
	keyStream(&m, ahead, ahead, key, iv)
	m.aead(tag, ad, ciphertext[:n])
	if subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) == 0 {
		wipe(ahead)
		return false
	}
	k := len(ahead)
	xorWipe(dst[:k], ciphertext[:k], ahead)
	if k < n {
		iv[0] = 4
		keyStream(nil, dst[k:n], ciphertext[k:n], key, iv)
	}
	return true
}
