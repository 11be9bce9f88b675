//go:build (mips || mipsle) && !purego

package chacha20poly1305

import (
	"crypto/subtle"
	"unsafe"
)

const (
	mips32r1 = 1 // all that Go runs on
	mips32r2 = 2 // has ROTR and WSBH
)

var implementations = [...]string{generic: "generic", mips32r1: "mips32r1", mips32r2: "mips32r2"}

//go:noescape
func chacha20MIPS(m *poly1305x32, dst, src *byte, n int, key *[8]uint32, iv *[4]uint32, r1only bool)

func seal(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) {
	if active == generic {
		sealByParts(dst, plaintext, ad, key, iv)
		return
	}
	n := len(plaintext)
	tag := (*[tagSize]byte)(dst[n:])
	r1only := active == mips32r1
	var m poly1305
	chacha20MIPS(&m, &dst[0], unsafe.SliceData(plaintext), n, key, iv, r1only)
	m.aeadMIPS(tag, ad, dst[:n], r1only)
}

func open(dst, ciphertext, ad []byte, key *[8]uint32, iv *[4]uint32) bool {
	if active == generic {
		return openByParts(dst, ciphertext, ad, key, iv)
	}
	n := len(ciphertext) - Overhead
	if n < 0 {
		return false
	}
	if n > len(dst) {
		panic("chacha20poly1305: output too short")
	}
	out, in := unsafe.SliceData(dst), unsafe.SliceData(ciphertext)
	r1only := active == mips32r1
	var m poly1305
	var tag [tagSize]byte
	chacha20MIPS(&m, out, in, 0, key, iv, r1only)
	m.aeadMIPS(&tag, ad, ciphertext[:n], r1only)
	if subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) == 0 {
		return false
	}
	iv[0]++
	chacha20MIPS(nil, out, in, n, key, iv, r1only)
	return true
}

func keyStream(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	if active == generic {
		keyStreamByBlocks(m, dst, src, key, iv)
		return
	}
	_ = dst[:len(src)]
	chacha20MIPS(m, unsafe.SliceData(dst), unsafe.SliceData(src), len(src), key, iv, active == mips32r1)
	if m != nil {
		m.clamp()
		iv[0]++
	}
}

func xorBlocks(dst, src []byte, key *[8]uint32, iv *[4]uint32) { xorBlocksGeneric(dst, src, key, iv) }

func (m *poly1305) blocks(p []byte, hibit uint32) {
	if active == generic || hibit == 0 {
		m.blocksGeneric(p, hibit)
		return
	}
	m.blocksMIPS(p, active == mips32r1)
}

func (m *poly1305) aead(tag *[tagSize]byte, ad, ciphertext []byte) {
	if active == generic {
		m.aeadByBlocks(tag, ad, ciphertext)
		return
	}
	m.aeadMIPS(tag, ad, ciphertext, active == mips32r1)
}
