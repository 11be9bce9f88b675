package chacha20poly1305

import (
	"bytes"
	"testing"

	xchacha "golang.org/x/crypto/chacha20"
)

// Key stream from any block counter on, any length and place, judged by x/crypto.
func FuzzChaCha20(f *testing.F) {
	f.Add([]byte{}, []byte{}, uint32(0), []byte{}, byte(0))
	for _, n := range []int{1, 3, 4, 63, 64, 65, 127, 128, 129, 255, 320, 1420} {
		f.Add(random("key", 32), random("nonce", 12), uint32(n), random("text", n), byte(n))
	}
	f.Fuzz(func(t *testing.T, keyBytes, nonceBytes []byte, counter uint32, text []byte, place byte) {
		key, nonce := make([]byte, KeySize), make([]byte, NonceSize)
		copy(key, keyBytes)
		copy(nonce, nonceBytes)
		counter &= 1<<31 - 1 // x/crypto refuses to wrap
		ref, err := xchacha.NewUnauthenticatedCipher(key, nonce)
		if err != nil {
			t.Fatal(err)
		}
		ref.SetCounter(counter)
		block0 := make([]byte, blockSize)
		ref.XORKeyStream(block0, block0)
		want := make([]byte, len(text))
		ref.XORKeyStream(want, text)

		var words [8]uint32
		setKey(&words, (*[KeySize]byte)(key))
		srcOff, dstOff := int(place&15), int(place>>4)
		before := active
		defer func() { active = before }()
		for _, id := range usable {
			active = id
			iv := nonceWords((*[NonceSize]byte)(nonce))
			iv[0] = counter
			src, dst := newGuarded(len(text)+64), newGuarded(len(text)+64)
			s, d := src.lend(srcOff, len(text)), dst.lend(dstOff, len(text))
			copy(s, text)
			var m, wantM poly1305
			keyStream(&m, d, s, &words, &iv)
			wantM.init((*[32]byte)(block0))
			if m != wantM {
				t.Errorf("%s: one-time key: got %x, want %x", implementations[id], m, wantM)
			}
			if !bytes.Equal(d, want) || !dst.intact(dstOff, len(text)) {
				t.Errorf("%s: %d bytes, source at %d, destination at %d: differ from byte %d, guard intact %t",
					implementations[id], len(text), srcOff, dstOff, firstDifference(d, want), dst.intact(dstOff, len(text)))
			}
			iv = nonceWords((*[NonceSize]byte)(nonce))
			iv[0] = counter + 1
			keyStream(nil, s, s, &words, &iv)
			if !bytes.Equal(s, want) || !src.intact(srcOff, len(text)) {
				t.Errorf("%s: %d bytes in place at %d: differ from byte %d", implementations[id], len(text), srcOff, firstDifference(s, want))
			}
		}
	})
}
