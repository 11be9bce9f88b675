package conf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const (
	testPrivate = "QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEA="
	testPeer    = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
	testOther   = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="
)

// A file as a provider sends it, with what wg-quick knows.
const provider = `# Device: router
[Interface]
PrivateKey = ` + testPrivate + `
Address = 10.2.0.2/32,fd00::2/128 , 10.3.0.1
address = 10.4.0.1/24
DNS = 10.2.0.1, example.com 2001:db8::53
MTU = 1420
Table = off
FwMark = 51820
PostUp = iptables -A FORWARD -i %i -j ACCEPT; echo "#1" # still the hook
PostUp=   second = hook
PreUp =
PreDown = true
PostDown = :
SaveConfig = TRUE
memory = 32 m
Offload = GSO, gro

[Peer]
PublicKey = ` + testPeer + `
AllowedIPs = 0.0.0.0/0, ::/0
Endpoint = vpn.example.com:51820
PersistentKeepalive = 25
`

func TestProviderFile(t *testing.T) {
	c, warnings, err := Parse("f", []byte(provider))
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	want := `[Interface]
Address = 10.2.0.2/32
Address = fd00::2/128
Address = 10.3.0.1/32
Address = 10.4.0.1/24
DNS = 10.2.0.1
DNS = 2001:db8::53
DNS = example.com
MTU = 1420
Table = off
SaveConfig = true
Memory = 33554432
Offload = gso,gro
PreDown = true
PostDown = :
FwMark = 0xca6c
PrivateKey = ` + testPrivate + `

[Peer]
PublicKey = ` + testPeer + `
AllowedIPs = 0.0.0.0/0, ::/0
Endpoint = vpn.example.com:51820
PersistentKeepalive = 25
`
	want = strings.Replace(want, "PreDown", "PostUp = iptables -A FORWARD -i %i -j ACCEPT; echo \"#1\" # still the hook\nPostUp = second = hook\nPreDown", 1)
	if got := c.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if e := c.Peers[0].Endpoint; e.Host != "vpn.example.com" || e.Port != 51820 {
		t.Errorf("endpoint %v", e)
	}
	if _, err := c.Update(nil); err == nil {
		t.Error("Update without a resolver took a name for an address")
	}
}

func TestErrors(t *testing.T) {
	const (
		iface = "[Interface]\n"
		peer  = "[Peer]\nPublicKey = " + testPeer + "\n"
	)
	for _, x := range []struct{ name, in, want string }{
		{"a key of the other section", iface + "Endpoint = 1.2.3.4:5\n", "f:2:1: Endpoint: does not belong in [Interface] (expected in [Peer])"},
		{"a hook in a peer", peer + "PostUp = true\n", "f:3:1: PostUp: does not belong in [Peer] (expected in [Interface])"},
		{"columns are characters", iface + "DNS = bücher.example, 10.0.0.1/24", "f:2:23: DNS: 10.0.0.1/24: not an address or domain (expected 192.0.2.53 or example.com)"},
		{"an address", iface + "Address = 10.0.0.1/24, 10.0.0.300\n", "f:2:24: Address: 10.0.0.300: not an address (expected 10.0.0.1/24 or 2001:db8::1/64)"},
		{"MTU too small", iface + "MTU = 67\n", "f:2:7: MTU: 67: out of range (expected 68 to 65535 bytes)"},
		{"table zero", iface + "Table = 0\n", "f:2:9: Table: 0: not a table (expected off, auto, or a routing table, 1 to 4294967295 or its name)"},
		{"SaveConfig", iface + "SaveConfig = yes\n", "f:2:14: SaveConfig: yes: wrong value (expected true or false)"},
		{"memory that is none", iface + "Memory = 32MB\n", "f:2:10: Memory: 32MB: wrong value (expected bytes, or a number and K, M or G, at least 8M)"},
		{"no memory", iface + "Memory =\n", "f:2:9: Memory: no value (expected bytes, or a number and K, M or G, at least 8M)"},
		{"no offloads", iface + "Offload =\n", "f:2:10: Offload: no value (expected all, none, or names between commas)"},
		{"offloads that are no names", iface + "Offload = a b;c\n", "f:2:11: Offload: ab;c: wrong value (expected all, none, or names between commas)"},
		{"memory of a peer", peer + "Memory = 32M\n", "f:3:1: Memory: does not belong in [Peer] (expected in [Interface])"},
		{"no value", iface + "ListenPort =\n", "f:2:13: ListenPort: no value (expected 0 to 65535)"},
		{"a host with a space character", peer + "Endpoint = a\u200bb:5\n", "f:3:13: Endpoint: character U+200B, which looks like a space or like nothing (expected a plain space)"},
		{"a control character", iface + "MTU = 1\x0020\n", "f:2:8: MTU: control character U+0000 (expected text)"},
		{"zero byte in a hook", iface + "PreUp = a\x00b\n", "f:2:10: PreUp: zero byte (expected a shell command)"},
		{"UTF-16", "\xff\xfe[\x00I\x00", "f:1:1: UTF-16 text (expected UTF-8)"},
		{"UTF-16 big-endian", "\xfe\xff\x00[\x00I", "f:1:1: UTF-16 text (expected UTF-8)"},
		{"a host name with a slash", peer + "Endpoint = a/b:5\n", "f:3:12: Endpoint: a/b:5: not a host name (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
		{"octal IPv4", peer + "Endpoint = 010.0.0.1:5\n", "f:3:12: Endpoint: 010.0.0.1:5: not an IPv4 address of four decimal numbers (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
		{"short IPv4", peer + "Endpoint = 1.2.3:5\n", "f:3:12: Endpoint: 1.2.3:5: not an IPv4 address of four decimal numbers (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
		{"hexadecimal IPv4", peer + "Endpoint = 0x1020304:5\n", "f:3:12: Endpoint: 0x1020304:5: not an IPv4 address of four decimal numbers (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
		{"three colons", peer + "Endpoint = [fd99:::2]:5\n", "f:3:12: Endpoint: [fd99:::2]:5: not an IPv6 address (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
		{"a zone that is no interface", peer + "Endpoint = fe80::1%a]:5\n", "f:3:12: Endpoint: fe80::1%a]:5: zone is not an interface (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
		{"a key too long to show", iface + strings.Repeat("x", 21) + " = 1\n", "f:2:1: unknown key (expected one of PrivateKey, ListenPort, FwMark, Address, DNS, MTU, Table, PreUp, PostUp, PreDown, PostDown, SaveConfig, Memory, Offload)"},
		{"port far out of range", peer + "Endpoint = a:99999999999999999999\n", "f:3:12: Endpoint: a:99999999999999999999: port out of range 0 to 65535 (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
		{"the first peer has no key", "[Peer]\n[Peer]\nPublicKey = " + testPeer, "f:1:1: PublicKey: missing in this [Peer] (expected one)"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, warnings, err := Parse("f", []byte(x.in))
			if err == nil || err.Error() != x.want {
				t.Errorf("\n got %v\nwant %s", err, x.want)
			}
			if c != nil || warnings != nil {
				t.Error("something is returned beside the error")
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	in := "\ufeff[Interface]\n ; old\n" +
		"[Peer]\nPublicKey = " + testPeer + "\nAllowedIPs = 10.0.0.0/24, 10.1.0.9/16\n" +
		"[Peer]\nPublicKey = " + testOther + "\nAllowedIPs = 10.1.0.0/16\n" +
		"[Peer]\nPublicKey = " + testPeer + "\nAllowedIPs = 10.0.0.0/24\n"
	_, warnings, err := Parse("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"f:1:1: byte order mark skipped (wg refuses the file with it)",
		"f:2:2: comment by ; (wg refuses the file with it; # is understood by all)",
		"f:5:27: AllowedIPs: 10.1.0.9/16 has bits behind its prefix, 10.1.0.0/16 is used",
		"f:8:14: AllowedIPs: 10.1.0.0/16 moves here from another peer above",
		"f:10:13: PublicKey: the peer of line 3 again; what is set last counts",
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A secret in the wrong place, whole or damaged, is in no message.
func TestMessagesShowNoSecret(t *testing.T) {
	const secret = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
	damaged := []string{secret, secret[:43], secret[:40], secret[:20] + " " + secret[20:], secret[6:22], secret + "=", "x" + secret, strings.ToLower(secret), secret + ":5", secret + "/24"}
	var lines []string
	for _, s := range damaged {
		lines = append(lines, s, s+" = 5", "["+s+"]", "PrivateKey"+s)
		for _, key := range []string{"PrivateKey", "ListenPort", "FwMark", "Address", "DNS", "MTU", "Table", "SaveConfig", "Memory", "Offload", "PublicKey", "PresharedKey", "AllowedIPs", "Endpoint", "PersistentKeepalive", "PrivatKey"} {
			lines = append(lines, key+" = "+s, key+s)
		}
	}
	for _, section := range []string{"", "[Interface]\n", "[Peer]\nPublicKey = " + testPeer + "\n"} {
		for _, line := range lines {
			_, warnings, err := Parse("f", []byte(section+line+"\n"))
			text := strings.ToLower(fmt.Sprint(err, warnings))
			if part := strings.ToLower(secret[8:20]); strings.Contains(text, part) {
				t.Errorf("%q: %s", section+line, text)
			}
		}
	}
}

func TestUpdateIsACopy(t *testing.T) {
	in := "[Interface]\nPrivateKey = " + testPrivate + "\n[Peer]\nPublicKey = " + testPeer + "\nPresharedKey = " + testOther + "\n"
	c, _, err := Parse("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	u, err := c.Update(nil)
	if err != nil {
		t.Fatal(err)
	}
	before := c.String()
	u.Wipe()
	if !u.PrivateKey.IsZero() || !u.Peers[0].PresharedKey.IsZero() {
		t.Error("Update.Wipe left a secret")
	}
	if c.String() != before {
		t.Error("Update shares secrets with its Config")
	}
	c.Wipe()
	if !c.Interface.PrivateKey.IsZero() || !c.Peers[0].PresharedKey.IsZero() {
		t.Error("Config.Wipe left a secret")
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wg0.conf")
	if err := os.WriteFile(path, []byte(provider), 0o600); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := Load(path)
	if err != nil || len(warnings) != 0 || len(c.Peers) != 1 {
		t.Fatal(err, warnings)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, warnings, _ = Load(path); len(warnings) != 1 || !strings.Contains(warnings[0].String(), "everybody can read") {
		t.Errorf("a file that all can read: %v", warnings)
	}
	if err := os.WriteFile(path, []byte("[Interface]\nMTU = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err = Load(path); err == nil || err.Error() != path+":2:7: MTU: x: not a number (expected 68 to 65535 bytes)" {
		t.Error(err)
	}
	if _, _, err = Load(path + "x"); !os.IsNotExist(err) {
		t.Error(err)
	}
	if err := os.Truncate(path, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err = Load(path); err == nil {
		t.Error("a file larger than the limit was read")
	}
}

func TestKey(t *testing.T) {
	k, err := ParseKey(testPeer)
	if err != nil || k.String() != testPeer || k.IsZero() {
		t.Fatal(k, err)
	}
	for _, s := range []string{"", testPeer[:43], testPeer + "=", testPeer[:42] + "J=", "-_" + testPeer[2:], testPeer[:20] + "\n" + testPeer[20:], testPeer[:43] + "\n", testPeer[:42] + "==", " " + testPeer[:43]} {
		if k, err := ParseKey(s); err == nil || k != (Key{}) {
			t.Errorf("ParseKey(%q) = %v, %v", s, k, err)
		}
	}
}

// 24,000 peers, and one peer with 20,000 addresses, take time and memory in
// proportion.
func TestManyPeers(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("[Interface]\n")
	const n = 24000
	for i := range n {
		k := Key{1, byte(i), byte(i >> 8)}
		fmt.Fprintf(&b, "[Peer]\nPublicKey = %s\nAllowedIPs = 10.%d.%d.%d/32\nEndpoint = 192.0.2.1:51820\n", k, i>>16, i>>8&255, i&255)
	}
	b.WriteString("[Peer]\nPublicKey = " + testPeer + "\nAllowedIPs = fd00::1")
	for i := range 20000 {
		fmt.Fprintf(&b, ", fd00::%x:1", i)
	}
	var c *Config
	allocs := testing.AllocsPerRun(1, func() {
		var err error
		if c, _, err = Parse("f", b.Bytes()); err != nil {
			t.Fatal(err)
		}
	})
	if len(c.Peers) != n+1 || len(c.Peers[n].AllowedIPs) != 20001 {
		t.Fatalf("%d peers, the last with %d addresses", len(c.Peers), len(c.Peers[n].AllowedIPs))
	}
	if per := allocs / (n + 20000); per > 20 {
		t.Errorf("%.0f allocations an item", per)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(provider))
	f.Add([]byte("\ufeff[peer]\nPublic Key=" + testPeer + "\r\nEndpoint=[fe80::1%lo]:5\nAllowedIPs=10.1.2.3/8,::ffff:1.2.3.4\nPresharedKey=" + testOther))
	f.Add([]byte("[Interface]\nTable=0x10\nMTU=\nFwMark=off\nListenPort=0\nDNS=\nSaveConfig=false\nMemory=64M\nOffload=all,ugro\nPreUp=a\rb\n;x\n[Peer]\n"))
	f.Add([]byte("[Interface]\nDNS=b\u00fccher.example\nTable=main\n[Peer]\nPublicKey=" + testPeer + "\nEndpoint=\u00fc.:5\nPersistentKeepalive=off\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, _, err := Parse("f", in)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("not an *Error: %v", err)
			}
			return
		}
		printed := a.String()
		b, _, err := Parse("f", []byte(printed))
		if err != nil {
			t.Fatalf("printed, it is refused: %v\n%s", err, printed)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("parse, print, parse:\n%s\nthen\n%s", printed, b)
		}
	})
}

func TestParseMemory(t *testing.T) {
	for in, want := range map[string]int64{
		"8388608": 8 << 20, "8M": 8 << 20, "8m": 8 << 20, "8192k": 8 << 20, "32M": 32 << 20, "1G": 1 << 30, "9223372036854775807": 1<<63 - 1,
		"": 0, "8388607": 0, "7M": 0, "8191K": 0, "-8M": 0, "+8M": 0, "8.5M": 0, "8MB": 0, "8MiB": 0, "8KM": 0, "M": 0, "0x8000000": 0, " 8M": 0,
		"9223372036854775808": 0, "8589934592G": 0, "99999999999999999999M": 0,
	} {
		got, err := ParseMemory(in)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: got %d, %v, want %d", in, got, err, want)
		}
	}
}
