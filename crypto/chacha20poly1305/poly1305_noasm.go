package chacha20poly1305

// blocks adds p, whole blocks of 16 bytes, to the MAC. hibit is the bit above
// each block: 1, or 0 for a short last block that carries its own end mark.
func (m *poly1305) blocks(p []byte, hibit uint32) {
	m.blocksGeneric(p, hibit)
}
