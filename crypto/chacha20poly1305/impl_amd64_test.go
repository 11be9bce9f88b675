//go:build !purego

package chacha20poly1305

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	xcrypto "golang.org/x/crypto/chacha20poly1305"
)

func TestChoices(t *testing.T) {
	for _, c := range []struct {
		name              string
		ssse3, avx2, bmi2 bool
		want              []uint8
	}{
		{"nothing runs without SSSE3", false, false, false, nil},
		{"SSSE3 alone", true, false, false, []uint8{ssse3}},
		{"MULX alone, as under a kernel that does not save AVX registers", true, false, true, []uint8{ssse3}},
		{"AVX2 without MULX", true, true, false, []uint8{ssse3}},
		{"a hypervisor that hides SSSE3 alone", false, true, true, nil},
		{"both", true, true, true, []uint8{avx2, ssse3}},
	} {
		if got, why := choices(c.ssse3, c.avx2, c.bmi2); !slices.Equal(got, c.want) || why == "" {
			t.Errorf("%s: got %v (%s), want %v", c.name, got, why, c.want)
		}
	}
}

// A message that is held back whole is not written when it is refused; a longer one
// becomes zeros.
func TestRefusedAVX2(t *testing.T) {
	if !slices.Contains(Implementations(), "avx2") {
		t.Skip("no AVX2")
	}
	before, _ := Implementation()
	defer Use(before)
	Use("avx2")
	var c Cipher
	for n, want := range map[int]byte{0: guard, 1: guard, avx2Held: guard, avx2Held + 1: 0, 3000: 0} {
		dst := bytes.Repeat([]byte{guard}, n)
		if c.Open(dst, 0, make([]byte, n+Overhead), nil) || !bytes.Equal(dst, bytes.Repeat([]byte{want}, n)) {
			t.Errorf("%d bytes: accepted, or not all bytes are %#x", n, want)
		}
	}
}

// aeadAVX2 leaves no key stream and no one-time key in its frame: 8 bytes of either
// are looked for at each address.
func TestStreamNotLeftOnStack(t *testing.T) {
	if raceDetector || !slices.Contains(Implementations(), "avx2") {
		t.Skip("no AVX2, or the race detector")
	}
	before, _ := Implementation()
	defer Use(before)
	Use("avx2")
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	var c Cipher
	c.Init((*[KeySize]byte)([]byte(key0)))
	for _, n := range []int{1, 64, 192, 320, 448, 576, 960, 1420, 3000} {
		// Zeros sealed are the key stream; block 0 comes from the generic code.
		stream, opened := make([]byte, n+Overhead), make([]byte, n)
		c.Seal(stream, 1, opened, nil)
		var first [blockSize]byte
		xorBlocksGeneric(first[:], first[:], &c.key, &[4]uint32{2: 1})
		var m poly1305
		m.init((*[32]byte)(first[:]))
		secret := map[uint64]string{m.r[0]: "r", m.r[1]: "r", m.r[1] + m.r[1]>>2: "r·5/4"}
		add := func(name string, b []byte) {
			for i := 0; i+8 <= len(b); i++ {
				secret[binary.LittleEndian.Uint64(b[i:])] = fmt.Sprintf("%s byte %d", name, i)
			}
		}
		add("one-time key", first[:32])
		add("key stream", stream[:n])
		forged := bytes.Clone(stream)
		forged[n] ^= 1
		for _, f := range []struct {
			name string
			call func()
		}{
			{"Seal", func() { c.Seal(stream, 1, opened, nil) }},
			{"Open", func() { c.Open(opened, 1, stream, nil) }},
			{"Open, refused", func() { c.Open(opened, 1, forged, nil) }},
		} {
			found := remains(func() { clear(opened); f.call() }, func(stack []byte) string {
				for i := range len(stack) - 8 {
					if name, ok := secret[binary.LittleEndian.Uint64(stack[i:])]; ok {
						return name
					}
				}
				return ""
			})
			if found != "" {
				t.Errorf("%s of %d bytes left 8 bytes of the %s", f.name, n, found)
			}
		}
	}
}

// BenchmarkAgainstReference times the implementation in use and x/crypto in turns
// and reports the least time of each, ns, and the second over the first: a machine
// that others use slows single turns, and both alike.
func BenchmarkAgainstReference(b *testing.B) {
	const turns, calls = 2000, 16
	for _, n := range []int{0, 64, 256, 576, 1420, 16384} {
		var c Cipher
		key := [KeySize]byte(random("key", KeySize))
		c.Init(&key)
		ref := must(xcrypto.New(key[:]))
		nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), 1)
		buf, sealed := make([]byte, n+Overhead), make([]byte, n+Overhead)
		c.Seal(sealed, 1, buf[:n], nil)
		for _, f := range []struct {
			name      string
			ours, ref func()
		}{
			{"Seal", func() { c.Seal(buf, 1, buf[:n], nil) }, func() { ref.Seal(buf[:0], nonce, buf[:n], nil) }},
			{"Open", func() { c.Open(buf, 1, sealed, nil) }, func() { ref.Open(buf[:0], nonce, sealed, nil) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				least := [2]time.Duration{1 << 62, 1 << 62}
				for b.Loop() {
					for range turns {
						for i, call := range [2]func(){f.ours, f.ref} {
							start := time.Now()
							for range calls {
								call()
							}
							least[i] = min(least[i], time.Since(start))
						}
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(least[0])/calls, "ns-ours")
				b.ReportMetric(float64(least[1])/calls, "ns-ref")
				b.ReportMetric(float64(least[1])/float64(least[0]), "ratio")
			})
		}
	}
}
