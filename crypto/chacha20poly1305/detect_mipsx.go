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
	info := cpuinfo()
	if isa := field(info, "isa"); strings.Contains(isa, "r2") {
		return "mips32r2", "/proc/cpuinfo isa " + isa
	} else if isa != "" {
		return "mips32", "/proc/cpuinfo isa " + isa
	}
	// Kernels before 3.8 have no such line.
	model := field(info, "cpu model")
	for _, core := range [...]string{"24K", "34K", "74K", "1004K", "1074K", "M14K", "interAptiv", "proAptiv"} {
		if strings.HasPrefix(model, "MIPS "+core) {
			return "mips32r2", "/proc/cpuinfo cpu model " + model
		}
	}
	return "mips32", "neither AT_BASE_PLATFORM nor /proc/cpuinfo tells"
}

// field returns the value of a line "name : value" of /proc/cpuinfo.
func field(info, name string) string {
	for info != "" {
		var line string
		line, info, _ = strings.Cut(info, "\n")
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// formsFor returns the assembly that a CPU of that level can run, best first.
func formsFor(level string) (ids []uint8) {
	switch {
	case strings.HasSuffix(level, "r6"): // has lost MADDU, and much that Go's own code needs
		return nil
	case strings.HasPrefix(level, "mips") && strings.Contains(level, "r"):
		ids = append(ids, mips32r2)
	}
	return append(ids, mips32r1)
}
