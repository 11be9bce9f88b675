//go:build !(386 || arm || mips || mipsle)

package chacha20poly1305

type poly1305 = poly1305x64
