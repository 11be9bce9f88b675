package test

import (
	"os/exec"
	"testing"
)

// The kernel's own WireGuard, in a guest with a kernel of Debian's, in both roles.
func TestKernel(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("make", "-s", "-C", "..", "kernel").CombinedOutput(); err != nil {
		t.Fatalf("make kernel: %v\n%s", err, out)
	}
	for _, role := range []struct{ name, arg string }{
		{"the kernel initiates", "guest"},
		{"the daemon initiates", "host"},
	} {
		t.Run(role.name, func(t *testing.T) {
			out, err := exec.Command("guest/kernel-interop", wgd(t), "../build/kernel", role.arg).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
