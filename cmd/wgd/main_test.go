package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/internal/loud"
	"wgd/uapi"
)

// wgd is the built program. Its directory is open to everybody, for the tests
// that run it as another user.
var wgd string

// program links all of the program into the test: what go test finds in its cache
// is then of the same program as is built here.
var program = main

func TestMain(m *testing.M) {
	if program == nil {
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wgd-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o755)
		wgd = filepath.Join(dir, "wgd")
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version=1.2.3", "-o", wgd, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		for _, env := range []string{"LOG_LEVEL", envTun, envUAPI, envForeground, envReady, envAEAD} {
			os.Unsetenv(env)
		}
		return m.Run()
	}())
}

// inNamespace moves the rest of the test, and the commands it runs, to a new
// network namespace, which ends with the test's thread and their processes.
func inNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal("unshare:", err)
	}
}

var names int

// unique returns a new interface name.
func unique() string {
	names++
	return fmt.Sprintf("c%dn%d", os.Getpid(), names)
}

func command(argv ...string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.WaitDelay = 5 * time.Second
	return c
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(append([]string{"ip"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// inMounts runs a program in a mount namespace of its own, after the shell
// commands in prepare.
func inMounts(prepare string, argv ...string) []string {
	return append([]string{"unshare", "-m", "sh", "-ec", prepare + "\nexec \"$@\"", "sh"}, argv...)
}

// runs a program to its end, and fails unless it exits with code.
func runs(t *testing.T, code int, argv ...string) (stdout, stderr string) {
	t.Helper()
	return runsWith(t, code, nil, argv...)
}

func runsWith(t *testing.T, code int, env []string, argv ...string) (stdout, stderr string) {
	t.Helper()
	c := command(argv...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.Env = append(os.Environ(), env...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
	defer timer.Stop()
	c.Wait()
	if got := c.ProcessState.ExitCode(); got != code {
		t.Fatalf("%v: exit %d, want %d\n%s%s", argv, got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// await polls until ok.
func await(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("%s: not after %v", what, limit)
		}
	}
}

// daemonPID finds the living process that serves an interface; 0 if there is none.
func daemonPID(name string) int {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A zombie has no command line.
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.HasSuffix(line, []byte("\x00-f\x00"+name+"\x00")) {
			return pid
		}
	}
	return 0
}

func linkExists(name string) bool {
	return command("ip", "link", "show", "dev", name).Run() == nil
}

func socketExists(name string) bool {
	_, err := os.Lstat(uapi.SocketPath(name))
	return err == nil
}

// nothingLeft fails unless process, socket and interface are gone now.
func nothingLeft(t *testing.T, name string) {
	t.Helper()
	if pid := daemonPID(name); pid != 0 {
		t.Errorf("%s: process %d is left", name, pid)
	}
	if socketExists(name) {
		t.Errorf("%s: the socket is left", name)
		os.Remove(uapi.SocketPath(name))
	}
	if linkExists(name) {
		t.Errorf("%s: the interface is left", name)
	}
}

// background starts `wgd name` and ends it with the test.
func background(t *testing.T, name string, argv ...string) (pid int) {
	t.Helper()
	if len(argv) == 0 {
		argv = []string{wgd, name}
	}
	t.Cleanup(func() {
		if pid := daemonPID(name); pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
			os.Remove(uapi.SocketPath(name))
		}
	})
	stdout, stderr := runs(t, 0, argv...)
	if stdout+stderr != "" {
		t.Errorf("%v printed %q", argv, stdout+stderr)
	}
	if pid = daemonPID(name); pid == 0 {
		t.Fatalf("%v: no process", argv)
	}
	return pid
}

// A daemon in the foreground.
type foreground struct {
	*exec.Cmd
	stderr bytes.Buffer
	ended  chan error
}

func start(t *testing.T, env []string, argv ...string) *foreground {
	t.Helper()
	f := &foreground{Cmd: command(argv...), ended: make(chan error, 1)}
	f.Env = append(os.Environ(), env...)
	f.Stdout, f.Stderr = &f.stderr, &f.stderr
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Process.Kill() })
	go func() { f.ended <- f.Wait() }()
	return f
}

// endsWithin fails unless the daemon exits with code 0 in time.
func (f *foreground) endsWithin(t *testing.T, limit time.Duration) {
	t.Helper()
	select {
	case err := <-f.ended:
		if err != nil {
			t.Errorf("%v: %v\n%s", f.Args, err, &f.stderr)
		}
	case <-time.After(limit):
		t.Errorf("%v: still there after %v", f.Args, limit)
	}
}

// get asks the daemon for its state.
func get(t *testing.T, name string) *conf.State {
	t.Helper()
	c, err := uapi.Dial(name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Get()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func answers(name string) bool {
	c, err := uapi.Dial(name)
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Get()
	return err == nil
}
