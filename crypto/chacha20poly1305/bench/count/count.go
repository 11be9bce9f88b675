// Package count counts the instructions of guest programs under qemu-user: the same on
// any machine. What goes wrong ends the program, which is a benchmark.
//
// It needs qemu-user (not -static, which takes no plugins) and a C compiler.
package count

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Target is an architecture and the CPU that stands for it.
type Target struct {
	Name string
	Env  []string // of the Go compiler
	QEMU string
	CPU  string
}

// A Counter holds the plugin that counts, and the guests.
type Counter struct{ dir, plugin string }

// New compiles the plugin.
func New() *Counter {
	dir, err := os.MkdirTemp("", "bench")
	Check(err)
	c := &Counter{dir: dir, plugin: filepath.Join(dir, "counter.so")}
	source := filepath.Join(Dir("wgd/crypto/chacha20poly1305"), "bench/counter.c")
	Command(nil, "cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", c.plugin, source)
	return c
}

// Close removes what was built.
func (c *Counter) Close() { os.RemoveAll(c.dir) }

// A Guest is a program that is measured. It marks windows by calls of main.markBegin and
// main.markEnd.
type Guest struct {
	Target
	Binary    string
	Functions map[string]elf.Symbol
	Out       string // for what is written while it runs
	plugin    string
}

// Build builds a package for a target.
func (c *Counter) Build(t Target, tags, pkg string) *Guest {
	g := &Guest{Target: t, Binary: filepath.Join(c.dir, "guest-"+t.Name+tags), Out: filepath.Join(c.dir, "out"), plugin: c.plugin}
	Command(append(t.Env, "CGO_ENABLED=0"), "go", "build", "-tags", tags, "-o", g.Binary, pkg)
	f, err := elf.Open(g.Binary)
	Check(err)
	defer f.Close()
	symbols, err := f.Symbols()
	Check(err)
	g.Functions = make(map[string]elf.Symbol)
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			g.Functions[s.Name] = s
		}
	}
	return g
}

// run runs the guest and returns what it and the plugin say.
func (g *Guest) run(pluginArgs string, args []string) (stdout string, counted []string) {
	args = append([]string{"-cpu", g.CPU, "-plugin", g.plugin + pluginArgs, g.Binary}, args...)
	stdout = Command([]string{"COUNTER_OUT=" + g.Out, Undisturbed}, g.QEMU, args...)
	b, err := os.ReadFile(g.Out)
	Check(err)
	return stdout, strings.Split(strings.TrimSpace(string(b)), "\n")
}

// Undisturbed is the environment of a guest: a goroutine preempted by a signal would
// execute what others do not.
const Undisturbed = "GODEBUG=asyncpreemptoff=1"

// Windows runs the guest and returns what it says, and the instructions of each window.
func (g *Guest) Windows(args ...string) (stdout string, insns []int) {
	begin, end := g.Marks()
	stdout, lines := g.run(fmt.Sprintf(",begin=%#x,end=%#x", begin, end), args)
	for _, line := range lines {
		n, err := strconv.Atoi(strings.TrimPrefix(line, "window "))
		Check(err)
		insns = append(insns, n)
	}
	return stdout, insns
}

// Marks are the addresses where windows begin and end.
func (g *Guest) Marks() (begin, end uint64) {
	return g.Functions["main.markBegin"].Value, g.Functions["main.markEnd"].Value
}

// A Range is a part of the guest's text.
type Range struct {
	Name   string
	Lo, Hi uint64 // first address, and that behind the last
}

// RangeOf returns a function's.
func RangeOf(name string, s elf.Symbol) Range { return Range{name, s.Value, s.Value + s.Size} }

// Counts are of one range. Misaligned are accesses of 2 bytes or more that are not
// aligned to their size.
type Counts struct {
	Name                        string
	Insns, Accesses, Misaligned int
}

// Ranges runs the guest and returns the counts of each range, in some order.
func (g *Guest) Ranges(ranges []Range, args ...string) (counts []Counts) {
	pluginArgs := ""
	for _, r := range ranges {
		pluginArgs += fmt.Sprintf(",%s=%#x-%#x", r.Name, r.Lo, r.Hi)
	}
	_, lines := g.run(pluginArgs, args)
	for _, line := range lines {
		var c Counts
		if _, err := fmt.Sscanf(line, "%s insns %d accesses %d misaligned %d", &c.Name, &c.Insns, &c.Accesses, &c.Misaligned); err != nil {
			Check(fmt.Errorf("%s: %w", line, err))
		}
		counts = append(counts, c)
	}
	return counts
}

var textLine = regexp.MustCompile(`(?m)^TEXT ·(\w+)\(SB\)`)

// Assembly returns a package's functions that are written in assembly.
func (g *Guest) Assembly(pkg string) map[string]elf.Symbol {
	m := make(map[string]elf.Symbol)
	files, err := filepath.Glob(filepath.Join(Dir(pkg), "*.s"))
	Check(err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		Check(err)
		for _, match := range textLine.FindAllSubmatch(b, -1) {
			// With .abi0 it is the function itself, and without what calls it from Go.
			for _, abi := range []string{"", ".abi0"} {
				if s, ok := g.Functions[pkg+"."+string(match[1])+abi]; ok {
					m[string(match[1])] = s
				}
			}
		}
	}
	return m
}

// Size returns the bytes of functions.
func Size(functions map[string]elf.Symbol) (n uint64) {
	for _, s := range functions {
		n += s.Size
	}
	return n
}

// Dir returns where a package is.
func Dir(pkg string) string {
	return strings.TrimSpace(Command(nil, "go", "list", "-f", "{{.Dir}}", pkg))
}

// Command runs a command and returns what it prints.
func Command(env []string, name string, args ...string) string {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), env...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		Check(fmt.Errorf("%s: %w", name, err))
	}
	return string(out)
}

// Check ends the program if err is not nil.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
