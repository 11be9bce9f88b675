package chacha20poly1305

import (
	"bytes"
	"encoding/binary"
	"testing"

	xcrypto "golang.org/x/crypto/chacha20poly1305"
)

const denseLengths = 1100

// longLengths are all up to where implementations have done each kind of batch, then
// those around the edges of blocks.
func longLengths() (lengths []int) {
	for n := range denseLengths {
		if !testing.Short() || n%7 == 0 {
			lengths = append(lengths, n)
		}
	}
	for _, edge := range []int{1408, 1472, 1984, 2048, 2496, 4096, 9024, 16384, 65536 - 17} {
		for d := -17; d <= 17; d++ {
			if !testing.Short() || d%4 == 0 {
				lengths = append(lengths, edge+d)
			}
		}
	}
	return lengths
}

// Messages longer than one batch of any implementation, in place and apart, with
// additional data of each length up to two blocks, true and forged.
func TestLongMessages(t *testing.T) { each(t, testLongMessages) }

func testLongMessages(t *testing.T) {
	const maxLen = 65536
	const counter = 1<<63 + 5
	key := [KeySize]byte(random("key", KeySize))
	nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), counter)
	ref := must(xcrypto.New(key[:]))
	var c Cipher
	c.Init(&key)
	text, ads := random("plaintext", maxLen), random("ad", 33)
	srcBuf, dstBuf := newGuarded(maxLen+64), newGuarded(maxLen+64)
	untouched := bytes.Repeat([]byte{guard}, maxLen)
	zeros := make([]byte, maxLen)
	var sealed []byte

	for i, n := range longLengths() {
		ad := ads[:i%len(ads)]
		srcBuf.b, dstBuf.b = srcBuf.b[:n+64], dstBuf.b[:n+64]
		srcOff, dstOff := i%16, i*5%16
		sealed = ref.Seal(sealed[:0], nonce, text[:n], ad)
		check := func(what string, off int, got, want []byte) {
			t.Helper()
			if !bytes.Equal(got, want) || !dstBuf.intact(off, len(got)) {
				t.Fatalf("%s of %d bytes, ad %d: differ from byte %d, guard intact %t",
					what, n, len(ad), firstDifference(got, want), dstBuf.intact(off, len(got)))
			}
		}

		src, dst := srcBuf.lend(srcOff, n), dstBuf.lend(dstOff, len(sealed))
		copy(src, text)
		c.Seal(dst, counter, src, ad)
		check("Seal", dstOff, dst, sealed)
		dst = dstBuf.lend(dstOff, len(sealed))
		copy(dst, text[:n])
		c.Seal(dst, counter, dst[:n], ad)
		check("Seal in place", dstOff, dst, sealed)

		src, dst = srcBuf.lend(srcOff, len(sealed)), dstBuf.lend(dstOff, n)
		copy(src, sealed)
		ok := c.Open(dst, counter, src, ad)
		check("Open", dstOff, dst, text[:n])
		if !ok {
			t.Fatalf("Open of %d bytes, ad %d: refused", n, len(ad))
		}
		dst = dstBuf.lend(dstOff, len(sealed))
		copy(dst, sealed)
		ok = c.Open(dst, counter, dst, ad)
		if !bytes.Equal(dst[:n], text[:n]) {
			t.Fatalf("Open of %d bytes in place, ad %d: differ from byte %d", n, len(ad), firstDifference(dst, text))
		}
		if !ok || !bytes.Equal(dst[n:], sealed[n:]) || !dstBuf.intact(dstOff, len(sealed)) {
			t.Fatalf("Open of %d bytes in place, ad %d: %t, tag then %x, guard intact %t", n, len(ad), ok, dst[n:], dstBuf.intact(dstOff, len(sealed)))
		}

		for _, at := range []int{0, n / 2, n - 1, n, len(sealed) - 1} {
			if at < 0 || (testing.Short() || n >= denseLengths) && at != n/2 {
				continue
			}
			src, dst = srcBuf.lend(srcOff, len(sealed)), dstBuf.lend(dstOff, n)
			copy(src, sealed)
			src[at] ^= 0x10
			if c.Open(dst, counter, src, ad) {
				t.Fatalf("Open of %d bytes: byte %d changed, accepted", n, at)
			}
			if !bytes.Equal(dst, untouched[:n]) {
				check("Refusal", dstOff, dst, zeros[:n])
			}
		}
	}
}
