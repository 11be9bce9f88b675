//go:build (mips || mipsle) && !purego && !wgd_small

package chacha20poly1305

// haveR1 tells whether this build has assembly for MIPS32 release 1.
const haveR1 = true
