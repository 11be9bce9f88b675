package device

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/noise"
	"wgd/tun"
)

// A world is a network in memory with devices on it. It lives in a testing/synctest
// bubble: its clock is the bubble's, and nothing in it waits for the real one.
type world struct {
	t    *testing.T
	born time.Time

	mu      sync.Mutex
	conns   map[netip.AddrPort]*memConn
	log     []sentMessage
	lost    func(m sentMessage) bool // nil: nothing is
	latency time.Duration            // one way
}

// inWorld runs f in a bubble with a world of its own.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// A sentMessage is one UDP datagram that somebody sent.
type sentMessage struct {
	at       time.Duration // since the world began
	from, to netip.AddrPort
	typ      byte // noise.TypeInitiation …; 0: malformed
	data     []byte
	tos      byte
}

// keepalive reports whether m is an empty transport message.
func (m sentMessage) keepalive() bool {
	return m.typ == noise.TypeTransport && len(m.data) == noise.HeaderSize+noise.TagSize
}

// String reads `1m30s 1>2 initiation`: when, whose, what.
func (m sentMessage) String() string {
	kind := [...]string{"malformed", "initiation", "response", "cookie reply", "data"}[m.typ]
	if m.keepalive() {
		kind = "keepalive"
	}
	from, to := m.from.Addr().As4(), m.to.Addr().As4()
	return fmt.Sprintf("%v %d>%d %s", m.at, from[3], to[3], kind)
}

func newWorld(t *testing.T) *world {
	return &world{t: t, born: time.Now(), conns: make(map[netip.AddrPort]*memConn)}
}

// since returns the world's age.
func (w *world) since() time.Duration { return time.Since(w.born) }

// sent returns the messages sent so far that match.
func (w *world) sent(match func(sentMessage) bool) (m []sentMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.log {
		if match(x) {
			m = append(m, x)
		}
	}
	return m
}

// expect waits until nothing moves any more, compares what was sent since the last
// call with a list of messages, and forgets it.
func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, m := range w.log {
		got = append(got, m.String())
	}
	w.log = nil
	if !slices.Equal(got, want) {
		t.Fatalf("at %v: sent\n\t%s\nwant\n\t%s", w.since(), strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// forget empties the log.
func (w *world) forget() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = nil
}

// sleepUntil passes the time until the world has that age, and what happens then.
func (w *world) sleepUntil(age time.Duration) {
	time.Sleep(age - w.since())
	synctest.Wait()
}

// lose makes the network drop the messages that match; nil: none.
func (w *world) lose(match func(sentMessage) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = match
}

// A node is a device at one address.
type node struct {
	*Device
	tun     *tun.Memory
	addr    netip.Addr // outer
	inner   netip.Addr
	private noise.PrivateKey
}

const worldPort = 51820

// node makes a device and configures a key. n names it: outer address 192.0.2.n,
// inner address 10.0.0.n.
func (w *world) node(n byte) *node {
	w.t.Helper()
	x := &node{
		tun:   tun.NewMemory("wg"+string('0'+rune(n)), tun.DefaultMTU),
		addr:  netip.AddrFrom4([4]byte{192, 0, 2, n}),
		inner: netip.AddrFrom4([4]byte{10, 0, 0, n}),
	}
	for i := range x.private {
		x.private[i] = n + byte(i)*7
	}
	x.private.Clamp()
	d := newDevice(Options{Tun: x.tun, Budget: testBudget, Log: NewLogger(w.t.Output(), x.tun.Name(), LogVerbose)})
	d.clock = newFakeClock()
	d.jitter = func() time.Duration { return 0 }
	d.listen = func(port uint16, mark uint32, _ Offload) (v4, v6 conn, actual uint16, err error) {
		c, err := w.open(netip.AddrPortFrom(x.addr, port))
		if err != nil {
			return nil, nil, 0, err
		}
		return c, nil, c.addr.Port(), nil
	}
	x.Device = d
	d.start()
	w.t.Cleanup(d.Close)
	k, port := conf.Key(x.private), uint16(worldPort)
	x.configure(w.t, conf.Update{PrivateKey: &k, ListenPort: &port})
	return x
}

func (x *node) configure(t *testing.T, u conf.Update) {
	t.Helper()
	if err := x.Configure(&u); err != nil {
		t.Fatalf("configure %s: %v", x.tun.Name(), err)
	}
}

// knows makes y a peer of x with y's inner address; with its endpoint if reach is set.
func (x *node) knows(t *testing.T, y *node, reach bool, more ...func(*conf.PeerUpdate)) {
	t.Helper()
	p := conf.PeerUpdate{
		PublicKey:  conf.Key(y.private.Public()),
		AllowedIPs: []conf.AllowedIP{{Prefix: netip.PrefixFrom(y.inner, 32)}},
	}
	if reach {
		at := netip.AddrPortFrom(y.addr, worldPort)
		p.Endpoint = &at
	}
	for _, f := range more {
		f(&p)
	}
	x.configure(t, conf.Update{Peers: []conf.PeerUpdate{p}})
}

func keepaliveEvery(seconds uint16) func(*conf.PeerUpdate) {
	return func(p *conf.PeerUpdate) { p.PersistentKeepalive = &seconds }
}

// peerOf returns x's peer y.
func (x *node) peerOf(y *node) *Peer { return x.peer(y.private.Public()) }

// packet is an IPv4 packet of n bytes from x to y.
func (x *node) packet(y *node, n int) []byte {
	b := make([]byte, n)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(n))
	b[8], b[9] = 64, 17
	src, dst := x.inner.As4(), y.inner.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[10:], checksum(0, b[:ipv4HeaderSize]))
	return b
}

// sends puts a packet of n bytes to y on x's interface.
func (x *node) sends(y *node, n int) []byte {
	p := x.packet(y, n)
	x.tun.Inject(p)
	synctest.Wait()
	return p
}

// pair makes two nodes that are up; node 1 knows where node 2 is.
func (w *world) pair() (a, b *node) {
	w.t.Helper()
	a, b = w.node(1), w.node(2)
	a.knows(w.t, b, true)
	b.knows(w.t, a, false)
	a.setUp(true)
	b.setUp(true)
	return a, b
}

func (x *node) setUp(up bool) {
	x.tun.SetUp(up)
	synctest.Wait()
}

// at is where the node listens.
func (x *node) at() netip.AddrPort { return netip.AddrPortFrom(x.addr, worldPort) }

// clock returns the node's clock.
func (x *node) clock() *fakeClock { return x.Device.clock.(*fakeClock) }

// got returns the packets that came out of x's interface since the last call.
func (x *node) got() (packets [][]byte) {
	for {
		select {
		case p := <-x.tun.Captured():
			packets = append(packets, p)
		default:
			return packets
		}
	}
}

// memConn is a socket on the world's network.
type memConn struct {
	w      *world
	addr   netip.AddrPort
	in     chan datagram
	closed chan struct{}
	kill   chan error // makes serve fail
	noMark bool       // guarded by w.mu: setMark fails
	once   sync.Once
}

func (w *world) open(at netip.AddrPort) (*memConn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for port := uint16(40000); at.Port() == 0; port++ {
		if a := netip.AddrPortFrom(at.Addr(), port); w.conns[a] == nil {
			at = a
		}
	}
	if w.conns[at] != nil {
		return nil, unix.EADDRINUSE
	}
	c := &memConn{w: w, addr: at, in: make(chan datagram, 4096), closed: make(chan struct{}), kill: make(chan error, 1)}
	w.conns[at] = c
	return c, nil
}

func (c *memConn) poll()              {}
func (c *memConn) fits(*endpoint) int { return noLimit }

func (c *memConn) serve(handle func([]datagram, bool)) error {
	for {
		select {
		case g := <-c.in:
			burst := []datagram{g}
			for len(burst) < udpBurst && len(c.in) > 0 {
				burst = append(burst, <-c.in)
			}
			handle(burst, false)
		case err := <-c.kill:
			return err
		case <-c.closed:
			return nil
		}
	}
}

func (c *memConn) send(to *endpoint, buf []byte, segs []segment) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, s := range segs {
		data := append([]byte(nil), buf[s.off:s.off+s.len]...)
		m := sentMessage{at: c.w.since(), from: c.addr, to: to.addr, typ: noise.MessageType(data), data: data, tos: s.tos}
		c.w.log = append(c.w.log, m)
		if c.w.lost != nil && c.w.lost(m) {
			continue
		}
		if c.w.latency == 0 {
			c.w.deliver(m)
			continue
		}
		time.AfterFunc(c.w.latency, func() {
			c.w.mu.Lock()
			defer c.w.mu.Unlock()
			c.w.deliver(m)
		})
	}
	return nil
}

// deliver puts a message into the socket it is for. w.mu is held.
func (w *world) deliver(m sentMessage) {
	if dst := w.conns[m.to]; dst != nil {
		select {
		case dst.in <- datagram{data: slices.Clone(m.data), from: endpoint{addr: m.from}, tos: m.tos}:
		default:
		}
	}
}

// inject delivers bytes that nobody of the world has sent.
func (w *world) inject(from, to netip.AddrPort, data []byte) {
	w.mu.Lock()
	w.deliver(sentMessage{from: from, to: to, data: data})
	w.mu.Unlock()
	synctest.Wait()
}

func (c *memConn) setMark(uint32) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.noMark {
		return unix.EPERM
	}
	return nil
}

func (c *memConn) close() error {
	c.once.Do(func() {
		c.w.mu.Lock()
		delete(c.w.conns, c.addr)
		c.w.mu.Unlock()
		close(c.closed)
	})
	return nil
}

// fakeClock is the bubble's clock.
type fakeClock struct {
	start  time.Time
	ahead  atomic.Int64 // what suspends have added
	mu     sync.Mutex
	at     deadline
	timer  *time.Timer
	woken  chan struct{}
	closed chan struct{}
}

func newFakeClock() *fakeClock {
	return &fakeClock{start: time.Now().Add(-time.Hour), woken: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (c *fakeClock) Now() noise.Instant {
	return noise.Instant(time.Since(c.start)) + noise.Instant(c.ahead.Load())
}
func (c *fakeClock) Wall() time.Time { return time.Now() }

func (c *fakeClock) Set(at deadline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	wake := func() {
		select {
		case c.woken <- struct{}{}:
		default:
		}
	}
	switch now := c.Now(); {
	case at == 0:
	case at <= now:
		wake()
	default:
		c.timer = time.AfterFunc(time.Duration(at-now), wake)
	}
}

// suspend moves the clock ahead; an alarm that has passed meanwhile goes off.
func (c *fakeClock) suspend(d time.Duration) {
	c.ahead.Add(int64(d))
	c.mu.Lock()
	at := c.at
	c.mu.Unlock()
	c.Set(at)
}

func (c *fakeClock) Wait() bool {
	select {
	case <-c.woken:
		return true
	case <-c.closed:
		return false
	}
}

func (c *fakeClock) Close() { c.Set(0); close(c.closed) }

// stacks returns the traces of all goroutines.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

func (x *node) setKey(t *testing.T, k noise.PrivateKey) {
	t.Helper()
	key := conf.Key(k)
	x.configure(t, conf.Update{PrivateKey: &key})
}

// setLatency sets the time of a message from one node to another.
func (w *world) setLatency(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latency = d
}

// What follows looks into x, and into its peer y.

func inPeer[T any](x, y *node, f func(p *Peer) T) T {
	p := x.peerOf(y)
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(p)
}

func (x *node) stagedOf(y *node) int {
	return inPeer(x, y, func(p *Peer) int { return p.staged.n })
}

func (x *node) initiation(y *node) noise.Handshake {
	return inPeer(x, y, func(p *Peer) noise.Handshake { return p.initiation })
}

func (x *node) cookies(y *node) noise.CookieJar {
	return inPeer(x, y, func(p *Peer) noise.CookieJar { return p.cookies })
}

func (x *node) current(y *node) *noise.Keypair {
	return inPeer(x, y, func(p *Peer) *noise.Keypair { return p.keypairs.Current() })
}

func (x *node) previous(y *node) *noise.Keypair {
	return inPeer(x, y, func(p *Peer) *noise.Keypair { return p.keypairs.Previous() })
}

// indices returns how many receiver indices are given out.
func (x *node) indices() int {
	x.index.mu.Lock()
	defer x.index.mu.Unlock()
	return x.index.live
}

// armed returns how many peers have timers armed.
func (x *node) armed() int {
	x.schedule.mu.Lock()
	defer x.schedule.mu.Unlock()
	return len(x.schedule.peers)
}
