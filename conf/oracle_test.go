package conf_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"wgd/conf"
	"wgd/internal/loud"
	"wgd/uapi"
)

const (
	private = "QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEA="
	public  = "17XoHTNuV4sTuNcG6C0GHjA4yWvOZs3PUNVmuW3buhA="
	peerA   = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
	peerB   = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="

	iface = "[Interface]\nPrivateKey = " + private + "\nListenPort = 51820\n"
	peer  = iface + "[Peer]\nPublicKey = " + peerA + "\n"
)

// What wg setconf of wireguard-tools 1.0.20210914 makes of each file, measured,
// and what Parse makes of it. A result is the port, the mark, and endpoint,
// allowed IPs and keepalive of each peer; or the beginning of our error.
var oracle = []struct {
	name string
	in   string
	want string
	wg   string // if wg differs: its result, or "error"
	why  string // we differ
}{
	{name: "plain", in: peer + "AllowedIPs = 10.0.0.2/32\n", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "inline comment", in: peer + "AllowedIPs = 10.0.0.2/32 # one address\n", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "semicolon comment", in: peer + ";hi\nAllowedIPs = 10.0.0.2/32\n", want: "51820 off; (none) 10.0.0.2/32 off",
		wg: "error", why: "accepted with a warning: other programs write it"},
	{name: "lower-case keys/sections", in: strings.ToLower("[INTERFACE]\nLISTENPORT=51820\nprivatekey=") + private + "\n[pEER]\npublickey=" + peerA + "\nallowedips=10.0.0.2/32\n", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "spaces in section", in: strings.ReplaceAll(peer, "[Peer]", " [ Peer ] ") + "AllowedIPs = 10.0.0.2/32\n", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: `space inside key "Allowed IPs"`, in: peer + "Allowed IPs = 10.0.0.2/32\n", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "space inside value", in: peer + "AllowedIPs = 10. 0.0.2 /32\n", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "CRLF", in: strings.ReplaceAll(peer+"AllowedIPs = 10.0.0.2/32\n", "\n", "\r\n"), want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "UTF-8 BOM", in: "\ufeff" + peer + "AllowedIPs = 10.0.0.2/32\n", want: "51820 off; (none) 10.0.0.2/32 off",
		wg: "error", why: "accepted with a warning: editors write it, and do not show it"},
	{name: "no final newline", in: peer + "AllowedIPs = 10.0.0.2/32", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "tab indent", in: peer + "\tAllowedIPs\t=\t10.0.0.2/32\n", want: "51820 off; (none) 10.0.0.2/32 off"},
	{name: "NBSP around =", in: peer + "AllowedIPs\u00a0=\u00a010.0.0.2/32\n", want: "f:6:11: character U+00A0, which looks like a space or like nothing (expected a plain space)"},
	{name: "dup [Interface] last wins", in: peer + "AllowedIPs = 10.0.0.2/32\n[Interface]\nListenPort = 51999\n", want: "51999 off; (none) 10.0.0.2/32 off"},
	{name: "same peer twice", in: peer + "AllowedIPs = 10.0.0.2/32\n[Peer]\nPublicKey = " + peerA + "\nAllowedIPs = 10.0.0.3/32\n", want: "51820 off; (none) 10.0.0.3/32 off"},
	{name: "AllowedIPs twice", in: peer + "AllowedIPs = 10.0.0.2/32\nAllowedIPs = 10.0.0.3/32\n", want: "51820 off; (none) 10.0.0.2/32,10.0.0.3/32 off"},
	{name: "AllowedIPs empty", in: peer + "AllowedIPs =\n", want: "f:6:13: AllowedIPs: no address (expected 192.0.2.0/24 or 2001:db8::/32)"},
	{name: "AllowedIPs trailing comma", in: peer + "AllowedIPs = 10.0.0.2/32,\n", want: "f:6:26: AllowedIPs: no address"},
	{name: "AllowedIPs double comma", in: peer + "AllowedIPs = 10.0.0.2/32,,10.0.0.3/32\n", want: "f:6:26: AllowedIPs: no address"},
	{name: "AllowedIPs no mask", in: peer + "AllowedIPs = 10.0.0.2, fd00::2\n", want: "51820 off; (none) 10.0.0.2/32,fd00::2/128 off"},
	{name: "AllowedIPs host bits", in: peer + "AllowedIPs = 10.0.0.2/24\n", want: "51820 off; (none) 10.0.0.0/24 off"},
	{name: "AllowedIPs /33", in: peer + "AllowedIPs = 10.0.0.1, 10.0.0.2/33\n", want: "f:6:24: AllowedIPs: 10.0.0.2/33: prefix longer than 32 bits (expected "},
	{name: "AllowedIPs dotted mask", in: peer + "AllowedIPs = 10.0.0.0/255.255.255.0\n", want: "f:6:14: AllowedIPs: 10.0.0.0/255.255.255.0: prefix length is not a number (expected "},
	{name: "AllowedIPs 010.0.0.2", in: peer + "AllowedIPs = 010.0.0.2\n", want: "f:6:14: AllowedIPs: 010.0.0.2: not an address (expected "},
	{name: "AllowedIPs +/- prefix", in: peer + "AllowedIPs = +10.0.0.2\n", want: "f:6:14: AllowedIPs: +10.0.0.2: not an address (expected "},
	{name: "same ip on 2 peers", in: peer + "AllowedIPs = 10.0.0.2/32\n[Peer]\nPublicKey = " + peerB + "\nAllowedIPs = 10.0.0.2/32\n", want: "51820 off; (none) (none) off; (none) 10.0.0.2/32 off"},
	// It is the daemon that ignores this peer.
	{name: "peer == own key", in: strings.ReplaceAll(peer, peerA, public), want: "51820 off; (none) (none) off"},
	{name: "peer no pubkey", in: iface + "\n[Peer]\nAllowedIPs = 10.0.0.2/32\n", want: "f:5:1: PublicKey: missing in this [Peer] (expected one)"},
	{name: "key w/o padding", in: iface + "[Peer]\nPublicKey = " + peerA[:43] + "\n", want: "f:5:13: PublicKey: not a key (expected 44 characters of base64)"},
	{name: "key 43+junk", in: iface + "[Peer]\nPublicKey = " + peerA[:42] + "J=\n", want: "f:5:13: PublicKey: not a key (expected 44 characters of base64)"},
	{name: "key urlsafe b64", in: iface + "[Peer]\nPublicKey = -_" + peerA[2:] + "\n", want: "f:5:13: PublicKey: not a key (expected 44 characters of base64)"},
	{name: "PersistentKeepalive off", in: peer + "PersistentKeepalive = off\n", want: "51820 off; (none) (none) off"},
	{name: "PersistentKeepalive 65536", in: peer + "PersistentKeepalive = 65536\n", want: "f:6:23: PersistentKeepalive: 65536: out of range (expected off, or 0 to 65535 seconds)"},
	{name: "PersistentKeepalive 25s", in: peer + "PersistentKeepalive = 25s\n", want: "f:6:23: PersistentKeepalive: 25s: not a number (expected off, or 0 to 65535 seconds)"},
	{name: "FwMark 0xca6c", in: iface + "FwMark = 0xca6c\n", want: "51820 0xca6c"},
	{name: "FwMark 0XCA6C", in: iface + "FwMark = 0XCA6C\n", want: "f:4:10: FwMark: 0XCA6C: not a number (expected off, or 0 to 4294967295, or 0x0 to 0xffffffff)"},
	{name: "FwMark off", in: iface + "FwMark = off\n", want: "51820 off"},
	{name: "ListenPort 0", in: iface + "ListenPort = 0\n", want: "0 off"},
	{name: "ListenPort 65536", in: iface + "ListenPort = 65536\n", want: "f:4:14: ListenPort: 65536: out of range (expected 0 to 65535)",
		wg: "0 off", why: "wg takes it for 0, a port at random"},
	{name: "ListenPort domain (service name)", in: iface + "ListenPort = domain\n", want: "f:4:14: ListenPort: domain: not a number (expected 0 to 65535)",
		wg: "53 off", why: "what it means depends on the machine"},
	{name: "Endpoint v4", in: peer + "Endpoint = 1.2.3.4:5\n", want: "51820 off; 1.2.3.4:5 (none) off"},
	{name: "Endpoint port 0", in: peer + "Endpoint = 1.2.3.4:0\n", want: "51820 off; 1.2.3.4:0 (none) off"},
	{name: "Endpoint no port", in: peer + "Endpoint = 1.2.3.4\n", want: "f:6:12: Endpoint: 1.2.3.4: no port (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
	{name: "Endpoint port 65536", in: peer + "Endpoint = 1.2.3.4:65536\n", want: "f:6:12: Endpoint: 1.2.3.4:65536: port out of range 0 to 65535 (expected ",
		wg: "51820 off; 1.2.3.4:0 (none) off", why: "wg takes it for port 0"},
	{name: "Endpoint v6 bare", in: peer + "Endpoint = fd99::2:51820\n", want: "51820 off; [fd99::2]:51820 (none) off"},
	{name: "Endpoint v6 brackets", in: peer + "Endpoint = [fd99::2]:51820\n", want: "51820 off; [fd99::2]:51820 (none) off"},
	{name: "Endpoint v6 zone name", in: peer + "Endpoint = [fe80::1%lo]:51820\n", want: "51820 off; [fe80::1%lo]:51820 (none) off"},
	{name: "Endpoint v6 zone num", in: peer + "Endpoint = [fe80::1%1]:51820\n", want: "51820 off; [fe80::1%1]:51820 (none) off",
		wg: "51820 off; [fe80::1%lo]:51820 (none) off", why: "the same: zones are kept as they are written, and wg asks the kernel for the name"},
	{name: "Endpoint v4-mapped", in: peer + "Endpoint = [::ffff:1.2.3.4]:51820\n", want: "51820 off; [::ffff:1.2.3.4]:51820 (none) off"},
	{name: "Endpoint hostname localhost", in: peer + "Endpoint = localhost:51820\n", want: "51820 off; 127.0.0.1:51820 (none) off"},
	{name: "Endpoint unresolvable host", in: peer + "Endpoint = nope.invalid:51820\n", want: "endpoint of peer " + peerA + ": nope.invalid: no such host"},
	{name: "Endpoint service name port", in: peer + "Endpoint = 1.2.3.4:domain\n", want: "f:6:12: Endpoint: 1.2.3.4:domain: port is not a number (expected ",
		wg: "51820 off; 1.2.3.4:53 (none) off", why: "what it means depends on the machine"},
	{name: "Endpoint decimal ip", in: peer + "Endpoint = 16909060:5\n", want: "f:6:12: Endpoint: 16909060:5: not an IPv4 address of four decimal numbers (expected ",
		wg: "51820 off; 1.2.3.4:5 (none) off", why: "a typing error is likelier"},
	{name: "Address key (wg-quick) in setconf", in: iface + "Address = 10.0.0.1/24\n", want: "51820 off",
		wg: "error", why: "files of wg-quick are accepted as they are"},
	{name: "Memory and Offload in setconf", in: iface + "Memory = 32M\nOffload = gso,gro\n", want: "51820 off",
		wg: "error", why: "keys of ours"},
	{name: "unknown key", in: iface + "Foo = 1\n", want: "f:4:1: Foo: unknown key (expected one of PrivateKey, "},
	{name: "unknown section", in: iface + "[Foo]\n", want: "f:4:1: unknown section (expected [Interface] or [Peer])"},
	{name: "key before section", in: "ListenPort = 1\n", want: "f:1:1: ListenPort: stands before the first section (expected [Interface] or [Peer] above it)"},
	{name: "empty file", in: "", want: "0 off"},
	{name: "value with = only", in: iface + "ListenPort\n", want: "f:4:1: neither a section nor a key (expected Key = value)"},
	{name: "PSK zero", in: peer + "PresharedKey = AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", want: "51820 off; (none) (none) off"},
}

// outcome is the effect of a setconf on a device, in the table's words.
func outcome(u *conf.Update) string {
	mark := "off"
	if *u.FirewallMark != 0 {
		mark = fmt.Sprintf("%#x", *u.FirewallMark)
	}
	s := fmt.Sprintf("%d %s", *u.ListenPort, mark)
	if !u.ReplacePeers {
		s += " peers are kept"
	}
	type state struct {
		key       conf.Key
		endpoint  string
		ips       []netip.Prefix
		keepalive uint16
	}
	var peers []*state
	for _, p := range u.Peers {
		i := slices.IndexFunc(peers, func(q *state) bool { return q.key == p.PublicKey })
		if i < 0 {
			i = len(peers)
			peers = append(peers, &state{key: p.PublicKey, endpoint: "(none)"})
		}
		q := peers[i]
		if p.Endpoint != nil {
			q.endpoint = p.Endpoint.String()
		}
		if p.PersistentKeepalive != nil {
			q.keepalive = *p.PersistentKeepalive
		}
		if p.ReplaceAllowedIPs {
			q.ips = nil
		}
		for _, a := range p.AllowedIPs {
			for _, other := range peers {
				other.ips = slices.DeleteFunc(other.ips, func(x netip.Prefix) bool { return x == a.Prefix })
			}
			q.ips = append(q.ips, a.Prefix)
		}
	}
	for _, p := range peers {
		ips := "(none)"
		if len(p.ips) > 0 {
			ips = strings.ReplaceAll(strings.Trim(fmt.Sprint(p.ips), "[]"), " ", ",")
		}
		keepalive := "off"
		if p.keepalive != 0 {
			keepalive = fmt.Sprint(p.keepalive)
		}
		s += "; " + p.endpoint + " " + ips + " " + keepalive
	}
	return s
}

// resolve knows one name.
func resolve(e conf.Endpoint) (netip.AddrPort, error) {
	if e.Host == "localhost" {
		return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), e.Port), nil
	}
	return netip.AddrPort{}, fmt.Errorf("%s: no such host", e.Host)
}

func TestOracle(t *testing.T) {
	for _, row := range oracle {
		t.Run(row.name, func(t *testing.T) {
			if (row.wg != "") != (row.why != "") {
				t.Fatal("a difference needs its reason")
			}
			c, _, err := conf.Parse("f", []byte(row.in))
			var u *conf.Update
			if err == nil {
				u, err = c.Update(resolve)
			}
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = outcome(u)
			}
			if isError := strings.HasPrefix(row.want, "f:") || strings.HasPrefix(row.want, "endpoint"); isError != (err != nil) ||
				isError && !strings.HasPrefix(got, row.want) || !isError && got != row.want {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
			for _, secret := range []string{private, peerA[:42], peerA[2:]} {
				if err != nil && strings.Contains(err.Error(), secret) && row.name != "Endpoint unresolvable host" {
					t.Errorf("the error shows a key: %v", err)
				}
			}
		})
	}
	if len(oracle) != 60 {
		t.Errorf("%d rows, want 60", len(oracle))
	}
}

// A capture is a daemon that notes the effect of the last set.
type capture struct {
	mu  sync.Mutex
	got string
}

func (c *capture) Configure(u *conf.Update) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = outcome(u)
	return nil
}

// take returns what was noted and forgets it.
func (c *capture) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = "nothing"
	return got
}

func (c *capture) State() *conf.State { return new(conf.State) }

// stockWG returns what the wg of this machine makes of a file: an outcome or
// "error". The test is skipped if it is not the version that was measured.
func stockWG(t *testing.T) func(file string) string {
	t.Helper()
	version, err := exec.Command("wg", "--version").Output()
	if err != nil || !strings.Contains(string(version), "v1.0.20210914") {
		loud.Skip(t, "the measured version of wg(8) is not installed")
	}
	if os.Geteuid() != 0 {
		loud.Skip(t, "wg(8) serves root only")
	}
	ifname := fmt.Sprintf("wgdo%d", os.Getpid())
	l, err := uapi.Listen(ifname)
	if err != nil {
		t.Fatal(err)
	}
	daemon := new(capture)
	done := make(chan struct{})
	go func() { uapi.Serve(l, daemon); close(done) }()
	t.Cleanup(func() { l.Close(); <-done })
	path := filepath.Join(t.TempDir(), "f")
	return func(file string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		daemon.take()
		cmd := exec.Command("wg", "setconf", ifname, path)
		cmd.Env = append(os.Environ(), "WG_ENDPOINT_RESOLUTION_RETRIES=0")
		if err := cmd.Run(); err != nil {
			return "error"
		}
		got := daemon.take()
		if strings.Contains(file, "localhost") {
			got = strings.ReplaceAll(got, "[::1]:", "127.0.0.1:") // the machine says which is first
		}
		return got
	}
}

// The wg column is what wg does.
func TestOracleIsWG(t *testing.T) {
	wg := stockWG(t)
	for _, row := range oracle {
		if row.name == "Endpoint unresolvable host" {
			continue // wg asks the network, for long
		}
		t.Run(row.name, func(t *testing.T) {
			want := row.want
			if row.wg != "" {
				want = row.wg
			}
			if strings.HasPrefix(want, "f:") {
				want = "error"
			}
			if got := wg(row.in); got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

// The corners of each key: Parse accepts and means what wg does.
func TestLikeWG(t *testing.T) {
	wg := stockWG(t)
	for _, x := range []struct {
		prefix string
		values []string
	}{
		{iface + "ListenPort=", []string{"", "0051820", "-1", "0x10", "5 0", "off", "5#6", "5;6"}},
		{iface + "FwMark=", []string{"", "0", "010", "099", "0x", "0x0x10", "0x100000000", "4294967295", "4294967296", "OFF", "-1", "+1", "0xFFFFFFFF", "1 0", "0x-1"}},
		{iface + "PrivateKey=", []string{"", private[:4] + " " + private[4:], "off", "(none)"}},
		{peer + "PersistentKeepalive=", []string{"", "0", "025", "OFF", "65535", "+1", "-1", "1 2", "0x10"}},
		{peer + "PresharedKey=", []string{"", "(none)", "off"}},
		{peer + "AllowedIPs=", []string{"10.0.0.0/08", "10.0.0.0/", "10.0.0.0/ 8", "/8", "::/0", "0.0.0.0/0,::/0", "10.0.0.0/-1",
			"10.0.0.0/+8", "10.0.0.0/032", "::ffff:10.0.0.0/100", "::ffff:10.0.0.1", "fe80::1%lo/64", "10.0/8", "1:2:3:4:5:6:7::",
			"::1.2.3.4", "::01.2.3.4", "FD00::/8", "fd00::/129", "00fd::", "12345::", "10.0.0.0/8/8", "(none)",
			"10.0.0.0/99999999999999999999", "10.0.0.0/4294967328", ",10.0.0.1", "10.0.0.1;10.0.0.2", "1.2.3.4.", "1.2.3", "::1::"}},
		{peer + "Endpoint=", []string{"", "[1.2.3.4]:5", "[localhost]:5", "[::1]5", "[::1]:", "[::1]", "1.2.3.4:", "::1:5", "1.2.3.4:05",
			"fe80::1%lo:5", "[::1]x:5", "1.2.3.4:5 6", "[::1]:5]:6", "::ffff:1.2.3.4:9"}},
		{"", []string{
			peer + "PublicKey=" + peerB,
			peer + "Public\tKey=" + peerB,
			iface + "PublicKey=" + peerA,
			peer + "ListenPort=5",
			"[Peer]\nPublicKey=" + peerA + "\n" + iface,
			"[Interface", "[Interface]]", "[[Interface]]", "[Interface]x", "[Interface] ListenPort=5", "[Int erface]",
			"[Interface]#x\nListenPort=5#y", "#[Peer]\n" + iface, "\v\f[Interface]", "[Interface]\nListenPort==5", "[Interface]\n=5",
			"[Interface]\rListenPort=5", peer + "[Peer]", "[Peer]\n[Interface]",
			peer + "AllowedIPs=10.0.0.1\n[Interface]\nListenPort=7\n[Peer]\nPublicKey=" + peerA + "\nEndpoint=1.1.1.1:1",
			peer + "PublicKey=" + peerB + "\nAllowedIPs=10.0.0.3/32\n[Peer]\nPublicKey=" + peerA,
		}},
	} {
		for _, value := range x.values {
			file := x.prefix + value + "\n"
			got := "error"
			c, _, err := conf.Parse("f", []byte(file))
			if err == nil {
				u, err := c.Update(resolve)
				if err != nil {
					t.Fatal(err)
				}
				got = outcome(u)
			}
			if want := wg(file); got != want {
				t.Errorf("%q:\n got %s (%v)\nwant %s", file, got, err, want)
			}
		}
	}
}
