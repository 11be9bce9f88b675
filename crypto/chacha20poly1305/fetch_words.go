//go:build (arm || mips || mipsle) && !wgd_small

package chacha20poly1305

// wordFetch tells the generic code to read and write words where they are aligned.
// binary.LittleEndian is four byte accesses here: these CPUs have no unaligned
// ones, or the compiler cannot know. Instructions a byte, seal of 1420 bytes by
// bench/run, and what it costs in bytes of text:
//
//	         words   bytes   text
//	arm      40.89   45.36    484
//	mips     52.01   53.05  1,348   words have to be swapped
//	mipsle   45.61   53.05    320
const wordFetch = true
