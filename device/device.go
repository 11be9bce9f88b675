// Package device is a WireGuard interface: peers, the packet path between a TUN
// and UDP sockets, handshakes, timers and configuration. Section numbers are those
// of the WireGuard paper.
//
// A packet on its way out is followed through send.go, noise/keypair.go and
// udp_write_linux.go; on its way in through udp_read_linux.go and receive.go.
package device

import (
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"wgd/internal/threads"
	"wgd/noise"
	"wgd/tun"
)

var (
	errDown   = errors.New("the interface is down")
	errFamily = errors.New("no socket of this address family")
)

// A Device is one WireGuard interface.
//
// Lock order: mu, rx.mu, tx.mu, Peer.mu, then the leaves: index, schedule,
// admission, initiations, keys. rx.mu and tx.mu are the packet path's, one burst
// each; under Peer.mu there is only short straight-line code.
type Device struct {
	tun    tun.Device
	log    *Logger
	rand   io.Reader
	clock  clock
	listen func(port uint16, mark uint32, off Offload) (v4, v6 conn, actual uint16, err error)
	jitter func() time.Duration // 0 to maxJitter

	offload  Offload
	budget   Budget
	oneCore  bool   // see giveWay
	takeTurn func() // takeBurst; allocated once

	mu      sync.Mutex // configuration
	private noise.PrivateKey
	port    uint16 // asked for, or in use; 0: any
	mark    uint32
	up      bool          // the interface is, so sockets should be open
	opening bool          // openLater is trying to
	pause   time.Duration // before it tries again
	opened  noise.Instant // when there were sockets last
	closing bool
	peers   []*Peer                // in order of insertion
	owners  map[netip.Prefix]*Peer // who has each allowed IP
	stamps  noise.TimestampClock   // later than those of all peers that were removed

	// Snapshots for the packet path, replaced under mu.
	identity atomic.Pointer[noise.Local] // nil: no private key
	allowed  atomic.Pointer[allowedIPs]
	bind     atomic.Pointer[binding] // nil: no sockets
	mtu      atomic.Int32            // bytes of an inner packet

	keys struct {
		sync.RWMutex
		m map[noise.PublicKey]*Peer
	}

	index        indexTable
	schedule     schedule
	alarm        sync.Mutex // makes the clock follow the schedule
	admission    admission
	handshakes   chan handshakeMessage
	cookieJobs   chan handshakeMessage
	quiet        deadline // the handshake goroutine's: until when strangers are not logged
	initiations  initiations
	stagedBytes  atomic.Int32 // what is left of budget.Staged
	unreachables tokenBucket  // guarded by tx.mu

	rx receiver
	tx transmitter

	closed chan struct{} // by Close
	dead   chan struct{} // see Wait
	die    sync.Once
	tasks  sync.WaitGroup
}

// A binding is a pair of sockets on one port. Either may be nil: a kernel without
// IPv6.
type binding struct {
	v4, v6 conn
	port   uint16
}

func (b *binding) close() {
	for _, c := range b.conns() {
		c.close()
	}
}

// conns returns the sockets that exist; none of a nil binding.
func (b *binding) conns() (c []conn) {
	if b == nil {
		return nil
	}
	if b.v4 != nil {
		c = append(c, b.v4)
	}
	if b.v6 != nil {
		c = append(c, b.v6)
	}
	return c
}

// Options say what a Device works with.
type Options struct {
	Tun tun.Device // the Device closes it
	Log *Logger    // nil: no logs

	Offload Offload // what may be tried
	Budget  Budget  // zero: that of this machine
}

// New starts a Device without a private key and without peers. It follows the
// interface: down, it has no sockets and no keys.
func New(o Options) (*Device, error) {
	c, err := newBootClock()
	if err != nil {
		return nil, err
	}
	d := newDevice(o)
	d.clock = c
	d.start()
	return d, nil
}

// newDevice returns a Device that tests may still change before start.
func newDevice(o Options) *Device {
	d := &Device{
		tun:        o.Tun,
		log:        o.Log,
		rand:       rand.Reader,
		offload:    o.Offload,
		budget:     o.Budget,
		jitter:     func() time.Duration { return mathrand.N(maxJitter) },
		owners:     make(map[netip.Prefix]*Peer),
		handshakes: make(chan handshakeMessage, maxHandshakes),
		cookieJobs: make(chan handshakeMessage, maxCookieJobs),
		closed:     make(chan struct{}),
		dead:       make(chan struct{}),
	}
	if d.budget == (Budget{}) {
		d.budget = BudgetFor(0)
	}
	d.listen = func(port uint16, mark uint32, off Offload) (v4, v6 conn, actual uint16, err error) {
		return listenUDP(port, mark, udpOptions{offload: off, log: d.log, budget: d.budget})
	}
	d.admission.proven.burst = provenBurst
	d.keys.m = make(map[noise.PublicKey]*Peer)
	d.initiations.ready = make(chan struct{}, 1)
	d.stagedBytes.Store(int32(d.budget.Staged))
	d.mtu.Store(int32(o.Tun.MTU()))
	d.oneCore = runtime.GOMAXPROCS(0) == 1
	d.takeTurn = func() { d.takeBurst() }
	d.tx.init()
	d.tx.pressure.limit = transmitLimit
	d.rx.crew.init(crewSize(), d.rx.openDatagram)
	return d
}

func (d *Device) start() {
	d.run(d.handshakeLoop)
	d.run(d.timerLoop)
	d.run(func() { d.end(d.tun.Watch(d.follow)) })
	d.run(func() { d.end(d.transmitLoop()) })
	for _, c := range []*crew{&d.tx.crew, &d.rx.crew} {
		for range cap(c.call) {
			d.run(func() { c.help(d.closed) })
		}
	}
}

func (d *Device) run(f func()) {
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		f()
	}()
}

// end is called when the TUN has no more to say.
func (d *Device) end(err error) {
	if err != nil && !errors.Is(err, tun.ErrRemoved) {
		d.log.Errorf("interface: %v", err)
	}
	d.die.Do(func() { close(d.dead) })
}

// Wait returns a channel that is closed when the Device has come to its end: the
// interface was removed, or Close was called.
func (d *Device) Wait() <-chan struct{} { return d.dead }

// Close ends the Device and its interface, and wipes all keys.
func (d *Device) Close() {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		d.tasks.Wait()
		return
	}
	d.closing = true
	d.setUp(false)
	close(d.closed)
	d.mu.Unlock()
	d.clock.Close()
	d.tun.Close()
	d.tasks.Wait()

	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.peers {
		p.mu.Lock()
		p.remote.Wipe()
		p.cookies.Wipe()
		p.mu.Unlock()
	}
	d.private.Wipe()
	if id := d.identity.Swap(nil); id != nil {
		id.Wipe()
	}
	d.end(nil)
}

// follow is told what the system does to the interface.
func (d *Device) follow(s tun.State) {
	d.mtu.Store(int32(s.MTU))
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closing {
		d.setUp(s.Up)
	}
}

// setUp opens or closes the sockets, and starts or stops the peers. mu is held.
func (d *Device) setUp(up bool) {
	if up == d.up {
		return
	}
	d.up = up
	if !up {
		d.bind.Swap(nil).close()
		var retired []*noise.Keypair
		for _, p := range d.peers {
			retired = append(retired, d.stopPeer(p)...)
		}
		d.retire(retired...)
		return
	}
	for _, p := range d.peers {
		p.mu.Lock()
		p.running = true
		p.mu.Unlock()
	}
	if err := d.open(); err != nil {
		d.log.Errorf("listen on UDP port %d: %v; trying again", d.port, err)
		d.pause = minPause
		d.openLater()
		return
	}
	d.greet()
}

// greet makes peers with a persistent keepalive known to their endpoints, now that
// there are sockets. mu is held.
func (d *Device) greet() {
	now := d.clock.Now()
	for _, p := range d.peers {
		p.mu.Lock()
		greet := p.timers.interval != 0 || p.staged.n > 0
		p.mu.Unlock()
		if greet {
			d.sendStaged(p, true, now)
		}
	}
}

// open makes the sockets and starts to receive. mu is held.
func (d *Device) open() error {
	b, err := d.newBinding(d.port, d.mark)
	if err == nil {
		d.setBinding(b)
	}
	return err
}

func (d *Device) newBinding(port uint16, mark uint32) (*binding, error) {
	v4, v6, actual, err := d.listen(port, mark, d.offload)
	if err != nil {
		return nil, err
	}
	return &binding{v4: v4, v6: v6, port: actual}, nil
}

// setBinding puts new sockets to work and closes the old. mu is held.
func (d *Device) setBinding(b *binding) {
	d.port = b.port
	d.opened = d.clock.Now()
	old := d.bind.Swap(b)
	for _, c := range b.conns() {
		d.run(func() {
			q := &pressure{limit: receiveLimit}
			handle := func(burst []datagram, more bool) { d.received(burst, more, q) }
			if err := c.serve(handle); err != nil {
				d.socketDied(b, err)
			}
		})
	}
	old.close()
}

// socketDied replaces sockets one of which has failed for good.
func (d *Device) socketDied(b *binding, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing || d.bind.Load() != b {
		return
	}
	d.log.Errorf("UDP socket: %v; opening a new one", err)
	d.bind.Store(nil)
	b.close() // both: the new pair wants the same port
	if d.clock.Now() >= after(d.opened, maxPause) {
		d.pause = 0
	}
	d.openLater()
}

// Between attempts to open sockets, and between sockets that die at once.
const minPause, maxPause = 100 * time.Millisecond, 30 * time.Second

// openLater tries to open the sockets until it succeeds or the interface goes down:
// at once, then less and less often. mu is held.
func (d *Device) openLater() {
	if d.opening {
		return
	}
	d.opening = true
	d.run(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for !d.closing && d.up && d.bind.Load() == nil {
			pause := d.pause
			d.pause = min(max(2*pause, minPause), maxPause)
			d.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-d.closed:
			}
			d.mu.Lock()
			if !d.closing && d.up && d.bind.Load() == nil && d.open() == nil {
				d.log.Errorf("listening on UDP port %d", d.port)
				d.greet()
			}
		}
		d.opening = false
	})
}

// stopPeer makes a peer forget all of its session and returns the keypairs to retire.
func (d *Device) stopPeer(p *Peer) []*noise.Keypair {
	p.mu.Lock()
	p.running = false
	p.epoch++
	keypairs := p.keypairs.Clear()
	d.dropInitiation(p)
	p.timers.stop()
	p.staged.clear(&d.stagedBytes)
	p.armed = 0
	d.schedule.remove(p)
	p.mu.Unlock()
	return keypairs[:]
}

// dropInitiation forgets our handshake under way with p, if there is one. p.mu is held.
func (d *Device) dropInitiation(p *Peer) {
	if p.initiation.State() != noise.StateNone {
		d.index.remove(p.initiation.LocalIndex())
		p.initiation.Wipe()
	}
}

// peer returns the peer with a public key, or nil.
func (d *Device) peer(public noise.PublicKey) *Peer {
	d.keys.RLock()
	defer d.keys.RUnlock()
	return d.keys.m[public]
}

// kick sets the alarm anew if the earliest deadline has become earlier. It is called
// without Peer.mu.
func (d *Device) kick(earlier bool) {
	if earlier {
		d.setAlarm()
	}
}

func (d *Device) setAlarm() {
	d.alarm.Lock() // the last to come in sees the newest schedule
	defer d.alarm.Unlock()
	d.clock.Set(d.schedule.first())
}

// timerLoop looks at the peers whose timers are due until the clock is closed.
func (d *Device) timerLoop() {
	for d.clock.Wait() {
		now := d.clock.Now()
		for p := d.schedule.pop(now); p != nil; p = d.schedule.pop(now) {
			d.runTimers(p, now)
		}
		d.admission.any.release(now)
		d.admission.proven.release(now)
		d.setAlarm()
		threads.Check()
	}
}

// runTimers does what a peer's timers ask for.
func (d *Device) runTimers(p *Peer, now noise.Instant) {
	p.mu.Lock()
	p.armed = 0
	if !p.running {
		p.mu.Unlock()
		return
	}
	do := p.timers.expire(now)
	var retired [3]*noise.Keypair
	if do&actGiveUp != 0 {
		p.staged.clear(&d.stagedBytes)
	}
	if do&actZero != 0 {
		retired = p.keypairs.Clear()
		d.dropInitiation(p)
	}
	if do&(actInitiate|actRetry) != 0 {
		// The address that we answer from may be what does not work any more.
		p.endpoint.forgetSource()
		if do&actInitiate != 0 {
			p.timers.retries = 0
		}
		if p.endpoint.valid() {
			d.initiations.push(p)
		}
	}
	p.reschedule(&d.schedule) // timerLoop sets the alarm
	p.mu.Unlock()

	d.retire(retired[:]...)
	if do&actGiveUp != 0 {
		d.log.Verbosef("%v: no answer to handshake initiations for %v, giving up", p, RekeyAttemptTime)
	}
	if do&actKeepalive != 0 {
		d.sendStaged(p, true, now)
	}
}
