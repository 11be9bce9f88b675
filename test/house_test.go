package test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Imports go one way.
func TestImports(t *testing.T) {
	may := map[string][]string{
		"wgd/cmd/wgd":                 {"wgd/device", "wgd/uapi", "wgd/conf", "wgd/netcfg", "wgd/tun", "wgd/noise", "wgd/crypto/chacha20poly1305", "wgd/crypto/curve25519", "wgd/internal/threads", "wgd/wgtool"},
		"wgd/wgtool":                  {"wgd/uapi", "wgd/conf", "wgd/noise"},
		"wgd/uapi":                    {"wgd/conf"},
		"wgd/device":                  {"wgd/noise", "wgd/tun", "wgd/conf", "wgd/internal/ready", "wgd/internal/rtnl", "wgd/internal/threads"},
		"wgd/noise":                   {"wgd/crypto/blake2s", "wgd/crypto/chacha20poly1305", "wgd/crypto/curve25519"},
		"wgd/noise/bench/guest":       {"wgd/noise"},
		"wgd/noise/bench/run":         {"wgd/crypto/chacha20poly1305/bench/count"},
		"wgd/crypto/blake2s":          nil,
		"wgd/crypto/chacha20poly1305": nil,
		"wgd/crypto/chacha20poly1305/bench/count": nil,
		"wgd/crypto/chacha20poly1305/bench/guest": {"wgd/crypto/chacha20poly1305"},
		"wgd/crypto/chacha20poly1305/bench/run":   {"wgd/crypto/chacha20poly1305/bench/count"},
		"wgd/crypto/curve25519":                   nil,
		"wgd/crypto/curve25519/bench/guest":       {"wgd/crypto/curve25519"},
		"wgd/crypto/curve25519/bench/run":         {"wgd/crypto/chacha20poly1305/bench/count"},
		"wgd/bench/guest24k/kit":                  {"wgd/internal/rtnl"},
		"wgd/conf":                                nil,
		"wgd/tun":                                 {"wgd/internal/ready", "wgd/internal/rtnl"},
		"wgd/netcfg":                              {"wgd/internal/rtnl"},
		"wgd/internal/loud":                       nil,
		"wgd/internal/oracle":                     nil,
		"wgd/internal/ready":                      nil,
		"wgd/internal/rtnl":                       nil,
		"wgd/internal/seccomp":                    nil,
		"wgd/internal/threads":                    nil,
		"wgd/internal/seccomp/refuse":             {"wgd/internal/seccomp"},
		"wgd/test":                                nil,
		"wgd/wgnl":                                {"wgd/conf", "wgd/internal/rtnl"},
	}
	for line := range strings.Lines(command(t, "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "wgd/...")) {
		f := strings.Fields(line)
		allowed, known := may[f[0]]
		if !known {
			t.Errorf("%s: a package that this list does not place", f[0])
		}
		for _, p := range f[1:] {
			if strings.HasPrefix(p, "wgd/") && !slices.Contains(allowed, p) {
				t.Errorf("%s imports %s", f[0], p)
			}
		}
	}

	// For all targets, what the program is made of: no other AEAD than ours, and
	// none of the libraries that would cost a router's flash.
	for _, target := range targets(t) {
		for _, p := range target.deps(t, "wgd/cmd/wgd") {
			for _, bad := range []string{"golang.org/x/crypto/chacha20poly1305", "golang.org/x/crypto/chacha20", "github.com/flynn/noise", "crypto/ecdh",
				"golang.zx2c4.com/wireguard/device", "encoding/json", "net/http", "regexp", "text/template", "crypto/tls", "C", "runtime/cgo"} {
				if p == bad {
					t.Errorf("%s: cmd/wgd depends on %s", target.name, bad)
				}
			}
		}
	}
	for line := range strings.Lines(command(t, "go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "wgd/...")) {
		if f := strings.Fields(line); strings.HasPrefix(f[0], "wgd/") && slices.Contains(f[1:], "golang.org/x/crypto/chacha20poly1305") {
			t.Errorf("%s imports golang.org/x/crypto/chacha20poly1305 outside tests", f[0])
		}
	}
}

// A target is what the Makefile builds for.
type target struct {
	name string
	env  []string
}

// targets asks the Makefile.
func targets(t *testing.T) (all []target) {
	t.Helper()
	for line := range strings.Lines(command(t, "make", "-s", "-C", "..", "targets")) {
		f := strings.Fields(line)
		all = append(all, target{f[0], f[1:]})
	}
	if len(all) < 7 {
		t.Fatalf("make targets: %v", all)
	}
	return all
}

func (g target) deps(t *testing.T, pkg string) []string {
	t.Helper()
	return strings.Fields(command(t, append(append([]string{"env", "CGO_ENABLED=0"}, g.env...), "go", "list", "-deps", pkg)...))
}

// A size in bytes: of a stripped binary, by the name of its target, or of the assembly
// of a package, by TARGET/PACKAGE or TARGET/PACKAGE+TAG.
type size struct {
	of string
	n  int64
}

func sizes(t *testing.T) (all []size) {
	t.Helper()
	if out, err := exec.Command("make", "-s", "-C", "..", "cross").CombinedOutput(); err != nil {
		t.Fatalf("make cross: %v\n%s", err, out)
	}
	for _, target := range targets(t) {
		info, err := os.Stat("../build/wgd-" + target.name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, size{target.name, info.Size()})
	}
	for _, target := range targets(t) {
		for _, pkg := range []string{"chacha20poly1305", "curve25519", "blake2s"} {
			fast := target.assembly(t, "", "wgd/crypto/"+pkg)
			if fast != 0 {
				all = append(all, size{target.name + "/" + pkg, fast})
			}
			if small := target.assembly(t, "wgd_small", "wgd/crypto/"+pkg); small != fast {
				all = append(all, size{target.name + "/" + pkg + "+wgd_small", small})
			}
		}
	}
	return all
}

// assembly returns the bytes of text of a package that are not the Go compiler's.
func (g target) assembly(t *testing.T, tags, pkg string) (n int64) {
	t.Helper()
	archive := command(t, append(append([]string{"env", "CGO_ENABLED=0"}, g.env...), "go", "list", "-export", "-tags", tags, "-f", "{{.Export}}", pkg)...)
	for line := range strings.Lines(command(t, "go", "tool", "nm", "-size", strings.TrimSpace(archive))) {
		// ARCHIVE(chacha20_arm.o):  4f2  2268 T wgd/crypto/chacha20poly1305.xorSegments
		f := strings.Fields(line)
		if len(f) == 5 && f[3] == "T" && !strings.HasSuffix(f[0], "(_go_.o):") {
			bytes, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += bytes
		}
	}
	return n
}

// The stripped, static binaries and the assembly are no more than 3 % larger than
// recorded: flash is what routers have least of. `make sizes` records.
func TestSizes(t *testing.T) {
	const file = "sizes.txt"
	measured := sizes(t)
	if os.Getenv("WGD_SIZES") == "record" {
		var text strings.Builder
		for _, s := range measured {
			fmt.Fprintln(&text, s.of, s.n)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var s size
		if _, err := fmt.Sscan(line, &s.of, &s.n); err == nil {
			recorded[s.of] = s.n
		}
	}
	for _, s := range measured {
		was := recorded[s.of]
		if was == 0 {
			t.Errorf("%s: no size recorded (make sizes)", s.of)
			continue
		}
		t.Logf("%-32s %7d bytes, %+.1f %%", s.of, s.n, 100*float64(s.n-was)/float64(was))
		if s.n > was+was*3/100 {
			t.Errorf("%s: %d bytes, recorded %d: more than 3 %% larger (a good reason: make sizes)", s.of, s.n, was)
		}
	}
	// Limits of the AEAD on MIPS, beside what is recorded.
	for _, s := range measured {
		for end, most := range map[string]int64{"/chacha20poly1305": 6000, "/chacha20poly1305+wgd_small": 2000} {
			if strings.HasPrefix(s.of, "mips") && strings.HasSuffix(s.of, end) && s.n > most {
				t.Errorf("%s: %d bytes, want at most %d", s.of, s.n, most)
			}
		}
	}

	for _, target := range targets(t) {
		f, err := elf.Open("../build/wgd-" + target.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: not static", target.name)
			}
		}
		f.Close()
	}
}
