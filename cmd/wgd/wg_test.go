package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Called wg, it has the commands of wg and no others: no name is that of an interface to make.
func TestCalledWg(t *testing.T) {
	inNamespace(t)
	wg := filepath.Join(t.TempDir(), "wg")
	if err := os.Symlink(wgd, wg); err != nil {
		t.Fatal(err)
	}
	name := unique()
	for _, args := range [][]string{{name}, {"-f", name}, {"up", name}, {"run", name}, {"down", name}, {"bench"}} {
		if out, stderr := runs(t, 1, append([]string{wg}, args...)...); out != "" || !strings.Contains(stderr, "unknown command: "+args[0]) || !strings.Contains(stderr, "syncconf") {
			t.Errorf("%v: %q %q", args, out, stderr)
		}
	}
	if linkExists(name) {
		t.Errorf("there is an interface %s", name)
	}
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		if out, stderr := runs(t, 0, append([]string{wg}, args...)...); !strings.HasPrefix(out, "usage: wg COMMAND\n") || stderr != "" {
			t.Errorf("%v: %q %q", args, out, stderr)
		}
	}
	for _, version := range []string{"version", "--version", "-v"} {
		if out, _ := runs(t, 0, wg, version); out != "wgd 1.2.3\n" {
			t.Errorf("%s: %q", version, out)
		}
	}
	// wgd's own show, and who speaks.
	for program, called := range map[string]string{wg: "wg", wgd: "wgd"} {
		if out, stderr := runs(t, 1, program, "show", name); out != "" || stderr != called+": "+name+": no daemon serves this interface\n" {
			t.Errorf("%s show: %q %q", called, out, stderr)
		}
	}
	if out, stderr := runs(t, 1, wgd, "set"); out != "" || !strings.HasPrefix(stderr, "usage: wg set") {
		t.Errorf("wgd set: %q %q", out, stderr)
	}
}
