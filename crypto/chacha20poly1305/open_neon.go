//go:build (arm || arm64) && !purego

package chacha20poly1305

import (
	"encoding/binary"
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
	want := (*[tagSize]byte)(ciphertext[n:])
	lo := binary.LittleEndian.Uint64(tag[0:]) ^ binary.LittleEndian.Uint64(want[0:])
	hi := binary.LittleEndian.Uint64(tag[8:]) ^ binary.LittleEndian.Uint64(want[8:])
	if lo|hi != 0 { // a quarter of the instructions of subtle.ConstantTimeCompare
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
