package chacha20poly1305

// xorBlocks writes src XOR key stream to dst. Both have the same length, a
// multiple of blockSize, and are the same place or do not overlap. The first
// block has counter iv[0]; iv is not changed.
func xorBlocks(dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	xorBlocksGeneric(dst, src, key, iv)
}
