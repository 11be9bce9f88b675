package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A peer that dials one of our addresses is answered from that one (A01).
func TestReplySource(t *testing.T) {
	each(t, func(t *testing.T, da, db []string) {
		if db[0] != wgd(t) {
			return // wireguard-go answers from the first address: row A01
		}
		tun := newTunnel(t, tunnelOptions{a: da, b: db})
		a, b := tun.a, tun.b
		b.ip("addr add 192.0.2.22/24 dev "+linkDev, "addr add 2001:db8::22/64 dev "+linkDev+" nodad")
		seen := b.sniff(linkDev)
		dialled := []string{"192.0.2.22:" + port, outerB + ":" + port, "[2001:db8::22]:" + port, "192.0.2.22:" + port}
		if da[0] != wgd(t) {
			dialled = dialled[:2] // wireguard-go cannot change the family: row A02
		}
		for _, second := range dialled {
			// a peer anew, or a session would go on
			a.wg("set", "{if}", "peer", b.key.public, "remove")
			a.wg("set", "{if}", "peer", b.key.public, "endpoint", second, "allowed-ips", b.inner4+","+b.inner6)
			seen.forget()
			a.ping(b.inner4, 2)
			b.ping(a.inner6, 1)
			for _, p := range seen.all(func(p packet) bool { return p.sent && p.messageType() != 0 }) {
				if p.src != mustEndpoint(second) {
					t.Errorf("a dialled %s, b sent a message of type %d from %v", second, p.messageType(), p.src)
				}
			}
			if got := a.endpoint(); got != second {
				t.Errorf("a dialled %s, now has %s", second, got)
			}
		}
	})
}

// The replies leave where the peer came in, also when the routing table would
// choose another way out, and when they come through a link-local address.
func TestReplySourceLinkLocal(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	a.ip("addr add fe80::a/64 dev " + linkDev + " nodad")
	b.ip("addr add fe80::b/64 dev " + linkDev + " nodad")
	a.wg("set", "{if}", "peer", b.key.public, "endpoint", "[fe80::b%"+linkDev+"]:"+port)
	a.ping(b.inner4, 2)
	b.ping(a.inner6, 2)
	if got := b.endpoint(); !strings.HasPrefix(got, "[fe80::") {
		t.Errorf("b learned %s, want a link-local address", got)
	}
}

// A kernel without IPv6: the tunnel works, and the port is kept and told (A04).
func TestWithoutIPv6(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: append(refusing(t, "socket:10=EAFNOSUPPORT"), wgd(t)), b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	a.ping(b.inner4, 2)
	a.ping(b.inner6, 1) // inside there is IPv6
	if got := strings.TrimSpace(a.wg("show", "{if}", "listen-port")); got != port {
		t.Errorf("wg show listen-port: got %s, want %s", got, port)
	}
	if got := a.wg("showconf", "{if}"); !strings.Contains(got, "ListenPort = "+port+"\n") {
		t.Errorf("showconf lost the port:\n%s", got)
	}
	if got := a.sockets(); !slices.Equal(got, []string{"0.0.0.0:" + port}) {
		t.Errorf("sockets: got %v, want one of IPv4", got)
	}
	a.wg("set", "{if}", "listen-port", "40000")
	a.wg("set", "{if}", "listen-port", "0")
	if got := a.value("listen_port"); got == "0" || got == "" {
		t.Errorf("a chosen port is told as %q", got)
	}
	a.ping(b.inner4, 2)
	b.ping(a.inner4, 2)
}

// The interface goes down: no sockets, no session. It comes up: both (A11).
func TestLinkDown(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	a.wg("set", "{if}", "peer", b.key.public, "persistent-keepalive", "1")
	a.ping(b.inner4, 1)
	seen := b.sniff(linkDev)
	for range 3 {
		before := a.handshake()
		a.ip("link set " + a.ifname + " down")
		eventually(t, 5*time.Second, "the sockets are closed", func() bool { return len(a.sockets()) == 0 })
		seen.forget()
		// a second passes without the keepalive that would be due
		time.Sleep(1500 * time.Millisecond)
		if sent := seen.all(func(p packet) bool { return !p.sent && p.messageType() != 0 }); len(sent) > 0 {
			t.Errorf("a sent %d messages while down", len(sent))
		}
		if got := a.value("listen_port"); got != port {
			t.Errorf("listen_port while down: got %s, want %s", got, port)
		}
		a.ip("link set " + a.ifname + " up")
		a.ping(b.inner4, 2)
		b.ping(a.inner4, 1)
		if a.handshake() <= before {
			t.Error("the old session was used after a down and up: its keys were kept")
		}
	}
}

// A packet for nobody, or for a peer without an endpoint, is answered with ICMP
// unreachable, so that the sender need not wait; but not each of a flood (A12).
func TestUnreachable(t *testing.T) {
	t.Parallel()
	d := newHost(t).daemon(wgd(t))
	d.set("private_key=" + asHex(newKey().private) + "\npublic_key=" + asHex(newKey().public) + "\nallowed_ip=10.0.0.5/32\nallowed_ip=fd00::5/128\n")
	d.ip("addr add 10.0.0.1/24 dev "+d.ifname, "addr add fd00::1/64 dev "+d.ifname+" nodad", "link set "+d.ifname+" up")
	for _, to := range []struct{ name, addr, want string }{
		{"no peer, v4", "10.0.0.77", "Destination Host Unreachable"},
		{"no peer, v6", "fd00::77", "Address unreachable"},
		{"no endpoint, v4", "10.0.0.5", "Destination Host Unreachable"},
		{"no endpoint, v6", "fd00::5", "Address unreachable"},
	} {
		eventually(t, 10*time.Second, to.name+": "+to.want, func() bool {
			out, err := d.try("ping", "-n", "-c", "1", "-W", "2", to.addr)
			if err == nil {
				t.Fatalf("%s: ping to nobody was answered", to.name)
			}
			return strings.Contains(err.Error()+out, to.want)
		})
	}
	seen := d.sniff(d.ifname)
	for _, addr := range []string{"10.0.0.77:9", "[fd00::77]:9"} {
		const flood = 1000
		seen.forget()
		c := d.udp("[::]:0")
		paced(flood, 10_000, func(int) bool { c.WriteToUDPAddrPort([]byte("anybody?"), mustEndpoint(addr)); return true })
		errors := func() int {
			return len(seen.all(func(p packet) bool {
				return !p.sent && (p.protocol == unix.IPPROTO_ICMP || p.protocol == unix.IPPROTO_ICMPV6)
			}))
		}
		eventually(t, 5*time.Second, "an ICMP error for "+addr, func() bool { return errors() > 0 })
		eventually(t, 5*time.Second, "the flood has left", func() bool {
			return len(seen.all(func(p packet) bool { return p.sent && p.protocol == unix.IPPROTO_UDP })) > flood/2
		})
		if n := errors(); n > flood/4 {
			t.Errorf("%d ICMP errors for %d packets to %s: no rate limit", n, flood, addr)
		}
	}
}

// The ECN bits of the inner packet go on the outer one, its DSCP does not, and
// handshake messages are AF41 (A13).
func TestOuterTOS(t *testing.T) {
	t.Parallel()
	for _, outer6 := range []bool{false, true} {
		tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}, outer6: outer6})
		a, b := tun.a, tun.b
		seen := b.sniff(linkDev)
		a.ping(b.inner4, 1)
		for _, typ := range []byte{1, 2} {
			p := seen.find(fmt.Sprintf("message type %d", typ), func(p packet) bool { return p.messageType() == typ })
			if p.tos != 0x88 {
				t.Errorf("outer v6 %v, message type %d: TOS %#x, want 0x88", outer6, typ, p.tos)
			}
		}
		for _, inner := range []string{b.inner4, b.inner6} {
			for _, ecn := range []struct{ in, out byte }{{0xb8, 0}, {0xb9, 1}, {0xba, 2}, {0xbb, 2}, {0, 0}} {
				eventually(t, 5*time.Second, "no message on the way", func() bool {
					seen.forget()
					time.Sleep(20 * time.Millisecond)
					return len(seen.all(func(p packet) bool { return p.messageType() == 4 })) == 0
				})
				a.run("ping", "-n", "-q", "-c", "1", "-W", "10", "-Q", fmt.Sprint(ecn.in), inner)
				p := seen.find("the echo request's message", func(p packet) bool { return !p.sent && p.messageType() == 4 && len(p.payload) > 64 })
				if p.tos != ecn.out {
					t.Errorf("outer v6 %v, inner %s with TOS %#x: outer TOS %#x, want %#x", outer6, inner, ecn.in, p.tos, ecn.out)
				}
			}
		}
	}
}

// The mark is on each outgoing packet: a rule sends marked ones astray.
func TestFirewallMark(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	a.ping(b.inner4, 1)
	a.ip("rule add fwmark 0x77 unreachable")
	a.wg("set", "{if}", "fwmark", "0x77")
	if _, err := a.try("ping", "-c", "1", "-W", "1", b.inner4); err == nil {
		t.Error("marked packets do not follow the rule for the mark")
	}
	a.wg("set", "{if}", "fwmark", "0")
	a.ping(b.inner4, 1)
	a.wg("set", "{if}", "fwmark", "0x77", "listen-port", "40000") // new sockets have it too
	if _, err := a.try("ping", "-c", "1", "-W", "1", b.inner4); err == nil {
		t.Error("new sockets lack the mark")
	}
}

// Packets whose source is not allowed for their peer do not come in.
func TestAllowedIPsOnReceipt(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	a.ping(b.inner4, 1)
	a.ip("addr add 10.0.0.99/32 dev " + a.ifname)
	arrived := b.sniff(b.ifname)
	a.try("ping", "-c", "1", "-W", "1", "-I", "10.0.0.99", b.inner4)
	a.ping(b.inner4, 1)
	if bad := arrived.all(func(p packet) bool { return !p.sent && p.src.Addr().String() == "10.0.0.99" }); len(bad) > 0 {
		t.Error("a packet from 10.0.0.99 came in; a's allowed IP is 10.0.0.1")
	}
	b.wg("set", "{if}", "peer", a.key.public, "allowed-ips", "10.0.0.99/32")
	a.try("ping", "-c", "1", "-W", "1", "-I", "10.0.0.99", b.inner4)
	arrived.find("from 10.0.0.99, now allowed", func(p packet) bool { return !p.sent && p.src.Addr().String() == "10.0.0.99" })
}

// The MTU of the interface bounds the padding: a full inner packet gives a
// message of MTU + 32 bytes, and a changed MTU is followed.
func TestPaddingAndMTU(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	a, b := tun.a, tun.b
	seen := b.sniff(linkDev)
	a.ping(b.inner4, 1)
	for _, mtu := range []int{1420, 1301} {
		a.ip(fmt.Sprintf("link set %s mtu %d", a.ifname, mtu))
		for _, test := range []struct{ inner, padded int }{
			{mtu, mtu}, {mtu - 1, mtu}, {mtu - 20, min(mtu, (mtu-20+15)&^15)}, {84, 96}, {96, 96},
		} {
			eventually(t, 10*time.Second, fmt.Sprintf("MTU %d, inner %d bytes: a message of %d", mtu, test.inner, test.padded+32), func() bool {
				seen.forget()
				a.run("ping", "-n", "-q", "-c", "1", "-W", "10", "-s", fmt.Sprint(test.inner-28), b.inner4)
				return len(seen.all(func(p packet) bool { return !p.sent && p.messageType() == 4 && len(p.payload) == test.padded+32 })) == 1
			})
		}
	}
	b.ping(a.inner6, 1)
}
