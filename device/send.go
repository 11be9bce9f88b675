package device

import (
	"runtime"
	"sync"
	"time"

	"wgd/internal/threads"
	"wgd/noise"
	"wgd/tun"
)

// The way out, in call order: transmitLoop, transmitBurst, transmit, seal, flush.
//
// A data message is built around the packet, never copied on its own:
//
//	out: | header 16 | sealed packet and padding | tag 16 | header … of the next
//	                   ^ sealed from the TUN buffer
//
// With cores to spare, see crew, packets are copied there and sealed together.

const (
	// maxBurst bounds the messages of one send: UDP_SEGMENT takes 64.
	maxBurst = 64
	// outSize bounds their bytes: a UDP datagram has at most 65507, also one that
	// the kernel cuts into segments.
	outSize = 65507
	// burstBytes bounds the work of one burst, for the transmit lock is kept that
	// long: keepalives, staged packets and, on one core, the other direction must get
	// their turn. A packet costs as much as that many bytes, beside its own.
	burstBytes = 64 << 10
	packetCost = 256
)

// A transmitter holds what one burst out needs. One burst is built at a time, all
// of it for one peer under one keypair.
type transmitter struct {
	mu sync.Mutex // guards all below, the sending sides of keypairs, and their order on the wire

	in       *tun.Super // what was read from the TUN
	taken    int        // in this burst, see burstBytes
	pressure pressure   // on the interface's queue
	out      []byte     // sealed messages

	peer    *Peer          // whose messages out holds; nil: none
	keypair *noise.Keypair // nil: there is no usable one
	to      endpoint
	segs    [maxBurst]segment
	n       int  // segments
	used    int  // bytes of out
	data    bool // a segment is not a keepalive

	// With a crew, flush seals the segments, which then have these.
	crew     crew
	sealing  *noise.Keypair
	counters [maxBurst]uint64

	quiet deadline // until when send errors are not logged

	unreachable [tun.Headroom + maxUnreachable]byte
}

func (tx *transmitter) init() {
	tx.in = tun.NewSuper()
	tx.out = make([]byte, outSize)
	tx.crew.init(crewSize(), tx.sealSegment)
}

// transmitLoop carries packets from the TUN to the peers until the TUN is closed.
func (d *Device) transmitLoop() error { return d.tun.Drain(d.transmitBurst) }

// transmitBurst takes packets that are ready and sends them. Always true: go on.
func (d *Device) transmitBurst() bool {
	more, err := d.takeBurst()
	switch {
	case err != nil:
		d.log.Errorf("read from the interface: %v", err)
		time.Sleep(time.Second) // it is not known to happen, let alone to pass
	case more:
		d.giveWay(d.offerReceive)
	}
	return true
}

// takeBurst reports whether it left packets.
func (d *Device) takeBurst() (more bool, err error) {
	tx := &d.tx
	tx.mu.Lock()
	defer tx.mu.Unlock()
	now := d.clock.Now()
	for tx.taken = 0; tx.taken < burstBytes; {
		if more, err = d.tun.TryRead(tx.in); !more {
			break
		}
		if headers := tx.in.Headers(); headers != nil {
			d.fit(headers, now)
		}
		tx.taken += packetCost // also if there is nothing in it
		for packet := tx.in.Next(); packet != nil; packet = tx.in.Next() {
			d.transmit(packet, now)
			tx.taken += len(packet) + packetCost
		}
	}
	d.flush(now)
	tx.pressure.tell(more, now)
	return more, err
}

// giveWay is called by a direction that has more to do. On one core the other one
// would wait for long: Go looks which descriptors are ready when no goroutine is,
// and otherwise only every 10 ms. So it gets its turn here.
func (d *Device) giveWay(offer func()) {
	if d.oneCore {
		offer()
	}
	runtime.Gosched() // handshakes
	threads.Check()
}

func (d *Device) offerReceive() {
	b := d.bind.Load()
	if b == nil {
		return
	}
	if b.v4 != nil {
		b.v4.poll()
	}
	if b.v6 != nil {
		b.v6.poll()
	}
}

func (d *Device) offerTransmit() { d.tun.Poll(d.takeTurn) }

// fit makes the packets of a super-packet so short that their messages leave in one
// piece. TCP does not mind where it is cut, and messages that are to be fragmented
// cannot be sent together.
func (d *Device) fit(headers []byte, now noise.Instant) {
	tx := &d.tx
	p, _ := d.allowed.Load().destination(headers)
	if p == nil {
		return
	}
	d.aim(p, now)
	if c := d.conn(&tx.to); c != nil {
		n := c.fits(&tx.to) - noise.HeaderSize - noise.TagSize
		tx.in.Limit(n &^ 15) // they will be padded
	}
}

// transmit adds a packet, which has room for its padding behind it, to the burst, or
// stages it.
func (d *Device) transmit(packet []byte, now noise.Instant) {
	tx := &d.tx
	peer, ok := d.allowed.Load().destination(packet)
	if !ok {
		return // not an IP packet
	}
	if peer == nil {
		d.sendUnreachable(packet, now)
		return
	}
	d.aim(peer, now)
	if !tx.to.valid() {
		d.sendUnreachable(packet, now)
		return
	}
	if tx.keypair == nil {
		d.stage(peer, packet, now)
		return
	}
	if tx.pressure.drop(peer) {
		return
	}
	tx.pressure.carried(peer)
	if !d.sealPacket(packet, now) {
		d.stage(peer, packet, now)
	}
}

// aim makes the burst one for p.
func (d *Device) aim(p *Peer, now noise.Instant) {
	if p != d.tx.peer {
		d.flush(now)
		d.begin(p, now)
	}
}

// begin points the transmitter at a peer. Packets that wait for the keypair that
// there is now go first; it reports whether there were any.
func (d *Device) begin(p *Peer, now noise.Instant) (staged bool) {
	tx := &d.tx
	tx.peer = p
	p.mu.Lock()
	tx.to = p.endpoint
	staged = p.staged.n > 0
	p.mu.Unlock()
	tx.keypair = p.keypairs.Current()
	if tx.keypair != nil && expired(tx.keypair, now) {
		tx.keypair = nil
	}
	return staged && tx.keypair != nil && tx.to.valid() && d.sealStaged(now)
}

// sealStaged adds the packets that wait at the transmitter's peer to the burst, and
// reports whether there were any.
func (d *Device) sealStaged(now noise.Instant) (any bool) {
	p := d.tx.peer
	for {
		p.mu.Lock()
		packet := p.staged.pop(&d.stagedBytes)
		p.mu.Unlock()
		if packet == nil {
			return any
		}
		any = true
		if d.sealPacket(packet, now) {
			continue
		}
		p.mu.Lock()
		if p.running {
			p.staged.unpop(packet, &d.stagedBytes)
		}
		p.mu.Unlock()
		d.needKeypair(p, false, now)
		return any
	}
}

// sealPacket pads a packet, whose slice has room for tun.MaxPadding more bytes, and adds
// it to the burst. False: the keypair is used up.
func (d *Device) sealPacket(packet []byte, now noise.Instant) bool {
	n := len(packet)
	padded := packet[:n+padding(n, int(d.mtu.Load()))]
	clear(padded[n:])
	return d.seal(padded, outerTOS(packet), now)
}

// seal adds one message to the burst. plaintext is padded; empty: a keepalive. False:
// the keypair is used up.
func (d *Device) seal(plaintext []byte, tos byte, now noise.Instant) bool {
	tx := &d.tx
	size := noise.HeaderSize + len(plaintext) + noise.TagSize
	if tx.n == len(tx.segs) || tx.used+size > len(tx.out) {
		d.flushSegments(now)
	}
	if size > len(tx.out) {
		return true // no datagram can carry it: dropped
	}
	counter, ok := tx.keypair.Take()
	if !ok {
		tx.keypair = nil
		return false
	}
	if dst := tx.out[tx.used:]; tx.crew.call == nil {
		tx.keypair.SealAs(counter, dst, plaintext)
	} else {
		tx.counters[tx.n], tx.sealing = counter, tx.keypair
		copy(dst[noise.HeaderSize:], plaintext)
	}
	tx.segs[tx.n] = segment{off: tx.used, len: size, tos: tos}
	tx.n++
	tx.used += size
	tx.data = tx.data || len(plaintext) > 0
	return true
}

// sealSegment is the crew's work.
func (tx *transmitter) sealSegment(i int) {
	s := &tx.segs[i]
	msg := tx.out[s.off : s.off+s.len]
	tx.sealing.SealAs(tx.counters[i], msg, msg[noise.HeaderSize:s.len-noise.TagSize])
}

// flush sends the burst and lets go of the peer.
func (d *Device) flush(now noise.Instant) {
	d.flushSegments(now)
	d.tx.peer, d.tx.keypair = nil, nil
}

// flushSegments sends what out holds. The peer's lock is taken once for all of it.
func (d *Device) flushSegments(now noise.Instant) {
	tx := &d.tx
	if tx.n == 0 {
		return
	}
	if tx.crew.call != nil {
		tx.crew.run(tx.n)
		tx.sealing = nil
	}
	p, kp := tx.peer, tx.keypair
	hadSource := tx.to.src.IsValid()
	err := d.send(&tx.to, tx.out, tx.segs[:tx.n])
	if err != nil && now >= tx.quiet {
		tx.quiet = after(now, time.Second)
		d.log.Verbosef("%v: send to %v: %v", p, tx.to, err)
	}

	p.mu.Lock()
	if hadSource && !tx.to.src.IsValid() && p.endpoint.addr == tx.to.addr {
		p.endpoint.forgetSource()
	}
	kick := false
	if p.running {
		p.timers.authenticatedSent(now)
		if tx.data {
			p.timers.dataSent(now, d.jitter())
		}
		if kp != nil && rekeyAfterSending(kp, now) {
			d.askInitiation(p, now)
		}
		kick = p.reschedule(&d.schedule)
	}
	p.mu.Unlock()
	d.kick(kick)
	if err == nil {
		p.txBytes.Add(uint64(tx.used))
	}
	tx.n, tx.used, tx.data = 0, 0, false
}

// send hands segments to the socket of the endpoint's address family.
func (d *Device) send(to *endpoint, buf []byte, segs []segment) error {
	if d.bind.Load() == nil {
		return errDown
	}
	c := d.conn(to)
	if c == nil {
		return errFamily
	}
	return c.send(to, buf, segs)
}

// conn returns the socket of the endpoint's address family; nil: there is none.
func (d *Device) conn(to *endpoint) conn {
	b := d.bind.Load()
	switch {
	case b == nil:
		return nil
	case to.is4():
		return b.v4
	}
	return b.v6
}

// stage keeps a copy of packet until there is a keypair, and asks for one.
func (d *Device) stage(p *Peer, packet []byte, now noise.Instant) {
	p.mu.Lock()
	kick := false
	if p.running {
		p.staged.push(packet, &d.stagedBytes)
		d.askInitiation(p, now)
		kick = p.reschedule(&d.schedule)
	}
	p.mu.Unlock()
	d.kick(kick)
}

// sendStaged sends the packets that waited for a keypair. If there were none and
// keepalive is set it sends an empty message: §6.5, or to confirm a new keypair.
func (d *Device) sendStaged(p *Peer, keepalive bool, now noise.Instant) {
	tx := &d.tx
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if d.begin(p, now) {
		keepalive = false
	}
	switch {
	case tx.keypair == nil || !tx.to.valid():
		d.needKeypair(p, keepalive, now)
	case keepalive && !d.seal(nil, 0, now):
		d.needKeypair(p, true, now)
	}
	d.flush(now)
}

// needKeypair asks for an initiation if p has something to send, or has to anyway.
func (d *Device) needKeypair(p *Peer, anyway bool, now noise.Instant) {
	p.mu.Lock()
	kick := false
	if p.running && p.endpoint.valid() && (anyway || p.staged.n > 0) {
		d.askInitiation(p, now)
		kick = p.reschedule(&d.schedule)
	}
	p.mu.Unlock()
	d.kick(kick)
}
