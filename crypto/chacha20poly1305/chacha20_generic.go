package chacha20poly1305

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"unsafe"
)

// wordAligned tells whether p starts at a multiple of 4.
func wordAligned(p []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%4 == 0 }

// leWord turns a word as the CPU reads it into the number that its bytes are, least
// significant first, and back.
func leWord(x uint32) uint32 {
	if runtime.GOARCH == "mips" { // the one big-endian CPU with wordFetch
		return bits.ReverseBytes32(x)
	}
	return x
}

// xorBlocksGeneric is xorBlocks in Go alone, and the oracle for the others. It
// uses no integer wider than 32 bits and leaves no copy of the key in memory:
// the rounds start from registers and overwrite them, and the feed-forward reads
// the key again through its pointer. Those loads stand after a store to dst, so
// the compiler cannot merge them with the first ones and keep the words in stack
// slots across the rounds.
func xorBlocksGeneric(dst, src []byte, key *[8]uint32, iv *[4]uint32) {
	iv0, iv1, iv2, iv3 := iv[0], iv[1], iv[2], iv[3]
	for len(src) >= blockSize && len(dst) >= blockSize {
		x0, x1, x2, x3 := uint32(sigma0), uint32(sigma1), uint32(sigma2), uint32(sigma3)
		x4, x5, x6, x7 := key[0], key[1], key[2], key[3]
		x8, x9, x10, x11 := key[4], key[5], key[6], key[7]
		x12, x13, x14, x15 := iv0, iv1, iv2, iv3

		for range 10 {
			// columns
			x0 += x4
			x12 = bits.RotateLeft32(x12^x0, 16)
			x8 += x12
			x4 = bits.RotateLeft32(x4^x8, 12)
			x0 += x4
			x12 = bits.RotateLeft32(x12^x0, 8)
			x8 += x12
			x4 = bits.RotateLeft32(x4^x8, 7)

			x1 += x5
			x13 = bits.RotateLeft32(x13^x1, 16)
			x9 += x13
			x5 = bits.RotateLeft32(x5^x9, 12)
			x1 += x5
			x13 = bits.RotateLeft32(x13^x1, 8)
			x9 += x13
			x5 = bits.RotateLeft32(x5^x9, 7)

			x2 += x6
			x14 = bits.RotateLeft32(x14^x2, 16)
			x10 += x14
			x6 = bits.RotateLeft32(x6^x10, 12)
			x2 += x6
			x14 = bits.RotateLeft32(x14^x2, 8)
			x10 += x14
			x6 = bits.RotateLeft32(x6^x10, 7)

			x3 += x7
			x15 = bits.RotateLeft32(x15^x3, 16)
			x11 += x15
			x7 = bits.RotateLeft32(x7^x11, 12)
			x3 += x7
			x15 = bits.RotateLeft32(x15^x3, 8)
			x11 += x15
			x7 = bits.RotateLeft32(x7^x11, 7)

			// diagonals
			x0 += x5
			x15 = bits.RotateLeft32(x15^x0, 16)
			x10 += x15
			x5 = bits.RotateLeft32(x5^x10, 12)
			x0 += x5
			x15 = bits.RotateLeft32(x15^x0, 8)
			x10 += x15
			x5 = bits.RotateLeft32(x5^x10, 7)

			x1 += x6
			x12 = bits.RotateLeft32(x12^x1, 16)
			x11 += x12
			x6 = bits.RotateLeft32(x6^x11, 12)
			x1 += x6
			x12 = bits.RotateLeft32(x12^x1, 8)
			x11 += x12
			x6 = bits.RotateLeft32(x6^x11, 7)

			x2 += x7
			x13 = bits.RotateLeft32(x13^x2, 16)
			x8 += x13
			x7 = bits.RotateLeft32(x7^x8, 12)
			x2 += x7
			x13 = bits.RotateLeft32(x13^x2, 8)
			x8 += x13
			x7 = bits.RotateLeft32(x7^x8, 7)

			x3 += x4
			x14 = bits.RotateLeft32(x14^x3, 16)
			x9 += x14
			x4 = bits.RotateLeft32(x4^x9, 12)
			x3 += x4
			x14 = bits.RotateLeft32(x14^x3, 8)
			x9 += x14
			x4 = bits.RotateLeft32(x4^x9, 7)
		}

		if wordFetch && wordAligned(dst) && wordAligned(src) {
			s, d := (*[blockSize / 4]uint32)(unsafe.Pointer(unsafe.SliceData(src))), (*[blockSize / 4]uint32)(unsafe.Pointer(unsafe.SliceData(dst)))
			d[0] = s[0] ^ leWord(x0+sigma0)
			d[1] = s[1] ^ leWord(x1+sigma1)
			d[2] = s[2] ^ leWord(x2+sigma2)
			d[3] = s[3] ^ leWord(x3+sigma3)
			d[4] = s[4] ^ leWord(x4+key[0])
			d[5] = s[5] ^ leWord(x5+key[1])
			d[6] = s[6] ^ leWord(x6+key[2])
			d[7] = s[7] ^ leWord(x7+key[3])
			d[8] = s[8] ^ leWord(x8+key[4])
			d[9] = s[9] ^ leWord(x9+key[5])
			d[10] = s[10] ^ leWord(x10+key[6])
			d[11] = s[11] ^ leWord(x11+key[7])
			d[12] = s[12] ^ leWord(x12+iv0)
			d[13] = s[13] ^ leWord(x13+iv1)
			d[14] = s[14] ^ leWord(x14+iv2)
			d[15] = s[15] ^ leWord(x15+iv3)
		} else {
			s, d := (*[blockSize]byte)(src), (*[blockSize]byte)(dst)
			binary.LittleEndian.PutUint32(d[0:], binary.LittleEndian.Uint32(s[0:])^(x0+sigma0))
			binary.LittleEndian.PutUint32(d[4:], binary.LittleEndian.Uint32(s[4:])^(x1+sigma1))
			binary.LittleEndian.PutUint32(d[8:], binary.LittleEndian.Uint32(s[8:])^(x2+sigma2))
			binary.LittleEndian.PutUint32(d[12:], binary.LittleEndian.Uint32(s[12:])^(x3+sigma3))
			binary.LittleEndian.PutUint32(d[16:], binary.LittleEndian.Uint32(s[16:])^(x4+key[0]))
			binary.LittleEndian.PutUint32(d[20:], binary.LittleEndian.Uint32(s[20:])^(x5+key[1]))
			binary.LittleEndian.PutUint32(d[24:], binary.LittleEndian.Uint32(s[24:])^(x6+key[2]))
			binary.LittleEndian.PutUint32(d[28:], binary.LittleEndian.Uint32(s[28:])^(x7+key[3]))
			binary.LittleEndian.PutUint32(d[32:], binary.LittleEndian.Uint32(s[32:])^(x8+key[4]))
			binary.LittleEndian.PutUint32(d[36:], binary.LittleEndian.Uint32(s[36:])^(x9+key[5]))
			binary.LittleEndian.PutUint32(d[40:], binary.LittleEndian.Uint32(s[40:])^(x10+key[6]))
			binary.LittleEndian.PutUint32(d[44:], binary.LittleEndian.Uint32(s[44:])^(x11+key[7]))
			binary.LittleEndian.PutUint32(d[48:], binary.LittleEndian.Uint32(s[48:])^(x12+iv0))
			binary.LittleEndian.PutUint32(d[52:], binary.LittleEndian.Uint32(s[52:])^(x13+iv1))
			binary.LittleEndian.PutUint32(d[56:], binary.LittleEndian.Uint32(s[56:])^(x14+iv2))
			binary.LittleEndian.PutUint32(d[60:], binary.LittleEndian.Uint32(s[60:])^(x15+iv3))
		}

		iv0++
		src, dst = src[blockSize:], dst[blockSize:]
	}
}
