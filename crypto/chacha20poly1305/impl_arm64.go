//go:build !purego

package chacha20poly1305

import (
	"crypto/subtle"
	"encoding/binary"
)

// neon is Advanced SIMD for ChaCha20 and 64-bit multiplications for Poly1305: 7.24
// instructions a byte, seal of 1420 bytes, where the generic code takes 22.73, and
// 1,728 bytes of assembly, by bench/run. wgd_small changes none of it.
const neon = 1

var implementations = [...]string{generic: "generic", neon: "neon"}

// detect has nothing to look for: Advanced SIMD is part of what Go asks of arm64.
func detect() (ids []uint8, why string) { return []uint8{neon}, "every arm64 CPU has Advanced SIMD" }

func seal(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) {
	sealByParts(dst, plaintext, ad, key, iv)
}

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
	var zeros [3 * blockSize]byte
	ahead := zeros[:min(n, len(zeros))]
	keyStreamNEON(&m, ahead, ahead, key, iv)
	m.aead(&tag, ad, ciphertext[:n])
	want := (*[tagSize]byte)(ciphertext[n:])
	lo := binary.LittleEndian.Uint64(tag[0:]) ^ binary.LittleEndian.Uint64(want[0:])
	hi := binary.LittleEndian.Uint64(tag[8:]) ^ binary.LittleEndian.Uint64(want[8:])
	if lo|hi != 0 { // a quarter of the instructions of subtle.ConstantTimeCompare
		wipe(ahead)
		return false
	}
	k := subtle.XORBytes(dst[:n], ciphertext[:n], ahead)
	wipe(ahead)
	if k < n {
		iv[0] = 4
		keyStreamNEON(nil, dst[k:n], ciphertext[k:n], key, iv)
	}
	return true
}

// keyStream sets m, unless it is nil, to the one-time key of block iv[0] (RFC 8439
// §2.6) and moves iv on to the next block; then it writes src XOR key stream to
// dst, as long as src (§2.4). dst and src are the same place or do not overlap.
// iv[1:] is the nonce; iv[0] is used up.
func keyStream(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	switch active {
	case neon:
		if m == nil && len(src) == 0 {
			return
		}
		dst = dst[:len(src)]
		keyStreamNEON(m, dst, src, key, iv)
		if m != nil {
			iv[0]++
		}
	default:
		keyStreamByBlocks(m, dst, src, key, iv)
	}
}

// xorBlocks writes src XOR key stream to dst. Both have the same length, a
// multiple of blockSize, and are the same place or do not overlap. The first
// block has counter iv[0]; iv is not changed.
func xorBlocks(dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	xorBlocksGeneric(dst, src, key, iv)
}

// blocks adds p, whole blocks of 16 bytes, to the MAC. hibit is the bit above
// each block: 1, or 0 for a short last block that carries its own end mark.
func (m *poly1305) blocks(p []byte, hibit uint32) {
	switch active {
	case neon:
		blocksARM64(m, p, hibit)
	default:
		m.blocksGeneric(p, hibit)
	}
}

// aead computes the tag of RFC 8439 §2.8 over ad and ciphertext, and ends the use
// of m.
func (m *poly1305) aead(tag *[tagSize]byte, ad, ciphertext []byte) {
	m.aeadByBlocks(tag, ad, ciphertext)
}

// keyStreamNEON is keyStream, but leaves iv alone, and has a block to make: m is
// not nil or src is not empty.
//
//go:noescape
func keyStreamNEON(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32)

//go:noescape
func blocksARM64(m *poly1305, p []byte, hibit uint32)
