package wgtool

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"wgd/conf"
)

const (
	testKey = "[Interface]\nPrivateKey = QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEA=\n"
	peerA   = "[Peer]\nPublicKey = AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n"
	peerB   = "[Peer]\nPublicKey = AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=\n"
	psk     = "PresharedKey = CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=\n"
)

func parse(t *testing.T, text string) *conf.Update {
	t.Helper()
	c, _, err := conf.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u, err := c.Update(nil)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// device is what a daemon makes of u.
func device(s *conf.State, u *conf.Update) {
	if u.PrivateKey != nil {
		s.PrivateKey = *u.PrivateKey
	}
	if u.ListenPort != nil {
		s.ListenPort = *u.ListenPort
	}
	if u.FirewallMark != nil {
		s.FirewallMark = *u.FirewallMark
	}
	if u.ReplacePeers {
		s.Peers = nil
	}
	for _, p := range u.Peers {
		i := slices.IndexFunc(s.Peers, func(q conf.PeerState) bool { return q.PublicKey == p.PublicKey })
		if p.Remove {
			if i >= 0 {
				s.Peers = slices.Delete(s.Peers, i, i+1)
			}
			continue
		}
		if i < 0 {
			i = len(s.Peers)
			s.Peers = append(s.Peers, conf.PeerState{PublicKey: p.PublicKey})
		}
		q := &s.Peers[i]
		if p.PresharedKey != nil {
			q.PresharedKey = *p.PresharedKey
		}
		if p.Endpoint != nil {
			q.Endpoint = *p.Endpoint
		}
		if p.PersistentKeepalive != nil {
			q.PersistentKeepalive = *p.PersistentKeepalive
		}
		if p.ReplaceAllowedIPs {
			q.AllowedIPs = nil
		}
		for _, a := range p.AllowedIPs {
			for j := range s.Peers {
				s.Peers[j].AllowedIPs = slices.DeleteFunc(s.Peers[j].AllowedIPs, func(x netip.Prefix) bool { return x == a.Prefix })
			}
			q.AllowedIPs = append(q.AllowedIPs, a.Prefix)
		}
	}
}

// summary is what an update touches.
func summary(u *conf.Update) string {
	var s []string
	if u.PrivateKey != nil {
		s = append(s, "key")
	}
	if u.ListenPort != nil {
		s = append(s, fmt.Sprint("port ", *u.ListenPort))
	}
	if u.FirewallMark != nil {
		s = append(s, fmt.Sprint("mark ", *u.FirewallMark))
	}
	if u.ReplacePeers {
		s = append(s, "all peers")
	}
	for _, p := range u.Peers {
		name := string('A' + rune(p.PublicKey[0]) - 2)
		if p.Remove {
			s = append(s, name+" goes")
			continue
		}
		if p.PresharedKey != nil {
			name += " psk"
		}
		if p.Endpoint != nil {
			name += " " + p.Endpoint.String()
		}
		if p.PersistentKeepalive != nil {
			name += fmt.Sprint(" every ", *p.PersistentKeepalive)
		}
		for _, a := range p.AllowedIPs {
			name += " " + a.Prefix.String()
		}
		s = append(s, name)
	}
	return strings.Join(s, "; ")
}

func TestSyncConfTouchesWhatDiffers(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to string
		want     string
	}{
		{"the same file changes nothing", testKey + "ListenPort = 5\n" + peerA + psk + "AllowedIPs = 10.0.0.0/8, fd00::/8\nEndpoint = 192.0.2.1:5\nPersistentKeepalive = 25\n",
			testKey + "ListenPort = 5\n" + peerA + psk + "AllowedIPs = 10.0.0.0/8, fd00::/8\nEndpoint = 192.0.2.1:5\nPersistentKeepalive = 25\n", ""},
		{"the order of allowed IPs does not count", testKey + peerA + "AllowedIPs = 10.0.0.0/8, fd00::/8\n", testKey + peerA + "AllowedIPs = fd00::/8, 10.0.0.0/8\n", ""},
		{"nor the order of peers", testKey + peerA + peerB, testKey + peerB + peerA, ""},
		{"a file without a port keeps it", testKey + "ListenPort = 5\n", testKey, ""},
		{"a file without a mark or key removes them", testKey + "FwMark = 5\n", "", "key; mark 0"},
		{"a learned endpoint stays", testKey + peerA + "Endpoint = 192.0.2.1:5\n", testKey + peerA, ""},
		{"another endpoint is set", testKey + peerA + "Endpoint = 192.0.2.1:5\n", testKey + peerA + "Endpoint = 192.0.2.1:6\n", "A 192.0.2.1:6"},
		{"a preshared key and keepalive that are left out go", testKey + peerA + psk + "PersistentKeepalive = 5\n", testKey + peerA, "A psk every 0"},
		{"peers come and go", testKey + peerA + "AllowedIPs = 10.0.0.0/8\n", testKey + peerB + "AllowedIPs = 10.0.0.0/8\n", "A goes; B 10.0.0.0/8"},
		{"allowed IPs move", testKey + peerA + "AllowedIPs = 10.0.0.0/8\n" + peerB, testKey + peerA + peerB + "AllowedIPs = 10.0.0.0/8\n", "A; B 10.0.0.0/8"},
		{"what two peers want is the last one's, whoever has it",
			testKey + peerA + "AllowedIPs = 10.0.0.0/8\n" + peerB + "AllowedIPs = 10.0.0.0/8\n", testKey + peerA + "AllowedIPs = 10.0.0.0/8\n" + peerB + "AllowedIPs = 10.0.0.0/8\n", ""},
		{"a peer may be there twice", testKey + peerA + "AllowedIPs = 10.0.0.0/8\n", testKey + peerA + "AllowedIPs = 10.0.0.0/8\nPersistentKeepalive = 5\n" + peerA + "AllowedIPs = 10.1.0.0/16, 10.1.0.0/16\n", "A every 5 10.1.0.0/16"},
	} {
		s, whole := new(conf.State), new(conf.State)
		device(s, parse(t, c.from))
		device(whole, parse(t, c.from))
		u := parse(t, c.to)
		diff(u, s)
		if got := summary(u); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		// It makes of the device what the file would, and then there is nothing left to do.
		device(s, u)
		again := parse(t, c.to)
		diff(again, s)
		if got := summary(again); got != "" {
			t.Errorf("%s: the second time it touches %q", c.name, got)
		}
		device(whole, parse(t, c.to))
		for i := range whole.Peers {
			p := &whole.Peers[i]
			j := slices.IndexFunc(s.Peers, func(q conf.PeerState) bool { return q.PublicKey == p.PublicKey })
			if j < 0 || fmt.Sprint(sorted(s.Peers[j].AllowedIPs)) != fmt.Sprint(sorted(p.AllowedIPs)) || s.Peers[j].PresharedKey != p.PresharedKey {
				t.Errorf("%s: peer %d is not as setconf makes it", c.name, i)
			}
		}
		if len(s.Peers) != len(whole.Peers) {
			t.Errorf("%s: %d peers, want %d", c.name, len(s.Peers), len(whole.Peers))
		}
	}
}

func sorted(prefixes []netip.Prefix) []string {
	var s []string
	for _, p := range prefixes {
		s = append(s, p.String())
	}
	slices.Sort(s)
	return s
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	var out, errs bytes.Buffer
	tool := &Tool{Stdout: &out, Stderr: &errs, Warn: func(s string) { errs.WriteString(s) }}
	for _, args := range [][]string{{"set"}, {"set", "wg0"}, {"setconf", "wg0"}, {"addconf"}, {"syncconf", "a", "b", "c"}, {"showconf"}, {"show", "a", "dump", "c"}, {"show", "interfaces", "dump"}} {
		known, err := tool.Run(args)
		if _, ok := err.(Usage); !known || !ok {
			t.Errorf("%v: known %v, %v; want a usage", args, known, err)
		}
	}
	if known, _ := tool.Run([]string{"wg0"}); known {
		t.Error("wg0 is a command")
	}
	if out.Len()+errs.Len() != 0 {
		t.Errorf("wrote %q, %q", &out, &errs)
	}
	// Keys that do not fit are not shown.
	const secret = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk"
	for _, args := range [][]string{{"set", "wg0", "peer", secret}, {"set", "wg0", "peer", secret + "=", "allowed-ips", secret}} {
		if _, err := tool.Run(args); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("error %v", err)
		}
	}
}
