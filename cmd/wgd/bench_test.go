package main

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wgd/crypto/chacha20poly1305"
	"wgd/device"
	"wgd/internal/loud"
)

// readTable checks the shape of what bench prints for names, and returns the text
// below the table.
func readTable(t *testing.T, out string, names []string) (below string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if len(line) > 80 {
			t.Errorf("%d columns: %q", len(line)-1, line)
		}
	}
	_, table, _ := strings.Cut(out, "16384  ")
	_, table, _ = strings.Cut(table, "\n")
	table, below, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != 2*len(names)+1 {
		t.Fatalf("%d rows for %q:\n%s", len(rows), names, out)
	}
	numbers := func(row string, begins ...string) {
		t.Helper()
		f := strings.Fields(row)
		if len(f) != len(begins)+8 {
			t.Fatalf("row %q: %d fields", row, len(f))
		}
		for i, want := range begins {
			if f[i] != want {
				t.Errorf("row %q: field %d is not %s", row, i, want)
			}
		}
		f = f[len(begins):]
		for i := range 4 {
			rate, _ := strconv.ParseFloat(f[i], 64)
			ns, _ := strconv.ParseFloat(f[i+4], 64)
			if p := rate * ns; p < 970 || p > 1030 { // of rounded numbers
				t.Errorf("row %q: %s MB/s are not %s ns a byte", row, f[i], f[i+4])
			}
		}
	}
	for i, name := range names {
		numbers(rows[2*i], name, "passed", "seal")
		numbers(rows[2*i+1], "open")
	}
	var rate float64
	f := strings.Fields(rows[len(rows)-1])
	if len(f) == 5 {
		rate, _ = strconv.ParseFloat(f[2], 64)
	}
	if len(f) != 5 || f[0] != "X25519" || f[1] != "passed" || rate <= 0 {
		t.Errorf("row %q", f)
	}
	return below
}

func TestBench(t *testing.T) {
	out, stderr := runs(t, 0, wgd, "bench")
	if stderr != "" || !strings.HasPrefix(out, "wgd 1.2.3, linux/") {
		t.Errorf("it printed %q, then %q", out, stderr)
	}
	names := chacha20poly1305.Implementations()
	below := readTable(t, out, names)
	if _, why := chacha20poly1305.Implementation(); !strings.Contains(below, "The daemon uses "+names[0]+".") || !strings.Contains(below, why) {
		t.Errorf("below the table: %q", below)
	}
}

func TestBenchForcedWithoutProc(t *testing.T) {
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	out, _ := runsWith(t, 0, []string{"WGD_AEAD=generic"}, inMounts("mount -t tmpfs none /proc", wgd, "bench")...)
	if below := readTable(t, out, []string{"generic"}); !strings.Contains(below, "The daemon uses generic: WGD_AEAD=generic.") {
		t.Errorf("below the table: %q", below)
	}
}

func TestBenchUsage(t *testing.T) {
	for _, args := range [][]string{{"x"}, {benchOne}, {benchOne, "generic", "x"}} {
		if _, stderr := runs(t, 1, append([]string{wgd, "bench"}, args...)...); stderr != usage {
			t.Errorf("bench %q: %q", args, stderr)
		}
	}
}

// What the children may do, and what becomes of it.
func TestBenchTable(t *testing.T) {
	numbers := "passed\n" + strings.Repeat("1e3\n", 8)
	type child struct {
		out string
		err error
	}
	good, bad := child{numbers, nil}, child{"wrong\n", nil}
	crashed := child{"passed\n12.5\nSIGILL: illegal instruction\nPC=0x1\n\ngoroutine 1", errors.New("exit status 2")}
	killed := child{"", errors.New("signal: illegal instruction")}
	x25519 := child{"passed\n2e6\n", nil}
	for _, c := range []struct {
		name               string
		best, last, x25519 child
		forced             string
		want               []string // in the output
		err                string
	}{
		{"all is well", good, good, x25519, "", []string{"X25519   passed 500 a second", "The daemon uses best."}, ""},
		{"wrong answers", bad, good, x25519, "", []string{"best     gives wrong answers\n", "The daemon uses last.", "Not used, since the answers are wrong: best."}, "best: gives wrong answers"},
		{"a crash", crashed, good, x25519, "", []string{"best     SIGILL: illegal instruction\n", "last     passed seal", "The daemon uses best.", "It would end with it: set WGD_AEAD "}, "best: SIGILL: illegal instruction"},
		{"a crash without a word", good, killed, x25519, "", []string{"last     signal: illegal instruction\n", "The daemon uses best."}, "last: signal: illegal instruction"},
		{"two at once", bad, killed, x25519, "", nil, "best: gives wrong answers; last: signal: illegal instruction"},
		{"no answer", child{}, good, x25519, "", nil, "best: no answer"},
		{"half an answer", child{"passed\n1e3\n", nil}, good, x25519, "", nil, "best: numbers are missing"},
		{"wrong X25519", good, good, bad, "", []string{"X25519   gives wrong answers\n"}, "X25519: gives wrong answers"},
		{"half an X25519", good, good, child{"passed\n", nil}, "", nil, "X25519: numbers are missing"},
		{"forced", good, good, x25519, "best", []string{"The daemon uses best: WGD_AEAD=best.\n"}, ""},
		{"forced and wrong", bad, bad, x25519, "best", []string{"The daemon does not start: WGD_AEAD=best."}, "best: gives wrong answers; last: gives wrong answers"},
	} {
		children := map[string]child{"best": c.best, "last": c.last, benchX25519: c.x25519}
		var out bytes.Buffer
		err := benchTable(&out, []string{"best", "last"}, c.forced, func(name string) (string, error) {
			return children[name].out, children[name].err
		})
		if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, &out)
			}
		}
	}
}

func TestBenchOutputOfAChild(t *testing.T) {
	for _, c := range []struct{ script, out, err string }{
		{"echo passed; echo 1 >&2", "passed\n1\n", ""},
		{"echo passed; kill -ILL $$", "passed\n", "signal: illegal instruction"},
		{"exit 3", "", "exit status 3"},
	} {
		out, err := output("/bin/sh", "sh", "-c", c.script)
		if out != c.out || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: got %q, %v, want %q, %q", c.script, out, err, c.out, c.err)
		}
	}
}

func TestForcedAEAD(t *testing.T) {
	inNamespace(t)
	for _, name := range chacha20poly1305.Implementations() {
		ifname := unique()
		f := start(t, []string{"WGD_AEAD=" + name, "LOG_LEVEL=verbose"}, wgd, "-f", ifname)
		await(t, 5*time.Second, "the start", func() bool { return answers(ifname) })
		f.Process.Signal(syscall.SIGTERM)
		f.endsWithin(t, time.Second)
		if want := ifname + ": ChaCha20-Poly1305: " + name + " ("; !strings.Contains(f.stderr.String(), want) {
			t.Errorf("got %q, want %q", f.stderr.String(), want)
		}
	}
}

func TestChooseAEAD(t *testing.T) {
	names := chacha20poly1305.Implementations()
	defer chacha20poly1305.Use(names[0])
	for _, c := range []struct{ env, want string }{{"", names[0]}, {"generic", "generic"}, {names[0], names[0]}} {
		t.Setenv(envAEAD, c.env)
		chacha20poly1305.Use("generic")
		refused, err := chooseAEAD()
		if name, _ := chacha20poly1305.Implementation(); name != c.want || len(refused) != 0 || err != nil {
			t.Errorf("%s=%s: got %s, refused %q, %v, want %s", envAEAD, c.env, name, refused, err, c.want)
		}
	}
}

func TestLogAEAD(t *testing.T) {
	name, why := chacha20poly1305.Implementation()
	for _, c := range []struct {
		level   device.Level
		refused []string
		want    string
	}{
		{device.LogError, nil, ""},
		{device.LogVerbose, nil, "wg0: ChaCha20-Poly1305: " + name + " (" + why + ")\n"},
		{device.LogError, []string{"fast"}, "wg0: ChaCha20-Poly1305: wrong answers from fast, using " + name + "\n"},
		{device.LogError, []string{"fast", "faster"}, "wg0: ChaCha20-Poly1305: wrong answers from fast, faster, using " + name + "\n"},
	} {
		var out bytes.Buffer
		logAEAD(device.NewLogger(&out, "wg0", c.level), c.refused)
		if out.String() != c.want {
			t.Errorf("level %d, refused %q: got %q, want %q", c.level, c.refused, out.String(), c.want)
		}
	}
}
