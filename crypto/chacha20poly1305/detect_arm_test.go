//go:build !purego

package chacha20poly1305

import (
	"slices"
	"testing"
)

func TestDetect(t *testing.T) {
	const swpHalfThumbFastMult = 1<<0 | 1<<1 | 1<<2 | 1<<4
	withNEON, without := []uint8{neon, scalar}, []uint8{scalar}
	for _, v := range []struct {
		name   string
		vector [][2]uintptr
		want   []uint8
	}{
		{"Cortex-A7", [][2]uintptr{{6, 4096}, {16, swpHalfThumbFastMult | 1<<12}, {0, 0}}, withNEON},
		{"ARM926", [][2]uintptr{{6, 4096}, {16, swpHalfThumbFastMult}, {0, 0}}, without},
		{"all but NEON", [][2]uintptr{{16, ^uintptr(1 << 12)}}, without},
		{"the bit in another entry", [][2]uintptr{{6, 1 << 12}, {16, 0}, {26, 1 << 12}}, without},
		{"no AT_HWCAP", [][2]uintptr{{6, 4096}, {0, 0}}, without},
		{"no vector", nil, without},
	} {
		if got, why := detectIn(v.vector); !slices.Equal(got, v.want) || why == "" {
			t.Errorf("%s: got %v (%s), want %v", v.name, got, why, v.want)
		}
	}
}
