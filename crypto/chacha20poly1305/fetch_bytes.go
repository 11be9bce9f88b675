//go:build !(arm || mipsle)

package chacha20poly1305

// wordFetch is no gain here. On big-endian MIPS a word would have to be swapped:
// 52.0 instructions a byte for 53.1, for 330 bytes of text. On the others
// binary.LittleEndian is one access, aligned or not.
const wordFetch = false
