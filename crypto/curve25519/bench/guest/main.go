// Command guest multiplies points between two marks, for the instruction counter;
// see ../run.
//
//	guest ours
//	guest ecdh     Go's own package
package main

import (
	"os"
	"runtime"
	"runtime/debug"

	"wgd/crypto/curve25519"
)

//go:noinline
func markBegin() {}

//go:noinline
func markEnd() {}

func main() {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	var scalar, point, out [32]byte
	for i := range scalar {
		scalar[i], point[i] = byte(i*7+1), byte(i*13+5)
	}
	multiply := func() {
		if curve25519.X25519(&out, &scalar, &point) != nil {
			os.Exit(1)
		}
	}
	if os.Args[1] == "ecdh" {
		multiply()
		multiply = ecdh(&out, &scalar, &point)
	}
	multiply()
	for range 3 {
		markBegin()
		multiply()
		markEnd()
	}
}
