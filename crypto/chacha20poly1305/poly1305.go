package chacha20poly1305

import (
	"encoding/binary"
	"unsafe"
)

const tagSize = 16

// pad16 adds p and zeros up to a multiple of 16 bytes, RFC 8439 §2.8.
func (m *poly1305) pad16(p []byte) {
	whole := len(p) &^ 15
	if whole > 0 {
		m.blocks(p[:whole], 1)
	}
	if tail := p[whole:]; len(tail) > 0 {
		var b [16]byte
		copy(b[:], tail)
		m.blocks(b[:], 1)
	}
}

// aeadByBlocks is aead made of blocks.
func (m *poly1305) aeadByBlocks(tag *[tagSize]byte, ad, ciphertext []byte) {
	if len(ad) > 0 {
		m.pad16(ad)
	}
	whole := len(ciphertext) &^ 15
	if whole > 0 {
		m.blocks(ciphertext[:whole], 1)
	}
	var words [32 / 4]uint32 // Go zeroes an array of bytes byte by byte on 32-bit CPUs
	// The rest of the text and its zeros, and the lengths.
	last := (*[32]byte)(unsafe.Pointer(&words))
	n := 0
	if whole < len(ciphertext) {
		copy(last[:], ciphertext[whole:])
		n = 16
	}
	binary.LittleEndian.PutUint64(last[n:], uint64(len(ad)))
	binary.LittleEndian.PutUint64(last[n+8:], uint64(len(ciphertext)))
	m.blocks(last[:n+16], 1)
	m.sum(tag)
}
