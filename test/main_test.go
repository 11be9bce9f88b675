// Package test drives real daemons over real interfaces, in network namespaces
// that each test makes for itself. It needs root and the programs that
// `make deps` installs.
//
//	go test ./test                                 builds ./cmd/wgd and tests it
//	WGD=/path/to/daemon go test ./test -run Matrix tests another daemon
package test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

const prefix = "wgdtest" // namespaces are wgdtest-PID-N

var (
	binaries string // the directory of the programs built for this run
	serial   atomic.Int32
)

// The main goroutine keeps the main thread, or host.do could take it to another
// namespace, and the process would seem to live there.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "*** NOT TESTED: package test needs root (network namespaces, TUN devices) ***")
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	sweep()
	var err error
	if binaries, err = os.MkdirTemp("", prefix); err != nil {
		panic(err)
	}
	defer os.RemoveAll(binaries)
	os.Chmod(binaries, 0o755) // some tests start them as nobody
	return m.Run()
}

// sweep removes what test processes that were killed left behind: namespaces
// that carry the pid of nobody.
func sweep() {
	entries, _ := os.ReadDir("/run/netns")
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), prefix+"-")
		pid, _, _ := strings.Cut(rest, "-")
		if n, err := strconv.Atoi(pid); ours && err == nil && unix.Kill(n, 0) == unix.ESRCH {
			removeNamespace(e.Name())
		}
	}
}

// unique returns a name that nobody else on this machine has: interfaces of all
// namespaces share /var/run/wireguard. It fits in an interface name.
func unique(letter string) string {
	return fmt.Sprintf("%s%dn%d", letter, os.Getpid(), serial.Add(1))
}

// A program is built once, by the first test that needs it.
type program struct {
	name, pkg string
	env       []string
	flags     []string
	once      sync.Once
	path      string
	err       error
}

var (
	wgdProgram    = &program{name: "wgd", pkg: "wgd/cmd/wgd", env: []string{"CGO_ENABLED=0"}}
	raceProgram   = &program{name: "wgd.race", pkg: "wgd/cmd/wgd", env: []string{"CGO_ENABLED=1"}, flags: []string{"-race"}}
	mipsProgram   = &program{name: "wgd.mips", pkg: "wgd/cmd/wgd", env: []string{"CGO_ENABLED=0", "GOARCH=mips", "GOMIPS=softfloat"}}
	mipsleProgram = &program{name: "wgd.mipsle", pkg: "wgd/cmd/wgd", env: []string{"CGO_ENABLED=0", "GOARCH=mipsle", "GOMIPS=softfloat"}}
	refuseProgram = &program{name: "refuse", pkg: "wgd/internal/seccomp/refuse", env: []string{"CGO_ENABLED=0"}}
	wgGoProgram   = &program{name: "wireguard-go", pkg: "golang.zx2c4.com/wireguard", env: []string{"CGO_ENABLED=0"}}
)

// build returns the path of the program.
func (p *program) build(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		p.path = filepath.Join(binaries, p.name)
		args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", p.path}, p.flags...)
		cmd := exec.Command("go", append(args, p.pkg)...)
		cmd.Env = append(os.Environ(), p.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("go build %s: %v\n%s", p.pkg, err, out)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

// wgd is the daemon under test.
func wgd(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("WGD"); path != "" {
		return path
	}
	return wgdProgram.build(t)
}

func wireguardGo(t testing.TB) string {
	t.Helper()
	return wgGoProgram.build(t)
}

// refusing returns the beginning of a command for a kernel on which the rules of
// internal/seccomp hold: append a program.
func refusing(t testing.TB, rules ...string) []string {
	t.Helper()
	return append(append([]string{refuseProgram.build(t)}, rules...), "--")
}

// A log collects what a program writes.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

var _ io.Writer = (*log)(nil)

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
