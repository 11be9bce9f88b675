package test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The matrix: each pair of implementations, either of them initiating, over both
// outer families, with both inner ones, with and without a preshared key.
func TestMatrix(t *testing.T) {
	t.Parallel()
	us, ref := side{"wgd", []string{wgd(t)}}, side{"wireguard-go", []string{wireguardGo(t)}}
	for _, pair := range [][2]side{{us, ref}, {ref, us}, {us, us}} {
		matrix(t, pair[0], pair[1], 8<<20)
	}
}

// The same under the race detector, whose findings fail the test when the daemon
// ends.
func TestMatrixRace(t *testing.T) {
	t.Parallel()
	us, ref := side{"wgd", []string{raceProgram.build(t)}}, side{"wireguard-go", []string{wireguardGo(t)}}
	for _, pair := range [][2]side{{us, ref}, {ref, us}, {us, us}} {
		matrix(t, pair[0], pair[1], 1<<20)
	}
}

// matrix moves n bytes in each TCP transfer.
func matrix(t *testing.T, initiator, responder side, n int64) {
	for _, outer6 := range []bool{false, true} {
		for _, psk := range []bool{false, true} {
			name := fmt.Sprintf("%s to %s, outer %s, %s", initiator.name, responder.name,
				map[bool]string{false: "v4", true: "v6"}[outer6], map[bool]string{false: "no PSK", true: "PSK"}[psk])
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tun := newTunnel(t, tunnelOptions{a: initiator.argv, b: responder.argv, outer6: outer6, psk: psk})
				tun.works(n)
			})
		}
	}
}

// works expects pings and bulk transfers both ways and in both families. The
// first ping finds no session and must be kept until there is one.
func (tun tunnel) works(n int64) {
	tun.a.t.Helper()
	a, b := tun.a, tun.b
	a.ping(b.inner4, 3)
	a.ping(b.inner6, 3)
	b.ping(a.inner4, 3)
	b.ping(a.inner6, 3)
	a.transfer(b.host, b.inner4, n)
	b.transfer(a.host, a.inner4, n)
	a.transfer(b.host, b.inner6, n)
	b.transfer(a.host, a.inner6, n)
}

// each calls f for wgd at both ends, and at either end of a wireguard-go.
func each(t *testing.T, f func(t *testing.T, a, b []string)) {
	t.Parallel()
	us, ref := wgd(t), wireguardGo(t)
	for _, pair := range [][2]string{{us, us}, {us, ref}, {ref, us}} {
		name := func(path string) string { return path[strings.LastIndex(path, "/")+1:] }
		t.Run(name(pair[0])+" and "+name(pair[1]), func(t *testing.T) {
			t.Parallel()
			f(t, []string{pair[0]}, []string{pair[1]})
		})
	}
}

// A peer that appears at another address or port is followed, by either end.
func TestRoaming(t *testing.T) {
	each(t, func(t *testing.T, da, db []string) {
		tun := newTunnel(t, tunnelOptions{a: da, b: db})
		a, b := tun.a, tun.b
		follows := func(e *end, want string) {
			t.Helper()
			eventually(t, 10*time.Second, "endpoint "+want, func() bool { return e.endpoint() == want })
		}
		a.ping(b.inner4, 1)
		follows(b, outerA+":"+port)

		// the initiator's address
		a.ip("addr del "+outerA+"/24 dev "+linkDev, "addr add 192.0.2.11/24 dev "+linkDev)
		a.ping(b.inner4, 2)
		follows(b, "192.0.2.11:"+port)

		// its port
		a.wg("set", "{if}", "listen-port", "40001")
		a.ping(b.inner4, 2)
		follows(b, "192.0.2.11:40001")

		// the responder's address: it is the one that must speak first
		b.ip("addr del "+outerB+"/24 dev "+linkDev, "addr add 192.0.2.12/24 dev "+linkDev)
		b.ping(a.inner4, 2)
		follows(a, "192.0.2.12:"+port)

		tun.works(1 << 20)
	})
}

// Every datagram goes to its own peer, also when one socket's last went to the
// other family (A02).
func TestRoamingBetweenFamilies(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{"GOMAXPROCS=1", wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	a.ping(b.inner4, 2)
	for range 3 {
		for _, to := range []struct{ endpoint, source string }{
			{"[" + outerB6 + "]:" + port, "[" + outerA6 + "]:" + port},
			{outerB + ":" + port, outerA + ":" + port},
		} {
			a.wg("set", "{if}", "peer", b.key.public, "endpoint", to.endpoint)
			a.ping(b.inner4, 2)
			if got := b.endpoint(); got != to.source {
				t.Fatalf("a sends to %s: b learned %s, want %s", to.endpoint, got, to.source)
			}
			b.ping(a.inner6, 2)
		}
	}
}

// Endpoints move only with packets that authenticate and are new (C25).
func TestForgedPacketsMoveNoEndpoint(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	seen := b.sniff(linkDev)
	a.ping(b.inner4, 2)
	genuine := seen.find("a data message from a", func(p packet) bool { return !p.sent && p.messageType() == 4 }).payload

	stranger := a.udp(outerA + ":4444")
	before, rx := b.endpoint(), b.value("rx_bytes")
	unknown := append([]byte{4, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef}, make([]byte, 24)...)
	forged := append([]byte(nil), genuine...)
	forged[len(forged)-1] ^= 1
	short := genuine[:16]
	for _, message := range [][]byte{unknown, unknown[:16], forged, short, genuine} {
		stranger.WriteToUDPAddrPort(message, mustEndpoint(outerB+":"+port))
	}
	// a packet through the same socket of b, behind the forged ones
	seen.find("the stranger's last", func(p packet) bool { return !p.sent && p.src.Port() == 4444 && len(p.payload) == len(genuine) })
	b.ping(a.inner4, 1)
	a.ping(b.inner4, 1)
	if got := b.endpoint(); got != before {
		t.Errorf("forged or replayed messages moved the endpoint from %s to %s", before, got)
	}
	if rx == b.value("rx_bytes") {
		t.Errorf("rx_bytes stands still at %s: the pings did not pass b", rx)
	}
}

func mustEndpoint(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// A tunnel comes back when an end restarts, and when the preshared key changes
// under a running session.
func TestRekey(t *testing.T) {
	each(t, func(t *testing.T, da, db []string) {
		tun := newTunnel(t, tunnelOptions{a: da, b: db})
		a, b := tun.a, tun.b
		a.ping(b.inner4, 1)

		// b restarts: it knows no session, and no endpoint of a
		b.stop()
		b.daemon = b.host.daemon(db...)
		tun.configure("Endpoint = " + outerB + ":" + port + "\n")
		b.up()
		a.ping(b.inner4, 2)

		// a starts anew, without the PSK that b has: no session; with it: one
		psk := file(t, "psk", newPSK())
		b.wg("set", "{if}", "peer", a.key.public, "preshared-key", psk)
		a.wg("set", "{if}", "peer", b.key.public, "remove")
		again := []string{"set", "{if}", "peer", b.key.public, "endpoint", outerB + ":" + port, "allowed-ips", b.inner4 + "," + b.inner6}
		a.wg(again...)
		if out, err := a.try("ping", "-c1", "-W1", b.inner4); err == nil {
			t.Errorf("a session without b's preshared key:\n%s", out)
		}
		a.wg("set", "{if}", "peer", b.key.public, "remove")
		a.wg(append(again, "preshared-key", psk)...)
		a.ping(b.inner4, 2)
		tun.works(1 << 20)
	})
}

// A persistent keepalive opens the session by itself and repeats.
func TestPersistentKeepalive(t *testing.T) {
	each(t, func(t *testing.T, da, db []string) {
		tun := newTunnel(t, tunnelOptions{a: da, b: db})
		a, b := tun.a, tun.b
		seen := b.sniff(linkDev)
		a.wg("set", "{if}", "peer", b.key.public, "persistent-keepalive", "1")
		keepalive := func(p packet) bool { return !p.sent && p.messageType() == 4 && len(p.payload) == 32 }
		eventually(t, 15*time.Second, "three keepalives", func() bool { return len(seen.all(keepalive)) >= 3 })
		if h := a.handshake(); h == 0 {
			t.Error("no handshake")
		}
		if got := a.value("persistent_keepalive_interval"); got != "1" {
			t.Errorf("persistent_keepalive_interval: got %s, want 1", got)
		}
	})
}
