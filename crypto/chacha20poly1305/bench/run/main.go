// Command run prints what the AEAD costs on each architecture, in instructions a
// byte under qemu-user: the same on any machine. For MIPS it adds the cycles of a
// 24K core, and shows that the assembly makes no misaligned access.
//
//	go run ./crypto/chacha20poly1305/bench/run [-tags TAGS] [arch...]
//
// It needs qemu-user (not -static, which takes no plugins) and a C compiler.
package main

import (
	"bufio"
	"debug/elf"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	name   string
	env    []string
	qemu   string
	cpu    string
	strict bool // the CPU, or some of its kind, cannot load a word from everywhere
	most   map[string]limits
	// Bytes of assembly at most, also with wgd_small.
	text, small uint64
}{
	{"mips", []string{"GOARCH=mips", "GOMIPS=softfloat"}, "qemu-mips", "24Kc", true,
		map[string]limits{"mips32r2": {23, 46, 24}, "mips32r1": {36, 0, 0}, "generic": {60, 0, 0}}, 6000, 2000},
	{"mipsle", []string{"GOARCH=mipsle", "GOMIPS=softfloat"}, "qemu-mipsel", "24Kc", true,
		map[string]limits{"mips32r2": {22, 46, 23}, "mips32r1": {34, 0, 0}, "generic": {60, 0, 0}}, 6000, 2000},
	{"armv5", []string{"GOARCH=arm", "GOARM=5"}, "qemu-arm", "arm926", true,
		map[string]limits{"scalar": {19, 0, 0}}, 0, 0},
	{"armv7", []string{"GOARCH=arm", "GOARM=5"}, "qemu-arm", "cortex-a7", false,
		map[string]limits{"scalar": {16.5, 0, 0}, "neon": {8.5, 0, 0}}, 0, 0},
	{"arm64", []string{"GOARCH=arm64"}, "qemu-aarch64", "cortex-a53", false,
		map[string]limits{"neon": {7.5, 0, 0}}, 0, 0},
	{"amd64", []string{"GOARCH=amd64"}, "qemu-x86_64", "max", false, nil, 0, 0},
}

func main() {
	tags := flag.String("tags", "", "build `tags` of the guest")
	flag.Parse()
	tmp, err := os.MkdirTemp("", "bench")
	check(err)
	defer os.RemoveAll(tmp)
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	check(err)
	src := strings.TrimSpace(string(dir))
	plugin := filepath.Join(tmp, "counter.so")
	command(nil, "cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", plugin, filepath.Join(src, "bench/counter.c"))

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
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), t.name) {
			continue
		}
		guest := filepath.Join(tmp, "guest-"+t.name)
		command(append(t.env, "CGO_ENABLED=0"), "go", "build", "-tags", *tags, "-o", guest, pkg+"/bench/guest")
		g := &machine{qemu: t.qemu, cpu: t.cpu, plugin: plugin, binary: guest, symbols: symbols(guest), out: filepath.Join(tmp, "out")}

		first := g.count()
		for range runs - 1 {
			for i, r := range g.count() {
				for j, insns := range r.insns {
					least := &first[i].insns[j]
					if float64(max(*least, insns)) > tolerance*float64(min(*least, insns)) {
						fmt.Printf("%s: %s takes %d instructions, in another run %d\n", t.name, r.name, *least, insns)
						failed = true
					}
					*least = min(*least, insns)
				}
			}
		}
		for _, r := range first {
			fmt.Printf("%-9s %-11s", t.name, r.name)
			for i, insns := range r.insns {
				if i == len(sizes) {
					fmt.Print("   ")
				}
				fmt.Printf(" %7.2f", float64(insns)/float64(sizes[i%len(sizes)]))
			}
			fmt.Println()
			seal64, seal, open := float64(r.insns[0])/64, float64(r.insns[2])/1420, float64(r.insns[len(sizes)+2])/1420
			if open > openLimit*seal {
				fmt.Printf("%-9s %-11s open of 1420 takes more than %.2f of seal\n", t.name, r.name, openLimit)
				failed = true
			}
			most := t.most[r.name]
			if *tags == "" && (over(seal, most.of1420) || over(seal64, most.of64)) {
				fmt.Printf("%-9s %-11s more than %.1f a byte of 1420 or %.1f of 64\n", t.name, r.name, most.of1420, most.of64)
				failed = true
			}
		}

		assembly := g.assembly(src)
		text := uint64(0)
		for _, s := range assembly {
			text += s.Size
		}
		all := uint64(0)
		for name, s := range g.symbols {
			if strings.HasPrefix(name, pkg+".") && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				all += s.Size
			}
		}
		fmt.Printf("%-9s bytes of text: assembly %d, package %d\n", t.name, text, all)
		limit := t.text
		if strings.Contains(*tags, "wgd_small") {
			limit = t.small
		}
		if limit > 0 && text > limit {
			fmt.Printf("%-9s more than %d bytes of assembly\n", t.name, limit)
			failed = true
		}

		if strings.HasPrefix(t.name, "mips") {
			for _, r := range first[:len(first)-1] { // but for the generic one
				insns, cycles := g.cycles(r.name, 1420)
				if most := t.most[r.name].cycles; *tags == "" && over(float64(cycles)/1420, most) {
					fmt.Printf("%-9s %-11s more than %.1f cycles a byte\n", t.name, r.name, most)
					failed = true
				}
				// Rounded up to tenths: runs differ by a few cycles.
				fmt.Printf("%-9s %-11s 24K, seal of 1420: %.1f cycles a byte, %.2f an instruction\n",
					t.name, r.name, math.Ceil(float64(cycles)/142)/10, float64(cycles)/float64(insns))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(assembly)) {
			misaligned, ran := g.misaligned(assembly[name])
			if !ran {
				continue // another CPU's
			}
			fmt.Printf("%-9s misaligned accesses: %d in %s\n", t.name, misaligned, name)
			failed = failed || t.strict && misaligned > 0
		}
	}
	if failed {
		os.Exit(1)
	}
}

func over(n, limit float64) bool { return limit > 0 && n > limit }

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

// A machine runs the guest under qemu.
type machine struct {
	qemu, cpu, plugin, binary, out string
	symbols                        map[string]elf.Symbol
}

func symbols(binary string) map[string]elf.Symbol {
	f, err := elf.Open(binary)
	check(err)
	defer f.Close()
	list, err := f.Symbols()
	check(err)
	m := make(map[string]elf.Symbol)
	for _, s := range list {
		m[s.Name] = s
	}
	return m
}

// run runs the guest with the plugin and returns what both say.
func (g *machine) run(pluginArgs string, args ...string) (stdout, counted []string) {
	args = append([]string{"-cpu", g.cpu, "-plugin", g.plugin + pluginArgs, g.binary}, args...)
	// A goroutine preempted by a signal would execute what others do not.
	stdout = strings.Fields(command([]string{"COUNTER_OUT=" + g.out, "GODEBUG=asyncpreemptoff=1"}, g.qemu, args...))
	b, err := os.ReadFile(g.out)
	check(err)
	return stdout, strings.Split(strings.TrimSpace(string(b)), "\n")
}

// A row is the instructions of one implementation: seal, then open, of each size.
type row struct {
	name  string
	insns []int
}

func (g *machine) count() (rows []row) {
	names, windows := g.run(fmt.Sprintf(",begin=%#x,end=%#x", g.symbols["main.markBegin"].Value, g.symbols["main.markEnd"].Value))
	for _, name := range names {
		r := row{name: name}
		for range 2 * len(sizes) {
			least := 0
			for i := range 3 {
				n, err := strconv.Atoi(strings.TrimPrefix(windows[i], "window "))
				check(err)
				if least == 0 || n < least {
					least = n
				}
			}
			windows = windows[3:]
			r.insns = append(r.insns, least)
		}
		rows = append(rows, r)
	}
	return rows
}

var textLine = regexp.MustCompile(`(?m)^TEXT ·(\w+)\(SB\)`)

// assembly returns the package's functions that are written in assembly.
func (g *machine) assembly(src string) map[string]elf.Symbol {
	m := make(map[string]elf.Symbol)
	files, err := filepath.Glob(filepath.Join(src, "*.s"))
	check(err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		check(err)
		for _, match := range textLine.FindAllSubmatch(b, -1) {
			for _, abi := range []string{"", ".abi0"} {
				if s, ok := g.symbols[pkg+"."+string(match[1])+abi]; ok {
					m[string(match[1])] = s
				}
			}
		}
	}
	return m
}

// misaligned returns how many memory accesses of 2 bytes or more in a function are
// not aligned to their size, and whether it ran at all.
func (g *machine) misaligned(function elf.Symbol) (n int, ran bool) {
	_, lines := g.run(fmt.Sprintf(",f=%#x-%#x", function.Value, function.Value+function.Size), "unaligned")
	var insns, accesses int
	_, err := fmt.Sscanf(lines[0], "f insns %d accesses %d misaligned %d", &insns, &accesses, &n)
	check(err)
	return n, accesses > 0
}

// cycles seals one message of n bytes and returns its instructions and the cycles
// that a 24K would take.
func (g *machine) cycles(name string, n int) (insns, cycles int) {
	filter, sep := "", ""
	for symbol, s := range g.symbols {
		if (strings.HasPrefix(symbol, pkg+".") || strings.HasPrefix(symbol, "main.")) && s.Size > 0 && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			filter += fmt.Sprintf("%s%#x+%#x", sep, s.Value, s.Size)
			sep = ","
		}
	}
	command([]string{"GODEBUG=asyncpreemptoff=1"}, g.qemu, "-cpu", g.cpu, "-singlestep", "-d", "exec,nochain",
		"-dfilter", filter, "-D", g.out, g.binary, name, strconv.Itoa(n))
	trace, err := os.Open(g.out)
	check(err)
	defer trace.Close()

	code, err := elf.Open(g.binary)
	check(err)
	defer code.Close()
	text := code.Section(".text")
	words, err := text.Data()
	check(err)

	var core mips24k
	begin, end := g.symbols["main.markBegin"].Value, g.symbols["main.markEnd"].Value
	measuring := false
	for s := bufio.NewScanner(trace); s.Scan(); {
		// Trace 0: 0x7f.. [00000000/000d702c/00000162/...]
		_, line, ok := strings.Cut(s.Text(), "[")
		fields := strings.Split(line, "/")
		if !ok || len(fields) < 2 {
			continue
		}
		pc, err := strconv.ParseUint(fields[1], 16, 64)
		check(err)
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
		check(fmt.Errorf("%s: nothing traced", g.qemu))
	}
	return core.insns, core.cycles
}
