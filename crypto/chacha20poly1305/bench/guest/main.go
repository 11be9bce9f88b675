// Command bench seals and opens messages between two marks, for the instruction
// counter; see run.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"wgd/crypto/chacha20poly1305"
)

//go:noinline
func markBegin() {}

//go:noinline
func markEnd() {}

var sizes = [...]int{64, 256, 1420, 16384} // bytes of plaintext

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

	names := chacha20poly1305.Implementations()
	if len(os.Args) > 1 {
		names = os.Args[1:]
	}
	for _, name := range names {
		if err := chacha20poly1305.Use(name); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString(name + "\n")
		for _, open := range []bool{false, true} {
			for _, n := range sizes {
				s, d := src[:n+chacha20poly1305.Overhead], dst[:n+chacha20poly1305.Overhead]
				c.Seal(s, 1, d[:n], nil)
				if open {
					c.Open(d, 1, s, nil)
					markBegin()
					c.Open(d, 1, s, nil)
					markEnd()
				} else {
					c.Seal(d, 1, s[:n], nil)
					markBegin()
					c.Seal(d, 1, s[:n], nil)
					markEnd()
				}
			}
		}
	}
}
