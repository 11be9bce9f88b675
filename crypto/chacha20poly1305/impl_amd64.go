//go:build !purego

package chacha20poly1305

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

const (
	ssse3 = 1 + iota
	avx2
)

var implementations = [...]string{generic: "generic", ssse3: "ssse3", avx2: "avx2"}

// detect asks CPUID; x/sys/cpu counts AVX2 only where XGETBV says that the kernel
// saves its registers.
func detect() (ids []uint8, why string) {
	if cpu.X86.HasAVX2 && cpu.X86.HasBMI2 {
		return []uint8{avx2}, "CPUID has AVX2 and BMI2"
	}
	return nil, "CPUID has no SSSE3"
}

func seal(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) {
	if active != avx2 {
		sealByParts(dst, plaintext, ad, key, iv)
		return
	}
	n := len(plaintext)
	_ = dst[n+Overhead-1]
	aeadAVX2(unsafe.SliceData(dst), unsafe.SliceData(plaintext), n, unsafe.SliceData(ad), len(ad), key, iv, 0)
}

func open(dst, ciphertext, ad []byte, key *[8]uint32, iv *[4]uint32) bool {
	if active != avx2 {
		return openByParts(dst, ciphertext, ad, key, iv)
	}
	n := len(ciphertext) - Overhead
	if n < 0 {
		return false
	}
	if n > len(dst) {
		panic("chacha20poly1305: output too short")
	}
	differ := aeadAVX2(unsafe.SliceData(dst), unsafe.SliceData(ciphertext), n, unsafe.SliceData(ad), len(ad), key, iv, 1)
	if differ == 0 {
		return true
	}
	if n > avx2Held {
		clear(dst[:n]) // some was written while the tag was computed
	}
	return false
}

// avx2Held is the text of two batches, the most that aeadAVX2 holds back until it
// knows the tag.
const avx2Held = (7 + 8) * blockSize

// aeadAVX2 seals n bytes, or opens them. Opening, differ is 0 if the tag is right;
// of a message longer than avx2Held some is written in either case.
//
//go:noescape
func aeadAVX2(dst, src *byte, n int, ad *byte, adLen int, key *[8]uint32, iv *[4]uint32, open int) (differ uint64)

//go:noescape
func blocksBMI2(m *poly1305, p *byte, n int)

func keyStream(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	keyStreamByBlocks(m, dst, src, key, iv)
}

func xorBlocks(dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	xorBlocksGeneric(dst, src, key, iv)
}

func (m *poly1305) blocks(p []byte, hibit uint32) {
	if active == avx2 && hibit == 1 && len(p) >= 16 {
		blocksBMI2(m, unsafe.SliceData(p), len(p)/16)
		return
	}
	m.blocksGeneric(p, hibit)
}

func (m *poly1305) aead(tag *[tagSize]byte, ad, ciphertext []byte) {
	m.aeadByBlocks(tag, ad, ciphertext)
}
