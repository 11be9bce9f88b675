package chacha20poly1305

import (
	"crypto/subtle"
	"encoding/binary"
)

// A Cipher is the AEAD of WireGuard's transport messages without allocations:
// the nonce is 4 zero bytes and a 64-bit little-endian counter, whitepaper §5.4.6.
// Its only copy of the key is the one it holds; no call leaves another on the
// stack. Methods other than Init and Wipe may run at the same time.
type Cipher struct {
	key [8]uint32 // the key's little-endian words
}

// Init sets the key.
func (c *Cipher) Init(key *[KeySize]byte) { setKey(&c.key, key) }

// Wipe overwrites the key with zeros.
func (c *Cipher) Wipe() { wipeWords(&c.key) }

// Seal writes the sealed plaintext to dst[:len(plaintext)+Overhead] and panics if
// dst is shorter. dst and plaintext start at the same place or do not overlap;
// ad does not overlap dst.
func (c *Cipher) Seal(dst []byte, counter uint64, plaintext, ad []byte) {
	iv := [4]uint32{0, 0, uint32(counter), uint32(counter >> 32)}
	seal(dst, plaintext, ad, &c.key, &iv)
}

// Open authenticates ciphertext, which ends in the tag, then decrypts it to
// dst[:len(ciphertext)-Overhead], and panics if dst is shorter. If the tag is
// wrong it returns false and dst is as it was, or zeros: some implementations
// decrypt a long message while they compute the tag. dst and ciphertext start at
// the same place or do not overlap.
func (c *Cipher) Open(dst []byte, counter uint64, ciphertext, ad []byte) bool {
	iv := [4]uint32{0, 0, uint32(counter), uint32(counter >> 32)}
	return open(dst, ciphertext, ad, &c.key, &iv)
}

func setKey(words *[8]uint32, key *[KeySize]byte) {
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(key[4*i:])
	}
}

// seal is AEAD_CHACHA20_POLY1305 of RFC 8439 §2.8. iv is block counter 0 and the
// nonce; it is used up.
func sealByParts(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) {
	n := len(plaintext)
	_ = dst[n+Overhead-1]
	var m poly1305
	keyStream(&m, dst[:n], plaintext, key, iv)
	m.aead((*[tagSize]byte)(dst[n:]), ad, dst[:n])
}

func openByParts(dst, ciphertext, ad []byte, key *[8]uint32, iv *[4]uint32) bool {
	n := len(ciphertext) - Overhead
	if n < 0 {
		return false
	}
	if n > len(dst) {
		panic("chacha20poly1305: output too short")
	}
	var m poly1305
	var tag [tagSize]byte
	keyStream(&m, nil, nil, key, iv)
	m.aead(&tag, ad, ciphertext[:n])
	if subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) == 0 {
		return false
	}
	keyStream(nil, dst[:n], ciphertext[:n], key, iv)
	return true
}
