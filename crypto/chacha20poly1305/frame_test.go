//go:build (arm || mips || mipsle) && !purego

package chacha20poly1305

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"
)

// No call leaves in a dead frame the state after the first column round, from
// which the key follows, nor key stream that may become a key, nor r.
func TestFrameWiped(t *testing.T) { each(t, testFrameWiped) }

func testFrameWiped(t *testing.T) {
	if active == generic {
		t.Skip("the frames of the assembly")
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	var key [8]uint32
	setKey(&key, (*[KeySize]byte)([]byte(key0)))
	iv := [4]uint32{7, 0x4a000000, 0x01234567, 0x89abcdef}
	secret := make(map[uint32]string)
	for i, a := range [4]uint32{sigma0, sigma1, sigma2, sigma3} {
		b, c, d := key[i], key[4+i], iv[i]
		for _, r := range [][2]int{{16, 12}, {8, 7}} {
			a += b
			d = bits.RotateLeft32(d^a, r[0])
			c += d
			b = bits.RotateLeft32(b^c, r[1])
		}
		// And b and d before their last rotation.
		for _, w := range []uint32{a, b, c, d, bits.RotateLeft32(b, -7), bits.RotateLeft32(d, -8)} {
			secret[w] = fmt.Sprintf("a word of column %d after the first round", i)
		}
	}
	secret[sigma0+key[0]] = "word 0 of the first round"
	for i, w := range key {
		secret[w] = fmt.Sprintf("word %d of the key", i)
	}
	ks := make([]byte, 4*blockSize)
	start := iv
	keyStreamByBlocks(nil, ks, ks, &key, &start)
	for i := range len(ks) / 4 {
		secret[binary.LittleEndian.Uint32(ks[4*i:])] = fmt.Sprintf("word %d of the key stream", i)
	}
	var m poly1305
	m.init((*[32]byte)(ks))
	for i := range 3 {
		secret[m.r[i+1]+m.r[i+1]>>2] = fmt.Sprintf("5/4 of word %d of r", i+1)
	}

	b := make([]byte, len(ks)+8)
	b = b[-uintptr(unsafe.Pointer(&b[0]))%4:]
	look := func(what string, call func()) {
		t.Helper()
		found := remains(call, func(stack []byte) string {
			for i := range len(stack) - 3 {
				if s, ok := secret[binary.NativeEndian.Uint32(stack[i:])]; ok {
					return s
				}
			}
			return ""
		})
		if found != "" {
			t.Errorf("%s leaves %s on the stack", what, found)
		}
	}
	for _, n := range []int{blockSize, len(ks) - 1} {
		for off := range 2 {
			got := b[off:][:n]
			look(fmt.Sprintf("keyStream of %d bytes at offset %d", n, off), func() {
				clear(got)
				start := iv
				keyStream(nil, got, got, &key, &start)
			})
			if !bytes.Equal(got, ks[:n]) {
				t.Fatalf("%d bytes at offset %d: wrong key stream", n, off)
			}
		}
	}
	var tag [tagSize]byte
	m.init((*[32]byte)(ks))
	look("aead", func() { m.aead(&tag, nil, b[:20]) })
}
