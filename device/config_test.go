package device

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/noise"
	"wgd/tun"
)

// Peers of the tables have one letter; so a key is that letter and zeros.
func letter(k conf.Key) string { return string(rune(k[0])) }

// peerUpdate reads one peer's part of an update: a letter, then words. "remove",
// "only" (update only), "replace" (its allowed IPs), 10.0.0.0/8, -10.0.0.0/8, @host:port,
// psk=N, keepalive=N.
func peerUpdate(text string) (u conf.PeerUpdate) {
	words := strings.Fields(text)
	u.PublicKey[0] = words[0][0]
	for _, word := range words[1:] {
		var n uint16
		switch {
		case word == "remove":
			u.Remove = true
		case word == "only":
			u.UpdateOnly = true
		case word == "replace":
			u.ReplaceAllowedIPs = true
		case word[0] == '@':
			a := netip.MustParseAddrPort(word[1:])
			u.Endpoint = &a
		case strings.HasPrefix(word, "psk="):
			fmt.Sscanf(word, "psk=%d", &n)
			u.PresharedKey = &conf.Key{byte(n)}
		case strings.HasPrefix(word, "keepalive="):
			fmt.Sscanf(word, "keepalive=%d", &n)
			u.PersistentKeepalive = &n
		case word[0] == '-':
			u.AllowedIPs = append(u.AllowedIPs, conf.AllowedIP{Prefix: netip.MustParsePrefix(word[1:]), Remove: true})
		default:
			u.AllowedIPs = append(u.AllowedIPs, conf.AllowedIP{Prefix: netip.MustParsePrefix(word)})
		}
	}
	return u
}

// update reads peers that are separated by semicolons; "replace;" in front replaces all.
func update(text string) (u conf.Update) {
	text, u.ReplacePeers = strings.CutPrefix(text, "replace;")
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) != "" {
			u.Peers = append(u.Peers, peerUpdate(part))
		}
	}
	return u
}

// show prints peers as update reads them.
func show(s *conf.State) string {
	var peers []string
	for _, p := range s.Peers {
		text := letter(p.PublicKey)
		for _, a := range p.AllowedIPs {
			text += " " + a.String()
		}
		if p.Endpoint.IsValid() {
			text += " @" + p.Endpoint.String()
		}
		if !p.PresharedKey.IsZero() {
			text += fmt.Sprint(" psk=", p.PresharedKey[0])
		}
		if p.PersistentKeepalive != 0 {
			text += fmt.Sprint(" keepalive=", p.PersistentKeepalive)
		}
		peers = append(peers, text)
	}
	return strings.Join(peers, "; ")
}

func TestConfigurePeers(t *testing.T) {
	type step struct{ update, want string }
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"peers keep the order in which they came", []step{
			{"c; a; b", "c; a; b"},
			{"b keepalive=5; c", "c; a; b keepalive=5"},
			{"d; a remove", "c; b keepalive=5; d"},
			{"a", "c; b keepalive=5; d; a"},
		}},
		{"what is not named stays", []step{
			{"a 10.0.0.0/8 fd00::/8 @192.0.2.1:5 psk=3 keepalive=25", "a 10.0.0.0/8 fd00::/8 @192.0.2.1:5 psk=3 keepalive=25"},
			{"a", "a 10.0.0.0/8 fd00::/8 @192.0.2.1:5 psk=3 keepalive=25"},
			{"a psk=4", "a 10.0.0.0/8 fd00::/8 @192.0.2.1:5 psk=4 keepalive=25"},
			{"a psk=0 keepalive=0", "a 10.0.0.0/8 fd00::/8 @192.0.2.1:5"},
			{"a @[2001:db8::1]:6", "a 10.0.0.0/8 fd00::/8 @[2001:db8::1]:6"},
			{"a @[::ffff:1.2.3.4]:6", "a 10.0.0.0/8 fd00::/8 @[::ffff:1.2.3.4]:6"},
		}},
		{"a peer is replaced with its past", []step{
			{"a 10.0.0.0/8 psk=1; b 11.0.0.0/8", "a 10.0.0.0/8 psk=1; b 11.0.0.0/8"},
			{"replace;b 10.0.0.0/8; c", "b 10.0.0.0/8; c"},
			{"replace;", ""},
		}},
		{"remove and add in one transaction", []step{
			{"a 10.0.0.0/8 psk=1; b", "a 10.0.0.0/8 psk=1; b"},
			{"a remove; a 11.0.0.0/8", "b; a 11.0.0.0/8"},
			{"a 12.0.0.0/8; a remove; c; c remove", "b"},
			{"x remove; b remove; b remove", ""},
		}},
		{"update only makes no peer", []step{
			{"a only 10.0.0.0/8 psk=1", ""},
			{"a; a only 10.0.0.0/8", "a 10.0.0.0/8"},
			{"a remove; a only", ""},
		}},
		{"an allowed IP has one owner: the last", []step{
			{"a 10.0.0.0/8 11.0.0.0/8; b 10.0.0.0/8", "a 11.0.0.0/8; b 10.0.0.0/8"},
			{"a 10.0.0.0/8", "a 11.0.0.0/8 10.0.0.0/8; b"},
			{"b 10.0.0.0/8; a 10.0.0.0/8", "a 11.0.0.0/8 10.0.0.0/8; b"},
			{"a 10.0.0.0/9 10.0.0.0/8", "a 11.0.0.0/8 10.0.0.0/8 10.0.0.0/9; b"},
			{"b 10.0.0.0/8 10.0.0.0/8; a remove", "b 10.0.0.0/8"},
		}},
		{"it moves and comes back, with a replacement between", []step{
			{"a 10.0.0.0/8; b", "a 10.0.0.0/8; b"},
			{"b 10.0.0.0/8; a replace; a 10.0.0.0/8; b 10.0.0.0/8", "a; b 10.0.0.0/8"},
			{"a 10.0.0.0/8; b replace 10.0.0.0/8; a remove", "b 10.0.0.0/8"},
			{"a 10.0.0.0/8; a remove; a; b 10.0.0.0/8", "b 10.0.0.0/8; a"},
		}},
		{"allowed IPs are replaced first, then added", []step{
			{"a 10.0.0.0/8 11.0.0.0/8", "a 10.0.0.0/8 11.0.0.0/8"},
			{"a 12.0.0.0/8 replace 11.0.0.0/8", "a 12.0.0.0/8 11.0.0.0/8"},
			{"a replace", "a"},
		}},
		{"allowed IPs can be taken away one by one", []step{
			{"a 10.0.0.0/8 11.0.0.0/8; b 12.0.0.0/8", "a 10.0.0.0/8 11.0.0.0/8; b 12.0.0.0/8"},
			{"a -10.0.0.0/8 -12.0.0.0/8 -13.0.0.0/8", "a 11.0.0.0/8; b 12.0.0.0/8"},
			{"a 10.0.0.0/8 -10.0.0.0/8 10.0.0.0/8; b -12.0.0.0/8", "a 11.0.0.0/8 10.0.0.0/8; b"},
			{"a -11.0.0.0/9", "a 11.0.0.0/8 10.0.0.0/8; b"},
		}},
		{"the same twice", []step{
			{"a 10.0.0.0/8 10.0.0.0/8; a 10.0.0.0/8", "a 10.0.0.0/8"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.node(1)
				x.setUp(true)
				for i, st := range tt.steps {
					x.configure(t, update(st.update))
					got := x.State()
					if show(got) != st.want {
						t.Fatalf("step %d, %q:\ngot  %s\nwant %s", i, st.update, show(got), st.want)
					}
					x.checkLookups(t)
				}
			})
		})
	}
}

// checkLookups compares what the packet path sees with the configuration.
func (x *node) checkLookups(t *testing.T) {
	t.Helper()
	owners := make(map[netip.Prefix]string)
	for _, p := range x.State().Peers {
		for _, a := range p.AllowedIPs {
			if owners[a] != "" {
				t.Errorf("%v has two owners", a)
			}
			owners[a] = letter(p.PublicKey)
		}
		if q := x.peer(noise.PublicKey(p.PublicKey)); q == nil || !q.running || q.removed {
			t.Errorf("peer %s does not run", letter(p.PublicKey))
		}
	}
	if len(x.owners) != len(owners) || len(x.keys.m) != len(x.peers) {
		t.Errorf("%d owners and %d peers by key; want %d and %d", len(x.owners), len(x.keys.m), len(owners), len(x.peers))
	}
	for first := range 20 {
		want := ""
		packet := (&node{inner: netip.AddrFrom4([4]byte{1})}).packet(&node{inner: netip.AddrFrom4([4]byte{byte(first), 200})}, 20)
		for prefix, owner := range owners {
			if prefix.Contains(netip.AddrFrom4([4]byte{byte(first), 200})) {
				want = owner // a shorter one that also has it: none in the tables
			}
		}
		got := ""
		if p, _ := x.allowed.Load().destination(packet); p != nil {
			got = letter(conf.Key(p.public))
		}
		if got != want {
			t.Errorf("a packet to %d.200.0.0 goes to %q, want %q", first, got, want)
		}
	}
}

// An update that fails changes nothing.
func TestConfigureIsATransaction(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x, taken := w.node(1), netip.MustParseAddrPort("192.0.2.1:40000")
		x.setUp(true)
		x.configure(t, update("a 10.0.0.0/8 @192.0.2.7:7 psk=1 keepalive=25; b 11.0.0.0/8"))
		synctest.Wait()
		if _, err := w.open(taken); err != nil {
			t.Fatal(err)
		}
		busy, mark, free := taken.Port(), uint32(7), uint16(41000)
		noSuchZone := netip.MustParseAddrPort("[fe80::1%nosuchif9]:7")
		before := x.State()
		bind := x.bind.Load()
		failSetMark := func(fail bool) {
			c := bind.v4.(*memConn)
			c.w.mu.Lock()
			c.noMark = fail
			c.w.mu.Unlock()
		}
		for _, tt := range []struct {
			name string
			with func(u *conf.Update)
			want error
		}{
			{"a port in use", func(u *conf.Update) { u.ListenPort = &busy }, unix.EADDRINUSE},
			{"an endpoint on an interface that is not there", func(u *conf.Update) {
				u.ListenPort = &free
				u.Peers[2].Endpoint = &noSuchZone
			}, unix.ENODEV},
			{"a mark without the right to it", func(u *conf.Update) {
				failSetMark(true)
				u.FirewallMark = &mark
			}, unix.EPERM},
		} {
			u := update("replace;a remove; b 10.0.0.0/8 psk=9; c 12.0.0.0/8")
			u.PrivateKey = &conf.Key{1, 2, 3}
			tt.with(&u)
			if err := x.Configure(&u); !errors.Is(err, tt.want) {
				t.Errorf("%s: got error %v, want %v", tt.name, err, tt.want)
			}
			failSetMark(false)
			if after := x.State(); !reflect.DeepEqual(after, before) {
				t.Errorf("%s: before\n%v\nafter\n%v", tt.name, before, after)
			}
			if x.bind.Load() != bind {
				t.Errorf("%s: the sockets changed", tt.name)
			}
			x.checkLookups(t)
		}
		// A peer that is removed needs no good endpoint.
		u := update("b remove")
		u.Peers[0].Endpoint = &noSuchZone
		x.configure(t, u)
	})
}

func TestListenPort(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		port := func(p uint16) error { return a.Configure(&conf.Update{ListenPort: &p}) }
		sockets := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for at := range w.conns {
				if at.Addr() == a.addr {
					n++
				}
			}
			return n
		}
		if _, err := w.open(netip.AddrPortFrom(a.addr, 40000)); err != nil { // one of the two sockets
			t.Fatal(err)
		}
		if err := port(40000); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "40000") {
			t.Errorf("a port in use: %v", err)
		}
		old := a.bind.Load()
		if err := port(worldPort); err != nil || a.bind.Load() != old {
			t.Errorf("the same port: %v, new sockets: %v", err, a.bind.Load() != old)
		}
		a.sends(b, 100)
		if n := len(b.got()); n != 2 {
			t.Errorf("b got %d packets, want 2: the old socket goes on", n)
		}
		if err := port(50000); err != nil || a.State().ListenPort != 50000 || sockets() != 2 {
			t.Errorf("a new port: %v, port %d, %d sockets", err, a.State().ListenPort, sockets())
		}
		a.sends(b, 100)
		b.sends(a, 100)
		if n, m := len(b.got()), len(a.got()); n != 1 || m != 1 {
			t.Errorf("on the new port: b got %d packets, a %d; want 1 and 1", n, m)
		}
		if err := port(0); err != nil || a.State().ListenPort == 50000 || a.State().ListenPort == 0 {
			t.Errorf("any port: %v, port %d", err, a.State().ListenPort)
		}

		// Down, the port is remembered and not tried.
		a.setUp(false)
		if n := sockets(); n != 1 {
			t.Errorf("%d sockets while down, want the other's", n)
		}
		if err := port(40000); err != nil || a.State().ListenPort != 40000 {
			t.Errorf("while down: %v, port %d", err, a.State().ListenPort)
		}
	})
}

// markConn is a socket whose mark can be set until it is told to fail.
type markConn struct {
	*memConn
	mark uint32
	fail bool
}

func (c *markConn) setMark(m uint32) error {
	if c.fail {
		return unix.EPERM
	}
	c.mark = m
	return nil
}

func TestFirewallMarkIsTakenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.node(1)
		v4, v6 := &markConn{}, &markConn{}
		x.listen = func(port uint16, mark uint32, _ Offload) (conn, conn, uint16, error) {
			var err error
			v4.memConn, err = w.open(netip.AddrPortFrom(x.addr, port))
			v6.memConn, _ = w.open(netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), port))
			v4.mark, v6.mark = mark, mark
			return v4, v6, port, err
		}
		mark := func(m uint32) error { return x.Configure(&conf.Update{FirewallMark: &m}) }
		if err := mark(1); err != nil {
			t.Fatal(err)
		}
		x.setUp(true)
		if err := mark(2); err != nil || v4.mark != 2 || v6.mark != 2 {
			t.Fatalf("%v; marks %d and %d, want 2", err, v4.mark, v6.mark)
		}
		v6.fail = true
		if err := mark(3); !errors.Is(err, unix.EPERM) || v4.mark != 2 || x.State().FirewallMark != 2 {
			t.Errorf("%v; marks %d and %d, state %d; want 2", err, v4.mark, v6.mark, x.State().FirewallMark)
		}
		x.setUp(false)
		x.setUp(true)
		if v4.mark != 2 || v6.mark != 2 {
			t.Errorf("new sockets have marks %d and %d, want 2", v4.mark, v6.mark)
		}
	})
}

func TestPrivateKeyChange(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		c := w.node(3)
		a.knows(t, c, true)
		a.sends(b, 100)
		time.Sleep(s)
		w.forget()
		kp := a.current(b)

		a.private = c.private // which is a peer: nobody is their own
		a.setKey(t, a.private)
		if got := a.State(); len(got.Peers) != 1 || got.Peers[0].PublicKey != conf.Key(b.private.Public()) || got.PrivateKey != conf.Key(a.private) {
			t.Errorf("peers %v, want b only", got.Peers)
		}
		if send, receive := wiped(a, kp); !send || receive {
			t.Errorf("the session: send wiped %v, receive wiped %v; want to receive what is on its way", send, receive)
		}
		b.sends(a, 100)
		if n := len(a.got()); n != 1 {
			t.Errorf("a got %d packets under the old session, want 1", n)
		}

		// b knows nobody of the new key until it is told.
		b.knows(t, a, false)
		w.forget()
		a.sends(b, 100)
		w.expect(t, append(exchange("1s"), "1s 1>2 data")...)

		// The same key again is no change; one's own key is not added.
		index := a.current(b).LocalIndex
		a.setKey(t, a.private)
		if got := a.current(b); got == nil || got.LocalIndex != index {
			t.Errorf("the same key again ends the session")
		}
		a.knows(t, &node{private: a.private, inner: netip.MustParseAddr("10.9.9.9")}, false)
		if n := len(a.State().Peers); n != 1 {
			t.Errorf("%d peers after adding our own key, want 1", n)
		}

		// No key: no handshake, also none that comes.
		a.setKey(t, noise.PrivateKey{})
		b.setUp(false)
		b.setUp(true)
		b.knows(t, a, true)
		w.forget()
		b.sends(a, 100)
		a.sends(b, 100)
		w.expect(t, "1s 2>1 initiation")
	})
}

func TestRemovedPeerIsForgotten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		p := a.peerOf(b)
		kp := a.current(b)
		a.configure(t, conf.Update{Peers: []conf.PeerUpdate{{PublicKey: conf.Key(p.public), Remove: true}}})
		if send, receive := wiped(a, kp); !send || !receive {
			t.Errorf("keys are left")
		}
		if a.indices() != 0 || a.armed() != 0 || a.allowed.Load().lookup4(0x0a000002) != nil {
			t.Errorf("%d indices, %d timers left; allowed IPs %v", a.indices(), a.armed(), a.allowed.Load())
		}
		w.forget()
		b.sends(a, 100)
		time.Sleep(40 * s)
		if n := len(w.sent(func(m sentMessage) bool { return m.from == a.at() })); n != 0 {
			t.Errorf("%d messages to a peer that was removed", n)
		}
	})
}

func TestInterfaceDown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.knows(t, b, true, keepaliveEvery(25))
		c := w.node(3) // never there
		a.knows(t, c, true)
		a.sends(c, 100)
		if a.stagedOf(c) != 1 {
			t.Fatal("nothing is staged")
		}
		kp := a.current(b)
		w.sleepUntil(3 * s)
		a.setUp(false)
		w.forget()
		if send, receive := wiped(a, kp); !send || !receive {
			t.Errorf("keys are left")
		}
		if a.stagedOf(c) != 0 || a.stagedBytes.Load() != maxStagedBytes {
			t.Errorf("packets are left")
		}
		w.mu.Lock()
		if w.conns[a.at()] != nil {
			t.Errorf("the socket is open")
		}
		w.mu.Unlock()
		if a.indices() != 0 || a.armed() != 0 {
			t.Errorf("%d indices and %d timers are left", a.indices(), a.armed())
		}
		// Configuration while down sends nothing.
		a.knows(t, c, true, keepaliveEvery(10))
		a.setKey(t, noise.PrivateKey{5})
		a.setKey(t, a.private)
		time.Sleep(time.Hour)
		w.expect(t)

		a.knows(t, c, true, keepaliveEvery(0))
		a.setUp(true)
		w.expect(t, "1h0m3s 1>2 initiation", "1h0m3s 2>1 response", "1h0m3s 1>2 keepalive")
		b.sends(a, 100)
		if n := len(a.got()); n != 1 {
			t.Errorf("a got %d packets after it came up again", n)
		}
	})
}

func TestSocketDeath(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		b.got()
		w.mu.Lock()
		c := w.conns[a.at()]
		w.mu.Unlock()
		c.kill <- unix.ENETDOWN
		synctest.Wait()
		w.mu.Lock()
		again := w.conns[a.at()]
		w.mu.Unlock()
		if again == nil || again == c {
			t.Fatalf("no new socket on the same port")
		}
		a.sends(b, 100)
		b.sends(a, 100)
		if n, m := len(b.got()), len(a.got()); n != 1 || m != 1 {
			t.Errorf("b got %d packets, a %d; want 1 and 1", n, m)
		}
	})
}

// A socket that dies as soon as it is there is tried less and less often.
func TestSocketDiesAgainAndAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.node(1)
		listen, opened, alive := x.listen, 0, false
		x.listen = func(port uint16, mark uint32, off Offload) (v4, v6 conn, actual uint16, err error) {
			v4, v6, actual, err = listen(port, mark, off)
			if opened++; err == nil && !alive && opened < 1000 {
				v4.(*memConn).kill <- unix.ENETDOWN
			}
			return
		}
		x.setUp(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		x.mu.Lock()
		if opened < 5 || opened > 15 {
			t.Errorf("opened %d times in a minute, want about 10", opened)
		}
		alive = true
		x.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if x.bind.Load() == nil {
			t.Error("no socket a minute after the trouble was over")
		}
	})
}

func TestPortBusyAtUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.node(1), w.node(2)
		b.knows(t, a, false)
		b.setUp(true)
		other, err := w.open(a.at())
		if err != nil {
			t.Fatal(err)
		}
		a.knows(t, b, true, keepaliveEvery(25))
		a.setUp(true)
		time.Sleep(10 * s)
		w.expect(t)
		// Another setting is taken meanwhile, the busy port is not.
		a.configure(t, update("q 10.9.0.0/16"))
		port := uint16(worldPort)
		if err := a.Configure(&conf.Update{ListenPort: &port}); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("got error %v, want %v", err, unix.EADDRINUSE)
		}
		other.close()
		time.Sleep(31 * s)
		if n := len(w.sent(sentMessage.keepalive)); n == 0 {
			t.Errorf("no session 31 s after the port became free")
		}
		if got := a.State().ListenPort; got != worldPort {
			t.Errorf("port %d, want %d", got, worldPort)
		}
	})
}

func TestCounters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		time.Sleep(s)
		a.sends(b, 100)
		b.sends(a, 50)
		for _, x := range []struct {
			*node
			tx, rx uint64
		}{
			{a, 148 + (16 + 112 + 16), 92 + (16 + 64 + 16)},
			{b, 92 + (16 + 64 + 16), 148 + (16 + 112 + 16)},
		} {
			p := x.State().Peers[0]
			if p.TxBytes != x.tx || p.RxBytes != x.rx || !p.LastHandshake.Equal(time.Now()) {
				t.Errorf("%s: %d sent, %d received, handshake at %v; want %d, %d, %v", x.tun.Name(), p.TxBytes, p.RxBytes, p.LastHandshake, x.tx, x.rx, time.Now())
			}
		}
	})
}

// 10,000 idle peers cost memory, not goroutines.
func TestManyPeers(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	d := newDevice(Options{Tun: tun.NewMemory("wg0", tun.DefaultMTU), Budget: testBudget})
	d.clock = newFakeClock()
	d.start()
	defer d.Close()
	const n = 10000
	key := conf.Key{9}
	u := &conf.Update{PrivateKey: &key, Peers: make([]conf.PeerUpdate, n)}
	for i := range u.Peers {
		p := &u.Peers[i]
		p.PublicKey = conf.Key{byte(i >> 8), byte(i), 1}
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 51820)
		p.Endpoint = &at
		p.AllowedIPs = []conf.AllowedIP{
			{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)},
			{Prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8), 15: byte(i)}), 128)},
		}
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	if err := d.Configure(u); err != nil {
		t.Fatal(err)
	}
	perPeer := (heap() - before) / n
	runtime.KeepAlive(u)
	t.Logf("%d bytes of heap a peer", perPeer)
	if perPeer > 2048 {
		t.Errorf("%d bytes of heap a peer, want at most 2048", perPeer)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if got := d.State(); len(got.Peers) != n || got.Peers[n-1].PublicKey != u.Peers[n-1].PublicKey {
		t.Errorf("%d peers", len(got.Peers))
	}
	// C16: what is removed is gone; maps keep their size.
	u.ReplacePeers = true
	for range 5 {
		if err := d.Configure(u); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Configure(&conf.Update{ReplacePeers: true}); err != nil {
		t.Fatal(err)
	}
	if left := heap() - before; left > 1<<20 {
		t.Errorf("%d bytes of heap are left after the peers are gone", left)
	}
}

// C12: Close ends in any state, any number of times.
func TestClose(t *testing.T) {
	fresh := func() *Device {
		d := newDevice(Options{Tun: tun.NewMemory("wg0", tun.DefaultMTU), Budget: testBudget})
		d.clock = newFakeClock()
		d.listen = func(uint16, uint32, Offload) (v4, v6 conn, actual uint16, err error) {
			return nil, nil, 1, nil
		}
		d.start()
		return d
	}
	t.Run("right after the start", func(t *testing.T) {
		for range 200 {
			fresh().Close()
		}
	})
	t.Run("with the system's clock and sockets", func(t *testing.T) {
		before := goroutines()
		for i := range 50 {
			m := tun.NewMemory("wg0", tun.DefaultMTU)
			d, err := New(Options{Tun: m})
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				m.SetUp(true)
			}
			if i%4 == 0 {
				d.State()
			}
			d.Close()
			<-d.Wait()
		}
		if n := goroutines(); n != before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
	t.Run("many at once, during updates", func(t *testing.T) {
		for i := range 200 {
			d := fresh()
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for n := range 20 {
						u := update("replace;a 10.0.0.0/8 @192.0.2.7:7 keepalive=5; b 11.0.0.0/8")
						u.PrivateKey = &conf.Key{byte(n)}
						port := uint16(n)
						u.ListenPort = &port
						if err := d.Configure(&u); err != nil && !errors.Is(err, unix.ENODEV) {
							t.Error(err)
						}
						d.State()
						d.tun.(*tun.Memory).SetUp(n%2 == i%2)
					}
				})
			}
			for range 2 {
				wg.Go(d.Close)
			}
			wg.Wait()
			<-d.Wait()
			d.Close()
			if err := d.Configure(&conf.Update{}); !errors.Is(err, unix.ENODEV) {
				t.Fatalf("an update after Close: %v", err)
			}
		}
	})
	t.Run("with sessions", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.pair()
			a.sends(b, 100)
			kp := a.current(b)
			private := &a.Device.private
			a.Close()
			if send, receive := wiped(a, kp); !send || !receive || *private != (noise.PrivateKey{}) {
				t.Errorf("keys are left")
			}
			b.sends(a, 100)
		})
	})
	t.Run("after the interface is gone", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, _ := w.pair()
			a.tun.Remove()
			<-a.Wait()
			a.Close()
		})
	})
}

// A node refuses timestamps that are not newer than the last, so a peer that is
// removed and added again must not begin anew, also when the clock has gone back.
func TestTimestampsOutliveThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.node(1), w.node(2)
		now := time.Now()
		var last noise.Timestamp
		for i := range 5 {
			a.knows(t, b, true)
			p := a.peerOf(b)
			p.mu.Lock()
			stamp := p.stamps.Next(now.Add(-time.Duration(i) * time.Hour))
			p.mu.Unlock()
			if !stamp.After(last) {
				t.Fatalf("peer %d: timestamp %x, want later than %x", i, stamp, last)
			}
			last = stamp
			a.configure(t, conf.Update{Peers: []conf.PeerUpdate{{PublicKey: conf.Key(b.private.Public()), Remove: true}}})
		}
	})
}
