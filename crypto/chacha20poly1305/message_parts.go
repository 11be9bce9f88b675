//go:build purego || !(amd64 || arm || arm64 || mips || mipsle)

package chacha20poly1305

func seal(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) {
	sealByParts(dst, plaintext, ad, key, iv)
}

func open(dst, ciphertext, ad []byte, key *[8]uint32, iv *[4]uint32) bool {
	return openByParts(dst, ciphertext, ad, key, iv)
}
