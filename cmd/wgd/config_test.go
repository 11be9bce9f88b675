package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"wgd/conf"
	"wgd/noise"
)

// writeConf makes NAME.conf with a new key and one peer, and returns its path.
func writeConf(t *testing.T, name, interfaceLines, peerLines string) string {
	t.Helper()
	text := fmt.Sprintf("[Interface]\nPrivateKey = %v\n%s\n[Peer]\nPublicKey = %v\nPresharedKey = %v\n%s\n",
		newKey(t), interfaceLines, conf.Key((*noise.PrivateKey)(ptr(newKey(t))).Public()), newKey(t), peerLines)
	path := filepath.Join(t.TempDir(), name+".conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func ptr[T any](v T) *T { return &v }

func newKey(t *testing.T) conf.Key {
	t.Helper()
	k, err := noise.NewPrivateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return conf.Key(k)
}

const (
	goodInterface = "Address = 10.7.0.1/24, fd07::1/64\nMTU = 1380\n"
	goodPeer      = "AllowedIPs = 10.7.0.2/32, 192.0.2.0/24, fd09::/64\nEndpoint = 127.0.0.1:9\n"
)

// isConfigured compares what ip and the daemon say with goodInterface and goodPeer.
func isConfigured(t *testing.T, name string) {
	t.Helper()
	if s := get(t, name); s.PrivateKey.IsZero() || len(s.Peers) != 1 || s.Peers[0].PresharedKey.IsZero() ||
		len(s.Peers[0].AllowedIPs) != 3 || s.Peers[0].Endpoint.String() != "127.0.0.1:9" || s.ListenPort == 0 {
		t.Errorf("state %+v", s)
	}
	var links []struct {
		MTU      int
		Flags    []string
		AddrInfo []struct {
			Local     string
			Prefixlen int
			Scope     string
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(ip(t, "-j", "address", "show", "dev", name)), &links); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range links[0].AddrInfo {
		if a.Scope == "global" {
			got = append(got, fmt.Sprintf("%s/%d", a.Local, a.Prefixlen))
		}
	}
	slices.Sort(got)
	if links[0].MTU != 1380 || !slices.Contains(links[0].Flags, "UP") || fmt.Sprint(got) != "[10.7.0.1/24 fd07::1/64]" {
		t.Errorf("link %+v", links[0])
	}
	if out := ip(t, "-4", "route", "show", "dev", name); !strings.Contains(out, "192.0.2.0/24 ") || strings.Contains(out, "10.7.0.2") {
		t.Errorf("IPv4 routes: %s", out)
	}
	if out := ip(t, "-6", "route", "show", "dev", name); !strings.Contains(out, "fd09::/64 ") {
		t.Errorf("IPv6 routes: %s", out)
	}
}

// down ends the daemon of a name, and leaves alone what else is called so.
func TestDownDeletesNobodyElse(t *testing.T) {
	inNamespace(t)
	name, moved := unique(), unique()
	path := writeConf(t, name, goodInterface, goodPeer)
	runs(t, 0, wgd, "up", path)
	pid := daemonPID(name)
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGTERM) })
	ip(t, "link", "set", name, "down")
	ip(t, "link", "set", name, "name", moved)
	ip(t, "link", "add", name, "type", "veth", "peer", "name", unique())
	runs(t, 0, wgd, "down", path)
	if linkExists(moved) {
		t.Error("the daemon's interface is still there")
	}
	if !linkExists(name) {
		t.Error("another interface of the name was deleted")
	}
}

// A file that cannot be read whole configures nothing.
func TestUnreadableFiles(t *testing.T) {
	inNamespace(t)
	for what, make := range map[string]func(path string) error{
		"a directory":  func(path string) error { return os.Mkdir(path, 0o700) },
		"an I/O error": func(path string) error { return os.Symlink("/proc/self/mem", path) },
		"no file":      func(path string) error { return os.Symlink("/nosuch", path) },
	} {
		name := unique()
		path := filepath.Join(t.TempDir(), name+".conf")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if _, stderr := runs(t, 1, wgd, "up", path); strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, path) {
			t.Errorf("%s: it printed %q", what, stderr)
		}
		nothingLeft(t, name)
	}
}

// A signal during up leaves nothing behind either.
func TestUpIsInterrupted(t *testing.T) {
	inNamespace(t)
	for i := range 12 {
		name := unique()
		peer := goodPeer + "AllowedIPs = "
		for n := range 2000 {
			peer += fmt.Sprintf("10.%d.%d.0/24, ", 100+n>>8, n&255)
		}
		f := start(t, nil, wgd, "up", writeConf(t, name, goodInterface, peer+"10.99.0.0/24\n"))
		time.Sleep(time.Duration(i) * 4 * time.Millisecond)
		f.Process.Signal(syscall.SIGTERM)
		await(t, 5*time.Second, "the end of up", func() bool {
			select {
			case <-f.ended:
				return true
			default:
				return false
			}
		})
		pid := daemonPID(name)
		if f.ProcessState.ExitCode() == 0 {
			runs(t, 0, wgd, "down", name+".conf") // it was over before the signal
			continue
		}
		if pid != 0 {
			syscall.Kill(pid, syscall.SIGTERM)
			t.Errorf("signal after %d ms: the daemon is still there", 4*i)
		}
		nothingLeft(t, name)
	}
}

func TestRun(t *testing.T) {
	inNamespace(t)
	name := unique()
	f := start(t, nil, wgd, "run", writeConf(t, name, goodInterface, goodPeer))
	await(t, 5*time.Second, "the start", func() bool { return answers(name) })
	isConfigured(t, name)
	f.Process.Signal(syscall.SIGTERM)
	f.endsWithin(t, time.Second)
	nothingLeft(t, name)
}

func TestUpDown(t *testing.T) {
	inNamespace(t)
	name := unique()
	path := writeConf(t, name, goodInterface+"PostUp = touch /nosuch\nDNS = 192.0.2.53\n", goodPeer)
	// A bare name is looked up where wg-quick does.
	dir := inMounts("mount -t tmpfs none /etc/wireguard 2>/dev/null || { mount -t tmpfs none /etc; mkdir /etc/wireguard; }; cp " + path + " /etc/wireguard/")
	for _, argv := range [][]string{{wgd, "up", path}, append(dir, wgd, "up", name)} {
		t.Cleanup(func() {
			if pid := daemonPID(name); pid != 0 {
				syscall.Kill(pid, syscall.SIGTERM)
			}
		})
		stdout, stderr := runs(t, 0, argv...)
		if stdout != "" || strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "PostUp: not supported") || !strings.Contains(stderr, "DNS: not supported") {
			t.Errorf("it printed %q", stdout+stderr)
		}
		isConfigured(t, name)
		pid := daemonPID(name)
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			s := get(t, name)
			if err != nil || bytes.Contains(text, []byte(s.PrivateKey.String())) || bytes.Contains(text, []byte(s.Peers[0].PresharedKey.String())) {
				t.Errorf("a key in %s, or %v", file, err)
			}
		}
		if _, stderr := runs(t, 1, wgd, "up", path); !strings.Contains(stderr, "name in use") {
			t.Errorf("up twice: %q", stderr)
		}
		isConfigured(t, name)
		// down waits for a daemon that takes its time.
		syscall.Kill(pid, syscall.SIGSTOP)
		d := start(t, nil, wgd, "down", path)
		await(t, 5*time.Second, "the removal of the socket", func() bool { return !socketExists(name) })
		select {
		case <-d.ended:
			t.Error("down did not wait for the daemon")
		case <-time.After(50 * time.Millisecond):
		}
		syscall.Kill(pid, syscall.SIGCONT)
		d.endsWithin(t, time.Second)
		if d.stderr.Len() != 0 {
			t.Errorf("down printed %q", &d.stderr)
		}
		nothingLeft(t, name)
	}
	// The name of an interface that no daemon serves is not ours to delete.
	other := unique()
	ip(t, "link", "add", other, "type", "veth", "peer", "name", unique())
	if _, stderr := runs(t, 1, wgd, "down", other); !strings.Contains(stderr, "no daemon serves") {
		t.Errorf("down of another interface: %q", stderr)
	}
	if !linkExists(other) {
		t.Error("down deleted an interface that is not a daemon's")
	}
}

// One clear error, and nothing left behind.
func TestUpAndRunUndo(t *testing.T) {
	inNamespace(t)
	ip(t, "link", "set", "lo", "up")
	ip(t, "route", "add", "203.0.113.0/24", "dev", "lo")
	busy, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct{ name, inter, peer, want string }{
		{"route that is taken", goodInterface, "AllowedIPs = 203.0.113.0/24", "route 203.0.113.0/24: another route to it exists"},
		{"port that is taken", goodInterface + fmt.Sprintf("ListenPort = %d\n", busy.LocalAddr().(*net.UDPAddr).Port), goodPeer, "ListenPort"},
		{"MTU out of range", goodInterface + "MTU = 4\n", goodPeer, "MTU"},
		{"Table", goodInterface + "Table = 42\n", goodPeer, "Table"},
		{"Offload", goodInterface + "Offload = gso,what\n", goodPeer, ".conf: Offload: \"what\": not an offload"},
		{"Memory", goodInterface + "Memory = 1M\n", goodPeer, "Memory: 1M: wrong value (expected bytes, or a number and K, M or G, at least 8M)"},
		{"name that nobody knows", goodInterface, "Endpoint = nosuch.invalid:1", "nosuch.invalid"},
		{"fault in the file", goodInterface, "AllowedIPs = 10.0.0.0/33", ".conf:"},
	} {
		for _, command := range []string{"up", "run"} {
			name := unique()
			_, stderr := runs(t, 1, wgd, command, writeConf(t, name, c.inter, c.peer))
			if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("%s, %s:\n got %q\nwant one line with %q", command, c.name, stderr, c.want)
			}
			nothingLeft(t, name)
		}
	}
	name := unique()
	long := filepath.Join(t.TempDir(), "sixteen-bytes-xx.conf")
	for _, path := range []string{long, "./" + name} {
		if _, stderr := runs(t, 1, wgd, "up", path); strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "name") {
			t.Errorf("%s: %q", path, stderr)
		}
	}
}

// Name servers that do not answer hold nobody up for long.
func TestResolveIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the name servers are given")
	}
	inNamespace(t)
	ip(t, "link", "set", "lo", "up")
	silent, err := net.ListenPacket("udp4", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	name := unique()
	path := writeConf(t, name, goodInterface, "Endpoint = peer.example:1")
	begin := time.Now()
	_, stderr := runs(t, 1, inMounts("mount -t tmpfs none /etc; for i in 1 2 3; do echo nameserver 127.0.0.1; done > /etc/resolv.conf", wgd, "run", path)...)
	if took := time.Since(begin); took > resolveTimeout+2*time.Second || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "peer.example") {
		t.Errorf("after %v: %q", took, stderr)
	}
	nothingLeft(t, name)
}
