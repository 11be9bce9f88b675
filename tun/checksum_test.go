package tun

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 65535+8)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	ones := make([]byte, len(b))
	for i := range ones {
		ones[i] = 0xff
	}
	check := func(b []byte) {
		t.Helper()
		want := slowSum(b)
		for name, f := range map[string]func([]byte) uint32{"sum64": sum64, "sum32": sum32} {
			got := f(b)
			if littleEndian {
				got = got>>8 | got&0xff<<8
			}
			if got != uint32(want) {
				t.Errorf("%s of %d bytes at %p: %#x, want %#x", name, len(b), b, got, want)
			}
		}
		if got := Sum(b, 0x7fff0000); got != uint32(slowSum(b, []byte{0x7f, 0xff})) && len(b)%2 == 0 {
			t.Errorf("sum of %d bytes to something: %#x", len(b), got)
		}
	}
	for _, b := range [][]byte{b, ones, make([]byte, 200)} {
		for off := range 8 {
			for n := range min(200, len(b)-off) {
				check(b[off : off+n])
			}
		}
	}
	for off := range 8 {
		check(b[off : off+65535])
		check(ones[off : off+65535])
	}
}

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{64, 1400} {
		p := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				Sum(p, 0)
			}
		})
	}
}
