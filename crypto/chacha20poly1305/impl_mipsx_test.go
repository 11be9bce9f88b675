//go:build (mips || mipsle) && !purego

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

// The assembly leaves in its frame neither the state after the first round, from
// which the key follows, nor key stream that was used, which can be a key.
func TestFrameWiped(t *testing.T) { each(t, testFrameWiped) }

func testFrameWiped(t *testing.T) {
	if active == generic {
		t.Skip("the frame of the assembly")
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	var key [8]uint32
	setKey(&key, (*[KeySize]byte)([]byte(key0)))
	iv := [4]uint32{7, 0x4a000000, 0x01234567, 0x89abcdef}
	secret := make(map[uint32]string)
	constants := [4]uint32{sigma0, sigma1, sigma2, sigma3}
	for i := 1; i < 4; i++ { // column 0 depends on the counter
		a, b, c, d := constants[i], key[i], key[4+i], iv[i]
		for _, r := range [][2]int{{16, 12}, {8, 7}} {
			a += b
			d = bits.RotateLeft32(d^a, r[0])
			c += d
			b = bits.RotateLeft32(b^c, r[1])
		}
		for row, w := range []uint32{a, b, c, d} {
			secret[w] = fmt.Sprintf("word %d after the first round", 4*row+i)
		}
	}
	secret[sigma0+key[0]] = "word 0 of the first round"
	for i, w := range key {
		secret[w] = fmt.Sprintf("word %d of the key", i)
	}

	b := make([]byte, 64+8)
	b = b[-uintptr(unsafe.Pointer(&b[0]))%4:]
	ks := make([]byte, 64)
	start := iv
	keyStreamByBlocks(nil, ks, ks, &key, &start)
	for i := range 16 {
		secret[binary.LittleEndian.Uint32(ks[4*i:])] = fmt.Sprintf("word %d of the key stream", i)
	}

	for _, off := range []int{0, 1} {
		got := b[off:][:64]
		found := remains(func() {
			clear(got)
			start := iv
			keyStream(nil, got, got, &key, &start)
		}, func(stack []byte) string {
			for i := range len(stack) - 3 {
				if what, ok := secret[binary.NativeEndian.Uint32(stack[i:])]; ok {
					return what
				}
			}
			return ""
		})
		if !bytes.Equal(got, ks) {
			t.Fatalf("offset %d: wrong key stream", off)
		}
		if found != "" {
			t.Errorf("offset %d: %s is left on the stack", off, found)
		}
	}
}
