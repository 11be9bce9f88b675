package device

import (
	"errors"
	"sync"
	"time"

	"wgd/noise"
)

// Handshakes run in one goroutine beside the packet path: X25519 takes
// milliseconds on a router. What it works on are copies; results are committed
// under Peer.mu if nothing has changed meanwhile.

const (
	// maxHandshakes bounds the messages that wait. A 400 MHz router does about 20
	// handshakes a second: this is six seconds of work.
	maxHandshakes = 128
	// At loadedHandshakes we are under load: messages without a valid mac2 get a
	// cookie reply, §5.3, and for loadedTime after that.
	loadedHandshakes = maxHandshakes / 8
	loadedTime       = time.Second
	// From crowdedHandshakes on, a source that exceeds its share must prove by mac2
	// that it is there. Before, nobody has to wait for it: many peers may be behind
	// one address.
	crowdedHandshakes = loadedHandshakes / 4
	// provenBurst is how many messages with a valid mac2 one source may send at once:
	// peers behind one address, all told to prove it, come back at the same time.
	provenBurst = 32
	// maxCookieJobs bounds the messages that wait for a cookie reply, which is all
	// they get. They have a queue of their own: they are no load, and whoever sends
	// them must not take the place of others.
	maxCookieJobs = maxHandshakes / 2

	// handshakeTOS marks handshake messages: DSCP AF41.
	handshakeTOS = 0x88
)

// A handshakeMessage waits for the handshake goroutine. It has a valid mac1.
type handshakeMessage struct {
	size int
	data [noise.InitiationSize]byte // the largest of the three
	from endpoint
}

func (m *handshakeMessage) bytes() []byte { return m.data[:m.size] }

// admission decides which handshake messages are worth work: §5.3, §5.4.7. A leaf
// lock guards it.
type admission struct {
	mu      sync.Mutex
	checker noise.CookieChecker
	any     rateLimiter // by source address, which may be forged
	proven  rateLimiter // by source address, of messages with a valid mac2
	loaded  noise.Instant
	active  bool // loaded is set
}

// admit queues a handshake message, or drops it. It is called in the packet path.
//
// Load is judged by the queue, as the kernel does. Besides, when messages begin to
// wait, a source that sends more than its share must prove by mac2 that it is there
// before it is served, so that one host's flood neither puts all peers in cookie mode
// nor lets it lock out an address that it forges.
func (d *Device) admit(g *datagram, now noise.Instant) {
	var m handshakeMessage
	m.size = copy(m.data[:], g.data)
	m.from = g.from
	msg := m.bytes()
	source := g.from.addr

	d.admission.mu.Lock()
	if noise.MessageType(msg) == noise.TypeCookieReply {
		// It has no MACs; it is tied to an index of ours and to our last mac1.
		d.admission.mu.Unlock()
		if d.index.lookup(noise.ReceiverIndex(msg)) != nil {
			offer(d.handshakes, &m)
		}
		return
	}
	a := &d.admission
	if d.identity.Load() == nil || !a.checker.CheckMAC1(msg) {
		a.mu.Unlock()
		return
	}
	if len(d.handshakes) >= loadedHandshakes {
		a.loaded, a.active = now, true
	}
	loaded := a.active && now < after(a.loaded, loadedTime)
	if !loaded {
		a.active = false
	}
	queue := d.handshakes
	crowded := len(d.handshakes) >= crowdedHandshakes
	if overShare := !a.any.allow(source.Addr(), now); loaded || crowded && overShare {
		switch {
		case !a.checker.CheckMAC2(msg, source, now):
			queue = d.cookieJobs
		case !a.proven.allow(source.Addr(), now):
			queue = nil
		}
	}
	a.mu.Unlock()
	offer(queue, &m)
}

// offer hands a message to the handshake goroutine unless it has too many.
func offer(queue chan handshakeMessage, m *handshakeMessage) {
	select {
	case queue <- *m:
	default:
	}
}

// askInitiation asks the handshake goroutine for an initiation to p, unless one was
// sent within RekeyTimeout. p.mu is held.
func (d *Device) askInitiation(p *Peer, now noise.Instant) {
	p.timers.retries = 0
	if p.endpoint.valid() && p.timers.mayInitiate(now, d.jitter()) {
		d.initiations.push(p)
	}
}

// initiations are the peers that need one, each at most once. Its lock is a leaf.
type initiations struct {
	mu    sync.Mutex
	peers []*Peer
	ready chan struct{} // capacity 1
}

// asked says where a peer stands with the initiations.
type asked uint8

const (
	askedNone  asked = iota
	askedOnce        // in the list
	askedDoing       // its initiation is being made
	askedAgain       // and it asked meanwhile
)

func (q *initiations) push(p *Peer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch p.asked {
	case askedNone:
		p.asked = askedOnce
		q.peers = append(q.peers, p)
		q.signal()
	case askedDoing:
		p.asked = askedAgain
	}
}

func (q *initiations) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// pop takes out one peer, whose initiation is then being made until done; if there
// are more, ready stays readable.
func (q *initiations) pop() *Peer {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.peers) == 0 {
		return nil
	}
	p := q.peers[0]
	q.peers[0] = nil
	if q.peers = q.peers[1:]; len(q.peers) == 0 {
		q.peers = nil
	} else {
		q.signal()
	}
	p.asked = askedDoing
	return p
}

// done ends what pop began. Who asked meanwhile asked for the initiation that was
// made, if it was sent: another one would only be repeated 5 s later.
func (q *initiations) done(p *Peer, sent bool) {
	q.mu.Lock()
	again := p.asked == askedAgain && !sent
	p.asked = askedNone
	q.mu.Unlock()
	if again {
		q.push(p)
	}
}

// handshakeLoop does all public-key work until the device is closed. Our own
// initiations and messages that came in take turns.
func (d *Device) handshakeLoop() {
	noise.ScrubStack() // grows the stack, so that later it need not move with secrets on it
	for {
		select {
		case m := <-d.handshakes:
			d.receiveHandshake(&m)
		case m := <-d.cookieJobs:
			d.sendCookieReply(&m)
		case <-d.initiations.ready:
			if p := d.initiations.pop(); p != nil {
				d.initiations.done(p, d.sendInitiation(p))
			}
		case <-d.closed:
			return
		}
		noise.ScrubStack()
	}
}

// receiveHandshake handles a message that admit let through.
func (d *Device) receiveHandshake(m *handshakeMessage) {
	now := d.clock.Now()
	id := d.identity.Load()
	if id == nil {
		return
	}
	switch noise.MessageType(m.bytes()) {
	case noise.TypeInitiation:
		d.receiveInitiation(m, id, now)
	case noise.TypeResponse:
		d.receiveResponse(m, id, now)
	case noise.TypeCookieReply:
		d.receiveCookieReply(m, now)
	}
}

// isIdentity reports whether id is still ours. Under Peer.mu, and with epoch, it
// tells that what was computed of a peer's Remote belongs to our key: a new key is
// stored before the peers' epochs move.
func (d *Device) isIdentity(id *noise.Local) bool { return d.identity.Load() == id }

// sendInitiation begins a handshake: §5.4.2. It reports whether it has sent one.
func (d *Device) sendInitiation(p *Peer) bool {
	now := d.clock.Now()
	id := d.identity.Load()
	if id == nil {
		return false // no private key: no handshake
	}
	p.mu.Lock()
	if !p.running || !d.isIdentity(id) || !p.endpoint.valid() || !p.timers.mayInitiate(now, d.jitter()) {
		kick := p.reschedule(&d.schedule)
		p.mu.Unlock()
		d.kick(kick)
		return false
	}
	remote, epoch := p.remote, p.epoch
	stamp := p.stamps.Next(d.clock.Wall())
	p.mu.Unlock()
	defer remote.Wipe()

	var buf [noise.InitiationSize]byte
	var hs noise.Handshake
	defer hs.Wipe()
	index, err := d.index.add(p, nil, d.rand)
	if err != nil {
		d.log.Errorf("%v: initiation: %v", p, err)
		return false
	}
	ephemeral, err := noise.NewPrivateKey(d.rand)
	defer ephemeral.Wipe()
	var msg []byte
	if err == nil {
		msg, err = hs.CreateInitiation(buf[:0], id, &remote, &ephemeral, index, stamp)
	}
	if err != nil {
		d.index.remove(index)
		d.log.Verbosef("%v: initiation: %v", p, err)
		return false
	}

	p.mu.Lock()
	if !p.running || p.epoch != epoch || !d.isIdentity(id) || !p.endpoint.valid() {
		if p.running {
			d.initiations.push(p) // the configuration has changed meanwhile
		}
		p.mu.Unlock()
		d.index.remove(index)
		return false
	}
	d.dropInitiation(p)
	p.initiation, p.remote = hs, remote
	p.cookies.AddMACs(msg, p.public, now)
	p.timers.handshakeInitiated(now, d.jitter())
	kick := p.reschedule(&d.schedule)
	to := p.endpoint
	p.mu.Unlock()
	d.kick(kick)
	d.log.Verbosef("%v: sending handshake initiation (%v)", p, to)
	d.sendHandshake(p, to, msg)
	return true
}

// sendHandshake sends one handshake message to p.
func (d *Device) sendHandshake(p *Peer, to endpoint, msg []byte) {
	hadSource := to.src.IsValid()
	err := d.send(&to, msg, []segment{{len: len(msg), tos: handshakeTOS}})
	if hadSource && !to.src.IsValid() {
		p.mu.Lock()
		if p.endpoint.addr == to.addr {
			p.endpoint.forgetSource()
		}
		p.mu.Unlock()
	}
	if err != nil {
		d.log.Verbosef("%v: send to %v: %v", p, to, err)
		return
	}
	p.txBytes.Add(uint64(len(msg)))
}

// receiveInitiation answers an initiation and keeps the session that comes of it as
// the next keypair: §5.4.2, §5.4.3.
func (d *Device) receiveInitiation(m *handshakeMessage, id *noise.Local, now noise.Instant) {
	var (
		hs     noise.Handshake
		p      *Peer
		remote noise.Remote
		epoch  uint32
	)
	defer hs.Wipe()
	defer remote.Wipe()
	stamp, err := hs.ConsumeInitiation(m.bytes(), id, func(public noise.PublicKey) *noise.Remote {
		if p = d.peer(public); p == nil {
			return nil
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !d.isIdentity(id) {
			return nil
		}
		remote, epoch = p.remote, p.epoch
		return &remote
	})
	if err != nil {
		if now >= d.quiet { // whoever knows our public key can cause this
			d.quiet = after(now, time.Second)
			d.log.Verbosef("handshake initiation from %v: %v", m.from, err)
		}
		return
	}

	// Before any more work: only a new timestamp, and not too many of them.
	p.mu.Lock()
	const spacing = time.Second / initiationsPerSec
	switch {
	case !p.running || p.epoch != epoch || !d.isIdentity(id):
		err = errChanged
	case !stamp.After(p.lastTimestamp):
		err = errReplayed
	case p.lastConsumed != 0 && now < after(p.lastConsumed, spacing):
		err = errTooMany
	default:
		p.lastTimestamp, p.lastConsumed = stamp, now
		p.remote = remote // with the static-static secret
	}
	p.mu.Unlock()
	if err != nil {
		d.log.Verbosef("%v: handshake initiation from %v: %v", p, m.from, err)
		return
	}
	p.rxBytes.Add(uint64(m.size))

	index, err := d.index.add(p, nil, d.rand)
	if err != nil {
		d.log.Errorf("%v: response: %v", p, err)
		return
	}
	var buf [noise.ResponseSize]byte
	var msg []byte
	var kp *noise.Keypair
	ephemeral, err := noise.NewPrivateKey(d.rand)
	defer ephemeral.Wipe()
	if err == nil {
		msg, err = hs.CreateResponse(buf[:0], id, &remote, &ephemeral, index)
	}
	if err == nil {
		kp, err = hs.Keypair(now)
	}
	if err != nil {
		d.index.remove(index)
		d.log.Verbosef("%v: response: %v", p, err)
		return
	}

	p.mu.Lock()
	if !p.running || p.epoch != epoch || !d.isIdentity(id) {
		p.mu.Unlock()
		d.retire(kp)
		return
	}
	d.index.attach(index, kp)
	retired := p.keypairs.Install(kp)
	// When both sides initiate at once both handshakes succeed, and both would
	// rekey, at once again, 120 s later. So one of the two lets go of its own; not
	// before there is a session, for a peer that keeps one handshake at a time can only
	// complete ours.
	if p.keypairs.Current() != nil && less(id.Public(), p.public) {
		d.dropInitiation(p) // the timer goes on: the response may be lost
	}
	p.endpoint = m.from
	p.cookies.AddMACs(msg, p.public, now)
	p.timers.authenticatedReceived(now)
	p.timers.sessionDerived(now)
	p.timers.responseSent(now)
	kick := p.reschedule(&d.schedule)
	p.mu.Unlock()
	d.kick(kick)
	d.log.Verbosef("%v: sending handshake response (%v)", p, m.from)
	d.sendHandshake(p, m.from, msg)
	d.retire(retired[:]...)
}

func less(a, b noise.PublicKey) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// receiveResponse completes our handshake: §5.4.3. The new keypair is current at
// once, and the first message under it tells the responder so: §5.4.6.
func (d *Device) receiveResponse(m *handshakeMessage, id *noise.Local, now noise.Instant) {
	e := d.index.lookup(noise.ReceiverIndex(m.bytes()))
	if e == nil || e.keypair != nil {
		return
	}
	p := e.peer
	p.mu.Lock()
	hs, remote, epoch := p.initiation, p.remote, p.epoch
	p.mu.Unlock()
	defer hs.Wipe()
	defer remote.Wipe()
	if hs.State() == noise.StateNone || hs.LocalIndex() != e.index {
		return
	}
	err := hs.ConsumeResponse(m.bytes(), id, &remote)
	var kp *noise.Keypair
	if err == nil {
		kp, err = hs.Keypair(now)
	}
	if err != nil {
		d.log.Verbosef("%v: handshake response from %v: %v", p, m.from, err)
		return
	}
	p.rxBytes.Add(uint64(m.size))

	p.mu.Lock()
	if !p.running || p.epoch != epoch || !d.isIdentity(id) || p.initiation.State() == noise.StateNone || p.initiation.LocalIndex() != e.index {
		p.mu.Unlock()
		d.retire(kp)
		return
	}
	p.initiation.Wipe()
	d.index.attach(e.index, kp)
	retired := p.keypairs.Install(kp)
	p.endpoint = m.from
	p.lastHandshake = d.clock.Wall()
	p.timers.authenticatedReceived(now)
	p.timers.sessionDerived(now)
	p.timers.handshakeComplete()
	kick := p.reschedule(&d.schedule)
	p.mu.Unlock()
	d.kick(kick)
	d.log.Verbosef("%v: handshake complete (%v)", p, m.from)
	d.retire(retired[:]...)
	d.sendStaged(p, true, now)
}

// receiveCookieReply keeps a cookie for the next handshake message to a peer: §5.4.7.
// The timer for the next initiation goes on as it is.
func (d *Device) receiveCookieReply(m *handshakeMessage, now noise.Instant) {
	e := d.index.lookup(noise.ReceiverIndex(m.bytes()))
	if e == nil {
		return
	}
	p := e.peer
	p.mu.Lock()
	jar := p.cookies
	p.mu.Unlock()
	before := jar
	if !jar.ConsumeReply(m.bytes(), p.public, now) {
		return
	}
	p.mu.Lock()
	if p.cookies == before {
		p.cookies = jar
	}
	p.mu.Unlock()
	p.rxBytes.Add(uint64(m.size))
	d.log.Verbosef("%v: cookie reply from %v", p, m.from)
}

// sendCookieReply answers a handshake message while we are under load: §5.4.7.
func (d *Device) sendCookieReply(m *handshakeMessage) {
	now := d.clock.Now()
	var buf [noise.CookieReplySize]byte
	d.admission.mu.Lock()
	msg, err := d.admission.checker.CreateReply(buf[:0], m.bytes(), m.from.addr, now, d.rand)
	d.admission.mu.Unlock()
	if err != nil {
		d.log.Errorf("cookie reply: %v", err)
		return
	}
	if err := d.send(&m.from, msg, []segment{{len: len(msg), tos: handshakeTOS}}); err != nil {
		d.log.Verbosef("cookie reply to %v: %v", m.from, err)
	}
}

var (
	errChanged  = errors.New("the peer's configuration has changed")
	errReplayed = errors.New("not newer than the last (did the peer's clock go back?)")
	errTooMany  = errors.New("too many")
)
