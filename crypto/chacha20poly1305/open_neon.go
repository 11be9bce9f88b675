//go:build (arm || arm64) && !purego

package chacha20poly1305

import "crypto/subtle"

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
	var tag [tagSize]byte
	var blocks [3 * blockSize]byte // of key stream: XOR zeros
	ahead := blocks[:min(n, len(blocks))]
	keyStream(&m, ahead, ahead, key, iv)
	m.aead(&tag, ad, ciphertext[:n])
	ok := subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) == 1
	if ok {
		k := len(ahead)
		xor(dst[:k], ciphertext[:k], ahead)
		if k < n {
			iv[0] = 4
			keyStream(nil, dst[k:n], ciphertext[k:n], key, iv)
		}
	}
	wipe(ahead)
	return ok
}
