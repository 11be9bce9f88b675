//go:build !purego

package chacha20poly1305

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Instructions a byte, seal of 1420 bytes, and bytes of assembly, by bench/run:
//
//	generic  40.89
//	scalar   16.45  3,260
//	neon      8.40  3,772 and the Poly1305 of scalar
//
// scalar is for ARMv5 and for ARMv7 without NEON alike.
//
// wgd_small changes none of it: there is no rolled form.
const (
	scalar = 1 + iota // ARMv5: no unaligned access
	neon              // ARMv7 with NEON
)

var implementations = [...]string{generic: "generic", scalar: "scalar", neon: "neon"}

func detect() (ids []uint8, why string) {
	vector, err := unix.Auxv()
	if err != nil {
		vector = nil
	}
	return detectIn(vector)
}

// detectIn looks for NEON in the auxiliary vector, Linux's
// arch/arm/include/uapi/asm/hwcap.h. Without the entry there is none.
func detectIn(vector [][2]uintptr) (ids []uint8, why string) {
	const (
		atHWCAP = 16
		hasNEON = 1 << 12
	)
	for _, e := range vector {
		if e[0] == atHWCAP && e[1]&hasNEON != 0 {
			return []uint8{neon, scalar}, "AT_HWCAP has neon"
		}
	}
	return []uint8{scalar}, "AT_HWCAP has no neon"
}

func seal(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) {
	if active != neon {
		sealByParts(dst, plaintext, ad, key, iv)
		return
	}
	n := len(plaintext)
	tag := (*[tagSize]byte)(dst[n:])
	var m poly1305
	keyStreamARMNEON(&m, &dst[0], unsafe.SliceData(plaintext), n, key, iv)
	poly1305ARM(&m, tag, unsafe.SliceData(ad), len(ad), &dst[0], n, true)
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
	// Words: Go zeroes an array of bytes byte by byte on arm.
	var words struct {
		tag   [tagSize / 4]uint32
		ahead [3 * blockSize / 4]uint32
	}
	tag := (*[tagSize]byte)(unsafe.Pointer(&words.tag))
	ahead := (*[3 * blockSize]byte)(unsafe.Pointer(&words.ahead))
	k := min(n, len(ahead))
	keyStreamARMNEON(&m, &ahead[0], &ahead[0], k, key, iv)
	poly1305ARM(&m, tag, unsafe.SliceData(ad), len(ad), &ciphertext[0], n, true)
	if !releaseNEON(&dst[0], &ciphertext[0], ahead, k, tag, (*[tagSize]byte)(ciphertext[n:])) {
		wipe(ahead[:])
		return false
	}
	if k < n {
		iv[0] = 4
		keyStreamARMNEON(nil, &dst[k], &ciphertext[k], n-k, key, iv)
	}
	return true
}

// keyStream sets m, unless it is nil, to the one-time key of block iv[0] (RFC 8439
// §2.6) and moves iv on to the next block; then it writes src XOR key stream to
// dst, as long as src (§2.4). dst and src are the same place or do not overlap.
// iv[1:] is the nonce; iv[0] is used up.
func keyStream(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	switch active {
	case scalar:
		keyStreamScalar(m, dst, src, key, iv)
	case neon:
		if m == nil && len(src) == 0 {
			return
		}
		dst = dst[:len(src)]
		keyStreamARMNEON(m, unsafe.SliceData(dst), unsafe.SliceData(src), len(src), key, iv)
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
	if active == generic || hibit == 0 {
		m.blocksGeneric(p, hibit)
		return
	}
	poly1305ARM(m, nil, nil, 0, unsafe.SliceData(p), len(p), active == neon)
}

// aead computes the tag of RFC 8439 §2.8 over ad and ciphertext, and ends the use
// of m.
func (m *poly1305) aead(tag *[tagSize]byte, ad, ciphertext []byte) {
	if active == generic {
		m.aeadByBlocks(tag, ad, ciphertext)
		return
	}
	poly1305ARM(m, tag, unsafe.SliceData(ad), len(ad), unsafe.SliceData(ciphertext), len(ciphertext), active == neon)
}

func aligned(p *byte) bool { return uintptr(unsafe.Pointer(p))&3 == 0 }

// bounce is how many bytes are copied at a time to a place that is aligned.
const bounce = 4 * blockSize

// A segment is some blocks of a message, at aligned places.
type segment struct {
	dst, src *byte
	blocks   int
}

// keyStreamScalar is keyStream. GOARCH=arm is little-endian.
func keyStreamScalar(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	if len(src) > 0 && !(aligned(&dst[0]) && aligned(&src[0])) {
		keyStreamUnaligned(m, dst, src, key, iv)
		return
	}
	var s [3]segment
	var first, last [blockSize / 4]uint32
	if m != nil {
		p := (*byte)(unsafe.Pointer(&first))
		s[0] = segment{p, p, 1}
	}
	whole := len(src) &^ (blockSize - 1)
	if whole > 0 {
		s[1] = segment{&dst[0], &src[0], whole / blockSize}
	}
	tail := (*[blockSize]byte)(unsafe.Pointer(&last))
	if whole < len(src) {
		copy(tail[:], src[whole:])
		s[2] = segment{&tail[0], &tail[0], 1}
	}
	xorSegments(&s, key, iv)
	if m != nil {
		m.h = [5]uint32{}
		m.r = [4]uint32{first[0] & 0x0fffffff, first[1] & 0x0ffffffc, first[2] & 0x0ffffffc, first[3] & 0x0ffffffc}
		m.s = [4]uint32(first[4:8])
		wipeWords((*[8]uint32)(first[:]))
		iv[0]++
	}
	if whole < len(src) {
		copy(dst[whole:], tail[:])
		wipe(tail[:])
	}
}

func keyStreamUnaligned(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	if m != nil {
		keyStreamScalar(m, nil, nil, key, iv)
	}
	var words [bounce / 4]uint32
	buf := (*[bounce]byte)(unsafe.Pointer(&words))
	for len(src) > 0 {
		n := copy(buf[:], src)
		keyStreamScalar(nil, buf[:n], buf[:n], key, iv)
		copy(dst, buf[:n])
		dst, src = dst[n:], src[n:]
		iv[0] += bounce / blockSize
	}
	wipe(buf[:]) // key stream, where HChaCha20 hands in zeros
}

// xorSegments writes src XOR key stream to dst for each segment in turn, and
// counts the blocks on from iv[0]. It leaves iv alone.
//
//go:noescape
func xorSegments(s *[3]segment, key *[8]uint32, iv *[4]uint32)

// keyStreamARMNEON is keyStream, but leaves iv alone, and has a block to make: m is
// not nil or n > 0.
//
//go:noescape
func keyStreamARMNEON(m *poly1305, dst, src *byte, n int, key *[8]uint32, iv *[4]uint32)

// releaseNEON writes n bytes of src XOR ahead to dst and wipes as many of ahead, if
// tag and want are equal. tag and ahead start at multiples of 4.
//
//go:noescape
func releaseNEON(dst, src *byte, ahead *[3 * blockSize]byte, n int, tag, want *[tagSize]byte) (equal bool)

// poly1305ARM adds ad and p, each with zeros up to a multiple of 16 bytes, and
// their lengths to m, and writes the tag; if tag is nil, it adds p alone, whole
// blocks. v6 tells that the CPU has UMAAL.
//
//go:noescape
func poly1305ARM(m *poly1305, tag *[tagSize]byte, ad *byte, adLen int, p *byte, n int, v6 bool)
