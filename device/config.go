package device

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/noise"
)

// Configure applies a transaction whole, or returns an error and changes nothing.
// What can fail comes first: endpoints, then sockets.
func (d *Device) Configure(u *conf.Update) error {
	endpoints := make([]endpoint, len(u.Peers))
	for i := range u.Peers {
		if a := u.Peers[i].Endpoint; a != nil && !u.Peers[i].Remove {
			e, err := newEndpoint(*a)
			if err != nil {
				return err
			}
			endpoints[i] = e
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return unix.ENODEV
	}
	fresh, err := d.configureSockets(u)
	if err != nil {
		return err
	}

	// Nothing fails from here on.
	c := change{Device: d}
	if u.PrivateKey != nil {
		c.setPrivateKey(noise.PrivateKey(*u.PrivateKey))
	}
	if u.ReplacePeers {
		c.removeAll()
	}
	for i := range u.Peers {
		c.updatePeer(&u.Peers[i], endpoints[i])
	}
	c.finish()
	if fresh {
		d.greet()
	}
	return nil
}

// configureSockets applies the port and the mark. fresh: the sockets are new.
func (d *Device) configureSockets(u *conf.Update) (fresh bool, err error) {
	port, mark := d.port, d.mark
	if u.ListenPort != nil {
		port = *u.ListenPort
	}
	if u.FirewallMark != nil {
		mark = *u.FirewallMark
	}
	b := d.bind.Load()
	switch {
	case d.up && (port != d.port || b == nil):
		// The new ones first: if they cannot be had the old ones go on.
		n, err := d.newBinding(port, mark)
		if err != nil {
			if b == nil && port == d.port && u.ListenPort == nil {
				break // openLater goes on trying; this change is about something else
			}
			return false, fmt.Errorf("listen on UDP port %d: %w", port, err)
		}
		d.setBinding(n)
		port, fresh = n.port, true
	case mark != d.mark:
		for i, c := range b.conns() {
			if err := c.setMark(mark); err != nil {
				for _, c := range b.conns()[:i] {
					_ = c.setMark(d.mark) // as it was: what was allowed then is now
				}
				return false, fmt.Errorf("fwmark %#x: %w", mark, err)
			}
		}
	}
	d.port, d.mark = port, mark
	return fresh, nil
}

// A change is one transaction being applied. Device.mu is held.
type change struct {
	*Device
	retired  []*noise.Keypair
	lapsed   []*Peer // their keypairs must not send any more
	hello    []*Peer // they have something to send, or a keepalive is due
	rekeyed  bool    // there was another private key
	allowed  bool    // some peer's allowed IPs have changed
	anyGone  bool    // some peer was removed
	shrunken []*Peer // peers that lost allowed IPs
}

// setPrivateKey changes our identity. Handshakes under way end, and sessions are
// used to receive until new ones come.
func (c *change) setPrivateKey(k noise.PrivateKey) {
	if !k.IsZero() {
		k.Clamp() // as the kernel does, so that everybody shows the same
	}
	if k == c.private {
		return
	}
	c.rekeyed = !c.private.IsZero()
	c.private.Wipe()
	c.private = k
	var id *noise.Local
	if !k.IsZero() {
		id = noise.NewLocal(&k)
		if p := c.peer(id.Public()); p != nil {
			c.remove(p) // nobody is their own peer
		}
	}
	c.admission.mu.Lock()
	c.admission.checker.Wipe()
	if id != nil {
		c.admission.checker.Init(id.Public())
	}
	c.identity.Store(id)
	c.admission.mu.Unlock()
	k.Wipe()
	for _, p := range c.peers {
		p.mu.Lock()
		p.epoch++
		p.remote.Forget()
		c.dropInitiation(p)
		p.timers.lastHandshake = 0
		hello := p.running && (p.timers.interval != 0 || p.staged.n > 0)
		p.mu.Unlock()
		if hello {
			c.hello = append(c.hello, p)
		}
		c.lapsed = append(c.lapsed, p)
	}
}

func (c *change) removeAll() {
	for _, p := range c.peers {
		if !p.removed {
			c.remove(p)
		}
	}
}

// remove takes a peer out; finish takes it off the list.
func (c *change) remove(p *Peer) {
	p.removed = true
	c.anyGone = true
	c.disownAll(p)
	c.keys.Lock()
	delete(c.keys.m, p.public)
	c.keys.Unlock()
	c.retired = append(c.retired, c.stopPeer(p)...)
	p.mu.Lock()
	p.remote.Wipe()
	p.cookies.Wipe()
	c.stamps.Follow(p.stamps)
	p.mu.Unlock()
}

func (c *change) updatePeer(u *conf.PeerUpdate, e endpoint) {
	public := noise.PublicKey(u.PublicKey)
	p := c.peer(public)
	if u.Remove {
		if p != nil {
			c.remove(p)
		}
		return
	}
	if p == nil {
		if u.UpdateOnly {
			return
		}
		if id := c.identity.Load(); id != nil && id.Public() == public {
			return // nobody is their own peer; the kernel takes it without a word, too
		}
		p = newPeer(public)
		p.running = c.up
		p.stamps = c.stamps // it may be one that was removed, and its node remembers
		c.peers = append(c.peers, p)
		c.keys.Lock()
		c.keys.m[public] = p
		c.keys.Unlock()
	}

	now := c.clock.Now()
	hello := false
	p.mu.Lock()
	if u.PresharedKey != nil && *u.PresharedKey != conf.Key(p.remote.PresharedKey()) {
		// For the next handshake; the session there is goes on.
		p.remote.SetPresharedKey(noise.PresharedKey(*u.PresharedKey))
		p.epoch++
	}
	if e.valid() {
		hello = !p.endpoint.valid() && p.timers.interval != 0
		p.endpoint = e
	}
	if u.PersistentKeepalive != nil {
		if p.timers.setInterval(*u.PersistentKeepalive, now) {
			hello = true
		}
		if !p.running {
			p.timers.stop()
		}
	}
	hello = p.running && (hello || p.staged.n > 0)
	kick := p.running && p.reschedule(&c.schedule)
	p.mu.Unlock()
	c.kick(kick)
	if hello {
		c.hello = append(c.hello, p)
	}

	if u.ReplaceAllowedIPs {
		c.disownAll(p)
	}
	for _, a := range u.AllowedIPs {
		if a.Remove {
			c.disown(p, a.Prefix)
		} else {
			c.own(p, a.Prefix)
		}
	}
}

// own gives a prefix to p, and takes it from whoever has it.
func (c *change) own(p *Peer, prefix netip.Prefix) {
	old := c.owners[prefix]
	if old == p {
		return
	}
	if old != nil {
		c.shrink(old)
	}
	c.owners[prefix] = p
	if p.changed {
		// It may still be listed from before it was taken away in this transaction.
		p.allowed = slices.DeleteFunc(p.allowed, func(x netip.Prefix) bool { return x == prefix })
	}
	p.allowed = append(p.allowed, prefix)
	c.allowed = true
}

func (c *change) disown(p *Peer, prefix netip.Prefix) {
	if c.owners[prefix] == p {
		delete(c.owners, prefix)
		c.shrink(p)
		c.allowed = true
	}
}

func (c *change) disownAll(p *Peer) {
	for _, prefix := range p.allowed {
		if c.owners[prefix] == p {
			delete(c.owners, prefix)
			c.allowed = true
		}
	}
	p.allowed, p.changed = nil, false
}

// shrink marks a peer whose list has prefixes that are not its own any more.
func (c *change) shrink(p *Peer) {
	if !p.changed {
		p.changed = true
		c.shrunken = append(c.shrunken, p)
	}
}

// finish makes the packet path see the change.
func (c *change) finish() {
	for _, p := range c.shrunken {
		p.allowed = slices.DeleteFunc(p.allowed, func(x netip.Prefix) bool { return c.owners[x] != p })
		p.changed = false
	}
	if c.anyGone {
		c.peers = slices.DeleteFunc(c.peers, func(p *Peer) bool { return p.removed })
	}
	if c.allowed {
		entries := make([]allowedEntry, 0, len(c.owners))
		for prefix, p := range c.owners {
			entries = append(entries, allowedEntry{prefix, p})
		}
		c.Device.allowed.Store(newAllowedIPs(entries))
	}
	if len(c.lapsed) > 0 {
		c.tx.mu.Lock()
		for _, p := range c.lapsed {
			p.mu.Lock()
			current, next := p.keypairs.Current(), p.keypairs.Next()
			p.mu.Unlock()
			for _, kp := range []*noise.Keypair{current, next} {
				if kp != nil {
					kp.WipeSend()
				}
			}
		}
		c.tx.mu.Unlock()
	}
	c.retire(c.retired...)
	if c.rekeyed {
		go runtime.GC() // the old key is wiped when nobody can be using it any more
	}
	now := c.clock.Now()
	for _, p := range c.hello {
		if !p.removed {
			c.sendStaged(p, true, now)
		}
	}
}

// State returns a snapshot of the configuration and the counters.
func (d *Device) State() *conf.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &conf.State{
		PrivateKey:   conf.Key(d.private),
		ListenPort:   d.port,
		FirewallMark: d.mark,
		Peers:        make([]conf.PeerState, len(d.peers)),
	}
	for i, p := range d.peers {
		ps := &s.Peers[i]
		ps.PublicKey = conf.Key(p.public)
		ps.AllowedIPs = slices.Clone(p.allowed)
		p.mu.Lock()
		ps.PresharedKey = conf.Key(p.remote.PresharedKey())
		at := p.endpoint
		ps.LastHandshake = p.lastHandshake
		ps.PersistentKeepalive = p.timers.interval
		p.mu.Unlock()
		if at.valid() {
			ps.Endpoint = at.addrPort()
		}
		ps.RxBytes, ps.TxBytes = p.rxBytes.Load(), p.txBytes.Load()
	}
	return s
}
