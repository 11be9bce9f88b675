package test

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the socket answers to bytes that a client sends, and what the device is
// like afterwards. {1}, {2}... are public keys, {k} a private one.
func TestUAPI(t *testing.T) {
	t.Parallel()
	const ok, invalid = "errno=0\n", "errno=-22\n"
	for _, test := range []struct {
		name    string
		send    string
		replies []string // "get" stands for a whole reply to get=1
		has     []string // lines of a later get=1, in this order
		hasNot  []string
	}{
		{"a set and a get in one write are both answered (A07)",
			"set=1\nlisten_port=0\n\nget=1\n\n", []string{ok, "get"}, nil, nil},
		{"three operations in one write are answered in order",
			"get=1\n\nset=1\nfwmark=7\n\nget=1\n\n", []string{"get", ok, "get"}, []string{"fwmark=7"}, nil},
		{"an error on the last line undoes the lines before it (A08)",
			"set=1\nfwmark=9\npublic_key={1}\nallowed_ip=10.1.0.0/16\npersistent_keepalive_interval=nine\n\n", []string{invalid},
			nil, []string{"fwmark=9", "public_key={1}", "allowed_ip=10.1.0.0/16"}},
		{"an allowed IP without a length is refused whole (A08)",
			"set=1\npublic_key={1}\nallowed_ip=10.1.0.1\n\n", []string{invalid}, nil, []string{"public_key={1}"}},
		{"the connection works on after an error",
			"set=1\nnonsense=1\n\nset=1\nfwmark=3\n\n", []string{invalid, ok}, []string{"fwmark=3"}, nil},
		{"a peer may come before the private key (B19)",
			"set=1\npublic_key={1}\nallowed_ip=10.1.0.0/16\n\nset=1\nprivate_key={k}\n\n", []string{ok, ok},
			[]string{"private_key={k}", "public_key={1}", "allowed_ip=10.1.0.0/16"}, nil},
		{"an existing peer is updated in place (B18)",
			"set=1\npublic_key={1}\nendpoint=192.0.2.9:1\n\nset=1\npublic_key={1}\nendpoint=192.0.2.9:2\n\nset=1\npublic_key={1}\nendpoint=192.0.2.9:3\n\n",
			[]string{ok, ok, ok}, []string{"public_key={1}", "endpoint=192.0.2.9:3"}, []string{"endpoint=192.0.2.9:2"}},
		{"an IPv6 endpoint has brackets (B16)",
			"set=1\npublic_key={1}\nendpoint=[2001:db8::9]:51820\n\n", []string{ok}, []string{"endpoint=[2001:db8::9]:51820"}, nil},
		{"an IPv6 endpoint without brackets is refused (B16)",
			"set=1\npublic_key={1}\nendpoint=2001:db8::9:51820\n\n", []string{invalid}, nil, []string{"public_key={1}"}},
		{"a boolean is true or absent (B17)",
			"set=1\nreplace_peers=false\n\n", []string{invalid}, nil, nil},
		{"replace_peers leaves only the new ones",
			"set=1\npublic_key={1}\n\nset=1\nreplace_peers=true\npublic_key={2}\n\n", []string{ok, ok}, []string{"public_key={2}"}, []string{"public_key={1}"}},
		{"update_only adds nobody",
			"set=1\npublic_key={1}\nupdate_only=true\nallowed_ip=10.1.0.0/16\n\n", []string{ok}, nil, []string{"public_key={1}"}},
		{"remove removes",
			"set=1\npublic_key={1}\npublic_key={2}\n\nset=1\npublic_key={1}\nremove=true\n\n", []string{ok, ok}, []string{"public_key={2}"}, []string{"public_key={1}"}},
		{"an allowed IP moves to the peer that names it last (B25)",
			"set=1\npublic_key={1}\nallowed_ip=10.1.0.0/16\nallowed_ip=10.2.0.0/16\npublic_key={2}\nallowed_ip=10.3.0.0/16\n\nset=1\npublic_key={2}\nallowed_ip=10.1.0.0/16\n\n",
			[]string{ok, ok},
			[]string{"public_key={1}", "allowed_ip=10.2.0.0/16", "public_key={2}", "allowed_ip=10.1.0.0/16"}, nil},
		{"-prefix takes away exactly that one, and only from its owner (B25)",
			"set=1\npublic_key={1}\nallowed_ip=10.1.0.0/16\nallowed_ip=10.1.2.0/24\npublic_key={2}\nallowed_ip=10.2.0.0/16\n\n" +
				"set=1\npublic_key={1}\nallowed_ip=-10.1.0.0/16\nallowed_ip=-10.2.0.0/16\n\n",
			[]string{ok, ok},
			[]string{"public_key={1}", "allowed_ip=10.1.2.0/24", "public_key={2}", "allowed_ip=10.2.0.0/16"}, []string{"allowed_ip=10.1.0.0/16"}},
		{"host bits are masked",
			"set=1\npublic_key={1}\nallowed_ip=10.1.2.3/16\nallowed_ip=2001:db8::1/32\n\n", []string{ok}, []string{"allowed_ip=10.1.0.0/16"}, nil},
		{"an unknown operation is an error",
			"say=1\n\n", []string{invalid}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newHost(t).daemon(wgd(t))
			words := []string{"{k}", asHex(newKey().private)}
			for i := range 9 {
				words = append(words, fmt.Sprintf("{%d}", i), asHex(newKey().public))
			}
			fill := strings.NewReplacer(words...).Replace
			c := d.dial()
			defer c.Close()
			io.WriteString(c, fill(test.send))
			r := bufio.NewReader(c)
			for i, want := range test.replies {
				got := readReply(t, r)
				if want == "get" && strings.HasSuffix(got, ok) {
					continue
				}
				if got != want {
					t.Fatalf("reply %d: got %q, want %q", i, got, want)
				}
			}
			lines := strings.Split(d.uapi("get=1\n\n"), "\n")
			rest := lines
			for _, want := range test.has {
				i := slices.Index(rest, fill(want))
				if i < 0 {
					t.Fatalf("no %q in its place in\n%s", fill(want), strings.Join(lines, "\n"))
				}
				rest = rest[i+1:]
			}
			for _, bad := range test.hasNot {
				if slices.Contains(lines, fill(bad)) {
					t.Errorf("%q in\n%s", fill(bad), strings.Join(lines, "\n"))
				}
			}
		})
	}
}

// A client that begins a set and falls silent blocks nobody (A06).
func TestSilentClients(t *testing.T) {
	t.Parallel()
	d := newHost(t).daemon(wgd(t))
	for _, half := range []string{"", "s", "set=1\n", "set=1\nlisten_port=", "set=1\nfwmark=5\n", "get=1\n"} {
		c := d.dial()
		defer c.Close()
		io.WriteString(c, half)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if got := d.uapi("get=1\n\n"); strings.Contains(got, "fwmark=5") || !strings.HasSuffix(got, "errno=0\n") {
			t.Errorf("get: %q", got)
		}
		if got := d.uapi("set=1\nfwmark=6\n\n"); got != "errno=0\n" {
			t.Errorf("set: %q", got)
		}
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		t.Error("silent clients block a get and a set")
		<-done
	}
}

// A set that its client did not end with an empty line is none (A09).
func TestTruncatedSet(t *testing.T) {
	t.Parallel()
	d := newHost(t).daemon(wgd(t))
	key := asHex(newKey().public)
	for _, cut := range []string{"", "\n"} {
		c := d.dial()
		io.WriteString(c, "set=1\nfwmark=5\npublic_key="+key+"\nallowed_ip=14.0.0.0/8"+cut)
		c.CloseWrite()
		io.ReadAll(c)
		c.Close()
		if got := d.uapi("get=1\n\n"); strings.Contains(got, key) || strings.Contains(got, "fwmark=5") {
			t.Errorf("a set that was cut off before its end was applied:\n%s", got)
		}
	}
}

// Many clients at once, each with its own peer: all get in.
func TestManyClients(t *testing.T) {
	t.Parallel()
	d := newHost(t).daemon(wgd(t))
	const clients = 24
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			got := d.uapi(fmt.Sprintf("set=1\npublic_key=%s\nallowed_ip=10.%d.0.0/16\n\n", asHex(newKey().public), i))
			if got != "errno=0\n" {
				t.Errorf("client %d: %q", i, got)
			}
		})
	}
	wg.Wait()
	if got := len(d.get("public_key")); got != clients {
		t.Errorf("got %d peers, want %d", got, clients)
	}
}

// Peers keep the order in which they came, at each get (A10).
func TestPeerOrder(t *testing.T) {
	t.Parallel()
	d := newHost(t).daemon(wgd(t))
	var keys []string
	lines := ""
	for range 40 {
		keys = append(keys, asHex(newKey().public))
		lines += "public_key=" + keys[len(keys)-1] + "\n"
	}
	d.set(lines)
	for range 3 {
		if got := d.get("public_key"); !slices.Equal(got, keys) {
			t.Fatalf("got %v, want %v", got, keys)
		}
	}
	// an update moves nobody; a removal closes the gap
	d.set("public_key=" + keys[3] + "\npersistent_keepalive_interval=7\npublic_key=" + keys[5] + "\nremove=true\n")
	if got, want := d.get("public_key"), slices.Delete(slices.Clone(keys), 5, 6); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// A busy port fails the set and leaves the old sockets, the port and the tunnel
// (A05). The port that is set already is no change.
func TestListenPortInUse(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	a.ping(b.inner4, 1)
	first := a.handshake()
	for _, busy := range []string{"0.0.0.0:40000", "[::]:40001"} {
		a.udp(busy)
		number := busy[strings.LastIndex(busy, ":")+1:]
		if got := a.uapi("set=1\nfwmark=9\nlisten_port=" + number + "\n\n"); got != "errno=-98\n" {
			t.Errorf("listen_port=%s: got %q, want errno=-98 (EADDRINUSE)", number, got)
		}
		if got := a.value("listen_port"); got != port {
			t.Errorf("listen_port is now %s", got)
		}
		if got := a.value("fwmark"); got != "" {
			t.Errorf("the refused transaction left fwmark %s", got)
		}
		a.ping(b.inner4, 2)
	}
	if out, err := a.tryWg("set", "{if}", "listen-port", "40000"); err == nil {
		t.Errorf("wg set to a busy port succeeds: %s", out)
	}
	before := a.sockets()
	a.set("listen_port=" + port + "\n")
	if after := a.sockets(); !slices.Equal(before, after) {
		t.Errorf("sockets were %v, are %v", before, after)
	}
	a.ping(b.inner4, 2)
	if got := a.handshake(); got != first {
		t.Errorf("a new handshake was needed")
	}
	a.wg("set", "{if}", "listen-port", "40002")
	a.ping(b.inner4, 2)
}
