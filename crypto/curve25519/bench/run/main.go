// Command run prints what X25519 costs on each architecture, in instructions under
// qemu-user: the same on any machine. It shows that the assembly makes no
// misaligned access.
//
//	go run ./crypto/curve25519/bench/run [arch...]
//
// It needs qemu-user (not -static, which takes no plugins) and a C compiler.
package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	pkg     = "wgd/crypto/curve25519"
	counter = "../chacha20poly1305/bench/counter.c"
	runs    = 3 // all of them have to give the same numbers for our code
)

var targets = []struct {
	name string
	env  []string
	qemu string
	cpu  string
	most int // instructions: more is an error; 0 is no limit
}{
	{"mips", []string{"GOARCH=mips", "GOMIPS=softfloat"}, "qemu-mips", "24Kc", 1_100_000},
	{"mipsle", []string{"GOARCH=mipsle", "GOMIPS=softfloat"}, "qemu-mipsel", "24Kc", 1_100_000},
	{"mips-r1", []string{"GOARCH=mips", "GOMIPS=softfloat"}, "qemu-mips", "4Kc", 1_100_000},
	{"armv5", []string{"GOARCH=arm", "GOARM=5"}, "qemu-arm", "arm926", 0},
	{"armv7", []string{"GOARCH=arm", "GOARM=7"}, "qemu-arm", "cortex-a7", 0},
	{"arm64", []string{"GOARCH=arm64"}, "qemu-aarch64", "cortex-a53", 0},
	{"amd64", []string{"GOARCH=amd64"}, "qemu-x86_64", "max", 0},
}

func main() {
	tmp, err := os.MkdirTemp("", "bench")
	check(err)
	defer os.RemoveAll(tmp)
	src := strings.TrimSpace(command(nil, "go", "list", "-f", "{{.Dir}}", pkg))
	plugin := filepath.Join(tmp, "counter.so")
	command(nil, "cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", plugin, filepath.Join(src, counter))

	fmt.Println("          thousands of instructions  ratio   bytes of text        accesses of the assembly")
	fmt.Println("               ours     purego       ecdh    assembly    all   thousands  misaligned")
	failed := false
	for _, t := range targets {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], t.name) {
			continue
		}
		m := &machine{qemu: t.qemu, cpu: t.cpu, plugin: plugin, out: filepath.Join(tmp, "out")}

		m.build(t.env, "purego", filepath.Join(tmp, "purego-"+t.name))
		purego := m.least("ours")
		m.build(t.env, "", filepath.Join(tmp, "guest-"+t.name))
		ours, ecdh := m.count("ours"), m.least("ecdh")
		for range runs - 1 {
			if again := m.count("ours"); again != ours {
				fmt.Printf("%s: another run gives %d instructions, not %d\n", t.name, again, ours)
				failed = true
			}
		}
		assembly, all := m.text(src)
		accesses, misaligned := m.accesses(assembly)
		fmt.Printf("%-8s %10.1f %10.1f %10.1f  %5.2f %8d %8d %10d %8d\n", t.name, thousands(ours), thousands(purego), thousands(ecdh),
			float64(ecdh)/float64(ours), size(assembly), size(all), accesses/1000, misaligned)
		failed = failed || misaligned > 0 || t.most > 0 && ours > t.most
	}
	if failed {
		os.Exit(1)
	}
}

func thousands(n int) float64 { return float64(n) / 1000 }

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
	qemu, cpu, plugin, out string
	binary                 string
	functions              map[string]elf.Symbol
}

func (m *machine) build(env []string, tags, binary string) {
	command(append(env, "CGO_ENABLED=0"), "go", "build", "-tags", tags, "-o", binary, pkg+"/bench/guest")
	f, err := elf.Open(binary)
	check(err)
	defer f.Close()
	symbols, err := f.Symbols()
	check(err)
	m.binary, m.functions = binary, make(map[string]elf.Symbol)
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			m.functions[s.Name] = s
		}
	}
}

// run runs the guest and returns what the plugin says.
func (m *machine) run(pluginArgs, what string) []string {
	// A goroutine preempted by a signal would execute what others do not.
	command([]string{"COUNTER_OUT=" + m.out, "GODEBUG=asyncpreemptoff=1"},
		m.qemu, "-cpu", m.cpu, "-plugin", m.plugin+pluginArgs, m.binary, what)
	b, err := os.ReadFile(m.out)
	check(err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// count returns the instructions of one multiplication, the least of three.
func (m *machine) count(what string) (least int) {
	marks := fmt.Sprintf(",begin=%#x,end=%#x", m.functions["main.markBegin"].Value, m.functions["main.markEnd"].Value)
	for _, line := range m.run(marks, what) {
		n, err := strconv.Atoi(strings.TrimPrefix(line, "window "))
		check(err)
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

// least is count for code that runs long enough to be preempted, which takes some 3,000
// instructions.
func (m *machine) least(what string) int {
	n := m.count(what)
	for range runs {
		n = min(n, m.count(what))
	}
	return n
}

var textLine = regexp.MustCompile(`(?m)^TEXT ·(\w+)\(SB\)`)

// text returns the package's functions in the binary.
func (m *machine) text(src string) (assembly, all map[string]elf.Symbol) {
	assembly, all = make(map[string]elf.Symbol), make(map[string]elf.Symbol)
	for name, s := range m.functions {
		if short, ok := strings.CutPrefix(strings.TrimSuffix(name, ".abi0"), pkg+"."); ok && all[short].Size < s.Size {
			all[short] = s
		}
	}
	files, err := filepath.Glob(filepath.Join(src, "*.s"))
	check(err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		check(err)
		for _, match := range textLine.FindAllSubmatch(b, -1) {
			if s, ok := all[string(match[1])]; ok {
				assembly[string(match[1])] = s
			}
		}
	}
	return assembly, all
}

func size(functions map[string]elf.Symbol) (n uint64) {
	for _, s := range functions {
		n += s.Size
	}
	return n
}

// accesses counts those that functions make, and those of them that are not aligned.
func (m *machine) accesses(functions map[string]elf.Symbol) (all, misaligned int) {
	if len(functions) == 0 {
		return 0, 0
	}
	ranges := ""
	for name, s := range functions {
		ranges += fmt.Sprintf(",%s=%#x-%#x", name, s.Value, s.Value+s.Size)
	}
	for _, line := range m.run(ranges, "ours") {
		// mul26 insns 1218900 accesses 220570 misaligned 0
		var name string
		var insns, a, wrong int
		if _, err := fmt.Sscanf(line, "%s insns %d accesses %d misaligned %d", &name, &insns, &a, &wrong); err != nil {
			check(fmt.Errorf("%s: %w", line, err))
		}
		all, misaligned = all+a, misaligned+wrong
	}
	return all, misaligned
}
