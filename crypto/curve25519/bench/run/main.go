// Command run prints what X25519 costs on each architecture, in instructions under
// qemu-user: the same on any machine. It shows that the assembly makes no
// misaligned access.
//
//	go run ./crypto/curve25519/bench/run [arch...]
package main

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"

	"wgd/crypto/chacha20poly1305/bench/count"
)

const (
	pkg  = "wgd/crypto/curve25519"
	runs = 3 // all of them have to give the same numbers for our code
)

var targets = []struct {
	count.Target
	most int // instructions: more is an error; 0 is no limit
}{
	{count.Target{Name: "mips", Env: []string{"GOARCH=mips", "GOMIPS=softfloat"}, QEMU: "qemu-mips", CPU: "24Kc"}, 1_100_000},
	{count.Target{Name: "mipsle", Env: []string{"GOARCH=mipsle", "GOMIPS=softfloat"}, QEMU: "qemu-mipsel", CPU: "24Kc"}, 1_100_000},
	{count.Target{Name: "mips-r1", Env: []string{"GOARCH=mips", "GOMIPS=softfloat"}, QEMU: "qemu-mips", CPU: "4Kc"}, 1_100_000},
	{count.Target{Name: "armv5", Env: []string{"GOARCH=arm", "GOARM=5"}, QEMU: "qemu-arm", CPU: "arm926"}, 0},
	{count.Target{Name: "armv7", Env: []string{"GOARCH=arm", "GOARM=7"}, QEMU: "qemu-arm", CPU: "cortex-a7"}, 0},
	{count.Target{Name: "arm64", Env: []string{"GOARCH=arm64"}, QEMU: "qemu-aarch64", CPU: "cortex-a53"}, 0},
	{count.Target{Name: "amd64", Env: []string{"GOARCH=amd64"}, QEMU: "qemu-x86_64", CPU: "max"}, 0},
}

func main() {
	counter := count.New()
	defer counter.Close()

	fmt.Println("          thousands of instructions  ratio   bytes of text        accesses of the assembly")
	fmt.Println("               ours     purego       ecdh    assembly    all   thousands  misaligned")
	failed := false
	for _, t := range targets {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], t.Name) {
			continue
		}
		purego := guest{counter.Build(t.Target, "purego", pkg+"/bench/guest")}.least("ours")
		g := guest{counter.Build(t.Target, "", pkg+"/bench/guest")}
		ours, ecdh := g.count("ours"), g.least("ecdh")
		for range runs - 1 {
			if again := g.count("ours"); again != ours {
				fmt.Printf("%s: another run gives %d instructions, not %d\n", t.Name, again, ours)
				failed = true
			}
		}
		assembly := g.Assembly(pkg)
		accesses, misaligned := g.accesses(assembly)
		fmt.Printf("%-8s %10.1f %10.1f %10.1f  %5.2f %8d %8d %10d %8d\n", t.Name, thousands(ours), thousands(purego), thousands(ecdh),
			float64(ecdh)/float64(ours), count.Size(assembly), count.Size(g.text()), accesses/1000, misaligned)
		failed = failed || misaligned > 0 || t.most > 0 && ours > t.most
	}
	if failed {
		os.Exit(1)
	}
}

func thousands(n int) float64 { return float64(n) / 1000 }

type guest struct{ *count.Guest }

// count returns the instructions of one multiplication, the least of three.
func (g guest) count(what string) int {
	_, windows := g.Windows(what)
	return slices.Min(windows)
}

// least is count for code that runs long enough to be preempted, which takes some 3,000
// instructions.
func (g guest) least(what string) int {
	n := g.count(what)
	for range runs {
		n = min(n, g.count(what))
	}
	return n
}

// text returns the package's functions, without what calls those in assembly from Go.
func (g guest) text() map[string]elf.Symbol {
	all := make(map[string]elf.Symbol)
	for name, s := range g.Functions {
		if short, ok := strings.CutPrefix(strings.TrimSuffix(name, ".abi0"), pkg+"."); ok && all[short].Size < s.Size {
			all[short] = s
		}
	}
	return all
}

// accesses counts those that functions make, and those of them that are not aligned.
func (g guest) accesses(functions map[string]elf.Symbol) (all, misaligned int) {
	if len(functions) == 0 {
		return 0, 0
	}
	var ranges []count.Range
	for name, s := range functions {
		ranges = append(ranges, count.RangeOf(name, s))
	}
	for _, c := range g.Ranges(ranges, "ours") {
		all, misaligned = all+c.Accesses, misaligned+c.Misaligned
	}
	return all, misaligned
}
