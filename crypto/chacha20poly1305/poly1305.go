package chacha20poly1305

import "encoding/binary"

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
	m.pad16(ad)
	m.pad16(ciphertext)
	var lengths [16]byte
	binary.LittleEndian.PutUint64(lengths[0:], uint64(len(ad)))
	binary.LittleEndian.PutUint64(lengths[8:], uint64(len(ciphertext)))
	m.blocks(lengths[:], 1)
	m.sum(tag)
}
