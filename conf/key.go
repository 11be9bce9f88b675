package conf

import (
	"encoding/base64"
	"errors"
)

// KeySize is the length of every WireGuard key, in bytes.
const KeySize = 32

// A Key is a private, public or preshared key. All zeros means "no key".
type Key [KeySize]byte

var errKey = errors.New("not a key (expected 44 characters of base64)")

// ParseKey decodes the base64 form of a key: 43 characters of the standard
// alphabet and one '='. The two spare bits of the last character must be zero,
// so that each key has one spelling. The error does not quote s, which may be
// most of a secret.
func ParseKey(s string) (Key, error) { return parseKey([]byte(s)) }

func parseKey(s []byte) (Key, error) {
	// The decoder skips line breaks; one in s would be missing at the end.
	if len(s) != base64.StdEncoding.EncodedLen(KeySize) {
		return Key{}, errKey
	}
	var buf [KeySize + 1]byte // the decoder counts the padding as room
	defer clear(buf[:])
	n, err := base64.StdEncoding.Strict().Decode(buf[:], s)
	if err != nil || n != KeySize {
		return Key{}, errKey
	}
	return Key(buf[:KeySize]), nil
}

// String is the base64 form. It shows the whole key: for output that the user
// asked for, never for logs.
func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// IsZero tells whether the key is absent.
func (k *Key) IsZero() bool { return *k == Key{} }
