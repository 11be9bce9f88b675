package chacha20poly1305

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	xcrypto "golang.org/x/crypto/chacha20poly1305"

	"wgd/internal/loud"
)

// Everything here is judged by golang.org/x/crypto/chacha20poly1305.

// random returns n bytes that are the same in each run.
func random(seed string, n int) []byte {
	var s [32]byte
	copy(s[:], seed)
	b := make([]byte, n)
	rand.NewChaCha8(s).Read(b)
	return b
}

func must(a cipher.AEAD, err error) cipher.AEAD {
	if err != nil {
		panic(err)
	}
	return a
}

var pairs = []struct {
	name      string
	ours, ref func(key []byte) (cipher.AEAD, error)
	nonceSize int
}{
	{"ChaCha20-Poly1305", New, xcrypto.New, NonceSize},
	{"XChaCha20-Poly1305", NewX, xcrypto.NewX, NonceSizeX},
}

func TestConstants(t *testing.T) {
	got := [4]int{KeySize, NonceSize, NonceSizeX, Overhead}
	if want := [4]int{xcrypto.KeySize, xcrypto.NonceSize, xcrypto.NonceSizeX, xcrypto.Overhead}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, p := range pairs {
		a, b := must(p.ours(make([]byte, KeySize))), must(p.ref(make([]byte, KeySize)))
		if a.NonceSize() != b.NonceSize() || a.Overhead() != b.Overhead() {
			t.Errorf("%s: nonce %d, overhead %d bytes", p.name, a.NonceSize(), a.Overhead())
		}
	}
}

func TestLengths(t *testing.T) { each(t, testLengths) }

func testLengths(t *testing.T) {
	var lengths []int
	for n := range 321 {
		lengths = append(lengths, n)
	}
	for _, n := range []int{512, 1024, 1408, 1420, 1472, 2048, 4096, 9000, 16384, 65472, 65536} {
		for d := -2; d <= 2; d++ {
			lengths = append(lengths, n+d)
		}
	}
	key, nonce := random("key", KeySize), random("nonce", NonceSizeX)
	text, ads := random("plaintext", 65536+2), random("ad", 80)
	for _, p := range pairs {
		ours, ref := must(p.ours(key)), must(p.ref(key))
		nonce := nonce[:p.nonceSize]
		for i, n := range lengths {
			plaintext, ad := text[:n], ads[:i%len(ads)]
			want := ref.Seal(nil, nonce, plaintext, ad)
			got := ours.Seal(nil, nonce, plaintext, ad)
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: Seal of %d bytes, ad %d: differ from byte %d", p.name, n, len(ad), firstDifference(got, want))
			}
			opened, err := ours.Open(nil, nonce, got, ad)
			if err != nil || !bytes.Equal(opened, plaintext) {
				t.Fatalf("%s: Open of %d bytes, ad %d: %v, differ from byte %d", p.name, n, len(ad), err, firstDifference(opened, plaintext))
			}
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// A guarded buffer shows writes outside the place that was lent.
type guarded struct{ b []byte }

const guard = 0xa5

func newGuarded(n int) *guarded {
	b := make([]byte, n+16)
	for uintptr(unsafe.Pointer(&b[0]))%16 != 0 {
		b = b[1:]
	}
	return &guarded{b[:n]}
}

// lend returns n bytes at offset off from a multiple of 16, guard bytes around.
func (g *guarded) lend(off, n int) []byte {
	for i := range g.b {
		g.b[i] = guard
	}
	return g.b[16+off:][:n]
}

func (g *guarded) intact(off, n int) bool {
	for i, c := range g.b {
		if (i < 16+off || i >= 16+off+n) && c != guard {
			return false
		}
	}
	return true
}

// Each length of the first blocks at each alignment of source and destination; in
// short at four of the sixteen, which differ modulo 4.
func TestAlignments(t *testing.T) { each(t, testAlignments) }

func testAlignments(t *testing.T) {
	const maxLen = 320
	var key [KeySize]byte
	copy(key[:], random("key", KeySize))
	const counter = 0x0102030405060708
	nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), counter)
	ref := must(xcrypto.New(key[:]))
	var c Cipher
	c.Init(&key)
	text := random("plaintext", maxLen)
	srcBuf, dstBuf := newGuarded(maxLen+64), newGuarded(maxLen+64)
	step := 1
	if testing.Short() {
		step = 5
	}

	for n := range maxLen + 1 {
		want := ref.Seal(nil, nonce, text[:n], nil)
		sealed := n + Overhead
		for dstOff := 0; dstOff < 16; dstOff += step {
			for srcOff := 0; srcOff < 16; srcOff += step {
				src, dst := srcBuf.lend(srcOff, sealed), dstBuf.lend(dstOff, sealed)
				copy(src, text[:n])
				c.Seal(dst, counter, src[:n], nil)
				if !bytes.Equal(dst, want) || !dstBuf.intact(dstOff, sealed) {
					t.Fatalf("Seal of %d bytes, source at %d, destination at %d: differ from byte %d, guard intact %t",
						n, srcOff, dstOff, firstDifference(dst, want), dstBuf.intact(dstOff, sealed))
				}

				copy(src, want)
				dst = dstBuf.lend(dstOff, n)
				ok := c.Open(dst, counter, src, nil)
				if !ok || !bytes.Equal(dst, text[:n]) || !dstBuf.intact(dstOff, n) {
					t.Fatalf("Open of %d bytes, source at %d, destination at %d: %t, differ from byte %d, guard intact %t",
						n, srcOff, dstOff, ok, firstDifference(dst, text), dstBuf.intact(dstOff, n))
				}
				if !bytes.Equal(src, want) || !srcBuf.intact(srcOff, sealed) {
					t.Fatalf("Open of %d bytes changed its input", n)
				}
			}

			b := dstBuf.lend(dstOff, sealed)
			copy(b, text[:n])
			c.Seal(b, counter, b[:n], nil)
			if !bytes.Equal(b, want) || !dstBuf.intact(dstOff, sealed) {
				t.Fatalf("Seal of %d bytes in place at %d: differ from byte %d", n, dstOff, firstDifference(b, want))
			}
			if !c.Open(b, counter, b, nil) || !bytes.Equal(b[:n], text[:n]) || !bytes.Equal(b[n:], want[n:]) || !dstBuf.intact(dstOff, sealed) {
				t.Fatalf("Open of %d bytes in place at %d: differ from byte %d", n, dstOff, firstDifference(b, text))
			}
		}
	}
}

func TestForgery(t *testing.T) { each(t, testForgery) }

func testForgery(t *testing.T) {
	const counter = 7
	var key [KeySize]byte
	copy(key[:], random("key", KeySize))
	var c Cipher
	c.Init(&key)
	for _, n := range []int{0, 1, 15, 16, 17, 63, 64, 65, 130} {
		plaintext, ad := random("plaintext", n), random("ad", n/2)
		sealed := make([]byte, n+Overhead)
		c.Seal(sealed, counter, plaintext, ad)
		reject := func(what string, counter uint64, sealed, ad []byte) {
			t.Helper()
			dst := bytes.Repeat([]byte{guard}, n+1)
			if c.Open(dst, counter, sealed, ad) {
				t.Errorf("%d bytes, %s: accepted", n, what)
			}
			if !bytes.Equal(dst, bytes.Repeat([]byte{guard}, n+1)) {
				t.Errorf("%d bytes, %s: output changed", n, what)
			}
			// The same through cipher.AEAD, which zeroes the output, and nothing else.
			nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), counter)
			out, err := must(New(key[:])).Open(dst[:1], nonce, sealed, ad)
			if out != nil || err == nil {
				t.Errorf("%d bytes, %s: AEAD returned %x, %v", n, what, out, err)
			}
			if size := max(len(sealed)-Overhead, 0); size <= n && (dst[0] != guard || !bytes.Equal(dst[1:1+size], make([]byte, size))) {
				t.Errorf("%d bytes, %s: AEAD left % x", n, what, dst)
			}
		}
		for i := range sealed {
			for bit := range 8 {
				sealed[i] ^= 1 << bit
				reject(fmt.Sprintf("byte %d bit %d", i, bit), counter, sealed, ad)
				sealed[i] ^= 1 << bit
			}
			reject(fmt.Sprintf("cut to %d bytes", i), counter, sealed[:i], ad)
		}
		for i := range ad {
			ad[i]++
			reject(fmt.Sprintf("ad byte %d", i), counter, sealed, ad)
			ad[i]--
			reject(fmt.Sprintf("ad cut to %d bytes", i), counter, sealed, ad[:i])
		}
		reject("ad longer", counter, sealed, append(bytes.Clone(ad), 0))
		reject("sealed longer", counter, append(bytes.Clone(sealed), 0), ad)
		for bit := range 64 {
			reject(fmt.Sprintf("counter bit %d", bit), counter^1<<bit, sealed, ad)
		}
		if !c.Open(make([]byte, n), counter, sealed, ad) {
			t.Errorf("%d bytes: the true message is refused", n)
		}
	}
}

// outcome runs f and says what came of it: result, error or panic.
func outcome(f func() string) (s string) {
	defer func() {
		if p := recover(); p != nil {
			s = fmt.Sprintf("panic: %v", p)
		}
	}()
	return f()
}

// The same calls, right and wrong, have the same outcome here and there.
func TestContract(t *testing.T) { each(t, testContract) }

func testContract(t *testing.T) {
	for _, p := range pairs {
		for n := range 70 {
			try := func(f func([]byte) (cipher.AEAD, error)) string {
				return outcome(func() string { _, err := f(make([]byte, n)); return fmt.Sprint(err) })
			}
			if got, want := try(p.ours), try(p.ref); got != want {
				t.Errorf("%s: key of %d bytes: got %q, want %q", p.name, n, got, want)
			}
		}

		key, nonce := random("key", KeySize), random("nonce", p.nonceSize)
		ours, ref := must(p.ours(key)), must(p.ref(key))
		same := func(what string, f func(a cipher.AEAD) string) {
			t.Helper()
			got, want := outcome(func() string { return f(ours) }), outcome(func() string { return f(ref) })
			if got != want {
				t.Errorf("%s: %s:\n got %s\nwant %s", p.name, what, got, want)
			}
		}
		for n := range 40 {
			same(fmt.Sprintf("nonce of %d bytes", n), func(a cipher.AEAD) string {
				return fmt.Sprintf("%x", a.Seal(nil, random("nonce", n), nil, nil))
			})
			same(fmt.Sprintf("Open with a nonce of %d bytes", n), func(a cipher.AEAD) string {
				_, err := a.Open(nil, random("nonce", n), make([]byte, n), nil)
				return fmt.Sprint(err)
			})
			same(fmt.Sprintf("Open of %d bytes", n), func(a cipher.AEAD) string {
				b, err := a.Open([]byte("head"), nonce, make([]byte, n), nil)
				return fmt.Sprintf("%x %v", b, err)
			})
		}
		for _, n := range []int{0, 1, 16, 64, 100} {
			for _, head := range []int{0, 1, 7} {
				for spare := range n + 18 {
					var buf []byte
					f := func(a cipher.AEAD) string {
						buf = random("dst", head+spare)
						out := a.Seal(buf[:head], nonce, random("plaintext", n), nil)
						return fmt.Sprintf("%x, in the buffer %t: %x", out, len(out) > 0 && len(buf) > 0 && &out[0] == &buf[0], buf)
					}
					same(fmt.Sprintf("Seal of %d bytes behind %d with %d to spare", n, head, spare), f)

					sealed := ref.Seal(nil, nonce, random("plaintext", n), nil)
					for _, flip := range []byte{0, 1} {
						sealed[n] ^= flip
						same(fmt.Sprintf("Open of %d bytes behind %d with %d to spare", n, head, spare), func(a cipher.AEAD) string {
							buf = random("dst", head+spare)
							out, err := a.Open(buf[:head], nonce, sealed, nil)
							return fmt.Sprintf("%x %t %v, in the buffer %t: %x", out, out == nil, err, len(out) > 0 && len(buf) > 0 && &out[0] == &buf[0], buf)
						})
					}
				}
			}
		}

		// Output against input and against additional data in one buffer, each
		// distance at which they can touch.
		for _, n := range []int{0, 1, 20, 70} {
			sealed := ref.Seal(nil, nonce, random("plaintext", n), nil)
			for d := -n - 20; d <= n+20; d++ {
				const at = 100
				same(fmt.Sprintf("Seal of %d bytes, output at %+d", n, d), func(a cipher.AEAD) string {
					buf := random("buf", 300)
					return fmt.Sprintf("%x", a.Seal(buf[:at+d][at+d:], nonce, buf[at:at+n], nil))
				})
				same(fmt.Sprintf("Seal of %d bytes, output at %+d from ad", n, d), func(a cipher.AEAD) string {
					buf := random("buf", 300)
					return fmt.Sprintf("%x", a.Seal(buf[:at+d][at+d:], nonce, make([]byte, n), buf[at:at+n]))
				})
				openAt := func(a cipher.AEAD) string {
					buf := random("buf", 300)
					copy(buf[at:], sealed)
					out, err := a.Open(buf[:at+d][at+d:], nonce, buf[at:at+len(sealed)], nil)
					return fmt.Sprintf("%x %v", out, err)
				}
				if n <= d && d < n+Overhead {
					// The output covers the tag alone. x/crypto's assembly then refuses
					// the true message, its generic code does not.
					if got, want := openAt(ours), fmt.Sprintf("%x %v", random("plaintext", n), nil); got != want {
						t.Errorf("%s: Open of %d bytes, output at the tag %+d: got %s, want %s", p.name, n, d-n, got, want)
					}
				} else {
					same(fmt.Sprintf("Open of %d bytes, output at %+d", n, d), openAt)
				}
				same(fmt.Sprintf("Open of %d bytes, output at %+d from ad", n, d), func(a cipher.AEAD) string {
					buf := random("buf", 300)
					out, err := a.Open(buf[:at+d][at+d:], nonce, sealed, buf[at:at+n])
					return fmt.Sprintf("%x %v", out, err)
				})
			}
		}
	}
}

// Only the length is looked at, so the memory is never touched.
func TestTooLong(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no slice is that long on a 32-bit CPU, and qemu maps page by page")
	}
	top := int64(1) << 38
	long, err := syscall.Mmap(-1, 0, int(top), syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		loud.Skip(t, "mmap:", err)
	}
	defer syscall.Munmap(long)
	for _, p := range pairs {
		nonce := make([]byte, p.nonceSize)
		for _, f := range []struct {
			name string
			call func(a cipher.AEAD)
		}{
			{"Seal of 2^38-63 bytes", func(a cipher.AEAD) { a.Seal(nil, nonce, long[:top-63], nil) }},
			{"Seal of 2^38-1 bytes", func(a cipher.AEAD) { a.Seal(nil, nonce, long[:top-1], nil) }},
			{"Open of 2^38-47 bytes", func(a cipher.AEAD) { a.Open(nil, nonce, long[:top-47], nil) }},
		} {
			try := func(new func([]byte) (cipher.AEAD, error)) string {
				return outcome(func() string { f.call(must(new(make([]byte, KeySize)))); return "returned" })
			}
			if got, want := try(p.ours), try(p.ref); got != want {
				t.Errorf("%s: %s: got %q, want %q", p.name, f.name, got, want)
			}
		}
	}
}

func FuzzAEAD(f *testing.F) {
	f.Add([]byte("key"), []byte("nonce"), []byte(sunscreen), []byte("ad"), byte(0))
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, byte(1))
	for _, n := range []int{15, 16, 17, 63, 64, 65, 128, 1420} {
		f.Add(random("key", 32), random("nonce", 24), random("plaintext", n), random("ad", n%20), byte(n))
	}
	f.Fuzz(func(t *testing.T, keyBytes, nonceBytes, plaintext, ad []byte, off byte) {
		key, nonces := make([]byte, KeySize), make([]byte, NonceSizeX)
		copy(key, keyBytes)
		copy(nonces, nonceBytes)
		head := int(off % 16)
		before := active
		defer func() { active = before }()
		for i := range len(pairs) * len(usable) {
			p := pairs[i%len(pairs)]
			active = usable[i/len(pairs)]
			ours, ref, nonce := must(p.ours(key)), must(p.ref(key)), nonces[:p.nonceSize]
			want := ref.Seal(nil, nonce, plaintext, ad)
			buf := make([]byte, head, head+len(want))
			if got := ours.Seal(buf, nonce, plaintext, ad)[head:]; !bytes.Equal(got, want) {
				t.Fatalf("%s: Seal:\n got %x\nwant %x", p.name, got, want)
			}
			buf = append(buf, want...)
			got, err := ours.Open(buf[head:head], nonce, buf[head:], ad)
			if err != nil || !bytes.Equal(got, plaintext) {
				t.Fatalf("%s: Open in place: got %x, %v, want %x", p.name, got, err, plaintext)
			}
			// A message made of anything is judged the same.
			if _, refErr := ref.Open(nil, nonce, plaintext, ad); refErr == nil {
				t.Fatal("forged")
			} else if got, err := ours.Open(nil, nonce, plaintext, ad); err == nil || got != nil {
				t.Fatalf("%s: accepted a forgery", p.name)
			}
			want[int(off)%len(want)] ^= 1
			if got, err := ours.Open(nil, nonce, want, ad); err == nil || got != nil {
				t.Fatalf("%s: accepted byte %d changed", p.name, int(off)%len(want))
			}
		}
	})
}
