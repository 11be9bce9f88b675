//go:build (mips || mipsle) && !purego

package chacha20poly1305

import (
	"slices"
	"testing"
	"unsafe"
)

func TestISALevel(t *testing.T) {
	at := func(s string) [][2]uintptr {
		b := append([]byte(s), 0)
		t.Cleanup(func() { _ = b[0] })
		return [][2]uintptr{{6, 4096}, {atBasePlatform, uintptr(unsafe.Pointer(&b[0]))}, {0, 0}}
	}
	hidden := [][2]uintptr{{6, 4096}, {0, 0}}
	const (
		head = "system type\t\t: Atheros AR7240 rev 2\nmachine\t\t\t: a router\nprocessor\t\t: 0\n"
		isa2 = "isa\t\t\t: mips1 mips2 mips32r1 mips32r2\n"
		isa1 = "isa\t\t\t: mips1 mips2 mips32r1\n"
	)
	r2, r1 := []uint8{mips32r2, mips32r1}, []uint8{mips32r1}
	for _, v := range []struct {
		name    string
		auxv    [][2]uintptr
		cpuinfo string
		level   string
		forms   []uint8
	}{
		{"24K, kernel 6.6", at("mips32r2"), "", "mips32r2", r2},
		{"4K, kernel 6.6", at("mips32"), "", "mips32", r1},
		{"a 64-bit CPU", at("mips64r2"), "", "mips64r2", r2},
		{"an old 64-bit CPU", at("mips64"), "", "mips64", r1},
		{"release 5", at("mips32r5"), "", "mips32r5", r2},
		{"release 6 has no MADDU", at("mips32r6"), "", "mips32r6", nil},
		{"AT_BASE_PLATFORM wins over /proc", at("mips32"), head + isa2, "mips32", r1},
		{"address 0", [][2]uintptr{{atBasePlatform, 0}}, head + isa2, "mips32r2", r2},
		{"kernel 4.4, isa r2", hidden, head + "cpu model\t\t: a model\n" + isa2, "mips32r2", r2},
		{"kernel 4.4, isa r1", hidden, head + "cpu model\t\t: Broadcom BMIPS4350 V7.0\n" + isa1, "mips32", r1},
		{"kernel 2.6, 24Kc", hidden, head + "cpu model\t\t: MIPS 24Kc V7.4\n", "mips32r2", r2},
		{"kernel 2.6, 74Kc", nil, head + "cpu model\t\t: MIPS 74Kc V4.12\n", "mips32r2", r2},
		{"kernel 2.6, 1004Kc", nil, head + "cpu model\t\t: MIPS 1004Kc V2.15\n", "mips32r2", r2},
		{"4KEc is r1 or r2", hidden, head + "cpu model\t\t: MIPS 4KEc V6.4\n", "mips32", r1},
		{"BCM3302", hidden, head + "cpu model\t\t: BCM3302 V0.7\n", "mips32", r1},
		{"a word elsewhere", hidden, "system type\t\t: MIPS 24Kc\nmachine: isa: mips32r2\nASEs implemented\t: mips16 mips32r2\n", "mips32", r1},
		{"another CPU's /proc, as in qemu-user", hidden, "processor\t: 0\nmodel name\t: MIPS 24Kc\nflags\t\t: isa mips32r2\n", "mips32", r1},
		{"no /proc", hidden, "", "mips32", r1},
	} {
		level, why := isaLevel(v.auxv, func() string { return v.cpuinfo })
		if level != v.level || why == "" {
			t.Errorf("%s: got %q (%s), want %q", v.name, level, why, v.level)
		}
		if got := formsFor(level); !slices.Equal(got, v.forms) {
			t.Errorf("%s: forms %v, want %v", v.name, got, v.forms)
		}
	}
}
