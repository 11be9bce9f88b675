package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"wgd/crypto/chacha20poly1305"
	"wgd/crypto/curve25519"
)

const (
	cellTime    = 100 * time.Millisecond // for each number in the table
	sliceTime   = 2 * time.Millisecond   // the clock is read so often
	benchLimit  = 20 * time.Second       // of one child, before it is taken to hang
	benchOne    = "--one"                // and a name: we are such a child
	benchX25519 = "X25519"

	// What a child says of its self-test, in its first line. A number a line follows,
	// ns a call.
	passed = "passed"
	wrong  = "wrong"
)

// benchSizes are the bytes of text of a message. 1420 is a full packet.
var benchSizes = [...]int{64, 256, 1420, 16384}

// bench is `wgd bench`. Each implementation runs in a process of its own, since an
// illegal instruction or a wild store would end this one. Where no process can be
// started it has to do without.
func bench(args []string) error {
	switch {
	case len(args) == 2 && args[0] == benchOne:
		return benchChild(os.Stdout, args[1])
	case len(args) != 0:
		return errUsage
	}
	path, err := executable()
	if err != nil {
		return err
	}
	names := chacha20poly1305.Implementations()
	forced := os.Getenv(envAEAD)
	if forced != "" {
		if err := useAEAD(forced); err != nil {
			return err
		}
		names = []string{forced}
	}
	return benchTable(os.Stdout, names, forced, func(name string) (string, error) {
		out, err := output(path, os.Args[0], "bench", benchOne, name)
		if start := (*os.PathError)(nil); errors.As(err, &start) { // as under qemu-user
			var b strings.Builder
			err = benchChild(&b, name)
			out = b.String()
		}
		return out, err
	})
}

// output runs a program and returns what it prints, on either of its outputs.
func output(path string, argv ...string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	process, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env:   append(os.Environ(), "GOTRACEBACK=none"),
		Files: []*os.File{nil, w, w},
	})
	w.Close()
	if err != nil {
		return "", err
	}
	r.SetReadDeadline(time.Now().Add(benchLimit))
	out, err := io.ReadAll(r)
	if err != nil {
		process.Kill()
	}
	state, waitErr := process.Wait()
	switch {
	case err != nil:
		return string(out), fmt.Errorf("no end after %v", benchLimit)
	case waitErr != nil:
		return string(out), waitErr
	case !state.Success():
		return string(out), errors.New(state.String())
	}
	return string(out), nil
}

// benchTable prints a row for each implementation as its child, run by one, comes to
// an end. forced is the value of WGD_AEAD.
func benchTable(w io.Writer, names []string, forced string, one func(name string) (string, error)) error {
	fmt.Fprintf(w, "wgd %s, %s/%s\n\n", version, runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "%-20s%28s  %28s\n", "ChaCha20-", "MB/s", "ns a byte")
	fmt.Fprintf(w, "%-8s %-6s %-4s", "Poly1305", "test", "")
	for i := range 2 * len(benchSizes) {
		fmt.Fprintf(w, "%s%7d", gap(i), benchSizes[i%len(benchSizes)])
	}
	fmt.Fprintln(w)

	var failed []string
	fail := func(name, how string) {
		fmt.Fprintf(w, "%-8s %s\n", name, how)
		failed = append(failed, name+": "+how)
	}
	used, crashes, refused := "", false, []string(nil)
	for _, name := range names {
		verdict, ns, err := parseTrial(one(name))
		if err == nil && verdict == passed && len(ns) != 2*len(benchSizes) {
			err = errors.New("numbers are missing")
		}
		if used == "" && verdict != wrong {
			used, crashes = name, err != nil
		}
		switch {
		case err != nil:
			fail(name, err.Error())
		case verdict == wrong:
			fail(name, "gives wrong answers")
			refused = append(refused, name)
		default:
			printRow(w, name, verdict, "seal", ns[:len(benchSizes)])
			printRow(w, "", "", "open", ns[len(benchSizes):])
		}
	}
	switch verdict, ns, err := parseTrial(one(benchX25519)); {
	case err != nil:
		fail(benchX25519, err.Error())
	case verdict == wrong:
		fail(benchX25519, "gives wrong answers")
	case len(ns) != 1:
		fail(benchX25519, "numbers are missing")
	default:
		fmt.Fprintf(w, "%-8s %-6s %s a second\n", benchX25519, verdict, figures(1e9/ns[0]))
	}

	_, why := chacha20poly1305.Implementation()
	switch {
	case used == "":
		fmt.Fprintf(w, "\nThe daemon does not start: %s=%s.\n", envAEAD, forced)
	case forced != "":
		fmt.Fprintf(w, "\nThe daemon uses %s: %s=%s.\nThis CPU: %s.\n", used, envAEAD, forced, why)
	default:
		fmt.Fprintf(w, "\nThe daemon uses %s.\nThis CPU: %s.\n", used, why)
	}
	if crashes {
		fmt.Fprintf(w, "It would end with it: set %s to the name of another.\n", envAEAD)
	}
	if len(refused) != 0 && forced == "" {
		fmt.Fprintf(w, "Not used, since the answers are wrong: %s.\n", strings.Join(refused, ", "))
	}
	if len(failed) != 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

// gap is between the two halves of the table.
func gap(i int) string {
	if i == len(benchSizes) {
		return "  "
	}
	return ""
}

// printRow prints MB/s, then ns a byte, from ns a call.
func printRow(w io.Writer, name, verdict, what string, ns []float64) {
	fmt.Fprintf(w, "%-8s %-6s %-4s", name, verdict, what)
	for i, x := range ns {
		fmt.Fprintf(w, "%7s", figures(1e3*float64(benchSizes[i])/x))
	}
	fmt.Fprint(w, gap(len(benchSizes)))
	for i, x := range ns {
		fmt.Fprintf(w, "%7s", figures(x/float64(benchSizes[i])))
	}
	fmt.Fprintln(w)
}

// figures prints three or more figures of a number.
func figures(x float64) string {
	digits := 0
	switch {
	case x < 10:
		digits = 2
	case x < 100:
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

// parseTrial reads what a child printed before it ended with err. What a crash
// prints first says more than the exit status.
func parseTrial(out string, err error) (verdict string, ns []float64, _ error) {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if x, parseErr := strconv.ParseFloat(line, 64); parseErr == nil {
			ns = append(ns, x)
		} else if verdict == "" && (line == passed || line == wrong) {
			verdict = line
		} else if line != "" {
			return verdict, ns, errors.New(line)
		}
	}
	if err == nil && verdict == "" {
		err = errors.New("no answer")
	}
	return verdict, ns, err
}

// benchChild tests and measures one implementation.
func benchChild(w io.Writer, name string) error {
	if name == benchX25519 {
		return benchMultiply(w)
	}
	if err := chacha20poly1305.Use(name); err != nil {
		return err
	}
	if chacha20poly1305.SelfTest() != nil {
		fmt.Fprintln(w, wrong)
		return nil
	}
	fmt.Fprintln(w, passed)
	var c chacha20poly1305.Cipher
	c.Init(new([chacha20poly1305.KeySize]byte))
	const longest = 16384
	text, sealed := make([]byte, longest), make([]byte, longest+chacha20poly1305.Overhead)
	for _, n := range benchSizes {
		fmt.Fprintln(w, perCall(func() { c.Seal(sealed, 1, text[:n], nil) }))
	}
	for _, n := range benchSizes {
		c.Seal(sealed, 1, text[:n], nil)
		in := sealed[:n+chacha20poly1305.Overhead]
		fmt.Fprintln(w, perCall(func() { c.Open(text, 1, in, nil) }))
	}
	return nil
}

// benchMultiply is benchChild for X25519. The test is the first of RFC 7748 §5.2.
func benchMultiply(w io.Writer) error {
	const (
		scalar = "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"
		point  = "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"
		want   = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
	)
	var k, p, product [32]byte
	hex.Decode(k[:], []byte(scalar))
	hex.Decode(p[:], []byte(point))
	if curve25519.X25519(&product, &k, &p) != nil || hex.EncodeToString(product[:]) != want {
		fmt.Fprintln(w, wrong)
		return nil
	}
	fmt.Fprintln(w, passed)
	fmt.Fprintln(w, perCall(func() { curve25519.X25519(&product, &k, &p) }))
	return nil
}

// perCall returns the ns that a call of f takes: the least of some slices of time,
// since other programs run too.
func perCall(f func()) float64 {
	least := math.Inf(1)
	n := 1
	for start := time.Now(); time.Since(start) < cellTime || math.IsInf(least, 1); {
		begin := time.Now()
		for range n {
			f()
		}
		took := time.Since(begin)
		if took < sliceTime {
			n *= 2
			continue
		}
		least = min(least, float64(took.Nanoseconds())/float64(n))
	}
	return least
}
