package device

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"wgd/conf"
	"wgd/noise"
	"wgd/tun"
)

// A remote is a peer made by hand: it sends what the test wants, and nothing else.
type remote struct {
	*memConn
	w       *world
	private noise.PrivateKey
	local   *noise.Local
	inner   netip.Addr
	cookies noise.CookieJar
	stamps  noise.TimestampClock
}

// remote makes one at outer address 192.0.2.n, and a peer of x.
func (w *world) remote(t *testing.T, n byte, x *node) *remote {
	t.Helper()
	r := &remote{w: w, inner: netip.AddrFrom4([4]byte{10, 0, 0, n})}
	for i := range r.private {
		r.private[i] = n + byte(i)*11
	}
	r.private.Clamp()
	r.local = noise.NewLocal(&r.private)
	var err error
	if r.memConn, err = w.open(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), worldPort)); err != nil {
		t.Fatal(err)
	}
	x.configure(t, conf.Update{Peers: []conf.PeerUpdate{{
		PublicKey:  conf.Key(r.local.Public()),
		AllowedIPs: []conf.AllowedIP{{Prefix: netip.PrefixFrom(r.inner, 32)}},
	}}})
	return r
}

// initiation returns one for x, and its state.
func (r *remote) initiation(t *testing.T, x *node, wall time.Time) ([]byte, *noise.Handshake) {
	t.Helper()
	to := noise.NewRemote(x.private.Public(), noise.PresharedKey{})
	ephemeral, err := noise.NewPrivateKey(rand.Reader)
	var hs noise.Handshake
	var msg []byte
	if err == nil {
		msg, err = hs.CreateInitiation(nil, r.local, &to, &ephemeral, 0x01020304, r.stamps.Next(wall))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.cookies.AddMACs(msg, x.private.Public(), 1)
	return msg, &hs
}

// says sends a message to x.
func (r *remote) says(x *node, msg []byte) {
	to := endpoint{addr: x.at()}
	r.send(&to, msg, []segment{{len: len(msg)}})
	synctest.Wait()
}

// hears returns the next message that came, nil if there is none.
func (r *remote) hears() []byte {
	synctest.Wait()
	select {
	case g := <-r.in:
		return g.data
	default:
		return nil
	}
}

// session makes a session with x, as the initiator, and confirms it.
func (r *remote) session(t *testing.T, x *node) *noise.Keypair {
	t.Helper()
	msg, hs := r.initiation(t, x, time.Now())
	r.says(x, msg)
	to := noise.NewRemote(x.private.Public(), noise.PresharedKey{})
	if err := hs.ConsumeResponse(r.hears(), r.local, &to); err != nil {
		t.Fatal(err)
	}
	kp, err := hs.Keypair(1)
	if err != nil {
		t.Fatal(err)
	}
	r.says(x, seal(kp, nil))
	return kp
}

func seal(kp *noise.Keypair, packet []byte) []byte {
	msg := make([]byte, noise.HeaderSize+len(packet)+noise.TagSize)
	kp.Seal(msg, packet)
	return msg
}

// ping is a packet from r to x.
func (r *remote) ping(x *node, n int) []byte { return (&node{inner: r.inner}).packet(x, n) }

func TestLostHandshakeMessages(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose string // the first of its kind
		want []string
	}{
		{"initiation", "0s 1>2 initiation", []string{
			"0s 1>2 initiation",
			"5s 1>2 initiation", "5s 2>1 response", "5s 1>2 data", "5s 1>2 data",
			"15s 2>1 keepalive"}},
		{"response", "0s 2>1 response", []string{
			"0s 1>2 initiation", "0s 2>1 response",
			"5s 1>2 initiation", "5s 2>1 response", "5s 1>2 data", "5s 1>2 data",
			"15s 2>1 keepalive"}},
		{"first data", "0s 1>2 data", []string{
			"0s 1>2 initiation", "0s 2>1 response", "0s 1>2 data",
			"3s 1>2 data",
			"13s 2>1 keepalive"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b := w.pair()
				w.lose(func(m sentMessage) bool { return m.String() == tt.lose })
				first := a.sends(b, 100)
				w.sleepUntil(3 * s)
				second := a.sends(b, 120)
				w.sleepUntil(time.Minute)
				w.expect(t, tt.want...)
				want := [][]byte{first, second}
				if tt.name == "first data" {
					want = want[1:]
				}
				if got := b.got(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("b got %d packets, want %d, in order", len(got), len(want))
				}
			})
		})
	}
}

// A burst of packets asks for an initiation many times, and gets one.
func TestOneInitiationForManyPackets(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		for i := range 50 {
			w.sleepUntil(time.Duration(i) * 200 * s)
			w.forget()
			for range 20 {
				a.tun.Inject(a.packet(b, 100))
			}
			time.Sleep(30 * s)
			if n := len(w.sent(isInitiation)); n != 1 {
				t.Fatalf("round %d: %d initiations, want 1:\n%v", i, n, w.sent(isInitiation))
			}
			if n := len(b.got()); n != 20 {
				t.Errorf("b got %d packets, want 20", n)
			}
		}
	})
}

func TestCrossingInitiations(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.setLatency(10 * time.Millisecond)
		a, b := w.pair()
		b.knows(t, a, true)
		a.tun.Inject(a.packet(b, 100))
		b.tun.Inject(b.packet(a, 100))
		w.sleepUntil(s)
		if n, m := len(a.got()), len(b.got()); n != 1 || m != 1 {
			t.Errorf("a got %d packets, b %d; want one each", n, m)
		}
		if n := len(w.sent(isInitiation)); n != 2 {
			t.Fatalf("%d initiations; the test wants two that cross", n)
		}
		w.forget()
		every(s/2, 800, func(int) {
			a.tun.Inject(a.packet(b, 100))
			b.tun.Inject(b.packet(a, 100))
		})
		time.Sleep(s)
		if n, m := len(a.got()), len(b.got()); n != 800 || m != 800 {
			t.Errorf("a got %d packets, b %d; want 800", n, m)
		}
		// Both were initiators, so they cross once more; from then on only one is.
		rekeys := w.sent(isInitiation)
		if len(rekeys) != 4 || rekeys[0].from == rekeys[1].from || rekeys[2].from != rekeys[3].from {
			t.Errorf("initiations in 400 s after the first two: %v; want two that cross and two of one side", rekeys)
		}
	})
}

func TestHandshakesAreMarked(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		for _, m := range w.sent(func(sentMessage) bool { return true }) {
			want := byte(0x88)
			if m.typ == noise.TypeTransport {
				want = 0
			}
			if m.tos != want {
				t.Errorf("%v: TOS %#x, want %#x", m, m.tos, want)
			}
		}
	})
}

func TestPresharedKey(t *testing.T) {
	psk := func(b byte) func(*conf.PeerUpdate) {
		k := conf.Key{b}
		return func(p *conf.PeerUpdate) { p.PresharedKey = &k }
	}
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.knows(t, b, true, psk(1))
		a.sends(b, 100)
		w.sleepUntil(12 * s)
		w.expect(t, all(exchange("0s"), exchange("5s"), exchange("10s"))...)
		if n := len(b.got()); n != 0 {
			t.Fatalf("%d packets came through with a preshared key on one side", n)
		}
		if state := a.State().Peers[0]; !state.LastHandshake.IsZero() || state.RxBytes != 0 {
			t.Errorf("a counts a handshake: %v, %d bytes", state.LastHandshake, state.RxBytes)
		}
		b.knows(t, a, false, psk(1))
		w.sleepUntil(16 * s)
		w.expect(t, append(exchange("15s"), "15s 1>2 data")...)
		// A new one is for the next handshake; the session goes on.
		a.knows(t, b, false, psk(2))
		a.sends(b, 100)
		w.expect(t, "16s 1>2 data")
		if n := len(b.got()); n != 2 {
			t.Errorf("b got %d packets, want 2", n)
		}
	})
}

// A handshake under way ends only by a change.
func TestPresharedKeyDuringAHandshake(t *testing.T) {
	for k := range byte(2) {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.pair()
			w.setLatency(10 * time.Millisecond)
			a.sends(b, 100)
			epoch := inPeer(a, b, func(p *Peer) uint32 { return p.epoch })
			set := func(p *conf.PeerUpdate) { p.PresharedKey = &conf.Key{k} }
			a.knows(t, b, true, set)
			if got := inPeer(a, b, func(p *Peer) uint32 { return p.epoch }) - epoch; got != uint32(k) {
				t.Errorf("preshared key %d: %d changes", k, got)
			}
			time.Sleep(5 * time.Millisecond)
			b.knows(t, a, false, set)
			time.Sleep(s)
			if n := len(w.sent(isInitiation)); n != 1 || len(b.got()) != 1 {
				t.Errorf("preshared key %d: %d initiations, and not one packet", k, n)
			}
		})
	}
}

func TestInitiationsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pause time.Duration // between the good one and the other
		msg   func(t *testing.T, r *remote, x *node, good []byte) []byte
		want  byte // type of the answer; 0: none
	}{
		{"a new one is answered", 20 * time.Millisecond, func(t *testing.T, r *remote, x *node, _ []byte) []byte {
			msg, _ := r.initiation(t, x, time.Now())
			return msg
		}, noise.TypeResponse},
		{"the same again", s, func(_ *testing.T, _ *remote, _ *node, good []byte) []byte { return good }, 0},
		{"an older timestamp", s, func(t *testing.T, r *remote, x *node, _ []byte) []byte {
			r.stamps = noise.TimestampClock{}
			msg, _ := r.initiation(t, x, time.Now().Add(-time.Hour))
			return msg
		}, 0},
		{"more than 50 a second", 20*time.Millisecond - 1, func(t *testing.T, r *remote, x *node, _ []byte) []byte {
			msg, _ := r.initiation(t, x, time.Now())
			return msg
		}, 0},
		{"a wrong mac1", s, func(t *testing.T, r *remote, x *node, _ []byte) []byte {
			msg, _ := r.initiation(t, x, time.Now())
			msg[noise.InitiationSize-32]++
			return msg
		}, 0},
		{"for another's key", s, func(t *testing.T, r *remote, x *node, _ []byte) []byte {
			msg, _ := r.initiation(t, &node{private: r.private}, time.Now())
			return msg
		}, 0},
		{"changed on its way", s, func(t *testing.T, r *remote, x *node, _ []byte) []byte {
			msg, _ := r.initiation(t, x, time.Now())
			msg[100]++
			r.cookies.AddMACs(msg, x.private.Public(), 1)
			return msg
		}, 0},
		{"by a stranger", s, func(t *testing.T, r *remote, x *node, _ []byte) []byte {
			r.private[7]++
			r.local = noise.NewLocal(&r.private)
			msg, _ := r.initiation(t, x, time.Now())
			return msg
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.node(1)
				x.setUp(true)
				r := w.remote(t, 9, x)
				good, _ := r.initiation(t, x, time.Now())
				r.says(x, good)
				if got := noise.MessageType(r.hears()); got != noise.TypeResponse {
					t.Fatalf("a good initiation is answered by type %d", got)
				}
				time.Sleep(tt.pause)
				before := *x.State()
				r.addr = netip.MustParseAddrPort("192.0.2.77:7") // an attacker's
				msg := tt.msg(t, r, x, good)
				w.inject(r.addr, x.at(), msg)
				w.forget()
				after := *x.State()
				moved := after.Peers[0].Endpoint != before.Peers[0].Endpoint
				if moved != (tt.want != 0) {
					t.Errorf("endpoint: %v before, %v after", before.Peers[0].Endpoint, after.Peers[0].Endpoint)
				}
				if tt.want == 0 && fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("the state changed:\n%v\n%v", before, after)
				}
				if n := x.indices(); tt.want == 0 && n != 1 {
					t.Errorf("%d receiver indices, want 1", n)
				}
			})
		})
	}
}

// A cookie reply under load, and the next initiation proves that its sender is there.
func TestCookies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		mac2 := func() []byte {
			list := w.sent(isInitiation)
			return list[len(list)-1].data[noise.InitiationSize-16:]
		}
		b.underLoad()
		a.sends(b, 100)
		if !bytes.Equal(mac2(), make([]byte, 16)) {
			t.Errorf("mac2 %x without a cookie", mac2())
		}
		w.sleepUntil(5*s - 1)
		b.underLoad()
		w.sleepUntil(6 * s)
		if bytes.Equal(mac2(), make([]byte, 16)) {
			t.Errorf("no mac2 with a cookie")
		}
		w.expect(t, append([]string{"0s 1>2 initiation", "0s 2>1 cookie reply"}, append(exchange("5s"), "5s 1>2 data")...)...)
		if n := len(b.got()); n != 1 {
			t.Errorf("b got %d packets, want 1", n)
		}
	})
}

// underLoad makes x take itself for loaded, for loadedTime.
func (x *node) underLoad() {
	x.admission.mu.Lock()
	x.admission.loaded, x.admission.active = x.Device.clock.Now(), true
	x.admission.mu.Unlock()
}

// A forged or replayed cookie reply is not taken.
func TestForgedCookies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		w.lose(func(m sentMessage) bool { return m.typ == noise.TypeCookieReply })
		b.underLoad()
		a.sends(b, 100)
		reply := w.sent(func(m sentMessage) bool { return m.typ == noise.TypeCookieReply })[0].data
		before := a.cookies(b)
		for i := range reply {
			bad := bytes.Clone(reply)
			bad[i]++
			w.inject(b.at(), a.at(), bad)
			if a.cookies(b) != before {
				t.Fatalf("taken with byte %d changed", i)
			}
		}
		w.inject(b.at(), a.at(), reply)
		taken := a.cookies(b)
		if taken == before {
			t.Fatal("the true one is not taken")
		}
		time.Sleep(s)
		w.inject(b.at(), a.at(), reply)
		if a.cookies(b) != taken {
			t.Error("taken twice")
		}
	})
}

// idle makes a device whose tasks do not run: what is admitted stays in the queue.
func idle(t *testing.T, w *world) *node {
	t.Helper()
	x := &node{addr: netip.AddrFrom4([4]byte{192, 0, 2, 1}), tun: tun.NewMemory("wg0", tun.DefaultMTU)}
	x.private = noise.PrivateKey{1: 7}
	x.private.Clamp()
	x.Device = newDevice(Options{Tun: x.tun, Budget: testBudget})
	x.Device.clock = newFakeClock()
	x.setKey(t, x.private)
	t.Cleanup(x.Close)
	return x
}

func TestAdmission(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := idle(t, w)
		r := w.remote(t, 9, x)
		msg, _ := r.initiation(t, x, time.Now())
		from := func(n int) datagram {
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, byte(n >> 8), byte(n)}), 1000)
			return datagram{data: bytes.Clone(msg), from: endpoint{addr: addr}}
		}
		// take empties the queues and says what was in them.
		take := func() (work, cookies int) {
			for len(x.handshakes) > 0 {
				<-x.handshakes
				work++
			}
			for len(x.cookieJobs) > 0 {
				<-x.cookieJobs
				cookies++
			}
			return work, cookies
		}
		step := func(what string, wantWork, wantCookies int) {
			t.Helper()
			if work, cookies := take(); work != wantWork || cookies != wantCookies {
				t.Errorf("%s: %d for work and %d for a cookie reply; want %d and %d", what, work, cookies, wantWork, wantCookies)
			}
		}
		flood := func(n int) (burst []datagram) {
			for range n {
				burst = append(burst, from(1))
			}
			return burst
		}

		x.receiveBurst([]datagram{from(0)}, false, new(pressure))
		step("one", 1, 0)
		time.Sleep(s)
		x.receiveBurst(flood(8), false, new(pressure))
		step("8 of one source", 5, 3)
		time.Sleep(50 * time.Millisecond)
		x.receiveBurst(flood(3), false, new(pressure))
		step("50 ms later, when nobody waits", 3, 0)
		x.receiveBurst(flood(9), false, new(pressure))
		step("9 more, when others begin to wait", crowdedHandshakes, 9-crowdedHandshakes)

		// C29: a flood of one source is nobody else's trouble.
		time.Sleep(s)
		for i := range 50 {
			time.Sleep(10 * time.Millisecond) // 5,000 a second
			x.receiveBurst(append(flood(50), from(100+i)), false, new(pressure))
			served := false
			for len(x.handshakes) > 0 {
				m := <-x.handshakes
				served = served || m.from.addr == from(100+i).from.addr
			}
			if !served {
				t.Fatalf("round %d: a message of another source is not served", i)
			}
		}
		take()

		// The same without anybody who works: the queues are bounded.
		time.Sleep(2 * s)
		for range 100 {
			x.receiveBurst(flood(50), false, new(pressure))
		}
		if work, cookies := take(); work > maxHandshakes || cookies > maxCookieJobs || cookies == 0 {
			t.Errorf("a flood: %d for work and %d for a cookie reply", work, cookies)
		}

		// Load by many sources puts all in cookie mode.
		time.Sleep(2 * s)
		for i := range 200 {
			x.receiveBurst([]datagram{from(1000 + i)}, false, new(pressure))
		}
		step("200 sources", loadedHandshakes, maxCookieJobs)
		x.receiveBurst([]datagram{from(2000)}, false, new(pressure))
		step("just after that", 0, 1)
		time.Sleep(loadedTime)
		x.receiveBurst([]datagram{from(2001)}, false, new(pressure))
		step("1 s after that", 1, 0)

		// Under load a valid mac2 is served, within the source's bucket.
		x.underLoad()
		reply, err := x.admission.checker.CreateReply(nil, msg, from(1).from.addr, x.Device.clock.Now(), rand.Reader)
		if err != nil || !r.cookies.ConsumeReply(reply, x.private.Public(), 1) {
			t.Fatal("no cookie", err)
		}
		r.cookies.AddMACs(msg, x.private.Public(), 1)
		x.receiveBurst(flood(provenBurst+8), false, new(pressure))
		step("a valid mac2, many times", provenBurst, 0)
		x.receiveBurst([]datagram{from(2)}, false, new(pressure))
		step("another's mac2", 0, 1)
		other := from(1)
		other.from.addr = netip.AddrPortFrom(other.from.addr.Addr(), 1001)
		time.Sleep(50 * time.Millisecond)
		x.receiveBurst([]datagram{other}, false, new(pressure))
		step("a mac2 of another port", 0, 1)
	})
}

// C29 from end to end: another peer's handshake completes at once.
func TestFlood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		b.log = nil
		r := w.remote(t, 9, b)
		msg, _ := r.initiation(t, b, time.Now())
		every(10*time.Millisecond, 100, func(i int) {
			for range 50 {
				w.mu.Lock()
				w.deliver(sentMessage{from: r.memConn.addr, to: b.at(), data: msg})
				w.mu.Unlock()
			}
			if i == 50 {
				a.tun.Inject(a.packet(b, 100))
			}
		})
		if n := len(b.got()); n != 1 {
			t.Errorf("b got %d packets during the flood, want 1", n)
		}
		got := w.sent(func(m sentMessage) bool { return m.from == a.at() || m.to == a.at() })
		if fmt.Sprint(got) != fmt.Sprint(append(exchange("500ms"), "500ms 1>2 data")) {
			t.Errorf("%v", got)
		}
		if n := len(w.sent(func(m sentMessage) bool { return m.typ == noise.TypeCookieReply })); n == 0 {
			t.Error("no cookie reply to the flood")
		}
	})
}

// A transport message that comes again is dropped, and a forged one; neither moves
// the endpoint: C25.
func TestRoaming(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.node(1)
		x.setUp(true)
		r := w.remote(t, 9, x)
		home := r.memConn.addr
		away := netip.MustParseAddrPort("198.51.100.9:4000")
		elsewhere := netip.MustParseAddrPort("[2001:db8::9]:4000")
		kp := r.session(t, x)
		at := func() netip.AddrPort { return x.State().Peers[0].Endpoint }
		step := func(what string, from netip.AddrPort, msg []byte, packets int, want netip.AddrPort) {
			t.Helper()
			w.inject(from, x.at(), msg)
			if got := len(x.got()); got != packets {
				t.Fatalf("%s: %d packets received, want %d", what, got, packets)
			}
			if got := at(); got != want {
				t.Fatalf("%s: endpoint %v, want %v", what, got, want)
			}
		}
		msg := seal(kp, r.ping(x, 100))
		step("a message", home, msg, 1, home)
		step("a replay", away, msg, 0, home)
		for n := 16; n <= 32; n++ {
			for _, index := range []uint32{0, 77, kp.RemoteIndex} {
				forged := make([]byte, n)
				forged[0] = noise.TypeTransport
				binary.LittleEndian.PutUint32(forged[4:], index)
				step(fmt.Sprintf("%d bytes of a forgery", n), away, forged, 0, home)
			}
		}
		bad := seal(kp, r.ping(x, 100))
		bad[60]++
		step("a changed message", away, bad, 0, home)
		bad[60]--
		step("a true one", away, bad, 1, away)
		step("a keepalive", elsewhere, seal(kp, nil), 0, elsewhere)

		// Answers go there, and a burst leaves the last place.
		old := seal(kp, nil)
		x.receiveBurst([]datagram{
			{data: seal(kp, nil), from: endpoint{addr: away}},
			{data: seal(kp, nil), from: endpoint{addr: home}},
			{data: bytes.Clone(old[:31]), from: endpoint{addr: elsewhere}},
		}, false, new(pressure))
		if got := at(); got != home {
			t.Errorf("after a burst: endpoint %v, want %v", got, home)
		}

		// An initiation moves it, too.
		time.Sleep(s)
		init, _ := r.initiation(t, x, time.Now())
		step("an initiation", away, init, 0, away)
		step("its replay", home, init, 0, away)
	})
}
