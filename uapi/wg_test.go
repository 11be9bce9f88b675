package uapi

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wgd/conf"
	"wgd/internal/loud"
)

// Stock wg(8) looks only into /var/run/wireguard, so this test serves a made-up
// interface name there. There is no such interface, and no traffic.
func TestStockWG(t *testing.T) {
	if _, err := exec.LookPath("wg"); err != nil {
		loud.Skip(t, "wg(8) is not installed")
	}
	if os.Geteuid() != 0 {
		loud.Skip(t, "wg(8) serves root only")
	}
	ifname := fmt.Sprintf("wgdt%d", os.Getpid())
	d := new(fakeDevice)
	l, err := Listen(ifname)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, &Server{Backend: d})

	wg := func(args ...string) string {
		t.Helper()
		var stderr bytes.Buffer
		cmd := exec.Command("wg", args...)
		cmd.Stderr = &stderr
		cmd.Env = append(os.Environ(), "WG_COLOR_MODE=never", "WG_HIDE_KEYS=never")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("wg %s: %v: %s%s", strings.Join(args, " "), err, out, stderr.String())
		}
		return string(out)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%s:\ngot\n%s\nwant\n%s", what, got, want)
		}
	}
	const tab = "\t"
	join := func(fields ...string) string { return strings.Join(fields, tab) + "\n" }

	var private, psk conf.Key
	copy(private[:], bytes.Repeat([]byte{0x40}, 32))
	copy(psk[:], bytes.Repeat([]byte{7}, 32))
	peer := func(n byte) string {
		var k conf.Key
		copy(k[:], bytes.Repeat([]byte{n}, 32))
		return k.String()
	}
	public := strings.TrimSpace(func() string {
		cmd := exec.Command("wg", "pubkey")
		cmd.Stdin = strings.NewReader(private.String() + "\n")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}())

	want("dump of an empty device", wg("show", ifname, "dump"), join("(none)", "(none)", "0", "off"))

	keyFile, pskFile := file("key", private.String()), file("psk", psk.String())
	wg("set", ifname, "listen-port", "51820", "fwmark", "0xca6c", "private-key", keyFile,
		"peer", peer(3), "preshared-key", pskFile, "endpoint", "192.0.2.1:5", "persistent-keepalive", "25",
		"allowed-ips", "10.0.0.3/32,fd00::/64",
		"peer", peer(2), "endpoint", "[fd99::2]:51820", "allowed-ips", "10.0.0.0/24")
	device := join(private.String(), public, "51820", "0xca6c")
	peer3 := join(peer(3), psk.String(), "192.0.2.1:5", "10.0.0.3/32,fd00::/64", "0", "0", "0", "25")
	peer2 := join(peer(2), "(none)", "[fd99::2]:51820", "10.0.0.0/24", "0", "0", "0", "off")
	want("dump after set", wg("show", ifname, "dump"), device+peer3+peer2)

	showconf := fmt.Sprintf("[Interface]\nListenPort = 51820\nFwMark = 0xca6c\nPrivateKey = %s\n\n"+
		"[Peer]\nPublicKey = %s\nPresharedKey = %s\nAllowedIPs = 10.0.0.3/32, fd00::/64\nEndpoint = 192.0.2.1:5\nPersistentKeepalive = 25\n\n"+
		"[Peer]\nPublicKey = %s\nAllowedIPs = 10.0.0.0/24\nEndpoint = [fd99::2]:51820\n", &private, peer(3), &psk, peer(2))
	for range 3 {
		want("showconf", wg("showconf", ifname), showconf)
	}

	// What wg shows is what conf reads and prints.
	c, warnings, err := conf.Parse("showconf", []byte(showconf))
	if err != nil || len(warnings) != 0 {
		t.Fatalf("showconf: %v %v", err, warnings)
	}
	want("conf of showconf", c.String(), showconf)

	// A peer changes in place, keeps its position, and a moved address is taken.
	wg("set", ifname, "peer", peer(3), "endpoint", "192.0.2.9:6")
	wg("set", ifname, "peer", peer(2), "allowed-ips", "10.0.0.3/32,10.0.0.0/24", "persistent-keepalive", "0")
	d.mu.Lock()
	d.state.Peers[0].LastHandshake = time.Unix(1_800_000_000, 5)
	d.state.Peers[0].RxBytes, d.state.Peers[0].TxBytes = 1<<40, 148
	d.mu.Unlock()
	peer3 = join(peer(3), psk.String(), "192.0.2.9:6", "fd00::/64", "1800000000", "1099511627776", "148", "25")
	peer2 = join(peer(2), "(none)", "[fd99::2]:51820", "10.0.0.3/32,10.0.0.0/24", "0", "0", "0", "off")
	want("dump after changes", wg("show", ifname, "dump"), device+peer3+peer2)
	if out := wg("show", ifname); !strings.Contains(out, "transfer: 1.00 TiB received, 148 B sent") {
		t.Errorf("show: %s", out)
	}

	// addconf adds, syncconf changes only what differs, setconf replaces all.
	wg("addconf", ifname, file("add", "[Peer]\nPublicKey = "+peer(4)+"\nAllowedIPs = 10.0.4.0/24\n"))
	peer4 := join(peer(4), "(none)", "(none)", "10.0.4.0/24", "0", "0", "0", "off")
	want("dump after addconf", wg("show", ifname, "dump"), device+peer3+peer2+peer4)

	sync := fmt.Sprintf("[Interface]\nPrivateKey = %s\nListenPort = 51821\n[Peer]\nPublicKey = %s\nAllowedIPs = 10.0.4.0/24\n[Peer]\nPublicKey = %s\nPresharedKey = %s\nAllowedIPs = fd00::/64\nEndpoint = 192.0.2.9:6\n",
		&private, peer(4), peer(3), &psk)
	wg("syncconf", ifname, file("sync", sync))
	d.mu.Lock()
	if n := len(d.state.Peers); n != 2 || d.state.Peers[0].LastHandshake.IsZero() {
		t.Errorf("after syncconf: %d peers, handshake of the first %v; want 2 peers, the first untouched", n, d.state.Peers[0].LastHandshake)
	}
	d.mu.Unlock()

	wg("setconf", ifname, file("set", sync))
	want("dump after setconf", wg("show", ifname, "dump"), join(private.String(), public, "51821", "off")+
		peer4+join(peer(3), psk.String(), "192.0.2.9:6", "fd00::/64", "0", "0", "0", "off"))

	// Our own setconf means the same as wg's.
	c, _, err = conf.Parse("sync", []byte(sync))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := c.Update(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := new(fakeDevice)
	if err := e.Configure(ours); err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	for _, x := range []struct {
		buf *bytes.Buffer
		dev *fakeDevice
	}{{&a, d}, {&b, e}} {
		p := newPrinter(x.buf)
		p.state(x.dev.State())
		p.close()
	}
	want("our setconf", b.String(), a.String())

	// wg shows the daemon's reason. The number is that of the machine; EBUSY is the
	// same on those of an emulated test and its host.
	d.failWith(syscall.EBUSY)
	out, err := exec.Command("wg", "set", ifname, "listen-port", "1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Device or resource busy") {
		t.Errorf("wg set that fails: %v %s", err, out)
	}
	d.failWith(nil)

	// A zone is shown as wg resolves it.
	zone := netip.MustParseAddrPort("[fe80::1%lo]:51820")
	d.Configure(&conf.Update{ReplacePeers: true, Peers: []conf.PeerUpdate{{Endpoint: &zone}}})
	if out := wg("show", ifname, "endpoints"); !strings.HasSuffix(out, tab+"[fe80::1%lo]:51820\n") {
		t.Errorf("endpoint with a zone: %s", out)
	}
	wg("set", ifname, "peer", peer(3), "remove")
}
