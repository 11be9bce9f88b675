//go:build !(mips || mipsle) || purego

// Package blake2s is BLAKE2s of RFC 7693, as much of it as WireGuard has a use for.
package blake2s

import "golang.org/x/crypto/blake2s"

const (
	Size      = blake2s.Size
	Size128   = blake2s.Size128
	BlockSize = blake2s.BlockSize
)

// Sum256 returns the hash of data.
func Sum256(data []byte) [Size]byte { return blake2s.Sum256(data) }

// MAC128 returns the hash of parts, one behind the other, with a key of 1 to 32 bytes.
func MAC128(key []byte, parts ...[]byte) (sum [Size128]byte) {
	h, err := blake2s.New128(key)
	if err != nil {
		panic(err)
	}
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}
