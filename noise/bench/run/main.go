// Command run prints what a handshake costs on each architecture, in instructions
// under qemu-user, and the parts of it. It fails when one of them accesses memory where
// it is not aligned on MIPS or ARMv5.
//
//	go run ./noise/bench/run [arch...]
//
// It needs qemu-user (not -static, which takes no plugins) and a C compiler.
package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const counter = "crypto/chacha20poly1305/bench/counter.c"

var targets = []struct {
	name string
	env  []string
	qemu string
	cpu  string

	strict bool // the CPU, or some of its kind, cannot load a word from everywhere
}{
	{"mips", []string{"GOARCH=mips", "GOMIPS=softfloat"}, "qemu-mips", "24Kc", true},
	{"mipsle", []string{"GOARCH=mipsle", "GOMIPS=softfloat"}, "qemu-mipsel", "24Kc", true},
	{"armv5", []string{"GOARCH=arm", "GOARM=5"}, "qemu-arm", "arm926", true},
	{"arm64", []string{"GOARCH=arm64"}, "qemu-aarch64", "cortex-a53", false},
}

// The parts are packages: each has its text in one piece.
var parts = []struct {
	name     string
	packages []string
}{
	{"X25519", []string{"wgd/crypto/curve25519."}},
	{"BLAKE2s", []string{"wgd/crypto/blake2s.", "golang.org/x/crypto/blake2s."}},
	{"AEAD", []string{"wgd/crypto/chacha20poly1305."}},
	{"noise", []string{"wgd/noise."}},
}

func main() {
	tmp, err := os.MkdirTemp("", "bench")
	check(err)
	defer os.RemoveAll(tmp)
	root := strings.TrimSpace(command(nil, "go", "list", "-m", "-f", "{{.Dir}}"))
	plugin, out := filepath.Join(tmp, "counter.so"), filepath.Join(tmp, "out")
	command(nil, "cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", plugin, filepath.Join(root, counter))

	fmt.Print("one handshake, both sides, in thousands of instructions\n         ")
	for _, p := range parts {
		fmt.Printf("%17s", p.name)
	}
	fmt.Printf("%17s%9s\n", "rest", "all")
	failed := false
	for _, t := range targets {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], t.name) {
			continue
		}
		guest := filepath.Join(tmp, "guest-"+t.name)
		command(append(t.env, "CGO_ENABLED=0"), "go", "build", "-o", guest, "wgd/noise/bench/guest")
		symbols := functions(guest)
		run := func(pluginArgs, n string) []string {
			// A goroutine preempted by a signal would execute what others do not.
			command([]string{"COUNTER_OUT=" + out, "GODEBUG=asyncpreemptoff=1"}, t.qemu, "-cpu", t.cpu, "-plugin", plugin+pluginArgs, guest, n)
			b, err := os.ReadFile(out)
			check(err)
			return strings.Split(strings.TrimSpace(string(b)), "\n")
		}

		all := 0
		for _, line := range run(fmt.Sprintf(",begin=%#x,end=%#x", symbols["main.markBegin"].Value, symbols["main.markEnd"].Value), "25") {
			n, err := strconv.Atoi(strings.TrimPrefix(line, "window "))
			check(err)
			if all == 0 || n < all {
				all = n
			}
		}

		// What 11 handshakes take more than one is ten times one.
		ranges := ""
		for _, p := range parts {
			lo, hi := extent(symbols, p.packages)
			ranges += fmt.Sprintf(",%s=%#x-%#x", p.name, lo, hi)
		}
		one, eleven := run(ranges, "1"), run(ranges, "11")
		fmt.Printf("%-9s", t.name)
		rest, wrong := all, ""
		share := func(n int) { fmt.Printf("%9.0f (%3.0f %%)", float64(n)/1000, 100*float64(n)/float64(all)) }
		for i := range parts {
			_, before, _ := counts(one[i])
			name, after, misaligned := counts(eleven[i])
			n := (after - before) / 10
			rest -= n
			share(n)
			if t.strict && misaligned > 0 {
				wrong += fmt.Sprintf("%s: %d misaligned accesses in %s\n", t.name, misaligned, name)
			}
		}
		share(rest)
		fmt.Printf("%9.0f\n", float64(all)/1000)
		if wrong != "" {
			fmt.Print(wrong)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func counts(line string) (name string, insns, misaligned int) {
	// X25519 insns 5767660 accesses 5131860 misaligned 0
	var accesses int
	_, err := fmt.Sscanf(line, "%s insns %d accesses %d misaligned %d", &name, &insns, &accesses, &misaligned)
	check(err)
	return name, insns, misaligned
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs a command and returns what it prints.
func command(env []string, name string, args ...string) string {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), env...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		check(fmt.Errorf("%s: %w", name, err))
	}
	return string(out)
}

// functions returns the functions of a binary by their names.
func functions(binary string) map[string]elf.Symbol {
	f, err := elf.Open(binary)
	check(err)
	defer f.Close()
	symbols, err := f.Symbols()
	check(err)
	m := make(map[string]elf.Symbol)
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			m[s.Name] = s
		}
	}
	return m
}

// extent returns where the text of packages lies.
func extent(functions map[string]elf.Symbol, packages []string) (lo, hi uint64) {
	for name, s := range functions {
		if !slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		if lo == 0 || s.Value < lo {
			lo = s.Value
		}
		hi = max(hi, s.Value+s.Size)
	}
	return lo, hi
}
