//go:build !(arm || mips || mipsle) || wgd_small

package chacha20poly1305

// wordFetch has nothing to gain where CPUs have unaligned accesses, for there
// binary.LittleEndian is one; or is not worth its text, with wgd_small.
const wordFetch = false
