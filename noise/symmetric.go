package noise

import (
	"wgd/crypto/blake2s"
	"wgd/crypto/chacha20poly1305"
)

// symmetric is the part of a handshake that every message mixes into: C and H of
// §5.4.
type symmetric struct {
	chainKey [32]byte
	hash     [32]byte
}

const (
	construction = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s"
	identifier   = "WireGuard v1 zx2c4 Jason@zx2c4.com"
)

// start is where every handshake begins, but for the responder's public key.
var start = func() (s symmetric) {
	s.chainKey = blake2s.Sum256([]byte(construction))
	s.hash = s.chainKey
	s.mixHash([]byte(identifier))
	return s
}()

// init begins a handshake with a responder.
func (s *symmetric) init(responder *PublicKey) {
	*s = start
	s.mixHash(responder[:])
}

// mixHash: H := HASH(H || data). data is at most 48 bytes, a sealed public key.
func (s *symmetric) mixHash(data []byte) {
	var b [32 + 48]byte
	copy(b[:], s.hash[:])
	n := 32 + copy(b[32:], data)
	s.hash = blake2s.Sum256(b[:n])
	wipe(b[:]) // data may be a secret: mixPSK
}

// mixKey: C := KDF1(C, input).
func (s *symmetric) mixKey(input []byte) { kdf(&s.chainKey, input, &s.chainKey) }

// mixKeyInto: (C, key) := KDF2(C, input).
func (s *symmetric) mixKeyInto(key *[32]byte, input []byte) {
	kdf(&s.chainKey, input, &s.chainKey, key)
}

// mixPSK: (C, t, key) := KDF3(C, psk); H := HASH(H || t).
func (s *symmetric) mixPSK(key *[32]byte, psk *PresharedKey) {
	var t [32]byte
	kdf(&s.chainKey, psk[:], &s.chainKey, &t, key)
	s.mixHash(t[:])
	wipe(t[:])
}

// seal writes AEAD(key, 0, plaintext, H) to dst and mixes it into H. The key is used
// up: it is wiped.
func (s *symmetric) seal(dst []byte, key *[32]byte, plaintext []byte) {
	var c chacha20poly1305.Cipher
	c.Init(key)
	c.Seal(dst, 0, plaintext, s.hash[:])
	c.Wipe()
	wipe(key[:])
	s.mixHash(dst)
}

// open is the inverse of seal; false if the ciphertext does not authenticate.
func (s *symmetric) open(dst []byte, key *[32]byte, ciphertext []byte) bool {
	var c chacha20poly1305.Cipher
	c.Init(key)
	ok := c.Open(dst, 0, ciphertext, s.hash[:])
	c.Wipe()
	wipe(key[:])
	s.mixHash(ciphertext)
	return ok
}

// kdf writes KDFn(key, input) of §5.4 to out. out[0] may be the key.
func kdf(key *[32]byte, input []byte, out ...*[32]byte) {
	var secret [32]byte
	var t [33]byte // the output before, then the number of this one
	hmac(&secret, key, input)
	for i, sum := range out {
		t[32] = byte(i + 1)
		if i == 0 {
			hmac(sum, &secret, t[32:])
		} else {
			copy(t[:], out[i-1][:])
			hmac(sum, &secret, t[:])
		}
	}
	wipe(secret[:])
	wipe(t[:])
}

// hmac writes HMAC-BLAKE2s(key, data) to sum, RFC 2104. data is at most 33 bytes.
// Written out: crypto/hmac keeps key and data in heap objects that cannot be wiped.
func hmac(sum, key *[32]byte, data []byte) {
	const block = blake2s.BlockSize
	var b [block + 33]byte

	pad := func(x byte) {
		for i := range b[:block] {
			b[i] = x
		}
		for i, k := range key {
			b[i] ^= k
		}
	}
	pad(0x36)
	n := block + copy(b[block:], data)
	inner := blake2s.Sum256(b[:n])
	pad(0x5c)
	n = block + copy(b[block:], inner[:])
	*sum = blake2s.Sum256(b[:n])

	wipe(inner[:])
	wipe(b[:])
}
