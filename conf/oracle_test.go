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
	"wgd/internal/oracle"
	"wgd/uapi"
)

const (
	private = oracle.Private
	public  = oracle.Public
	peerA   = oracle.PeerA
	peerB   = oracle.PeerB

	iface = "[Interface]\nPrivateKey = " + private + "\nListenPort = 51820\n"
	peer  = iface + "[Peer]\nPublicKey = " + peerA + "\n"
)

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
	for _, row := range oracle.Rows {
		t.Run(row.Name, func(t *testing.T) {
			if (row.Wg != "") != (row.Why != "") {
				t.Fatal("a difference needs its reason")
			}
			c, _, err := conf.Parse("f", []byte(row.In))
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
			if isError := strings.HasPrefix(row.Want, "f:") || strings.HasPrefix(row.Want, "endpoint"); isError != (err != nil) ||
				isError && !strings.HasPrefix(got, row.Want) || !isError && got != row.Want {
				t.Errorf("\n got %s\nwant %s", got, row.Want)
			}
			for _, secret := range []string{private, peerA[:42], peerA[2:]} {
				if err != nil && strings.Contains(err.Error(), secret) && row.Name != "Endpoint unresolvable host" {
					t.Errorf("the error shows a key: %v", err)
				}
			}
		})
	}
	if len(oracle.Rows) != 60 {
		t.Errorf("%d rows, want 60", len(oracle.Rows))
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
	for _, row := range oracle.Rows {
		if row.Name == "Endpoint unresolvable host" {
			continue // wg asks the network, for long
		}
		t.Run(row.Name, func(t *testing.T) {
			want := row.Want
			if row.Wg != "" {
				want = row.Wg
			}
			if strings.HasPrefix(want, "f:") {
				want = "error"
			}
			if got := wg(row.In); got != want {
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
