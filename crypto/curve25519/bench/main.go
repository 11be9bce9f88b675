// Command bench multiplies points between two marks, for the instruction counter;
// see run.
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
	ours := func() {
		if curve25519.X25519(&out, &scalar, &point) != nil {
			os.Exit(1)
		}
	}
	goes := reference(&out, &scalar, &point)
	for _, f := range []func(){ours, goes} {
		if f == nil {
			continue
		}
		f()
		markBegin()
		f()
		markEnd()
	}
}
