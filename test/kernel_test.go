package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The kernel's own WireGuard, in a guest with a kernel of Debian's, in both roles.
func TestKernel(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("make", "-s", "-C", "..", "kernel").CombinedOutput(); err != nil {
		t.Fatalf("make kernel: %v\n%s", err, out)
	}
	wgnlTest := filepath.Join(binaries, "wgnl.test")
	build := exec.Command("go", "test", "-c", "-trimpath", "-tags", "guest", "-o", wgnlTest, "wgd/wgnl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	for _, role := range []struct {
		name string
		args []string
		want string
	}{
		{"the kernel initiates", []string{"guest", wgnlTest}, "--- PASS: TestGuest"}, // and package wgnl configures it
		{"the daemon initiates", []string{"host"}, ""},
	} {
		t.Run(role.name, func(t *testing.T) {
			out, err := exec.Command("guest/kernel-interop", append([]string{wgd(t), "../build/kernel"}, role.args...)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), role.want) {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
