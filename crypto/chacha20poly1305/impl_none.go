//go:build purego || !(amd64 || arm || arm64 || mips || mipsle)

package chacha20poly1305

// purego: no assembly. mips: 13,376 bytes of text in wgd (go tool nm -size) for 23,468,
// 53.08 instructions a byte for 22.96 (seal of 1420, 24Kc, bench/run).

var implementations = [...]string{generic: "generic"}

func detect() (ids []uint8, why string) { return nil, "no assembly in this build" }

// keyStream sets m, unless it is nil, to the one-time key of block iv[0] (RFC 8439
// §2.6) and moves iv on to the next block; then it writes src XOR key stream to
// dst, as long as src (§2.4). dst and src are the same place or do not overlap.
// iv[1:] is the nonce; iv[0] is used up.
func keyStream(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	keyStreamByBlocks(m, dst, src, key, iv)
}

// xorBlocks writes src XOR key stream to dst. Both have the same length, a
// multiple of blockSize, and are the same place or do not overlap. The first
// block has counter iv[0]; iv is not changed.
func xorBlocks(dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	xorBlocksGeneric(dst, src, key, iv)
}

// blocks adds p, whole blocks of 16 bytes, to the MAC. hibit is the bit above
// each block: 1, or 0 for a short last block that carries its own end mark.
func (m *poly1305) blocks(p []byte, hibit uint32) { m.blocksGeneric(p, hibit) }

// aead computes the tag of RFC 8439 §2.8 over ad and ciphertext, and ends the use
// of m.
func (m *poly1305) aead(tag *[tagSize]byte, ad, ciphertext []byte) {
	m.aeadByBlocks(tag, ad, ciphertext)
}
