package wgtool

import (
	"net/netip"

	"wgd/conf"
)

const (
	setConfUsage  Usage = "usage: wg setconf INTERFACE FILE\n"
	addConfUsage  Usage = "usage: wg addconf INTERFACE FILE\n"
	syncConfUsage Usage = "usage: wg syncconf INTERFACE FILE\n"
)

// load reads a file as the update of setconf.
func (t *Tool) load(path string) (*conf.Config, *conf.Update, error) {
	c, warnings, err := conf.Load(path)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range warnings {
		t.Warn(w.String())
	}
	f := &c.Interface
	if len(f.Address)+len(f.DNS)+len(f.Search)+len(f.PreUp)+len(f.PostUp)+len(f.PreDown)+len(f.PostDown)+f.MTU != 0 || f.Table != "" {
		t.Warn(path + ": keys of wg-quick are left out: `wgd up` knows them")
	}
	if _, err := retries(); err != nil {
		c.Wipe()
		return nil, nil, err
	}
	u, err := c.Update(t.resolve)
	if err != nil {
		c.Wipe()
		return nil, nil, err
	}
	return c, u, nil
}

// setConf makes the configuration that of the file.
func (t *Tool) setConf(args []string) error {
	if len(args) != 2 {
		return setConfUsage
	}
	c, u, err := t.load(args[1])
	if err != nil {
		return err
	}
	defer c.Wipe()
	return apply(args[0], u)
}

// addConf leaves alone what the file does not name.
func (t *Tool) addConf(args []string) error {
	if len(args) != 2 {
		return addConfUsage
	}
	c, u, err := t.load(args[1])
	if err != nil {
		return err
	}
	defer c.Wipe()
	u.ReplacePeers = false
	if c.Interface.PrivateKey == nil {
		u.PrivateKey = nil
	}
	if c.Interface.ListenPort == nil {
		u.ListenPort = nil
	}
	if c.Interface.FwMark == nil {
		u.FirewallMark = nil
	}
	return apply(args[0], u)
}

// syncConf is setConf that leaves alone what is as it should be.
func (t *Tool) syncConf(args []string) error {
	if len(args) != 2 {
		return syncConfUsage
	}
	c, u, err := t.load(args[1])
	if err != nil {
		return err
	}
	defer c.Wipe()
	s, err := state(args[0])
	if err != nil {
		u.Wipe()
		return err
	}
	defer s.Wipe()
	diff(u, s)
	return apply(args[0], u)
}

// diff turns u, which replaces all, into the changes that make u of s.
func diff(u *conf.Update, s *conf.State) {
	u.ReplacePeers = false
	if *u.PrivateKey == s.PrivateKey {
		u.PrivateKey = nil
	}
	// 0 is any port: the one that peers know already will do.
	if *u.ListenPort == 0 || *u.ListenPort == s.ListenPort {
		u.ListenPort = nil
	}
	if *u.FirewallMark == s.FirewallMark {
		u.FirewallMark = nil
	}

	wanted := merge(u.Peers)
	place := make(map[conf.Key]int, len(wanted))
	for i := range wanted {
		place[wanted[i].PublicKey] = i
	}
	var changes []conf.PeerUpdate
	there := make(map[conf.Key]bool, len(s.Peers))
	for i := range s.Peers {
		p := &s.Peers[i]
		there[p.PublicKey] = true
		at, stays := place[p.PublicKey]
		if !stays {
			changes = append(changes, conf.PeerUpdate{PublicKey: p.PublicKey, Remove: true})
		} else if change, any := diffPeer(&wanted[at], p); any {
			changes = append(changes, change)
		}
	}
	for i := range wanted {
		if !there[wanted[i].PublicKey] {
			changes = append(changes, wanted[i])
		}
	}
	u.Peers = changes
}

// diffPeer is what makes q of p. What q leaves out, p must not have, but for the
// endpoint, which may have been learned.
func diffPeer(q *conf.PeerUpdate, p *conf.PeerState) (change conf.PeerUpdate, any bool) {
	change.PublicKey = p.PublicKey
	psk := new(conf.Key)
	if q.PresharedKey != nil {
		psk = q.PresharedKey
	}
	if *psk != p.PresharedKey {
		change.PresharedKey, any = psk, true
	}
	if q.Endpoint != nil && *q.Endpoint != p.Endpoint && endpointOrNone(*q.Endpoint) != endpointOrNone(p.Endpoint) {
		change.Endpoint, any = q.Endpoint, true
	}
	keepalive := new(uint16)
	if q.PersistentKeepalive != nil {
		keepalive = q.PersistentKeepalive
	}
	if *keepalive != p.PersistentKeepalive {
		change.PersistentKeepalive, any = keepalive, true
	}
	if !sameIPs(q.AllowedIPs, p.AllowedIPs) {
		change.ReplaceAllowedIPs, change.AllowedIPs, any = true, q.AllowedIPs, true
	}
	return change, any
}

func sameIPs(want []conf.AllowedIP, have []netip.Prefix) bool {
	if len(want) != len(have) {
		return false
	}
	set := make(map[netip.Prefix]bool, len(have))
	for _, p := range have {
		set[p] = true
	}
	for _, a := range want {
		if !set[a.Prefix] {
			return false
		}
	}
	return true
}

// merge is the result of peers, each of which replaces its allowed IPs, one after the
// other: no peer stands there twice, no allowed IP is that of two.
func merge(peers []conf.PeerUpdate) (merged []conf.PeerUpdate) {
	place := make(map[conf.Key]int, len(peers))
	owners := make(map[netip.Prefix]int)
	for i := range peers {
		p := &peers[i]
		at, again := place[p.PublicKey]
		if !again {
			at = len(merged)
			place[p.PublicKey] = at
			merged = append(merged, conf.PeerUpdate{PublicKey: p.PublicKey, ReplaceAllowedIPs: true})
		}
		q := &merged[at]
		if p.PresharedKey != nil {
			q.PresharedKey = p.PresharedKey
		}
		if p.Endpoint != nil {
			q.Endpoint = p.Endpoint
		}
		if p.PersistentKeepalive != nil {
			q.PersistentKeepalive = p.PersistentKeepalive
		}
		for _, a := range q.AllowedIPs {
			if owners[a.Prefix] == at {
				delete(owners, a.Prefix)
			}
		}
		q.AllowedIPs = p.AllowedIPs
		for _, a := range p.AllowedIPs {
			owners[a.Prefix] = at
		}
	}
	for at := range merged {
		var own []conf.AllowedIP
		for _, a := range merged[at].AllowedIPs {
			if owner, ok := owners[a.Prefix]; ok && owner == at {
				own = append(own, a)
				delete(owners, a.Prefix) // it may stand there twice
			}
		}
		merged[at].AllowedIPs = own
	}
	return merged
}
