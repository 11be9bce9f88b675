package chacha20poly1305

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"unsafe"

	xcrypto "golang.org/x/crypto/chacha20poly1305"
)

func TestCipherNonce(t *testing.T) { each(t, testCipherNonce) }

func testCipherNonce(t *testing.T) {
	var key [KeySize]byte
	copy(key[:], random("key", KeySize))
	var c Cipher
	c.Init(&key)
	ref := must(xcrypto.New(key[:]))
	plaintext, ad := random("plaintext", 100), random("ad", 20)
	for _, counter := range []uint64{0, 1, 1<<32 - 1, 1 << 32, 0x0102030405060708, 1<<64 - 1} {
		got := make([]byte, 120)
		c.Seal(got, counter, plaintext, ad)
		want := ref.Seal(nil, binary.LittleEndian.AppendUint64(make([]byte, 4), counter), plaintext, ad)
		if !bytes.Equal(got, append(want, 0, 0, 0, 0)) {
			t.Errorf("counter %#x:\n got %x\nwant %x", counter, got, want)
		}
	}
}

func TestCipherShortOutput(t *testing.T) { each(t, testCipherShortOutput) }

func testCipherShortOutput(t *testing.T) {
	var c Cipher
	sealed := make([]byte, 20+Overhead)
	c.Seal(sealed, 0, make([]byte, 20), nil)
	// Room behind the end of dst is not the callee's to take.
	buf := make([]byte, 100)
	for _, f := range []struct {
		name string
		call func()
	}{
		{"Seal", func() { c.Seal(buf[:20+Overhead-1], 0, make([]byte, 20), nil) }},
		{"Open", func() { c.Open(buf[:19], 0, sealed, nil) }},
	} {
		if s := outcome(func() string { f.call(); return "returned" }); s == "returned" {
			t.Errorf("%s to a short output: no panic", f.name)
		}
		if !bytes.Equal(buf, make([]byte, len(buf))) {
			t.Errorf("%s to a short output wrote before the panic: %x", f.name, buf)
		}
	}
}

func TestCipherWipe(t *testing.T) {
	c := new(Cipher)
	c.Init((*[KeySize]byte)(random("key", KeySize)))
	c.Wipe()
	if *c != (Cipher{}) {
		t.Errorf("key after Wipe: %08x", c.key)
	}
}

func TestCipherAllocatesNothing(t *testing.T) { each(t, testCipherAllocatesNothing) }

func testCipherAllocatesNothing(t *testing.T) {
	key := [KeySize]byte{1, 2, 3}
	n := testing.AllocsPerRun(50, func() {
		var c Cipher
		var buf [1420 + Overhead]byte
		c.Init(&key)
		c.Seal(buf[:], 9, buf[:1420], nil)
		if !c.Open(buf[:], 9, buf[:], nil) || c.Open(buf[:], 9, buf[:], nil) {
			panic("wrong answer")
		}
		c.Seal(buf[:], 9, buf[:3], buf[100:120])
		c.Wipe()
	})
	if n != 0 {
		t.Errorf("Cipher: %v allocations, want 0", n)
	}
	for _, p := range pairs {
		a, nonce, buf := must(p.ours(key[:])), make([]byte, p.nonceSize), make([]byte, 100+Overhead)
		n := testing.AllocsPerRun(50, func() {
			a.Seal(buf[:0], nonce, buf[:100], nil)
			if _, err := a.Open(buf[:0], nonce, buf, nil); err != nil {
				panic(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations, want 0", p.name, n)
		}
	}
}

// stackDepth is how far below the caller the stack is searched, in bytes: more
// than the frames under any call of the package take.
const stackDepth = 8 << 10

// clearStack zeroes the stack that the next calls will use.
//
//go:noinline
func clearStack() {
	var b [stackDepth + 512]byte
	wipe(b[:]) // a call that is not inlined: what nobody reads would not be cleared
}

// deadStack copies what earlier calls left below the caller's frame.
//
//go:noinline
func deadStack(to *[stackDepth]byte) {
	var here byte
	for i := range to {
		to[i] = *(*byte)(unsafe.Add(unsafe.Pointer(&here), -i-1))
	}
}

// remains calls f and returns what find sees in the stack that is dead then. What is
// seen once may be registers that a preemption has stored there, also stale ones;
// what code leaves there is seen each time.
func remains(f func(), find func(stack []byte) string) (found string) {
	stack := new([stackDepth]byte)
	for range 5 {
		clearStack()
		f()
		deadStack(stack)
		slices.Reverse(stack[:]) // deadStack reads downwards
		if found = find(stack[:]); found == "" {
			break
		}
	}
	return found
}

// key0 is a key whose words appear nowhere by chance.
const key0 = "\x91\x5a\xe3\x07\x2c\xd8\x46\xbf\xf1\x6d\x83\x9e\x35\xc4\x5b\xa2\x78\xe9\x14\xcb\x60\x97\xfd\x2a\xd6\x4f\xb8\x01\x8d\x53\xea\x7c"

//go:noinline
func leakKey(key *[8]uint32) uint32 {
	copied := *key
	return copied[binary.LittleEndian.Uint32([]byte(key0))&7]
}

var raceDetector bool

// No call leaves a piece of the key in a dead frame: what is freed of a stack is
// not cleared, and outlives Wipe.
func TestKeyNotLeftOnStack(t *testing.T) { each(t, testKeyNotLeftOnStack) }

func testKeyNotLeftOnStack(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's calls spill registers that the real code keeps")
	}
	// A collection may move the stack, without its dead part.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	c := new(Cipher)
	c.Init((*[KeySize]byte)([]byte(key0)))
	x := must(NewX([]byte(key0))).(*xaead)
	a := must(New([]byte(key0))).(*aead)
	buf := make([]byte, 2048)
	// Not zeros: the subkey would be a part of block 0 of the 12-byte nonce.
	nonce := random("nonce", NonceSizeX)
	sink := uint32(0)

	// The subkey of XChaCha20 is as secret as the key.
	var subkey [8]uint32
	x.derive(&subkey, (*[NonceSizeX]byte)(nonce))

	for _, f := range []struct {
		name string
		call func()
		want bool // the key is found: the search works
	}{
		{"control", func() { sink += leakKey(&c.key) }, true},
		{"Init", func() { new(Cipher).Init((*[KeySize]byte)(unsafe.Slice(unsafe.StringData(key0), KeySize))) }, false},
		{"Seal", func() { c.Seal(buf, 1, buf[:1420], nil) }, false},
		{"Seal of 1 byte", func() { c.Seal(buf, 1, buf[:1], buf[2000:2004]) }, false},
		{"Open", func() { c.Open(buf, 1, buf[:1420], nil) }, false},
		{"Open of an empty message", func() { c.Seal(buf, 1, nil, nil); c.Open(buf, 1, buf[:16], nil) }, false},
		{"AEAD Seal", func() { a.Seal(buf[:0], nonce[:NonceSize], buf[:200], nil) }, false},
		{"AEAD Open", func() { a.Open(buf[:0], nonce[:NonceSize], buf[:200], nil) }, false},
		{"XChaCha20 Seal", func() { x.Seal(buf[:0], nonce, buf[:200], nil) }, false},
		{"XChaCha20 Open", func() { x.Open(buf[:0], nonce, buf[:200], nil) }, false},
		{"XChaCha20 Seal that panics", func() {
			outcome(func() string { x.Seal(buf[1:1], nonce, buf[:200], nil); return "" })
		}, false},
	} {
		found := remains(f.call, func(stack []byte) (found string) {
			for name, key := range map[string]*[8]uint32{"key": &c.key, "subkey": &subkey} {
				// Two words in a row, as they lie in memory or as the key's bytes.
				for i := range 7 {
					var native, le []byte
					for _, w := range key[i : i+2] {
						native = binary.NativeEndian.AppendUint32(native, w)
						le = binary.LittleEndian.AppendUint32(le, w)
					}
					if bytes.Contains(stack, native) || bytes.Contains(stack, le) {
						found += fmt.Sprintf("words %d and %d of the %s; ", i, i+1, name)
					}
				}
			}
			return found
		})
		if (found != "") != f.want {
			t.Errorf("%s: found %q, want some: %t", f.name, found, f.want)
		}
	}
}

func BenchmarkCipher(b *testing.B) {
	for _, n := range []int{64, 1420, 16384} {
		var c Cipher
		c.Init((*[KeySize]byte)(random("key", KeySize)))
		buf, sealed := make([]byte, n+Overhead), make([]byte, n+Overhead)
		c.Seal(sealed, 1, buf[:n], nil)
		b.Run(fmt.Sprintf("Seal/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				c.Seal(buf, 1, buf[:n], nil)
			}
		})
		b.Run(fmt.Sprintf("Open/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if !c.Open(buf, 1, sealed, nil) {
					b.Fatal("refused")
				}
			}
		})
	}
}

// BenchmarkReference is golang.org/x/crypto; with -tags purego, its generic code.
func BenchmarkReference(b *testing.B) {
	for _, n := range []int{64, 1420, 16384} {
		ref := must(xcrypto.New(random("key", KeySize)))
		nonce, buf := make([]byte, NonceSize), make([]byte, n+Overhead)
		sealed := ref.Seal(nil, nonce, buf[:n], nil)
		b.Run(fmt.Sprintf("Seal/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				ref.Seal(buf[:0], nonce, buf[:n], nil)
			}
		})
		b.Run(fmt.Sprintf("Open/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				if _, err := ref.Open(buf[:0], nonce, sealed, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
