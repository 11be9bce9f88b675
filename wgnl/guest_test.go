//go:build guest

// TestGuest needs a kernel with WireGuard and a network of its own: test/guest runs it,
// where it must not be skipped.
package wgnl

import (
	"bytes"
	"crypto/ecdh"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wgd/conf"
)

// dumpOf is s as wg show dump prints it.
func dumpOf(t *testing.T, s *conf.State) string {
	or := func(isThere bool, s, otherwise string) string {
		if isThere {
			return s
		}
		return otherwise
	}
	private, public := "(none)", "(none)"
	if !s.PrivateKey.IsZero() {
		k, err := ecdh.X25519().NewPrivateKey(s.PrivateKey[:])
		if err != nil {
			t.Fatal(err)
		}
		private, public = s.PrivateKey.String(), conf.Key(k.PublicKey().Bytes()).String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\t%s\t%d\t%s\n", private, public, s.ListenPort, or(s.FirewallMark != 0, fmt.Sprintf("%#x", s.FirewallMark), "off"))
	for i := range s.Peers {
		p := &s.Peers[i]
		var ips []string
		for _, prefix := range p.AllowedIPs {
			ips = append(ips, prefix.String())
		}
		at := int64(0)
		if !p.LastHandshake.IsZero() {
			at = p.LastHandshake.Unix()
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", p.PublicKey, or(!p.PresharedKey.IsZero(), p.PresharedKey.String(), "(none)"),
			or(p.Endpoint.IsValid(), p.Endpoint.String(), "(none)"), or(len(ips) > 0, strings.Join(ips, ","), "(none)"),
			at, p.RxBytes, p.TxBytes, or(p.PersistentKeepalive != 0, fmt.Sprint(p.PersistentKeepalive), "off"))
	}
	return b.String()
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func dial(t *testing.T, ifname string) *Client {
	t.Helper()
	c, err := Dial(ifname)
	if err != nil {
		t.Fatalf("%s: %v", ifname, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// sameAsWg compares what we read with what wg reads. Traffic may come between.
func sameAsWg(t *testing.T, ifname string) *conf.State {
	t.Helper()
	c := dial(t, ifname)
	for try := 0; ; try++ {
		before, err := c.Get()
		if err != nil {
			t.Fatalf("%s: %v", ifname, err)
		}
		want := run(t, "wg", "show", ifname, "dump")
		after, err := c.Get()
		if err != nil {
			t.Fatalf("%s: %v", ifname, err)
		}
		if !reflect.DeepEqual(before, after) && try < 20 {
			continue
		}
		if got := dumpOf(t, after); got != want {
			t.Fatalf("%s: got\n%s\nwg has\n%s", ifname, got, want)
		}
		wiped(t, c)
		return after
	}
}

// wiped sees to it that no answer, and no request that came back, is left in memory.
func wiped(t *testing.T, c *Client) {
	t.Helper()
	buf := reflect.ValueOf(c.conn).Elem().FieldByName("buf")
	if b := buf.Slice(0, buf.Len()).Bytes(); len(b) == 0 || len(bytes.Trim(b, "\x00")) != 0 {
		t.Errorf("%s: the buffer holds an answer", c.ifname)
	}
}

func TestGuest(t *testing.T) {
	// What is there already has had traffic.
	names, err := Interfaces()
	if want := strings.Fields(run(t, "wg", "show", "interfaces")); err != nil || !slices.Equal(names, want) || len(names) == 0 {
		t.Fatalf("interfaces: got %v, %v, wg has %v", names, err, want)
	}
	for _, name := range names {
		for _, p := range sameAsWg(t, name).Peers {
			if p.LastHandshake.IsZero() || p.RxBytes == 0 || p.TxBytes == 0 {
				t.Errorf("%s has had no traffic: %v", name, p)
			}
		}
	}

	for _, name := range []string{"wga", "wgb"} {
		run(t, "ip", "link", "add", name, "type", "wireguard")
		sameAsWg(t, name)
	}
	names, err = Interfaces()
	if want := strings.Fields(run(t, "wg", "show", "interfaces")); err != nil || !slices.Equal(names, want) || len(names) < 3 {
		t.Errorf("interfaces: got %v, %v, wg has %v", names, err, want)
	}

	// wg sets. The second peer has more than fits into one message, and so have all of them.
	var file strings.Builder
	s := testState()
	fmt.Fprintf(&file, "[Interface]\nPrivateKey = %s\nListenPort = 12345\nFwMark = 0xfedc1234\n", s.PrivateKey)
	endpoints := []string{"192.0.2.7:258", "[fe80::7%eth0]:65535", "[2001:db8::1]:1"}
	for i, p := range s.Peers {
		fmt.Fprintf(&file, "[Peer]\nPublicKey = %s\nPersistentKeepalive = %d\n", p.PublicKey, i)
		if i%2 == 0 {
			fmt.Fprintf(&file, "PresharedKey = %s\n", testKey(1000+i))
		}
		if i < len(endpoints) {
			fmt.Fprintf(&file, "Endpoint = %s\n", endpoints[i])
		}
		for _, prefix := range p.AllowedIPs {
			fmt.Fprintf(&file, "AllowedIPs = %s\n", prefix)
		}
	}
	if err := os.WriteFile("wga.conf", []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "wg", "setconf", "wga", "wga.conf")
	a := sameAsWg(t, "wga")
	if len(a.Peers) != len(s.Peers) || len(a.Peers[2].AllowedIPs) != 700 || a.Peers[1].Endpoint.Addr().Zone() != "eth0" || a.FirewallMark != 0xfedc1234 {
		t.Errorf("wg set something else: %d peers, %d allowed IPs, %v", len(a.Peers), len(a.Peers[2].AllowedIPs), a.Peers[1].Endpoint)
	}

	// We set: all of that, on the other interface, which has something else.
	run(t, "wg", "set", "wgb", "peer", testKey(9999).String(), "allowed-ips", "10.1.2.0/24")
	b := dial(t, "wgb")
	set := func(u *conf.Update) {
		t.Helper()
		if err := b.Set(u); err != nil {
			t.Errorf("set: %v", err)
		}
		sameAsWg(t, "wgb")
	}
	set(whole(a))
	if got, want := run(t, "wg", "show", "wgb", "dump"), run(t, "wg", "show", "wga", "dump"); got != want {
		t.Errorf("set: got\n%s\nwant\n%s", got, want)
	}

	// Each part, in turn by us and by wg on the other one. Ten peers are enough.
	few := conf.State{PrivateKey: a.PrivateKey, ListenPort: a.ListenPort, FirewallMark: a.FirewallMark, Peers: a.Peers[:10]}
	if err := dial(t, "wga").Set(whole(&few)); err != nil {
		t.Error(err)
	}
	set(whole(&few))
	port, mark, none, off := uint16(2345), uint32(0), conf.Key{}, uint16(0)
	key := func(i int) conf.Key { return s.Peers[i].PublicKey }
	endpoint := netip.MustParseAddrPort("[2001:db8::9]:9")
	for _, c := range []struct {
		u  conf.Update
		wg []string
	}{
		{conf.Update{ListenPort: &port, FirewallMark: &mark}, []string{"listen-port", "2345", "fwmark", "off"}},
		{conf.Update{PrivateKey: &none}, []string{"private-key", "/dev/null"}},
		{conf.Update{Peers: []conf.PeerUpdate{{PublicKey: key(7), Remove: true}, {PublicKey: testKey(8888), Remove: true}}},
			[]string{"peer", key(7).String(), "remove"}},
		{conf.Update{Peers: []conf.PeerUpdate{{PublicKey: testKey(7777), UpdateOnly: true, Endpoint: &endpoint}}}, nil},
		{conf.Update{Peers: []conf.PeerUpdate{{PublicKey: key(0), PresharedKey: &none, PersistentKeepalive: &off, Endpoint: &endpoint, UpdateOnly: true}}},
			[]string{"peer", key(0).String(), "preshared-key", "/dev/null", "persistent-keepalive", "off", "endpoint", "[2001:db8::9]:9"}},
		{conf.Update{Peers: []conf.PeerUpdate{{PublicKey: key(2), ReplaceAllowedIPs: true, AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("10.77.0.0/16")}, {Prefix: netip.MustParsePrefix("fd77::/16")}}}}},
			[]string{"peer", key(2).String(), "allowed-ips", "10.77.0.0/16,fd77::/16"}},
		{conf.Update{Peers: []conf.PeerUpdate{{PublicKey: key(3), ReplaceAllowedIPs: true}, {PublicKey: key(4), ReplaceAllowedIPs: true, AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("10.77.0.0/16")}}}}},
			[]string{"peer", key(3).String(), "allowed-ips", "", "peer", key(4).String(), "allowed-ips", "10.77.0.0/16"}},
		{conf.Update{}, nil},
	} {
		set(&c.u)
		if c.wg != nil {
			run(t, "wg", append([]string{"set", "wga"}, c.wg...)...)
		}
		if got, want := run(t, "wg", "show", "wgb", "dump"), run(t, "wg", "show", "wga", "dump"); got != want {
			t.Fatalf("%v: got\n%s\nwg made\n%s", c.wg, got, want)
		}
	}

	// Without ReplaceAllowedIPs they are added; some kernels can take one away.
	add := netip.MustParsePrefix("10.78.0.0/16")
	set(&conf.Update{Peers: []conf.PeerUpdate{{PublicKey: key(2), AllowedIPs: []conf.AllowedIP{{Prefix: add}}}}})
	has := func() int {
		return strings.Count(run(t, "wg", "show", "wgb", "allowed-ips"), add.String())
	}
	if has() != 1 {
		t.Errorf("%v is there %d times", add, has())
	}
	err = b.Set(&conf.Update{Peers: []conf.PeerUpdate{{PublicKey: key(2), AllowedIPs: []conf.AllowedIP{{Prefix: add, Remove: true}}}}})
	t.Logf("taking one allowed IP away: %v", err)
	if (err == nil) != (has() == 0) || err != nil && !strings.Contains(err.Error(), "6.16") {
		t.Errorf("taking one away: %v, and it is there %d times", err, has())
	}
	set(&conf.Update{ReplacePeers: true})
	if got := run(t, "wg", "show", "wgb", "peers"); got != "" {
		t.Errorf("left: %s", got)
	}

	// Refusals.
	set(&conf.Update{ListenPort: &off})
	run(t, "ip", "link", "set", "wga", "up")
	run(t, "ip", "link", "set", "wgb", "up")
	taken, _ := strconv.Atoi(strings.TrimSpace(run(t, "wg", "show", "wga", "listen-port")))
	port = uint16(taken)
	for _, c := range []struct {
		ifname string
		u      *conf.Update
		want   string
		errno  unix.Errno
	}{
		{"nosuch", nil, "no such device", unix.ENODEV},
		{"nosuch", &conf.Update{}, "no such device", unix.ENODEV},
		{"lo", nil, "not a WireGuard interface", unix.EOPNOTSUPP},
		{"lo", &conf.Update{}, "not a WireGuard interface", unix.EOPNOTSUPP},
		{"wgb", &conf.Update{ListenPort: &port}, fmt.Sprintf("port %d is in use", port), unix.EADDRINUSE},
		// The kernel returns all of a large request, and that must not be waited for.
		{"lo", whole(s), "not a WireGuard interface", unix.EOPNOTSUPP},
	} {
		client := dial(t, c.ifname)
		if c.u == nil {
			_, err = client.Get()
		} else {
			err = client.Set(c.u)
		}
		if err == nil || err.Error() != c.want || !errors.Is(err, c.errno) {
			t.Errorf("%s: got %v, want %s", c.ifname, err, c.want)
		}
		wiped(t, client)
	}

	// Capabilities are of a thread: this one ends with its goroutine.
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- err
			return
		}
		c, err := Dial("wga")
		if err == nil {
			defer c.Close()
			if _, err = c.Get(); errors.Is(err, unix.EPERM) {
				err = c.Set(&conf.Update{})
			}
		}
		done <- err
	}()
	if err := <-done; !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("without capabilities: %v", err)
	}
}
