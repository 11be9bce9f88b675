//go:build (mips || mipsle) && !purego && wgd_small

package chacha20poly1305

import "unsafe"

// wgd_small: the rounds rolled, and Poly1305 by blocks; the rest of it is the generic
// code's.
//
//	                                       mips           mipsle
//	bytes of text, assembly                1,984 (5,952)   1,756 (4,708)
//	bytes of text, package in wgd         19,908 (24,968) 19,680 (22,696)
//	instructions a byte, seal of 1420, r2  27.12 (22.96)   25.74 (21.93)
//	                                   r1  44.54 (35.79)   40.33 (32.51)
//
// In brackets without the tag. Counted by bench/run; the package by go tool nm -size.

//go:noescape
func poly1305MIPS(m *poly1305x32, p *byte, n int, r1only bool)

// aeadMIPS is aead.
func (m *poly1305x32) aeadMIPS(tag *[tagSize]byte, ad, ciphertext []byte, r1only bool) {
	m.clamp()
	m.aeadByBlocks(tag, ad, ciphertext)
}

// blocksMIPS is blocks for hibit 1.
func (m *poly1305x32) blocksMIPS(p []byte, r1only bool) {
	if len(p) > 0 {
		poly1305MIPS(m, unsafe.SliceData(p), len(p), r1only)
	}
}
