package device

import (
	"sync"

	"wgd/noise"
	"wgd/tun"
)

// The way in, in call order: received, receiveBurst, receiveTransport, finish, afterBurst;
// handshake messages leave by admit (handshake.go).

// A receiver holds the state of one burst in. A run is the messages of one peer
// under one keypair that follow each other.
type receiver struct {
	mu sync.Mutex // guards all below and the receiving sides of keypairs; one burst at a time

	peer    *Peer // of the run; nil: none
	keypair *noise.Keypair
	from    *endpoint // of the run's last message
	bytes   int       // UDP payload of the run
	data    bool      // a message of the run is not a keepalive

	pressure *pressure // on the socket's queue

	crew  crew
	burst []datagram // in the crew's hands

	confirmed []*Peer          // peers whose next keypair became current in this burst
	retired   []*noise.Keypair // keypairs that dropped out in this burst
}

// received is given what came in on one socket; more: there is more; q: on its queue.
func (d *Device) received(burst []datagram, more bool, q *pressure) {
	d.receiveBurst(burst, more, q)
	if more {
		d.giveWay(d.offerTransmit)
	}
}

// receiveBurst handles datagrams that were ready on one socket. Their bytes are
// changed in place.
func (d *Device) receiveBurst(burst []datagram, more bool, q *pressure) {
	rx := &d.rx
	rx.mu.Lock()
	now := d.clock.Now()
	rx.pressure = q
	if rx.crew.call != nil {
		d.openTogether(burst, now)
	}
	for i := range burst {
		g := &burst[i]
		switch noise.MessageType(g.data) {
		case noise.TypeTransport:
			d.receiveTransport(g, now)
		case noise.TypeInitiation, noise.TypeResponse, noise.TypeCookieReply:
			d.admit(g, now)
		}
	}
	d.finish(now)
	d.written(d.tun.Flush())
	q.tell(more, now)
	if len(rx.confirmed) == 0 && len(rx.retired) == 0 {
		rx.mu.Unlock()
		return
	}
	confirmed, retired := rx.confirmed, rx.retired
	rx.confirmed, rx.retired = nil, nil
	rx.mu.Unlock()

	d.retire(retired...)
	for _, p := range confirmed {
		d.log.Verbosef("%v: handshake complete, keypair confirmed", p)
		d.sendStaged(p, false, now)
	}
}

// session returns what a transport message belongs to; nil: nothing that is valid, or
// the message is let go.
func (d *Device) session(g *datagram, now noise.Instant) *indexEntry {
	e := d.index.lookup(noise.ReceiverIndex(g.data))
	if e == nil || e.keypair == nil || expired(e.keypair, now) {
		return nil
	}
	if len(g.data) > noise.HeaderSize+noise.TagSize && d.rx.pressure.drop(e.peer) {
		return nil
	}
	return e
}

// openTogether decrypts the transport messages of a burst with the crew's help.
func (d *Device) openTogether(burst []datagram, now noise.Instant) {
	for i := range burst {
		g := &burst[i]
		g.entry = nil
		if noise.MessageType(g.data) == noise.TypeTransport {
			g.entry = d.session(g, now)
		}
	}
	d.rx.burst = burst
	d.rx.crew.run(len(burst))
	d.rx.burst = nil
}

// openDatagram is the crew's work.
func (rx *receiver) openDatagram(i int) {
	if g := &rx.burst[i]; g.entry != nil {
		g.authentic = g.entry.keypair.Decrypt(g.data)
	}
}

// receiveTransport opens a transport message and writes its packet to the TUN: §5.4.6.
func (d *Device) receiveTransport(g *datagram, now noise.Instant) {
	rx := &d.rx
	var e *indexEntry
	var packet []byte
	var ok bool
	if rx.crew.call == nil {
		if e = d.session(g, now); e == nil {
			return
		}
		packet, ok = e.keypair.Open(g.data)
	} else {
		if e = g.entry; e == nil {
			return
		}
		packet, ok = e.keypair.Accept(g.data, g.authentic)
	}
	if !ok {
		rx.pressure.carried(nil)
		return
	}
	rx.pressure.carried(e.peer)
	size := len(g.data)
	if e.peer != rx.peer || e.keypair != rx.keypair {
		d.finish(now)
		rx.peer, rx.keypair = e.peer, e.keypair
	}
	rx.from = &g.from
	rx.bytes += size
	if len(packet) == 0 {
		return // a keepalive
	}
	rx.data = true
	packet = trim(packet)
	if packet == nil || d.allowed.Load().source(packet) != e.peer {
		return
	}
	if g.tos&ecnMask == ecnCE {
		setCE(packet)
	}
	d.written(d.tun.Gather(g.data[:noise.HeaderSize+len(packet)]))
}

// written deals with an error of writing to the TUN. When the interface went down, or
// has no room, packets are lost, as on any interface.
func (d *Device) written(err error) {
	if refused, ok := err.(*tun.RefusedError); ok {
		d.log.Errorf("%v", refused)
	}
}

// finish books a run: the peer's lock is taken once for all its messages.
func (d *Device) finish(now noise.Instant) {
	rx := &d.rx
	p, kp := rx.peer, rx.keypair
	if p == nil {
		return
	}
	kick := false
	p.mu.Lock()
	if p.running {
		if p.endpoint != *rx.from {
			p.endpoint = *rx.from // roaming: §2.1
		}
		rotated, old := p.keypairs.Confirm(kp)
		if rotated {
			p.timers.handshakeComplete()
			p.lastHandshake = d.clock.Wall()
			rx.confirmed = append(rx.confirmed, p)
			if old != nil {
				rx.retired = append(rx.retired, old)
			}
		}
		p.timers.authenticatedReceived(now)
		if rx.data {
			p.timers.dataReceived(now)
		}
		if kp == p.keypairs.Current() && p.timers.rekeyAfterReceiving(kp, now) {
			d.askInitiation(p, now)
		}
		kick = p.reschedule(&d.schedule)
	}
	p.mu.Unlock()
	d.kick(kick)
	p.rxBytes.Add(uint64(rx.bytes))
	rx.peer, rx.keypair, rx.from, rx.bytes, rx.data = nil, nil, nil, 0, false
}

// retire wipes keypairs that no Keypairs holds any more. It is called without
// Peer.mu, tx.mu or rx.mu.
func (d *Device) retire(keypairs ...*noise.Keypair) {
	any := false
	for _, kp := range keypairs {
		if kp != nil {
			d.index.remove(kp.LocalIndex)
			any = true
		}
	}
	if !any {
		return
	}
	d.tx.mu.Lock()
	for _, kp := range keypairs {
		if kp != nil {
			kp.WipeSend()
		}
	}
	d.tx.mu.Unlock()
	d.rx.mu.Lock()
	for _, kp := range keypairs {
		if kp != nil {
			kp.WipeReceive()
		}
	}
	d.rx.mu.Unlock()
}
