package uapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"wgd/conf"
)

func hexKey(b byte) string { return strings.Repeat(fmt.Sprintf("%02x", b), conf.KeySize) }

// peerText is a peer as get shows it.
func peerText(key byte, endpoint, keepalive string, ips ...string) string {
	s := "public_key=" + hexKey(key) + "\nprotocol_version=1\n"
	if endpoint != "" {
		s += "endpoint=" + endpoint + "\n"
	}
	s += "last_handshake_time_sec=0\nlast_handshake_time_nsec=0\ntx_bytes=0\nrx_bytes=0\npersistent_keepalive_interval=" + keepalive + "\n"
	for _, ip := range ips {
		s += "allowed_ip=" + ip + "\n"
	}
	return s
}

// What a client sends, and what it reads until the server closes, which it does
// after the client has closed its sending side.
func TestTranscripts(t *testing.T) {
	const ok, invalid, protocol = "errno=0\n\n", "errno=-22\n\n", "errno=-71\n\n"
	pub := func(b byte) string { return "public_key=" + hexKey(b) + "\n" }
	for _, x := range []struct{ name, send, want string }{
		{"an empty device", "get=1\n\n", ok},
		{"every key of the interface", "set=1\nprivate_key=" + hexKey(1) + "\nlisten_port=51820\nfwmark=51820\nreplace_peers=true\n\nget=1\n\n",
			ok + "private_key=" + hexKey(1) + "\nlisten_port=51820\nfwmark=51820\n" + ok},
		{"zeros remove", "set=1\nprivate_key=" + hexKey(1) + "\nlisten_port=1\nfwmark=1\n\nset=1\nprivate_key=" + hexKey(0) + "\nlisten_port=0\nfwmark=0\n\nget=1\n\n",
			ok + ok + ok},
		{"every key of a peer", "set=1\n" + pub(2) + "preshared_key=" + hexKey(3) + "\nendpoint=192.0.2.1:5\npersistent_keepalive_interval=25\nreplace_allowed_ips=true\nallowed_ip=10.0.0.0/8\nallowed_ip=fd00::/8\nprotocol_version=1\n\nget=1\n\n",
			ok + strings.Replace(peerText(2, "192.0.2.1:5", "25", "10.0.0.0/8", "fd00::/8"), "protocol", "preshared_key="+hexKey(3)+"\nprotocol", 1) + ok},
		{"an empty set", "set=1\n\n", ok},
		{"pipelined set and get in one write", "set=1\nlisten_port=7\n\nget=1\n\nget=1\n\nset=1\n\n", ok + "listen_port=7\n" + ok + "listen_port=7\n" + ok + ok},
		{"empty lines between operations are skipped", "\n\nget=1\n\n\nget=1\n\n", ok + ok},
		{"upper-case hexadecimal", "set=1\npublic_key=" + strings.ToUpper(hexKey(0xab)) + "\n\nget=1\n\n", ok + peerText(0xab, "", "0") + ok},
		{"a late error leaves nothing behind", "set=1\nlisten_port=7\n" + pub(2) + "allowed_ip=10.1.0.1\n\nget=1\n\n", invalid + ok},
		{"an error is answered behind the empty line, once", "set=1\nfoo=1\nbar=2\nbaz\n\nget=1\n\n", invalid + ok},
		{"a set without its empty line is dropped", "set=1\n" + pub(2) + "allowed_ip=14.0.0.0/8\n", ""},
		{"a set without its last newline is dropped", "set=1\n" + pub(2) + "allowed_ip=14.0.0.0/8", ""},
		{"a get without its empty line is dropped", "get=1\n", ""},
		{"a get with a line", "get=1\nlisten_port=1\n\nget=1\n\n", invalid + ok},
		{"an unknown operation", "set=2\nlisten_port=1\n\nget=1\n\n", invalid + ok},
		{"an operation with a blank", "get=1 \n\nset = 1\n\n", invalid + invalid},
		{"CRLF", "get=1\r\n\r\n\n", invalid},
		{"a line without =", "set=1\nlisten_port\n\n", protocol},
		{"an unknown key", "set=1\nlisten_ports=1\n\n", invalid},
		{"a key of the interface in a peer", "set=1\n" + pub(2) + "listen_port=1\n\n", invalid},
		{"a key of a peer before the peer", "set=1\nallowed_ip=10.0.0.0/8\n\n", invalid},
		{"a private key one digit short", "set=1\nprivate_key=" + hexKey(1)[1:] + "\n\n", invalid},
		{"a private key one digit long", "set=1\nprivate_key=" + hexKey(1) + "0\n\n", invalid},
		{"a private key that is not hexadecimal", "set=1\nprivate_key=g" + hexKey(1)[1:] + "\n\n", invalid},
		{"a public key that is empty", "set=1\npublic_key=\n\n", invalid},
		{"a preshared key that is short", "set=1\n" + pub(2) + "preshared_key=00\n\n", invalid},
		{"port out of range", "set=1\nlisten_port=65536\n\n", invalid},
		{"port with a sign", "set=1\nlisten_port=+1\n\n", invalid},
		{"port that overflows", "set=1\nlisten_port=18446744073709551617\n\n", invalid},
		{"port empty", "set=1\nlisten_port=\n\n", invalid},
		{"mark at its limit", "set=1\nfwmark=4294967295\n\n", ok},
		{"mark out of range", "set=1\nfwmark=4294967296\n\n", invalid},
		{"mark in hexadecimal", "set=1\nfwmark=0xca6c\n\n", invalid},
		{"keepalive off", "set=1\n" + pub(2) + "persistent_keepalive_interval=off\n\n", invalid},
		{"keepalive out of range", "set=1\n" + pub(2) + "persistent_keepalive_interval=65536\n\n", invalid},
		{"replace_peers=false is refused, as by the reference", "set=1\nreplace_peers=false\n\n", invalid},
		{"replace_allowed_ips=false", "set=1\n" + pub(2) + "replace_allowed_ips=false\n\n", invalid},
		{"remove=false", "set=1\n" + pub(2) + "remove=false\n\n", invalid},
		{"update_only=1", "set=1\n" + pub(2) + "update_only=1\n\n", invalid},
		{"an unknown protocol version", "set=1\n" + pub(2) + "protocol_version=2\n\n", invalid},
		{"IPv6 endpoint in brackets", "set=1\n" + pub(2) + "endpoint=[fd99::2]:51820\n\nget=1\n\n", ok + peerText(2, "[fd99::2]:51820", "0") + ok},
		{"IPv6 endpoint without brackets", "set=1\n" + pub(2) + "endpoint=fd99::2:51820\n\n", invalid},
		{"IPv6 endpoint with a zone", "set=1\n" + pub(2) + "endpoint=[fe80::1%eth0]:1\n\nget=1\n\n", ok + peerText(2, "[fe80::1%eth0]:1", "0") + ok},
		{"4-in-6 endpoint", "set=1\n" + pub(2) + "endpoint=[::ffff:1.2.3.4]:5\n\nget=1\n\n", ok + peerText(2, "[::ffff:1.2.3.4]:5", "0") + ok},
		{"endpoint without port", "set=1\n" + pub(2) + "endpoint=1.2.3.4\n\n", invalid},
		{"endpoint with a name", "set=1\n" + pub(2) + "endpoint=localhost:5\n\n", invalid},
		{"endpoint port out of range", "set=1\n" + pub(2) + "endpoint=1.2.3.4:65536\n\n", invalid},
		{"octal endpoint", "set=1\n" + pub(2) + "endpoint=010.0.0.1:5\n\n", invalid},
		{"host bits of an allowed IP are dropped", "set=1\n" + pub(2) + "allowed_ip=10.1.2.3/16\n\nget=1\n\n", ok + peerText(2, "", "0", "10.1.0.0/16") + ok},
		{"allowed IP longer than its address", "set=1\n" + pub(2) + "allowed_ip=10.0.0.0/33\n\n", invalid},
		{"allowed IP with a zone", "set=1\n" + pub(2) + "allowed_ip=fe80::1%lo/64\n\n", invalid},
		{"a peer before the private key", "set=1\n" + pub(2) + "allowed_ip=10.0.0.0/8\n\nset=1\nprivate_key=" + hexKey(1) + "\n\nget=1\n\n",
			ok + ok + "private_key=" + hexKey(1) + "\n" + peerText(2, "", "0", "10.0.0.0/8") + ok},
		{"a peer is changed in place, again and again", "set=1\n" + pub(2) + "allowed_ip=10.0.0.0/8\n" + pub(3) + "\nset=1\n" + pub(2) + "endpoint=1.2.3.4:5\n\nset=1\n" + pub(2) + "endpoint=1.2.3.4:6\n\nget=1\n\n",
			ok + ok + ok + peerText(2, "1.2.3.4:6", "0", "10.0.0.0/8") + peerText(3, "", "0") + ok},
		{"an allowed IP moves, and nothing else does", "set=1\n" + pub(2) + "allowed_ip=10.1.0.0/16\nallowed_ip=10.2.0.0/16\n" + pub(3) + "allowed_ip=10.3.0.0/16\n\nset=1\n" + pub(3) + "allowed_ip=10.1.0.0/16\n\nget=1\n\n",
			ok + ok + peerText(2, "", "0", "10.2.0.0/16") + peerText(3, "", "0", "10.3.0.0/16", "10.1.0.0/16") + ok},
		{"-allowed_ip removes exactly that of this peer", "set=1\n" + pub(2) + "allowed_ip=10.1.0.0/16\nallowed_ip=10.1.0.0/24\n" + pub(3) + "allowed_ip=10.3.0.0/16\n\nset=1\n" + pub(2) + "allowed_ip=-10.1.0.0/16\nallowed_ip=-10.3.0.0/16\n\nget=1\n\n",
			ok + ok + peerText(2, "", "0", "10.1.0.0/24") + peerText(3, "", "0", "10.3.0.0/16") + ok},
		{"replace_allowed_ips undoes the lines above it", "set=1\n" + pub(2) + "allowed_ip=10.1.0.0/16\nreplace_allowed_ips=true\nallowed_ip=10.2.0.0/16\n\nget=1\n\n",
			ok + peerText(2, "", "0", "10.2.0.0/16") + ok},
		{"update_only makes no peer, wherever it stands", "set=1\n" + pub(2) + "allowed_ip=10.0.0.0/8\nupdate_only=true\n\nget=1\n\n", ok + ok},
		{"remove", "set=1\n" + pub(2) + pub(3) + "\nset=1\n" + pub(2) + "remove=true\n\nget=1\n\n", ok + ok + peerText(3, "", "0") + ok},
		{"replace_peers", "set=1\n" + pub(2) + pub(3) + "\nset=1\nreplace_peers=true\n" + pub(4) + "\nget=1\n\n", ok + ok + peerText(4, "", "0") + ok},
		{"peers keep the order in which they came", "set=1\n" + pub(9) + pub(3) + pub(7) + pub(1) + "\nset=1\n" + pub(7) + "persistent_keepalive_interval=1\n\nget=1\n\nget=1\n\n",
			ok + ok + strings.Repeat(peerText(9, "", "0")+peerText(3, "", "0")+peerText(7, "", "1")+peerText(1, "", "0")+ok, 2)},
		{"a line that is too long", "set=1\nfoo=" + strings.Repeat("x", 3*bufferSize) + "\nlisten_port=7\n\nget=1\n\n", invalid + ok},
		{"an operation that is too long", strings.Repeat("x", 3*bufferSize) + "\n\nget=1\n\n", invalid + ok},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := dial(t, startServer(t, new(fakeDevice)))
			if _, err := io.WriteString(c, x.send); err != nil {
				t.Fatal(err)
			}
			c.CloseWrite()
			got, err := io.ReadAll(c)
			if err != nil || string(got) != x.want {
				t.Errorf("\n got %q, %v\nwant %q", got, err, x.want)
			}
		})
	}
}

// A get shows the wall-clock time of the last handshake, not the time since.
func TestHandshakeTime(t *testing.T) {
	d := new(fakeDevice)
	d.state.Peers = []conf.PeerState{{LastHandshake: time.Unix(1_800_000_000, 123), RxBytes: 1 << 33, TxBytes: 7}}
	c := dial(t, startServer(t, d))
	io.WriteString(c, "get=1\n\n")
	c.CloseWrite()
	got, _ := io.ReadAll(c)
	if want := "last_handshake_time_sec=1800000000\nlast_handshake_time_nsec=123\ntx_bytes=7\nrx_bytes=8589934592\n"; !strings.Contains(string(got), want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

func TestBackendErrors(t *testing.T) {
	for _, x := range []struct {
		err  error
		want syscall.Errno
	}{
		{syscall.EADDRINUSE, syscall.EADDRINUSE},
		{fmt.Errorf("port 5: %w", &net.OpError{Op: "listen", Err: syscall.EACCES}), syscall.EACCES},
		{errors.New("something"), syscall.EIO},
	} {
		var logged []error
		s := &Server{Backend: &fakeDevice{fail: x.err}, Log: func(err error) { logged = append(logged, err) }}
		a, b := net.Pipe()
		done := make(chan error)
		l := newPipeListener(b)
		go func() { done <- s.Serve(l) }()
		c := NewClient(a)
		if err := c.Set(&conf.Update{}); err != x.want {
			t.Errorf("%v: the client got %v, want %v", x.err, err, x.want)
		}
		l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(logged) != 1 || logged[0] != x.err {
			t.Errorf("logged %v", logged)
		}
	}
}

// What is logged of a refused operation tells where and what, and no secret.
func TestRefusalsAreClear(t *testing.T) {
	secret := hexKey(0xc3)
	for _, x := range []struct{ in, want string }{
		{"endpoint=fd99::2:51820", "line 3: endpoint: not an address and port (expected 192.0.2.1:51820 or [2001:db8::1]:51820)"},
		{"replace_allowed_ips=false", "line 3: replace_allowed_ips: wrong value (expected true)"},
		{"replace_peers=true", "line 3: replace_peers: belongs before the first public_key"},
		{"preshared_key=" + secret + "0", "line 3: preshared_key: not a key (expected 64 hexadecimal digits)"},
		{"preshared-key=" + secret, "line 3: unknown key"},
		{"psk=" + secret, "line 3: psk: unknown key"},
		{secret, "line 3: not a line key=value"},
		{secret + "=1", "line 3: unknown key"},
		{strings.Repeat("x", 33) + "=1", "line 3: unknown key"},
		{"endpoint=" + secret, "line 3: endpoint: not an address and port (expected 192.0.2.1:51820 or [2001:db8::1]:51820)"},
	} {
		var lines lineReader
		lines.r = strings.NewReader("public_key=" + hexKey(2) + "\n" + x.in + "\n\n")
		u, refused, broken := parseUpdate(&lines)
		if u != nil || broken != nil || refused == nil || refused.Error() != x.want {
			t.Errorf("%s:\n got %v, %v\nwant %s", x.in, refused, broken, x.want)
		}
	}
}

// Clients that are silent, at whatever point, keep nobody waiting.
func TestSilentClients(t *testing.T) {
	d := new(fakeDevice)
	path := startServer(t, d)
	for _, s := range []string{"", "set=1\n", "set=1\nlisten_port=1\n", "set=1\nlisten", "get=1\n", "g"} {
		io.WriteString(dial(t, path), s)
	}
	c := NewClient(dial(t, path))
	port := uint16(9)
	if err := c.Set(&conf.Update{ListenPort: &port}); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Get(); err != nil || s.ListenPort != 9 {
		t.Fatal(s, err)
	}
}

// A pipeListener accepts what it is given.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener(conns ...net.Conn) *pipeListener {
	l := &pipeListener{make(chan net.Conn, 2*maxClients), make(chan struct{})}
	for _, c := range conns {
		l.conns <- c
	}
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Err: net.ErrClosed}
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return nil }

// isClosed tells whether the server has closed its end, when all is at rest.
func isClosed(c net.Conn) bool {
	synctest.Wait()
	c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(fakeDevice)
		l := newPipeListener()
		done := make(chan error)
		go func() { done <- Serve(l, d) }()
		dial := func(text string) net.Conn {
			a, b := net.Pipe()
			l.conns <- b
			io.WriteString(a, text)
			return a
		}
		idle, within, started, unread := dial(""), dial("set=1\nlisten_port=1\n"), dial("s"), dial("get=1\n\n")
		time.Sleep(clientTimeout - time.Second)
		for _, c := range []net.Conn{within, started} {
			if isClosed(c) {
				t.Error("closed before the timeout")
			}
		}
		time.Sleep(2 * time.Second)
		for name, c := range map[string]net.Conn{"in an operation": within, "in its first line": started, "with a reply unread": unread} {
			if !isClosed(c) {
				t.Errorf("a client that is silent %s is still connected", name)
			}
		}
		if d.applied() != 0 {
			t.Error("an unfinished set was applied")
		}
		// Each line is a sign of life.
		slow := dial("set=1\n")
		for range 5 {
			time.Sleep(clientTimeout - time.Second)
			io.WriteString(slow, "listen_port=1\n")
		}
		// Between operations a client may rest.
		time.Sleep(clientTimeout * 100)
		c := NewClient(idle)
		if err := c.Set(&conf.Update{}); err != nil {
			t.Errorf("a client that was idle: %v", err)
		}
		time.Sleep(clientTimeout * 100)
		if s, err := c.Get(); err != nil {
			t.Errorf("a client that was idle: %v, %v", s, err)
		}
		l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// With all places taken, a new client takes that of the one that was silent for
// longest. A client that the device works for keeps its place.
func TestFullHouse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDevice{gate: make(chan struct{})}
		l := newPipeListener()
		done := make(chan error)
		go func() { done <- Serve(l, d) }()
		dial := func() net.Conn {
			a, b := net.Pipe()
			l.conns <- b
			return a
		}
		busy := NewClient(dial())
		answer := make(chan error)
		go func() { answer <- busy.Set(&conf.Update{}) }()
		synctest.Wait()
		var silent []net.Conn
		for range maxClients - 1 {
			time.Sleep(time.Millisecond)
			silent = append(silent, dial())
		}
		time.Sleep(time.Second)
		io.WriteString(silent[0], "set=1\n") // silent[1] is silent for longest now
		synctest.Wait()
		if _, err := NewClient(dial()).Get(); err != nil {
			t.Errorf("one client more: %v", err)
		}
		for i, c := range silent[:5] {
			if closed := isClosed(c); closed != (i == 1) {
				t.Errorf("client %d: closed is %v", i, closed)
			}
		}
		for range 3 * maxClients {
			time.Sleep(time.Millisecond)
			if _, err := NewClient(dial()).Get(); err != nil {
				t.Errorf("many clients more: %v", err)
			}
		}
		close(d.gate)
		if err := <-answer; err != nil {
			t.Errorf("the client with a set at work: %v", err)
		}
		l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// An operation without end is cut off, with a reason.
func TestEndlessOperation(t *testing.T) {
	const limit = 1 << 20
	d := new(fakeDevice)
	useDir(t)
	l, err := Listen("t0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, &Server{Backend: d, MaxOperation: limit})
	c := dial(t, l.Path())
	// as much as there may be is fine
	line := "listen_port=1\n"
	io.WriteString(c, "set=1\n"+strings.Repeat(line, limit/len(line))+"\n")
	if got, _ := bufio.NewReader(c).ReadString('\n'); got != "errno=0\n" {
		t.Fatalf("an operation within the limit: got %q", got)
	}
	c = dial(t, l.Path())
	hungUp := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, "set=1\n")
		chunk := strings.Repeat(line, 10000)
		for range 2 * limit / len(chunk) {
			if err == nil {
				_, err = io.WriteString(c, chunk)
			}
		}
		hungUp <- err
	}()
	if err := <-hungUp; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the server did not hang up: %v", err)
	}
	got, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(got), fmt.Sprintf("errno=-%d\n\n", syscall.EMSGSIZE)) {
		t.Errorf("got %q", got)
	}
	if d.applied() != 1 {
		t.Error("it was applied")
	}
}

func manyPeers(n int) *conf.Update {
	u := &conf.Update{ReplacePeers: true}
	e := netip.MustParseAddrPort("192.0.2.1:51820")
	keepalive := uint16(25)
	for i := range n {
		k := conf.Key{1, byte(i), byte(i >> 8)}
		u.Peers = append(u.Peers, conf.PeerUpdate{
			PublicKey: k, PresharedKey: &k, Endpoint: &e, PersistentKeepalive: &keepalive, ReplaceAllowedIPs: true,
			AllowedIPs: []conf.AllowedIP{
				{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)},
				{Prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}), 128)},
			},
		})
	}
	return u
}

// 24,000 peers in one set, and back in one get.
func TestManyPeers(t *testing.T) {
	const n = 24000
	d := new(fakeDevice)
	c := NewClient(dial(t, startServer(t, d)))
	if err := c.Set(manyPeers(n)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Get()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s, d.State()) || len(s.Peers) != n {
		t.Errorf("%d peers came back, or others", len(s.Peers))
	}
}

// The parser's garbage: the text of endpoint and prefix, which netip parses, and
// what slices leave behind when they double.
func TestUpdateIsLean(t *testing.T) {
	const n = 10000
	var text bytes.Buffer
	newPrinter(&text).update(manyPeers(n))
	body := text.Bytes()[len("set=1\n"):]
	parse := func() *conf.Update {
		var lines lineReader
		lines.r = bytes.NewReader(body)
		u, refused, broken := parseUpdate(&lines)
		if refused != nil || broken != nil {
			t.Fatal(refused, broken)
		}
		return u
	}
	// Three strings a peer, and the slabs.
	if per := testing.AllocsPerRun(3, func() { parse() }) / n; per > 3.2 {
		t.Errorf("%.2f allocations a peer", per)
	}
	var before, after, held runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	u := parse()
	runtime.ReadMemStats(&after)
	runtime.GC()
	runtime.ReadMemStats(&held)
	if per := (after.TotalAlloc - before.TotalAlloc) / n; per > 550 {
		t.Errorf("%d bytes allocated a peer", per)
	}
	if per := (int64(held.HeapAlloc) - int64(before.HeapAlloc)) / n; per > 400 {
		t.Errorf("%d bytes held a peer", per)
	}
	if len(u.Peers) != n {
		t.Errorf("%d peers", len(u.Peers))
	}
}

// Buffers through which keys went hold none afterwards, whole or in part.
func TestBuffersAreWiped(t *testing.T) {
	secret := bytes.Repeat([]byte{0xc3}, conf.KeySize)
	text := strings.Repeat("public_key="+hexKey(2)+"\npreshared_key="+hexKey(0xc3)+"\n", 100)
	for _, size := range []int{1, 7, 50, 4000, bufferSize} {
		lines := &lineReader{r: &chunkReader{strings.NewReader("private_key=" + hexKey(0xc3) + "\n" + text + "\nset=1\nprivate_key=" + hexKey(0xc3)), size}}
		u, refused, broken := parseUpdate(lines)
		if refused != nil || broken != nil || len(u.Peers) != 100 {
			t.Fatal(refused, broken)
		}
		lines.next() // set=1
		if _, err := lines.next(); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
		lines.wipe()
		if i := bytes.Index(lines.buf[:], []byte("c3")); i >= 0 {
			t.Errorf("reads of %d: the buffer holds %q", size, lines.buf[i:i+20])
		}
		if !bytes.Equal(u.PrivateKey[:], secret) {
			t.Fatal("the key did not arrive")
		}
		var out bytes.Buffer
		p := newPrinter(&out)
		p.update(u)
		if !strings.Contains(out.String(), hexKey(0xc3)) {
			t.Fatal("the key was not printed")
		}
		if cap(p.buf) != bufferSize || bytes.Contains(p.buf[:bufferSize], []byte("c3")) {
			t.Error("the printer's buffer holds keys, or was left behind with them for a larger one")
		}
	}
}

// The buffer of a client that stays connected holds nothing between operations.
func TestLinesAreWiped(t *testing.T) {
	lines := &lineReader{r: strings.NewReader("private_key=" + hexKey(0xc3) + "\npublic_key=" + hexKey(2) + "\npreshared_key=" + hexKey(0xc3) + "x\n" + hexKey(0xc3) + "\n\n")}
	if _, refused, broken := parseUpdate(lines); refused == nil || broken != nil {
		t.Fatal(refused, broken)
	}
	if bytes.Contains(lines.buf[:], []byte("c3")) {
		t.Error("the buffer holds keys")
	}
}

// A chunkReader reads at most size bytes at once.
type chunkReader struct {
	r    io.Reader
	size int
}

func (c *chunkReader) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.size)]) }

// The secrets of an update are wiped once it is applied.
func TestUpdateIsWiped(t *testing.T) {
	d := new(fakeDevice)
	c := NewClient(dial(t, startServer(t, d)))
	k := conf.Key{9}
	if err := c.Set(&conf.Update{PrivateKey: &k, Peers: []conf.PeerUpdate{{PresharedKey: &k}}}); err != nil {
		t.Fatal(err)
	}
	if !d.last.PrivateKey.IsZero() || !d.last.Peers[0].PresharedKey.IsZero() {
		t.Error("the update still holds its secrets")
	}
}

func TestClientRefusesNonsense(t *testing.T) {
	for _, reply := range []string{
		"", "\n", "errno=0\n", "errno=0", "errno=x\n\n", "listen_port=1\n\n", "listen_port=65536\nerrno=0\n\n", "public_key=00\nerrno=0\n\n",
		"public_key=" + hexKey(1) + "\nendpoint=1.2.3.4\nerrno=0\n\n", "public_key=" + hexKey(1) + "\nallowed_ip=1.2.3.4\nerrno=0\n\n",
		"nothing\nerrno=0\n\n", "errno=-5\n\n",
	} {
		a, b := net.Pipe()
		go func() {
			b.Read(make([]byte, 100))
			io.WriteString(b, reply)
			b.Close()
		}()
		if s, err := NewClient(a).Get(); err == nil || s != nil {
			t.Errorf("%q: %v, %v", reply, s, err)
		}
	}
}

func FuzzUpdate(f *testing.F) {
	for _, s := range []string{
		"",
		"private_key=" + hexKey(1) + "\nlisten_port=51820\nfwmark=0\nreplace_peers=true\npublic_key=" + hexKey(2) + "\nremove=true\nupdate_only=true\n",
		"public_key=" + hexKey(2) + "\npreshared_key=" + hexKey(0) + "\nendpoint=[fe80::1%eth0]:0\npersistent_keepalive_interval=1\nallowed_ip=1.2.3.4/0\nreplace_allowed_ips=true\nallowed_ip=-10.0.0.9/8\nallowed_ip=::ffff:1.2.3.4/100\nprotocol_version=1\n",
		"public_key=" + hexKey(2) + "\nendpoint=[::ffff:1.2.3.4]:5\npublic_key=" + hexKey(2) + "\nendpoint=1.2.3.4:5\n",
		"listen_port\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var lines lineReader
		lines.r = io.MultiReader(bytes.NewReader(in), strings.NewReader("\n"))
		a, refused, broken := parseUpdate(&lines)
		if refused != nil || broken != nil {
			if a != nil {
				t.Fatal("an update beside an error")
			}
			return
		}
		var text bytes.Buffer
		newPrinter(&text).update(a)
		body, ok := bytes.CutPrefix(text.Bytes(), []byte("set=1\n"))
		if !ok {
			t.Fatalf("printed %q", &text)
		}
		lines = lineReader{r: bytes.NewReader(body)}
		b, refused, broken := parseUpdate(&lines)
		if refused != nil || broken != nil {
			t.Fatalf("printed, it is refused: %v %v\n%s", refused, broken, &text)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("parse, print, parse changed it:\n%q\n%s", in, &text)
		}
	})
}

func FuzzState(f *testing.F) {
	s := "private_key=" + hexKey(1) + "\nlisten_port=51820\nfwmark=1\n" + peerText(2, "[fe80::1%eth0]:0", "25", "10.0.0.0/8", "::/0")
	f.Add([]byte(s))
	f.Add([]byte(strings.ReplaceAll(s, "_sec=0", "_sec=1800000000")))
	f.Add([]byte("future=1\nerrno=-5\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var lines lineReader
		lines.r = io.MultiReader(bytes.NewReader(in), strings.NewReader("errno=0\n\n"))
		a, err := parseState(&lines)
		if err != nil {
			return
		}
		var text bytes.Buffer
		p := newPrinter(&text)
		p.state(a)
		p.errno(0)
		lines = lineReader{r: bytes.NewReader(text.Bytes())}
		b, err := parseState(&lines)
		if err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("parse, print, parse changed it (%v):\n%q\n%s", err, in, &text)
		}
	})
}

func BenchmarkParse10000Peers(b *testing.B) {
	var text bytes.Buffer
	newPrinter(&text).update(manyPeers(10000))
	body := text.Bytes()[len("set=1\n"):]
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var lines lineReader
		lines.r = bytes.NewReader(body)
		if _, refused, broken := parseUpdate(&lines); refused != nil || broken != nil {
			b.Fatal(refused, broken)
		}
	}
}
