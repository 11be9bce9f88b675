// Package chacha20poly1305 is ChaCha20-Poly1305 of RFC 8439 and
// XChaCha20-Poly1305 of draft-irtf-cfrg-xchacha, as cipher.AEAD and, for the
// packet path, as a Cipher that allocates nothing.
package chacha20poly1305

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"
)

const (
	KeySize    = 32
	NonceSize  = 12 // ChaCha20-Poly1305
	NonceSizeX = 24 // XChaCha20-Poly1305
	Overhead   = 16 // the tag, behind the ciphertext
)

// Block counters are 32 bits and block 0 makes the one-time key, RFC 8439 §2.8.
const maxPlaintext = (1<<32 - 1) * blockSize

var (
	errKey  = errors.New("chacha20poly1305: bad key length")
	errOpen = errors.New("chacha20poly1305: message authentication failed")
)

// An aead is ChaCha20-Poly1305 behind cipher.AEAD; an xaead takes the long nonce.
type (
	aead  struct{ key [8]uint32 }
	xaead struct{ key [8]uint32 }
)

// New returns ChaCha20-Poly1305 with a 12-byte nonce.
func New(key []byte) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, errKey
	}
	a := new(aead)
	setKey(&a.key, (*[KeySize]byte)(key))
	return a, nil
}

// NewX returns XChaCha20-Poly1305, whose 24-byte nonce may be drawn at random.
func NewX(key []byte) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, errKey
	}
	a := new(xaead)
	setKey(&a.key, (*[KeySize]byte)(key))
	return a, nil
}

func (*aead) NonceSize() int  { return NonceSize }
func (*aead) Overhead() int   { return Overhead }
func (*xaead) NonceSize() int { return NonceSizeX }
func (*xaead) Overhead() int  { return Overhead }

func (a *aead) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	if len(nonce) != NonceSize {
		panic("chacha20poly1305: bad nonce length passed to Seal")
	}
	iv := nonceWords((*[NonceSize]byte)(nonce))
	return appendSeal(dst, plaintext, additionalData, &a.key, &iv)
}

func (a *aead) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	if len(nonce) != NonceSize {
		panic("chacha20poly1305: bad nonce length passed to Open")
	}
	iv := nonceWords((*[NonceSize]byte)(nonce))
	return appendOpen(dst, ciphertext, additionalData, &a.key, &iv)
}

func (a *xaead) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	if len(nonce) != NonceSizeX {
		panic("chacha20poly1305: bad nonce length passed to Seal")
	}
	var subkey [8]uint32
	defer wipeWords(&subkey)
	iv := a.derive(&subkey, (*[NonceSizeX]byte)(nonce))
	return appendSeal(dst, plaintext, additionalData, &subkey, &iv)
}

func (a *xaead) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	if len(nonce) != NonceSizeX {
		panic("chacha20poly1305: bad nonce length passed to Open")
	}
	var subkey [8]uint32
	defer wipeWords(&subkey)
	iv := a.derive(&subkey, (*[NonceSizeX]byte)(nonce))
	return appendOpen(dst, ciphertext, additionalData, &subkey, &iv)
}

// derive sets subkey and returns what remains of the nonce: 4 zero bytes and its
// last 8, draft-irtf-cfrg-xchacha §2.3.
func (a *xaead) derive(subkey *[8]uint32, nonce *[NonceSizeX]byte) [4]uint32 {
	hChaCha20(subkey, &a.key, (*[16]byte)(nonce[:16]))
	return [4]uint32{2: binary.LittleEndian.Uint32(nonce[16:]), 3: binary.LittleEndian.Uint32(nonce[20:])}
}

// nonceWords returns block counter 0 and the nonce.
func nonceWords(nonce *[NonceSize]byte) [4]uint32 {
	return [4]uint32{
		0,
		binary.LittleEndian.Uint32(nonce[0:]),
		binary.LittleEndian.Uint32(nonce[4:]),
		binary.LittleEndian.Uint32(nonce[8:]),
	}
}

// appendSeal is cipher.AEAD.Seal after the checks of the nonce.
func appendSeal(dst, plaintext, ad []byte, key *[8]uint32, iv *[4]uint32) []byte {
	if uint64(len(plaintext)) > maxPlaintext {
		panic("chacha20poly1305: plaintext too large")
	}
	n := len(dst)
	dst = slices.Grow(dst, len(plaintext)+Overhead)[:n+len(plaintext)+Overhead]
	checkOverlap(dst[n:], plaintext, ad)
	seal(dst[n:], plaintext, ad, key, iv)
	return dst
}

// appendOpen is cipher.AEAD.Open after the checks of the nonce. The output is
// zeroed if the tag is wrong.
func appendOpen(dst, ciphertext, ad []byte, key *[8]uint32, iv *[4]uint32) ([]byte, error) {
	if len(ciphertext) < Overhead {
		return nil, errOpen
	}
	size := len(ciphertext) - Overhead
	if uint64(size) > maxPlaintext {
		panic("chacha20poly1305: ciphertext too large")
	}
	n := len(dst)
	dst = slices.Grow(dst, size)[:n+size]
	checkOverlap(dst[n:], ciphertext[:size], ad) // the tag is read before anything is written
	if !open(dst[n:], ciphertext, ad, key, iv) {
		clear(dst[n:])
		return nil, errOpen
	}
	return dst, nil
}

// checkOverlap panics if writing out would change in or ad before they are read.
func checkOverlap(out, in, ad []byte) {
	if overlap(out, in) && &out[0] != &in[0] {
		panic("chacha20poly1305: invalid buffer overlap of output and input")
	}
	if overlap(out, ad) {
		panic("chacha20poly1305: invalid buffer overlap of output and additional data")
	}
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	a0, b0 := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}
