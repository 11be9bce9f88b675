package device

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"
	"unsafe"

	"wgd/conf"
	"wgd/noise"
	"wgd/tun"
)

// nullConn is a socket that keeps the bytes of what is sent, if it may.
type nullConn struct {
	keep  bool
	sent  [][]byte
	polls int
}

func (*nullConn) serve(func([]datagram, bool)) error { return nil }
func (c *nullConn) fits(*endpoint) int               { return noLimit }
func (c *nullConn) poll()                            { c.polls++ }
func (*nullConn) setMark(uint32) error               { return nil }
func (*nullConn) close() error                       { return nil }

func (c *nullConn) send(_ *endpoint, buf []byte, segs []segment) error {
	if c.keep {
		for _, s := range segs {
			c.sent = append(c.sent, bytes.Clone(buf[s.off:s.off+s.len]))
		}
	}
	return nil
}

// nullTun swallows what is written to it, or keeps the last packet.
type nullTun struct {
	*tun.Memory
	packets int
	last    []byte // reused
	polls   int
}

func (n *nullTun) Write(buf []byte) error {
	n.packets++
	n.last = append(n.last[:0], buf[tun.Headroom:]...)
	return nil
}

func (n *nullTun) Poll(f func()) { n.polls++; f() }

func (n *nullTun) Gather(buf []byte) error { return n.Write(buf) }

// stoppedClock always tells the same instant.
type stoppedClock struct {
	*fakeClock
	now noise.Instant
}

func (c stoppedClock) Now() noise.Instant { return c.now }
func (c stoppedClock) Set(deadline)       {}

// A bench is a device without tasks, and the other end of its session with its one
// peer: 10.0.0.2 and fd00::2 behind 192.0.2.2.
type bench struct {
	*Device
	tun  *nullTun
	out  *nullConn
	far  *noise.Keypair // the peer's
	from endpoint
	last *Peer
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{
		tun:  &nullTun{Memory: tun.NewMemory("wg0", tun.DefaultMTU)},
		out:  &nullConn{},
		from: endpoint{addr: netip.MustParseAddrPort("192.0.2.2:51820")},
	}
	b.Device = newDevice(Options{Tun: b.tun, Budget: testBudget})
	b.clock = stoppedClock{newFakeClock(), 1e15}
	t.Cleanup(b.Close)
	near, far := noise.PrivateKey{3: 1}, noise.PrivateKey{3: 2}
	near.Clamp()
	far.Clamp()
	key := conf.Key(near)
	if err := b.Configure(&conf.Update{PrivateKey: &key, Peers: []conf.PeerUpdate{{
		PublicKey: conf.Key(far.Public()),
		Endpoint:  &b.from.addr,
		AllowedIPs: []conf.AllowedIP{
			{Prefix: netip.MustParsePrefix("10.0.0.2/32")},
			{Prefix: netip.MustParsePrefix("fd00::2/128")},
		},
	}}}); err != nil {
		t.Fatal(err)
	}
	b.up = true
	p := b.peers[0]
	p.running = true
	b.bind.Store(&binding{v4: b.out, v6: b.out})
	b.last = p

	// A session that our side began.
	index, err := b.index.add(p, nil, b.rand)
	ok(t, err)
	var mine, theirs noise.Handshake
	local := noise.NewLocal(&far)
	toThem := noise.NewRemote(far.Public(), noise.PresharedKey{})
	toUs := noise.NewRemote(near.Public(), noise.PresharedKey{})
	e1, e2 := noise.PrivateKey{9: 1}, noise.PrivateKey{9: 2}
	msg, err := mine.CreateInitiation(nil, b.identity.Load(), &toThem, &e1, index, noise.Timestamp{1})
	ok(t, err)
	_, err = theirs.ConsumeInitiation(msg, local, func(noise.PublicKey) *noise.Remote { return &toUs })
	ok(t, err)
	msg, err = theirs.CreateResponse(nil, local, &toUs, &e2, 77)
	ok(t, err)
	ok(t, mine.ConsumeResponse(msg, b.identity.Load(), &toThem))
	kp, err := mine.Keypair(b.clock.Now())
	ok(t, err)
	b.far, err = theirs.Keypair(b.clock.Now())
	ok(t, err)
	b.index.attach(index, kp)
	p.keypairs.Install(kp)
	return b
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// receiveSide is all that Open may change.
func receiveSide(kp *noise.Keypair) (kept noise.Window) {
	f := reflect.ValueOf(kp).Elem().FieldByName("window")
	return *(*noise.Window)(unsafe.Pointer(f.UnsafeAddr()))
}

// sealed is a message from the peer.
func (b *bench) sealed(packet []byte) []byte { return seal(b.far, packet) }

// read adds a packet to the burst as transmitBurst does.
func (b *bench) read(packet []byte) {
	b.tx.in.Set(packet)
	for p := b.tx.in.Next(); p != nil; p = b.tx.in.Next() {
		b.transmit(p, b.clock.Now())
	}
}

// transmits sends one packet.
func (b *bench) transmits(packet []byte) {
	b.tx.mu.Lock()
	b.read(packet)
	b.flush(b.clock.Now())
	b.tx.mu.Unlock()
}

// What arrives from anybody changes nothing that matters.
func FuzzReceive(f *testing.F) {
	b := newBench(f)
	index := b.last.keypairs.Current().LocalIndex
	header := func(typ byte, size int) []byte {
		m := make([]byte, size)
		m[0] = typ
		m[4], m[5], m[6], m[7] = byte(index), byte(index>>8), byte(index>>16), byte(index>>24)
		m = append(m, m[4:8]...)
		return m[:size]
	}
	f.Add([]byte{})
	for _, n := range []int{16, 31, 32, 33, 48, 64, 92, 148, 1452} {
		for typ := range byte(6) {
			f.Add(header(typ, n))
		}
	}
	f.Add(b.sealed(packet4("10.0.0.2", "10.0.0.1", 60))[:91])
	f.Fuzz(func(t *testing.T, data []byte) {
		for len(b.handshakes) > 0 {
			<-b.handshakes
		}
		for len(b.cookieJobs) > 0 {
			<-b.cookieJobs
		}
		p := b.last
		kp := p.keypairs.Current()
		window, timers, state, packets := receiveSide(kp), p.timers, b.State(), b.tun.packets
		attacker := endpoint{addr: netip.MustParseAddrPort("203.0.113.5:1")}
		in := bytes.Clone(data)
		b.receiveBurst([]datagram{{data: in, from: attacker, tos: 3}, {data: bytes.Clone(data), from: attacker}}, false, new(pressure))
		after := b.State()
		if len(after.Peers) != 1 || after.Peers[0].Endpoint != state.Peers[0].Endpoint || after.Peers[0].RxBytes != state.Peers[0].RxBytes {
			t.Errorf("the peer changed: %v, %v", state.Peers, after.Peers)
		}
		if p.keypairs.Current() != kp || p.keypairs.Next() != nil || p.timers != timers {
			t.Errorf("keypairs or timers changed")
		}
		if receiveSide(kp) != window {
			t.Errorf("the replay window moved")
		}
		if b.tun.packets != packets {
			t.Errorf("a packet was received: %x", b.tun.last)
		}
		if len(b.handshakes) > 0 {
			for len(b.handshakes) > 0 {
				m := <-b.handshakes
				b.receiveHandshake(&m)
			}
			if p.keypairs.Next() != nil || p.endpoint != b.from {
				t.Errorf("a handshake message of nobody's was taken")
			}
		}
	})
}

// What the peer itself sends is a packet of its own, or nothing.
func FuzzReceiveAuthenticated(f *testing.F) {
	b := newBench(f)
	f.Add([]byte{}, byte(0))
	f.Add(packet4("10.0.0.2", "10.0.0.1", 60), byte(3))
	f.Add(traffic(packet4("10.0.0.2", "10.0.0.1", 60), 1), byte(3))
	f.Add(append(packet6("fd00::2", "fd00::1", 60), 0, 0, 0), byte(3))
	f.Add(packet4("10.0.0.3", "10.0.0.1", 60), byte(0))
	f.Fuzz(func(t *testing.T, packet []byte, tos byte) {
		if len(packet) > 65535 {
			return
		}
		b.tun.packets = 0
		b.receiveBurst([]datagram{{data: b.sealed(packet), from: b.from, tos: tos}}, false, new(pressure))
		if b.tun.packets == 0 {
			return
		}
		got := b.tun.last
		if b.tun.packets != 1 || len(got) > len(packet) {
			t.Fatalf("%d packets, the last of %d bytes, of one of %d", b.tun.packets, len(got), len(packet))
		}
		want := bytes.Clone(packet[:len(got)])
		switch {
		case isIPv4(got) && netip.AddrFrom4([4]byte(got[12:16])) == netip.MustParseAddr("10.0.0.2"):
			if int(got[2])<<8+int(got[3]) != len(got) {
				t.Errorf("%d bytes of %x", len(got), packet)
			}
			want[1], want[10], want[11] = got[1], got[10], got[11]
			before, after := checksum(0, packet[:ipv4HeaderSize]), checksum(0, got[:ipv4HeaderSize])
			if before != after && before+after != 0xffff {
				t.Errorf("header checksum is off by %#x, was by %#x", after, before)
			}
		case isIPv6(got) && netip.AddrFrom16([16]byte(got[8:24])) == netip.MustParseAddr("fd00::2"):
			if 40+int(got[4])<<8+int(got[5]) != len(got) {
				t.Errorf("%d bytes of %x", len(got), packet)
			}
			want[1] = got[1]
		default:
			t.Fatalf("let through: %x", got)
		}
		if !bytes.Equal(got, want) || ecn(got)&^ecn(packet) != 0 && (tos&3 != ecnCE || ecn(got) != ecnCE) {
			t.Errorf("changed:\n in %x\nout %x", packet, got)
		}
	})
}

// A packet from the system goes to the peer as it is, or is answered, or dropped.
func FuzzTransmit(f *testing.F) {
	b := newBench(f)
	b.out.keep = true
	f.Add([]byte{})
	f.Add(packet4("10.0.0.1", "10.0.0.2", 20))
	f.Add(packet4("10.0.0.1", "10.0.0.2", 1420))
	f.Add(packet4("10.0.0.1", "10.0.0.3", 60))
	f.Add(packet4("10.0.0.1", "10.0.0.2", 2000))
	full := packet4("10.0.0.1", "10.0.0.2", 1420)
	copy(full[ipv4HeaderSize:], bytes.Repeat([]byte{0xff}, 1400))
	f.Add(full)
	f.Add(full[:61]) // its padding must not be what was there before
	f.Add(packet6("fd00::1", "fd00::2", 60))
	f.Add(packet6("fd00::1", "fd00::3", 60))
	f.Add([]byte{0x45, 1, 2})
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) > 65535 {
			return
		}
		b.out.sent, b.tun.packets = nil, 0
		b.unreachables = tokenBucket{}
		b.transmits(packet)
		switch {
		case len(b.out.sent) > 1 || len(b.out.sent)+b.tun.packets > 1:
			t.Fatalf("%d messages and %d answers", len(b.out.sent), b.tun.packets)
		case b.tun.packets == 1:
			if !answerable(packet) {
				t.Errorf("answered: %x", packet)
			}
			checkUnreachable(t, packet, b.tun.last)
		case len(b.out.sent) == 1:
			got, ok := b.far.Open(b.out.sent[0])
			if !ok || len(got) < len(packet) || !bytes.Equal(got[:len(packet)], packet) || !isZero(got[len(packet):]) {
				t.Fatalf("opened %v:\n in %x\nout %x", ok, packet, got)
			}
			if n := len(got) - len(packet); n > tun.MaxPadding || len(packet) <= tun.DefaultMTU && len(got) > tun.DefaultMTU {
				t.Errorf("%d bytes of padding on %d", n, len(packet))
			}
			dst4 := isIPv4(packet) && netip.AddrFrom4([4]byte(packet[16:])) == netip.MustParseAddr("10.0.0.2")
			dst6 := isIPv6(packet) && netip.AddrFrom16([16]byte(packet[24:])) == netip.MustParseAddr("fd00::2")
			if !dst4 && !dst6 {
				t.Errorf("not the peer's: %x", packet)
			}
		}
	})
}

func FuzzUnreachable(f *testing.F) {
	f.Add(packet4("10.0.0.1", "10.0.0.77", 20))
	f.Add(packet4("10.0.0.1", "10.0.0.77", 1420))
	f.Add(packet6("fd00::1", "fd00::77", 40))
	f.Add(packet6("fd00::1", "fd00::77", 1419))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if !isIPv4(packet) && !isIPv6(packet) || len(packet) > 65535 || !answerable(packet) {
			return
		}
		var buf [maxUnreachable]byte
		got := appendUnreachable(buf[:0], packet)
		checkUnreachable(t, packet, got)
		if &got[0] != &buf[0] {
			t.Errorf("%d bytes do not fit the buffer", len(got))
		}
		if answerable(got) {
			t.Error("the answer could be answered")
		}
	})
}
