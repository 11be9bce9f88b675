// Command run prints what the AEAD costs on each architecture, in instructions a
// byte under qemu-user: the same on any machine. For MIPS it adds the cycles of a
// 24K core, and shows that the assembly makes no misaligned access.
//
//	go run ./crypto/chacha20poly1305/bench/run [-tags TAGS] [arch...]
package main

import (
	"bufio"
	"debug/elf"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"wgd/crypto/chacha20poly1305/bench/count"
)

const (
	pkg = "wgd/crypto/chacha20poly1305"
	// The least of so many runs is printed. They differ by a few instructions, since
	// addresses do (on 64-bit CPUs Go moves the heap about); by more it is an error.
	runs      = 3
	tolerance = 1.005
)

var sizes = []int{64, 256, 1420, 16384}

// limits are instructions a byte of seal, and cycles of a 24K: more is an error, as is
// an open that takes more than openLimit of seal at 1420 bytes. 0 is no limit.
type limits struct{ of1420, of64, cycles float64 }

const openLimit = 1.03

var targets = []struct {
	count.Target
	strict bool // the CPU, or some of its kind, cannot load a word from everywhere
	most   map[string]limits
	// Bytes of assembly at most, also with wgd_small.
	text, small uint64
}{
	{count.Target{Name: "mips", Env: []string{"GOARCH=mips", "GOMIPS=softfloat"}, QEMU: "qemu-mips", CPU: "24Kc"}, true,
		map[string]limits{"mips32r2": {23, 46, 24}, "mips32r1": {36, 0, 0}, "generic": {60, 0, 0}}, 6000, 2000},
	{count.Target{Name: "mipsle", Env: []string{"GOARCH=mipsle", "GOMIPS=softfloat"}, QEMU: "qemu-mipsel", CPU: "24Kc"}, true,
		map[string]limits{"mips32r2": {22, 46, 23}, "mips32r1": {34, 0, 0}, "generic": {60, 0, 0}}, 6000, 2000},
	{count.Target{Name: "armv5", Env: []string{"GOARCH=arm", "GOARM=5"}, QEMU: "qemu-arm", CPU: "arm926"}, true,
		map[string]limits{"scalar": {19, 0, 0}}, 0, 0},
	{count.Target{Name: "armv7", Env: []string{"GOARCH=arm", "GOARM=5"}, QEMU: "qemu-arm", CPU: "cortex-a7"}, false,
		map[string]limits{"scalar": {16.5, 0, 0}, "neon": {8.5, 0, 0}}, 0, 0},
	{count.Target{Name: "arm64", Env: []string{"GOARCH=arm64"}, QEMU: "qemu-aarch64", CPU: "cortex-a53"}, false,
		map[string]limits{"neon": {7.5, 0, 0}}, 0, 0},
	{count.Target{Name: "amd64", Env: []string{"GOARCH=amd64"}, QEMU: "qemu-x86_64", CPU: "max"}, false, nil, 0, 0},
}

func main() {
	tags := flag.String("tags", "", "build `tags` of the guest")
	flag.Parse()
	counter := count.New()
	defer counter.Close()
	fmt.Println("instructions a byte        seal                               open")
	fmt.Print("                     ")
	for range 2 {
		for _, n := range sizes {
			fmt.Printf(" %7d", n)
		}
		fmt.Print("   ")
	}
	fmt.Println()
	failed := false
	for _, t := range targets {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), t.Name) {
			continue
		}
		g := guest{counter.Build(t.Target, *tags, pkg+"/bench/guest")}

		first := g.count()
		for range runs - 1 {
			for i, r := range g.count() {
				for j, insns := range r.insns {
					least := &first[i].insns[j]
					if float64(max(*least, insns)) > tolerance*float64(min(*least, insns)) {
						fmt.Printf("%s: %s takes %d instructions, in another run %d\n", t.Name, r.name, *least, insns)
						failed = true
					}
					*least = min(*least, insns)
				}
			}
		}
		for _, r := range first {
			fmt.Printf("%-9s %-11s", t.Name, r.name)
			for i, insns := range r.insns {
				if i == len(sizes) {
					fmt.Print("   ")
				}
				fmt.Printf(" %7.2f", float64(insns)/float64(sizes[i%len(sizes)]))
			}
			fmt.Println()
			seal64, seal, open := float64(r.insns[0])/64, float64(r.insns[2])/1420, float64(r.insns[len(sizes)+2])/1420
			if open > openLimit*seal {
				fmt.Printf("%-9s %-11s open of 1420 takes more than %.2f of seal\n", t.Name, r.name, openLimit)
				failed = true
			}
			most := t.most[r.name]
			if *tags == "" && (over(seal, most.of1420) || over(seal64, most.of64)) {
				fmt.Printf("%-9s %-11s more than %.1f a byte of 1420 or %.1f of 64\n", t.Name, r.name, most.of1420, most.of64)
				failed = true
			}
		}

		assembly := g.Assembly(pkg)
		text := count.Size(assembly)
		all := uint64(0)
		for name, s := range g.Functions {
			if strings.HasPrefix(name, pkg+".") {
				all += s.Size
			}
		}
		fmt.Printf("%-9s bytes of text: assembly %d, package %d\n", t.Name, text, all)
		limit := t.text
		if strings.Contains(*tags, "wgd_small") {
			limit = t.small
		}
		if limit > 0 && text > limit {
			fmt.Printf("%-9s more than %d bytes of assembly\n", t.Name, limit)
			failed = true
		}

		if strings.HasPrefix(t.Name, "mips") {
			for _, r := range first[:len(first)-1] { // but for the generic one
				insns, cycles := g.cycles(r.name, 1420)
				if most := t.most[r.name].cycles; *tags == "" && over(float64(cycles)/1420, most) {
					fmt.Printf("%-9s %-11s more than %.1f cycles a byte\n", t.Name, r.name, most)
					failed = true
				}
				// Rounded up to tenths: runs differ by a few cycles.
				fmt.Printf("%-9s %-11s 24K, seal of 1420: %.1f cycles a byte, %.2f an instruction\n",
					t.Name, r.name, math.Ceil(float64(cycles)/142)/10, float64(cycles)/float64(insns))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(assembly)) {
			misaligned, ran := g.misaligned(assembly[name])
			if !ran {
				continue // another CPU's
			}
			fmt.Printf("%-9s misaligned accesses: %d in %s\n", t.Name, misaligned, name)
			failed = failed || t.strict && misaligned > 0
		}
	}
	if failed {
		os.Exit(1)
	}
}

func over(n, limit float64) bool { return limit > 0 && n > limit }

type guest struct{ *count.Guest }

// A row is the instructions of one implementation: seal, then open, of each size.
type row struct {
	name  string
	insns []int
}

func (g guest) count() (rows []row) {
	names, windows := g.Windows()
	for _, name := range strings.Fields(names) {
		r := row{name: name}
		for range 2 * len(sizes) {
			r.insns = append(r.insns, slices.Min(windows[:3]))
			windows = windows[3:]
		}
		rows = append(rows, r)
	}
	return rows
}

// misaligned returns how many memory accesses of 2 bytes or more in a function are
// not aligned to their size, and whether it ran at all.
func (g guest) misaligned(function elf.Symbol) (n int, ran bool) {
	c := g.Ranges([]count.Range{count.RangeOf("f", function)}, "unaligned")[0]
	return c.Misaligned, c.Accesses > 0
}

// cycles seals one message of n bytes and returns its instructions and the cycles
// that a 24K would take.
func (g guest) cycles(name string, n int) (insns, cycles int) {
	filter, sep := "", ""
	for symbol, s := range g.Functions {
		if (strings.HasPrefix(symbol, pkg+".") || strings.HasPrefix(symbol, "main.")) && s.Size > 0 {
			filter += fmt.Sprintf("%s%#x+%#x", sep, s.Value, s.Size)
			sep = ","
		}
	}
	count.Command([]string{count.Undisturbed}, g.QEMU, "-cpu", g.CPU, "-singlestep", "-d", "exec,nochain",
		"-dfilter", filter, "-D", g.Out, g.Binary, name, strconv.Itoa(n))
	trace, err := os.Open(g.Out)
	count.Check(err)
	defer trace.Close()

	code, err := elf.Open(g.Binary)
	count.Check(err)
	defer code.Close()
	text := code.Section(".text")
	words, err := text.Data()
	count.Check(err)

	var core mips24k
	begin, end := g.Marks()
	measuring := false
	for s := bufio.NewScanner(trace); s.Scan(); {
		// Trace 0: 0x7f.. [00000000/000d702c/00000162/...]
		_, line, ok := strings.Cut(s.Text(), "[")
		fields := strings.Split(line, "/")
		if !ok || len(fields) < 2 {
			continue
		}
		pc, err := strconv.ParseUint(fields[1], 16, 64)
		count.Check(err)
		switch pc {
		case begin:
			measuring, core = true, mips24k{}
		case end:
			measuring = false
		}
		if measuring {
			core.execute(code.ByteOrder.Uint32(words[pc-text.Addr:]))
		}
	}
	if core.insns == 0 {
		count.Check(fmt.Errorf("%s: nothing traced", g.QEMU))
	}
	return core.insns, core.cycles
}
