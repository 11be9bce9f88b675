//go:build (mips || mipsle) && !purego

// Package blake2s is BLAKE2s of RFC 7693, as much of it as WireGuard has a use for.
package blake2s

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"unsafe"
)

// On MIPS it is ours, for a handshake spent 13 % of its instructions in x/crypto's:
// 895,000 against 595,000 (524,000 on mipsle), by noise/bench/run. There are 5 kB less of
// text. The assembly is for any release: rotations by ROTR would save another 2 % of a
// handshake, for 640 bytes.

const (
	Size      = 32
	Size128   = 16
	BlockSize = 64
)

// iv is the initialization vector, RFC 7693 §2.6.
var iv = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

// Sum256 returns the hash of data, which is shorter than 2³² bytes.
func Sum256(data []byte) (sum [Size]byte) {
	var d digest
	d.init(Size, 0)
	d.write(data)
	d.finish()
	for i, h := range d.h {
		binary.LittleEndian.PutUint32(sum[4*i:], h)
	}
	return sum
}

// MAC128 returns the hash of parts, one behind the other and shorter than 2³² bytes,
// with a key of 1 to 32 bytes.
func MAC128(key []byte, parts ...[]byte) (sum [Size128]byte) {
	if len(key) == 0 || len(key) > Size {
		panic("blake2s: bad key length")
	}
	var d digest
	d.init(Size128, len(key))
	copy(d.bytes()[:], key)
	d.n = BlockSize
	for _, p := range parts {
		d.write(p)
	}
	d.finish()
	for i, h := range d.h[:Size128/4] {
		binary.LittleEndian.PutUint32(sum[4*i:], h)
	}
	return sum
}

// A digest is the state of RFC 7693 §3.2.
type digest struct {
	h     [8]uint32
	t     uint32 // bytes that have been compressed
	n     int    // bytes of block that have been written
	block [BlockSize / 4]uint32
}

// bytes is block as it is written. (Of words, so that Go does not zero it byte by byte.)
func (d *digest) bytes() *[BlockSize]byte { return (*[BlockSize]byte)(unsafe.Pointer(&d.block)) }

func (d *digest) init(size, keyLen int) {
	d.h = iv
	d.h[0] ^= 0x01010000 ^ uint32(keyLen)<<8 ^ uint32(size)
}

// write compresses a block when more follows: the last is for finish.
func (d *digest) write(p []byte) {
	for len(p) > 0 {
		if d.n == BlockSize {
			d.compress(0)
		}
		n := copy(d.bytes()[d.n:], p)
		d.n += n
		p = p[n:]
	}
}

func (d *digest) finish() {
	clear(d.bytes()[d.n:])
	d.compress(^uint32(0))
}

func (d *digest) compress(last uint32) {
	if runtime.GOARCH == "mips" { // words are little-endian
		for i := range d.block {
			d.block[i] = bits.ReverseBytes32(d.block[i])
		}
	}
	d.t += uint32(d.n)
	d.n = 0
	compress(&d.h, &d.block, d.t, last)
}

// compress is F of RFC 7693 §3.2. t is the offset, and last all ones if this is the
// last block, else 0.
//
//go:noescape
func compress(h *[8]uint32, m *[16]uint32, t, last uint32)
