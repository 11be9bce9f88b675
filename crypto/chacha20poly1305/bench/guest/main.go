// Command guest seals and opens messages between two marks, for the instruction
// counter; see ../run.
//
//	guest                  each implementation, seal then open, each size, three times
//	guest NAME SIZE        one implementation seals one message of SIZE bytes
//	guest unaligned        each implementation at each alignment
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"unsafe"

	"wgd/crypto/chacha20poly1305"
)

//go:noinline
func markBegin() {}

//go:noinline
func markEnd() {}

var sizes = [...]int{64, 256, 1420, 16384} // bytes of plaintext

const overhead = chacha20poly1305.Overhead

// aligned returns n bytes at a multiple of 16, as packets are in the daemon.
func aligned(n int) []byte {
	b := make([]byte, n+15)
	return b[-uintptr(unsafe.Pointer(&b[0]))%16:][:n]
}

func main() {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	var c chacha20poly1305.Cipher
	c.Init(new([chacha20poly1305.KeySize]byte))
	src, dst := aligned(16384+64), aligned(16384+64)

	use := func(name string) {
		if err := chacha20poly1305.Use(name); err != nil {
			println(err.Error())
			os.Exit(1)
		}
	}
	seal := func(n int) {
		c.Seal(dst[:n+overhead], 1, src[:n], nil)
		markBegin()
		c.Seal(dst[:n+overhead], 1, src[:n], nil)
		markEnd()
	}
	open := func(n int) {
		c.Seal(src[:n+overhead], 1, dst[:n], nil)
		c.Open(dst, 1, src[:n+overhead], nil)
		markBegin()
		c.Open(dst, 1, src[:n+overhead], nil)
		markEnd()
	}

	switch {
	case len(os.Args) == 3:
		use(os.Args[1])
		n, _ := strconv.Atoi(os.Args[2])
		seal(n)
	case len(os.Args) == 2:
		for _, name := range chacha20poly1305.Implementations() {
			use(name)
			for off := range 16 {
				for n := range 150 {
					s, d, ad := src[off&3:], dst[off>>2:], src[200+off:200+off+n/4]
					c.Seal(d[:n+overhead], 1, s[:n], ad)
					c.Open(d, 1, d[:n+overhead], ad)
				}
			}
		}
	default:
		for _, name := range chacha20poly1305.Implementations() {
			os.Stdout.WriteString(name + "\n")
			use(name)
			for _, f := range []func(int){seal, open} {
				for _, n := range sizes {
					for range 3 {
						f(n)
					}
				}
			}
		}
	}
}
