//go:build (mips || mipsle) && !purego

package chacha20poly1305

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AT_BASE_PLATFORM is the address of a string, the ISA level of the CPU, such as
// "mips32r2". MIPS kernels set it since about 5.7.
const atBasePlatform = 24

func detect() (ids []uint8, why string) {
	auxv, _ := unix.Auxv()
	level, why := isaLevel(auxv, func() string {
		b, _ := os.ReadFile("/proc/cpuinfo")
		return string(b)
	})
	return formsFor(level), why
}

// isaLevel returns the ISA level, as AT_BASE_PLATFORM spells it, and what told.
// In doubt that is "mips32", which all of Go's code needs.
func isaLevel(auxv [][2]uintptr, cpuinfo func() string) (level, why string) {
	for _, entry := range auxv {
		if entry[0] == atBasePlatform && entry[1] != 0 {
			// The kernel's string lies outside the heap for good.
			level = unix.BytePtrToString(*(**byte)(unsafe.Pointer(&entry[1])))
			return level, "AT_BASE_PLATFORM " + level
		}
	}
	for line := range strings.Lines(cpuinfo()) {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case name == "isa" && strings.Contains(value, "r2"):
			return "mips32r2", "/proc/cpuinfo isa " + value
		case name == "isa" && strings.Contains(value, "mips32r1"):
			return "mips32", "/proc/cpuinfo isa " + value
		case name == "cpu model": // above isa; kernels before 3.8 have no isa line
			for _, core := range []string{"24K", "34K", "74K", "1004K", "1074K", "M14K", "interAptiv", "proAptiv"} {
				if strings.HasPrefix(value, "MIPS "+core) {
					return "mips32r2", "/proc/cpuinfo cpu model " + value
				}
			}
		}
	}
	return "mips32", "neither AT_BASE_PLATFORM nor /proc/cpuinfo tells"
}

// formsFor returns the assembly that a CPU of that level can run, best first.
func formsFor(level string) (ids []uint8) {
	switch {
	case strings.HasSuffix(level, "r6"): // has lost MADDU, and much that Go's own code needs
		return nil
	case strings.HasPrefix(level, "mips") && strings.Contains(level, "r"):
		ids = append(ids, mips32r2)
	}
	if haveR1 {
		ids = append(ids, mips32r1)
	}
	return ids
}
