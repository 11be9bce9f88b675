package uapi

import (
	"bytes"
	"net/netip"
	"syscall"
	"time"

	"wgd/conf"
)

// state prints the reply to a get, up to its errno line. What is not set is left
// out, as the reference does; times and counters are always there.
func (p *printer) state(s *conf.State) {
	if !s.PrivateKey.IsZero() {
		p.key("private_key", &s.PrivateKey)
	}
	if s.ListenPort != 0 {
		p.number("listen_port", uint64(s.ListenPort))
	}
	if s.FirewallMark != 0 {
		p.number("fwmark", uint64(s.FirewallMark))
	}
	for i := range s.Peers {
		q := &s.Peers[i]
		p.key("public_key", &q.PublicKey)
		if !q.PresharedKey.IsZero() {
			p.key("preshared_key", &q.PresharedKey)
		}
		p.text("protocol_version", "1")
		if q.Endpoint.IsValid() {
			p.endpoint("endpoint", q.Endpoint)
		}
		// The wall clock, not the time that has passed.
		var sec, nsec uint64
		if !q.LastHandshake.IsZero() {
			sec, nsec = uint64(q.LastHandshake.Unix()), uint64(q.LastHandshake.Nanosecond())
		}
		p.number("last_handshake_time_sec", sec)
		p.number("last_handshake_time_nsec", nsec)
		p.number("tx_bytes", q.TxBytes)
		p.number("rx_bytes", q.RxBytes)
		p.number("persistent_keepalive_interval", uint64(q.PersistentKeepalive))
		for _, prefix := range q.AllowedIPs {
			p.allowedIP(conf.AllowedIP{Prefix: prefix})
		}
	}
}

// parseState reads the reply to a get. Keys that it does not know are skipped: a
// newer daemon may have more to say.
func parseState(lines *lineReader) (*conf.State, error) {
	s := new(conf.State)
	var peer *conf.PeerState
	code, replied := uint64(0), false
	for n := 1; ; n++ {
		line, err := lines.next()
		if err != nil {
			s.Wipe()
			return nil, err
		}
		if len(line) == 0 {
			break
		}
		k, value, ok := bytes.Cut(line, []byte{'='})
		if ok {
			switch string(k) {
			case "errno":
				value, _ = bytes.CutPrefix(value, []byte{'-'})
				code, ok = parseUint(value, 1<<31-1)
				replied = true
			case "private_key":
				ok = parseKey(&s.PrivateKey, value)
			case "listen_port":
				s.ListenPort, ok = parseUint16(value)
			case "fwmark":
				var mark uint64
				mark, ok = parseUint(value, 1<<32-1)
				s.FirewallMark = uint32(mark)
			case "public_key":
				s.Peers = append(s.Peers, conf.PeerState{})
				peer = &s.Peers[len(s.Peers)-1]
				ok = parseKey(&peer.PublicKey, value)
			default:
				ok = peer == nil || peerState(peer, k, value)
			}
		}
		if !ok {
			err := &Error{Line: n, Key: printableKey(k), What: "not understood", Errno: syscall.EPROTO}
			clear(line)
			s.Wipe()
			return nil, err
		}
		clear(line)
	}
	switch {
	case !replied:
		s.Wipe()
		return nil, &Error{Key: "errno", What: "missing in the reply", Errno: syscall.EPROTO}
	case code != 0:
		s.Wipe()
		return nil, syscall.Errno(code)
	}
	return s, nil
}

// peerState takes one line of a peer, and tells whether its value makes sense.
func peerState(peer *conf.PeerState, k, value []byte) (ok bool) {
	switch string(k) {
	case "preshared_key":
		return parseKey(&peer.PresharedKey, value)
	case "endpoint":
		e, err := netip.ParseAddrPort(string(value))
		peer.Endpoint = e
		return err == nil
	case "last_handshake_time_sec":
		n, ok := parseUint(value, 1<<40)
		setHandshake(peer, int64(n), int64(peer.LastHandshake.Nanosecond()))
		return ok
	case "last_handshake_time_nsec":
		n, ok := parseUint(value, 1e9-1)
		sec := int64(0)
		if !peer.LastHandshake.IsZero() {
			sec = peer.LastHandshake.Unix()
		}
		setHandshake(peer, sec, int64(n))
		return ok
	case "tx_bytes":
		peer.TxBytes, ok = parseUint(value, 1<<60-1)
		return ok
	case "rx_bytes":
		peer.RxBytes, ok = parseUint(value, 1<<60-1)
		return ok
	case "persistent_keepalive_interval":
		peer.PersistentKeepalive, ok = parseUint16(value)
		return ok
	case "allowed_ip":
		prefix, err := netip.ParsePrefix(string(value))
		peer.AllowedIPs = append(peer.AllowedIPs, prefix.Masked())
		return err == nil
	}
	return true
}

// setHandshake keeps the zero time for "never", which is 0 s 0 ns.
func setHandshake(peer *conf.PeerState, sec, nsec int64) {
	peer.LastHandshake = time.Time{}
	if sec != 0 || nsec != 0 {
		peer.LastHandshake = time.Unix(sec, nsec)
	}
}

func parseUint16(value []byte) (uint16, bool) {
	n, ok := parseUint(value, 1<<16-1)
	return uint16(n), ok
}
