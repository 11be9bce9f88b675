// Command run prints what a handshake costs on each architecture, in instructions
// under qemu-user, and the parts of it. It fails when one of them accesses memory where
// it is not aligned on MIPS or ARMv5.
//
//	go run ./noise/bench/run [arch...]
package main

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"

	"wgd/crypto/chacha20poly1305/bench/count"
)

var targets = []struct {
	count.Target
	strict bool // the CPU, or some of its kind, cannot load a word from everywhere
}{
	{count.Target{Name: "mips", Env: []string{"GOARCH=mips", "GOMIPS=softfloat"}, QEMU: "qemu-mips", CPU: "24Kc"}, true},
	{count.Target{Name: "mipsle", Env: []string{"GOARCH=mipsle", "GOMIPS=softfloat"}, QEMU: "qemu-mipsel", CPU: "24Kc"}, true},
	{count.Target{Name: "armv5", Env: []string{"GOARCH=arm", "GOARM=5"}, QEMU: "qemu-arm", CPU: "arm926"}, true},
	{count.Target{Name: "arm64", Env: []string{"GOARCH=arm64"}, QEMU: "qemu-aarch64", CPU: "cortex-a53"}, false},
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
	counter := count.New()
	defer counter.Close()

	fmt.Print("one handshake, both sides, in thousands of instructions\n         ")
	for _, p := range parts {
		fmt.Printf("%17s", p.name)
	}
	fmt.Printf("%17s%9s\n", "rest", "all")
	failed := false
	for _, t := range targets {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], t.Name) {
			continue
		}
		g := counter.Build(t.Target, "", "wgd/noise/bench/guest")
		_, windows := g.Windows("25")
		all := slices.Min(windows)

		// What 11 handshakes take more than one is ten times one.
		var ranges []count.Range
		for _, p := range parts {
			lo, hi := extent(g.Functions, p.packages)
			ranges = append(ranges, count.Range{Name: p.name, Lo: lo, Hi: hi})
		}
		one, eleven := g.Ranges(ranges, "1"), g.Ranges(ranges, "11")
		fmt.Printf("%-9s", t.Name)
		rest, wrong := all, ""
		share := func(n int) { fmt.Printf("%9.0f (%3.0f %%)", float64(n)/1000, 100*float64(n)/float64(all)) }
		for i := range parts {
			n := (eleven[i].Insns - one[i].Insns) / 10
			rest -= n
			share(n)
			if c := eleven[i]; t.strict && c.Misaligned > 0 {
				wrong += fmt.Sprintf("%s: %d misaligned accesses in %s\n", t.Name, c.Misaligned, c.Name)
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
