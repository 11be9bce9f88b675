//go:build (mips || mipsle) && !purego && !wgd_small

package chacha20poly1305

import "unsafe"

//go:noescape
func poly1305MIPS(m *poly1305x32, tag *[tagSize]byte, ad *byte, adLen int, p *byte, n int, r1only bool)

// aeadMIPS is aead.
func (m *poly1305x32) aeadMIPS(tag *[tagSize]byte, ad, ciphertext []byte, r1only bool) {
	poly1305MIPS(m, tag, unsafe.SliceData(ad), len(ad), unsafe.SliceData(ciphertext), len(ciphertext), r1only)
}

// blocksMIPS is blocks for hibit 1.
func (m *poly1305x32) blocksMIPS(p []byte, r1only bool) {
	poly1305MIPS(m, nil, nil, 0, unsafe.SliceData(p), len(p), r1only)
}
