//go:build !purego

package chacha20poly1305

import (
	"crypto/subtle"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// avx2 takes a message in one call. ssse3 has ChaCha20 only, and multiplies in Go.
const (
	ssse3 = 1 + iota
	avx2
)

var implementations = [...]string{generic: "generic", ssse3: "ssse3", avx2: "avx2"}

func detect() (ids []uint8, why string) {
	return choices(cpu.X86.HasSSSE3, cpu.X86.HasAVX2, cpu.X86.HasBMI2)
}

// choices is detect for a CPU with these extensions. x/sys/cpu counts AVX2 only
// where XGETBV says that the kernel saves its registers.
func choices(hasSSSE3, hasAVX2, hasBMI2 bool) (ids []uint8, why string) {
	switch {
	case hasSSSE3 && hasAVX2 && hasBMI2:
		return []uint8{avx2, ssse3}, "CPUID has AVX2 and BMI2"
	case hasSSSE3:
		return []uint8{ssse3}, "CPUID has SSSE3, not AVX2 and BMI2"
	}
	return nil, "CPUID has no SSSE3"
}

func seal(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) {
	n := len(plaintext)
	_ = dst[n+Overhead-1]
	switch active {
	case avx2:
		aeadAVX2(unsafe.SliceData(dst), unsafe.SliceData(plaintext), n, unsafe.SliceData(ad), len(ad), key, iv, 0)
	case ssse3:
		var m poly1305
		var s firstStream
		s.start(&m, key, iv)
		s.xor(dst[:n], plaintext, key, iv)
		m.aead((*[tagSize]byte)(dst[n:]), ad, dst[:n])
	default:
		sealByParts(dst, plaintext, ad, key, iv)
	}
}

func open(dst, ciphertext, ad []byte, key *[8]uint32, iv *[4]uint32) bool {
	n := len(ciphertext) - Overhead
	if n < 0 {
		return false
	}
	if n > len(dst) {
		panic("chacha20poly1305: output too short")
	}
	switch active {
	case avx2:
		differ := aeadAVX2(unsafe.SliceData(dst), unsafe.SliceData(ciphertext), n, unsafe.SliceData(ad), len(ad), key, iv, 1)
		if differ != 0 && n > avx2Held {
			clear(dst[:n]) // some was written while the tag was computed
		}
		return differ == 0
	case ssse3:
		var m poly1305
		var s firstStream
		var tag [tagSize]byte
		s.start(&m, key, iv)
		m.aead(&tag, ad, ciphertext[:n])
		if subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) == 0 {
			wipe(s[:])
			return false
		}
		s.xor(dst[:n], ciphertext[:n], key, iv)
		return true
	default:
		return openByParts(dst, ciphertext, ad, key, iv)
	}
}

// avx2Held is the text of two batches, the most that aeadAVX2 holds back until it
// knows the tag.
const avx2Held = (7 + 8) * blockSize

// aeadAVX2 seals n bytes, or opens them. Opening, differ is 0 if the tag is right;
// of a message longer than avx2Held some is written in either case.
//
//go:noescape
func aeadAVX2(dst, src *byte, n int, ad *byte, adLen int, key *[8]uint32, iv *[4]uint32, open int) (differ uint64)

// blocksBMI2 is blocks for n > 0 blocks and hibit 1.
//
//go:noescape
func blocksBMI2(m *poly1305, p *byte, n int)

// xorSSSE3 is keyStream without m, for any n.
//
//go:noescape
func xorSSSE3(dst, src *byte, n int, key *[8]uint32, iv *[4]uint32)

// A firstStream is the key stream of the blocks that xorSSSE3 makes at once: the
// one-time key and the first 192 bytes of text.
type firstStream [4 * blockSize]byte

func (s *firstStream) start(m *poly1305, key *[8]uint32, iv *[4]uint32) {
	xorSSSE3(&s[0], &s[0], len(s), key, iv)
	m.init((*[32]byte)(s[:]))
}

// xor writes src XOR key stream to dst and wipes s.
func (s *firstStream) xor(dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	n := subtle.XORBytes(dst, src, s[blockSize:])
	wipe(s[:])
	if n < len(src) {
		iv[0] += uint32(len(s) / blockSize)
		xorSSSE3(&dst[n], &src[n], len(src)-n, key, iv)
	}
}

func keyStream(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	if active == generic || m != nil {
		keyStreamByBlocks(m, dst, src, key, iv)
		return
	}
	xorSSSE3(unsafe.SliceData(dst), unsafe.SliceData(src), len(src), key, iv)
}

func xorBlocks(dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	if active == generic {
		xorBlocksGeneric(dst, src, key, iv)
		return
	}
	xorSSSE3(unsafe.SliceData(dst), unsafe.SliceData(src), len(src), key, iv)
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
