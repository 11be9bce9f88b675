package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wgd/conf"
)

func TestGenerateKeys(t *testing.T) {
	seen := make(map[string]bool)
	for _, command := range []string{"genkey", "genkey", "genpsk", "genpsk"} {
		out, stderr := runs(t, 0, wgd, command)
		k, err := conf.ParseKey(strings.TrimSuffix(out, "\n"))
		if err != nil || stderr != "" || len(out) != 45 || seen[out] {
			t.Errorf("%s: %q %q, %v", command, out, stderr, err)
		}
		seen[out] = true
		if command == "genkey" && (k[0]&7 != 0 || k[31]&0xc0 != 0x40) {
			t.Errorf("not clamped: %x", k)
		}
	}
}

func base64Of(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// What wg(8) prints for the same input.
func TestPubkey(t *testing.T) {
	// RFC 7748 §6.1, Alice; her private key is not clamped.
	private := base64Of(t, "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
	public := base64Of(t, "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a") + "\n"
	const trailing, format = "wgd: Trailing characters found after key\n", "wgd: Key is not the correct length or format\n"
	for _, c := range []struct{ in, out, err string }{
		{private, public, ""},
		{private + "\n", public, ""},
		{private + " \t\v\f\r\n\n", public, ""},
		{private + "x", "", trailing},
		{private + "\x00", public, ""}, // as wg does
		{private + "\x00x", "", trailing},
		{private + "\n" + private, "", trailing},
		{" " + private, "", trailing},
		{strings.Repeat("!", 44) + "x", "", trailing},
		{strings.Repeat("!", 44), "", format},
		{private[:43], "", format},
		{"", "", format},
	} {
		cmd := command(wgd, "pubkey")
		cmd.Stdin = strings.NewReader(c.in)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if string(out) != c.out || stderr.String() != c.err || (err != nil) != (c.err != "") {
			t.Errorf("%q: %q %q %v", c.in, out, &stderr, err)
		}
	}
}

func TestKeysWarnOfAReadableFile(t *testing.T) {
	for _, c := range []struct {
		command string
		mode    os.FileMode
		warns   bool
	}{{"genkey", 0o644, true}, {"genpsk", 0o604, true}, {"genkey", 0o640, false}, {"genpsk", 0o600, false}, {"pubkey", 0o644, false}} {
		f, err := os.OpenFile(filepath.Join(t.TempDir(), "key"), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		f.Chmod(c.mode)
		cmd := command(wgd, c.command)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(strings.Repeat("A", 43)+"="), f, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.warns {
			want = "Warning: writing to world accessible file.\nConsider setting the umask to 077 and trying again.\n"
		}
		if stderr.String() != want {
			t.Errorf("%s, mode %v: %q, want %q", c.command, c.mode, &stderr, want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	if out, _ := runs(t, 0, wgd, "version"); out != "wgd 1.2.3\n" {
		t.Errorf("version: %q", out)
	}
	if out, _ := runs(t, 0, wgd, "--version"); out != "wgd 1.2.3\n" {
		t.Errorf("--version: %q", out)
	}
	for _, args := range [][]string{{"help"}, {"--help"}, {"-h"}} {
		if out, stderr := runs(t, 0, append([]string{wgd}, args...)...); !strings.HasPrefix(out, "usage:") || stderr != "" {
			t.Errorf("%v: %q %q", args, out, stderr)
		}
	}
	for _, args := range [][]string{{}, {"-f"}, {"-f", "a", "b"}, {"a", "b"}, {"-x"}, {"up"}, {"genkey", "x"}, {"version", "x"}} {
		if out, stderr := runs(t, 1, append([]string{wgd}, args...)...); !strings.HasPrefix(stderr, "usage:") || out != "" {
			t.Errorf("%v: %q %q", args, out, stderr)
		}
	}
}
