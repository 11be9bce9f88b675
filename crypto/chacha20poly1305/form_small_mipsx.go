//go:build (mips || mipsle) && !purego && wgd_small

package chacha20poly1305

// wgd_small: rolled loops, release 2 only; release 1 runs the generic code.
//
//	                                       mips           mipsle
//	bytes of text, assembly                1,980 (5,952)   1,908 (4,708)
//	bytes of text, package in wgd         19,336 (23,468) 19,584 (22,544)
//	instructions a byte, seal of 1420, r2  26.40 (22.96)   25.39 (21.93)
//	                                   r1  53.18 (35.79)   45.74 (32.51)
//
// In brackets without the tag. Counted by bench/run; the package by go tool nm -size.
const haveR1 = false
