package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Stock wg against the daemon: each of its commands.
func TestStockWg(t *testing.T) {
	t.Parallel()
	d := newHost(t).daemon(wgd(t))
	me, one, two := newKey(), newKey(), newKey()
	psk := newPSK()

	shows := func(want ...string) {
		t.Helper()
		got := strings.TrimSpace(d.wg("show", "{if}", "dump"))
		for i, line := range strings.Split(got, "\n") {
			if i >= len(want) || line != want[i] {
				t.Fatalf("wg show dump: got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		}
		if n := strings.Count(got, "\n") + 1; n != len(want) {
			t.Fatalf("wg show dump: got %d lines, want %d:\n%s", n, len(want), got)
		}
	}
	line := func(fields ...string) string { return strings.Join(fields, "\t") }

	d.wg("set", "{if}", "private-key", file(t, "k", me.private), "listen-port", "12345", "fwmark", "0x42",
		"peer", one.public, "preshared-key", file(t, "p", psk), "endpoint", "192.0.2.7:1000", "persistent-keepalive", "25", "allowed-ips", "10.1.0.0/16,fd01::/64",
		"peer", two.public, "endpoint", "[2001:db8::7]:2000", "allowed-ips", "10.2.0.0/16")
	shows(line(me.private, me.public, "12345", "0x42"),
		line(one.public, psk, "192.0.2.7:1000", "10.1.0.0/16,fd01::/64", "0", "0", "0", "25"),
		line(two.public, "(none)", "[2001:db8::7]:2000", "10.2.0.0/16", "0", "0", "0", "off"))
	for _, show := range []struct{ what, want string }{
		{"public-key", me.public}, {"private-key", me.private}, {"listen-port", "12345"}, {"fwmark", "0x42"},
		{"peers", one.public + "\n" + two.public},
		{"preshared-keys", line(one.public, psk) + "\n" + line(two.public, "(none)")},
		{"endpoints", line(one.public, "192.0.2.7:1000") + "\n" + line(two.public, "[2001:db8::7]:2000")},
		{"allowed-ips", line(one.public, "10.1.0.0/16 fd01::/64") + "\n" + line(two.public, "10.2.0.0/16")},
		{"latest-handshakes", line(one.public, "0") + "\n" + line(two.public, "0")},
		{"persistent-keepalive", line(one.public, "25") + "\n" + line(two.public, "off")},
		{"transfer", line(one.public, "0", "0") + "\n" + line(two.public, "0", "0")},
	} {
		if got := strings.TrimSpace(d.wg("show", "{if}", show.what)); got != show.want {
			t.Errorf("wg show %s: got\n%s\nwant\n%s", show.what, got, show.want)
		}
	}
	d.wg("show", "{if}")
	if got := d.wg("show", "interfaces"); !strings.Contains(got, d.ifname) {
		t.Errorf("wg show interfaces: no %s in %q", d.ifname, got)
	}

	// what showconf prints, setconf takes, and nothing changes, three times over (A10)
	saved := d.wg("showconf", "{if}")
	for range 3 {
		d.wg("setconf", "{if}", file(t, "c", saved))
		if got := d.wg("showconf", "{if}"); got != saved {
			t.Fatalf("setconf of showconf's output changed it: got\n%s\nwant\n%s", got, saved)
		}
	}

	// syncconf: one peer goes, one changes, one comes
	three := newKey()
	d.wg("syncconf", "{if}", file(t, "c", "[Interface]\nPrivateKey = "+me.private+"\nListenPort = 12345\n"+
		"[Peer]\nPublicKey = "+two.public+"\nAllowedIPs = 10.5.0.0/16\nEndpoint = [2001:db8::7]:2000\n"+
		"[Peer]\nPublicKey = "+three.public+"\nAllowedIPs = 10.3.0.0/16\n"))
	shows(line(me.private, me.public, "12345", "off"),
		line(two.public, "(none)", "[2001:db8::7]:2000", "10.5.0.0/16", "0", "0", "0", "off"),
		line(three.public, "(none)", "(none)", "10.3.0.0/16", "0", "0", "0", "off"))

	// addconf adds and moves allowed IPs
	d.wg("addconf", "{if}", file(t, "c", "[Peer]\nPublicKey = "+one.public+"\nAllowedIPs = 10.3.0.0/16, 0.0.0.0/0, ::/0\n"))
	shows(line(me.private, me.public, "12345", "off"),
		line(two.public, "(none)", "[2001:db8::7]:2000", "10.5.0.0/16", "0", "0", "0", "off"),
		line(three.public, "(none)", "(none)", "(none)", "0", "0", "0", "off"),
		line(one.public, "(none)", "(none)", "10.3.0.0/16,0.0.0.0/0,::/0", "0", "0", "0", "off"))

	d.wg("set", "{if}", "peer", two.public, "remove", "peer", three.public, "remove", "peer", one.public, "allowed-ips", "")
	shows(line(me.private, me.public, "12345", "off"), line(one.public, "(none)", "(none)", "(none)", "0", "0", "0", "off"))
	d.wg("set", "{if}", "private-key", "/dev/null")
	shows(line("(none)", "(none)", "12345", "off"), line(one.public, "(none)", "(none)", "(none)", "0", "0", "0", "off"))
}

// The last handshake is a UNIX time (B21), and traffic is counted.
func TestHandshakeTimeAndCounters(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	before := time.Now().Unix()
	tun.a.ping(tun.b.inner4, 2)
	tun.a.transfer(tun.b.host, tun.b.inner4, 1<<20)
	for _, e := range []*end{tun.a, tun.b} {
		peer := strings.Split(strings.Split(e.wg("show", "{if}", "dump"), "\n")[1], "\t")
		at, _ := strconv.ParseInt(peer[4], 10, 64)
		if now := time.Now().Unix(); at < before || at > now {
			t.Errorf("latest handshake at %s, want from %d to %d", peer[4], before, now)
		}
		rx, _ := strconv.Atoi(peer[5])
		tx, _ := strconv.Atoi(peer[6])
		if sum := rx + tx; sum < 1<<20 || sum > 3<<20 || rx == 0 || tx == 0 {
			t.Errorf("after 1 MiB of TCP: received %d, sent %d bytes", rx, tx)
		}
	}
}

// Stock wg-quick brings the daemon up and down by its own means, with stock wg or with ours.
func TestStockWgQuick(t *testing.T) { stockWgQuick(t, false) }

func TestStockWgQuickWithOurWg(t *testing.T) { stockWgQuick(t, true) }

func stockWgQuick(t *testing.T, ourWg bool) {
	t.Parallel()
	daemon := wgd(t)
	a, b := newPair(t)
	ka, kb := newKey(), newKey()
	far := &end{b.daemon(daemon), kb, "10.9.0.2", "fd09::2"}
	far.wg("setconf", "{if}", file(t, "c", "[Interface]\nPrivateKey = "+kb.private+"\nListenPort = "+port+
		"\n[Peer]\nPublicKey = "+ka.public+"\nAllowedIPs = 10.8.0.1/32, fd08::1/128\n"))
	far.ip("addr add 10.9.0.2/32 dev "+far.ifname, "addr add fd09::2/128 dev "+far.ifname+" nodad", "link set "+far.ifname+" up",
		"route add 10.8.0.0/16 dev "+far.ifname, "route add fd08::/64 dev "+far.ifname)

	// resolvconf is a script here that notes how it was called: no test may touch /etc
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	os.WriteFile(filepath.Join(dir, "resolvconf"), []byte("#!/bin/sh\nnotes="+notes+`
echo "resolvconf $*" >>$notes
case $1 in
-a) cat >>$notes ;;
-l) echo nameserver 10.9.0.53 ;;
esac
`), 0o755)
	script, err := exec.LookPath("wg-quick")
	if err != nil {
		t.Fatal(err)
	}
	if ourWg {
		// It takes wg from its own directory first.
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		script = filepath.Join(dir, "wg-quick")
		os.WriteFile(script, text, 0o755)
		notes := filepath.Join(dir, "wg-was-called")
		os.WriteFile(filepath.Join(dir, "wg"), []byte("#!/bin/sh\necho $1 >>"+notes+"\nexec "+toolName(t)+` "$@"`+"\n"), 0o755)
		defer func() {
			called, _ := os.ReadFile(notes)
			for _, command := range []string{"setconf", "show", "showconf"} {
				if !strings.Contains(string(called), command+"\n") {
					t.Errorf("wg-quick has not called wg %s: %q", command, called)
				}
			}
		}()
	}
	ifname := unique("q")
	conf := filepath.Join(dir, ifname+".conf")
	text := fmt.Sprintf(`[Interface]
PrivateKey = %s
Address = 10.8.0.1/24, fd08::1/64
MTU = 1380
DNS = 10.9.0.53, example.org
PostUp = echo "up %%i" >>%s
PreDown = echo "down %%i" >>%s
SaveConfig = true

[Peer]
PublicKey = %s
AllowedIPs = 10.9.0.0/16, fd09::/64
Endpoint = %s:%s
PersistentKeepalive = 25
`, ka.private, notes, notes, kb.public, outerB, port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	quick := func(verb string) {
		t.Helper()
		a.run("env", "WG_QUICK_USERSPACE_IMPLEMENTATION="+daemon, "PATH="+dir+":"+os.Getenv("PATH"), script, verb, conf)
	}
	for range 2 {
		quick("up")
		if got := a.run("ip", "link", "show", ifname); !strings.Contains(got, "mtu 1380") {
			t.Errorf("no mtu 1380: %s", got)
		}
		if got := a.run("ip", "route", "get", "10.9.7.7"); !strings.Contains(got, "dev "+ifname) {
			t.Errorf("route of the allowed IPs: %s", got)
		}
		a.ping("10.9.0.2", 2)
		a.ping("fd09::2", 2)
		a.transfer(b, "10.9.0.2", 1<<20)
		quick("down")
		eventually(t, 5*time.Second, "the daemon is gone", func() bool {
			_, err := os.Stat(socketDir + ifname + ".sock")
			return err != nil && a.processes() == 0
		})
		if out, err := a.try("ip", "link", "show", ifname); err == nil {
			t.Errorf("down left the interface: %s", out)
		}
	}
	noted, _ := os.ReadFile(notes)
	for _, want := range []string{"up " + ifname, "down " + ifname, "resolvconf -a " + ifname, "nameserver 10.9.0.53", "resolvconf -d " + ifname} {
		if strings.Count(string(noted), want) != 2 {
			t.Errorf("want %q twice in\n%s", want, noted)
		}
	}
	if kept, _ := os.ReadFile(conf); !strings.Contains(string(kept), kb.public) || !strings.Contains(string(kept), "Endpoint = "+outerB+":"+port) {
		t.Errorf("SaveConfig wrote\n%s", kept)
	}
}

// processes counts those that live in the host.
func (h *host) processes() int {
	return len(strings.Fields(command(h.t, "ip", "netns", "pids", h.name)))
}
