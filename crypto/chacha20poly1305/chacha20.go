package chacha20poly1305

import "encoding/binary"

const blockSize = 64 // bytes of key stream per block, RFC 8439 §2.3

// The first row of the state, "expand 32-byte k", RFC 8439 §2.3.
const (
	sigma0 = 0x61707865
	sigma1 = 0x3320646e
	sigma2 = 0x79622d32
	sigma3 = 0x6b206574
)

// keyStreamByBlocks is keyStream made of xorBlocks.
func keyStreamByBlocks(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	if m != nil {
		var b [blockSize]byte
		xorBlocks(b[:], b[:], key, iv)
		m.init((*[32]byte)(b[:]))
		iv[0]++
	}
	whole := len(src) &^ (blockSize - 1)
	if whole > 0 {
		xorBlocks(dst[:whole], src[:whole], key, iv)
		iv[0] += uint32(whole / blockSize)
	}
	if tail := src[whole:]; len(tail) > 0 {
		var b [blockSize]byte
		copy(b[:], tail)
		xorBlocks(b[:], b[:], key, iv)
		copy(dst[whole:len(src)], b[:])
	}
}

// hChaCha20 derives a subkey from key and the first 16 bytes of an extended
// nonce, draft-irtf-cfrg-xchacha §2.2. It wants the state after the rounds
// without the feed-forward, of the first and last row only. What was added
// there is public, so one block of key stream and a subtraction give the same:
// no second copy of the rounds, and none of the key.
func hChaCha20(subkey, key *[8]uint32, nonce *[16]byte) {
	var iv [4]uint32
	for i := range iv {
		iv[i] = binary.LittleEndian.Uint32(nonce[4*i:])
	}
	var b [blockSize]byte
	keyStream(nil, b[:], b[:], key, &iv)
	for i, c := range [4]uint32{sigma0, sigma1, sigma2, sigma3} {
		subkey[i] = binary.LittleEndian.Uint32(b[4*i:]) - c
		subkey[4+i] = binary.LittleEndian.Uint32(b[48+4*i:]) - binary.LittleEndian.Uint32(nonce[4*i:])
	}
	wipe(b[:])
}

// wipe is not inlined: the compiler then cannot see that nobody reads b again.
//
//go:noinline
func wipe(b []byte) { clear(b) }

//go:noinline
func wipeWords(w *[8]uint32) { clear(w[:]) }
