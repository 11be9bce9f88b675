package uapi

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"wgd/conf"
)

// An Error says what is wrong with a request. It never holds a value, which may
// be a key.
type Error struct {
	Line  int    // of the operation, whose first line is 1; 0: all of it
	Key   string // "" if the line has none
	What  string
	Errno syscall.Errno // of the reply
}

func (e *Error) Error() string {
	s := ""
	if e.Line != 0 {
		s = "line " + strconv.Itoa(e.Line) + ": "
	}
	if e.Key != "" {
		s += e.Key + ": "
	}
	return s + e.What
}

func (e *Error) Unwrap() error { return e.Errno }

var errTooLarge error = &Error{What: "operation too large", Errno: syscall.EMSGSIZE}

// readOperation reads the lines of an operation, from behind its first line to
// its empty line, and hands each to take. If one is wrong it reads on to the empty
// line, so that the next operation can follow: refused is what to reply.
// If broken is set, the connection must be closed; errTooLarge is both.
func readOperation(lines *lineReader, take func(line []byte) *Error) (refused, broken error) {
	size := 0
	for n := 2; ; n++ {
		line, err := lines.next()
		if err != nil && err != errLongLine {
			return nil, err
		}
		if err == nil && len(line) == 0 {
			return refused, nil
		}
		if size += len(line) + 1; lines.limit != 0 && size > lines.limit {
			return errTooLarge, errTooLarge
		}
		if refused == nil {
			var e *Error
			if err != nil {
				e = &Error{What: err.Error(), Errno: syscall.EINVAL}
			} else {
				e = take(line)
			}
			if e != nil {
				e.Line = n
				refused = e
			}
		}
		clear(line)
	}
}

// parseUpdate reads the lines of a set. The update is nil if there is an error.
func parseUpdate(lines *lineReader) (u *conf.Update, refused, broken error) {
	p := updateParser{u: new(conf.Update)}
	refused, broken = readOperation(lines, p.line)
	if refused != nil || broken != nil {
		p.u.Wipe()
		return nil, refused, broken
	}
	return p.u, nil, nil
}

// An updateParser collects the lines of a set. Ten thousand peers must not cost
// an allocation for each value: they come from slabs.
type updateParser struct {
	u          *conf.Update
	peer       *conf.PeerUpdate // the block we are in, the last of u.Peers; nil before the first
	allowedIPs []conf.AllowedIP // of peer; its capacity serves the next peers too
	keys       slab[conf.Key]
	endpoints  slab[netip.AddrPort]
	keepalives slab[uint16]
}

// line takes one line. It keeps no reference to it.
func (p *updateParser) line(line []byte) *Error {
	k, value, ok := bytes.Cut(line, []byte{'='})
	if !ok {
		return &Error{What: "not a line key=value", Errno: syscall.EPROTO}
	}
	var what string
	switch string(k) {
	case "public_key":
		what = p.publicKey(value)
	case "private_key", "listen_port", "fwmark", "replace_peers":
		if p.peer != nil {
			what = "belongs before the first public_key"
			break
		}
		what = p.device(k, value)
	case "remove", "update_only", "preshared_key", "endpoint", "persistent_keepalive_interval",
		"replace_allowed_ips", "allowed_ip", "protocol_version":
		if p.peer == nil {
			what = "belongs behind a public_key"
			break
		}
		what = p.peerLine(k, value)
	default:
		return &Error{Key: printableKey(k), What: "unknown key", Errno: syscall.EINVAL}
	}
	if what != "" {
		return &Error{Key: string(k), What: what, Errno: syscall.EINVAL}
	}
	return nil
}

const (
	wantKey      = "not a key (expected 64 hexadecimal digits)"
	wantTrue     = "wrong value (expected true)"
	wantPort     = "not a port (expected 0 to 65535)"
	wantMark     = "not a mark (expected 0 to 4294967295)"
	wantSeconds  = "not an interval (expected 0 to 65535 seconds)"
	wantEndpoint = "not an address and port (expected 192.0.2.1:51820 or [2001:db8::1]:51820)"
	wantPrefix   = "not a prefix (expected 192.0.2.0/24 or 2001:db8::/32)"
	wantVersion  = "unknown version (expected 1)"
)

// device takes a line of the interface. It returns "" or what is wrong, as the
// methods below do.
func (p *updateParser) device(k, value []byte) string {
	switch string(k) {
	case "private_key":
		if p.u.PrivateKey == nil {
			p.u.PrivateKey = new(conf.Key)
		}
		if !parseKey(p.u.PrivateKey, value) {
			return wantKey
		}
	case "listen_port":
		n, ok := parseUint(value, 1<<16-1)
		if !ok {
			return wantPort
		}
		port := uint16(n)
		p.u.ListenPort = &port
	case "fwmark":
		n, ok := parseUint(value, 1<<32-1)
		if !ok {
			return wantMark
		}
		mark := uint32(n)
		p.u.FirewallMark = &mark
	case "replace_peers":
		return parseTrue(&p.u.ReplacePeers, value)
	}
	return ""
}

func (p *updateParser) publicKey(value []byte) string {
	peers := p.u.Peers
	if len(peers) == cap(peers) {
		// append alone grows by a quarter when the slice is long: more copies, more garbage.
		peers = slices.Grow(peers, max(1, len(peers)))
	}
	p.u.Peers = append(peers, conf.PeerUpdate{})
	p.peer = &p.u.Peers[len(p.u.Peers)-1]
	p.allowedIPs = p.allowedIPs[len(p.allowedIPs):]
	if !parseKey(&p.peer.PublicKey, value) {
		return wantKey
	}
	return ""
}

func (p *updateParser) peerLine(k, value []byte) string {
	switch string(k) {
	case "remove":
		return parseTrue(&p.peer.Remove, value)
	case "update_only":
		return parseTrue(&p.peer.UpdateOnly, value)
	case "preshared_key":
		if p.peer.PresharedKey == nil {
			p.peer.PresharedKey = p.keys.next()
		}
		if !parseKey(p.peer.PresharedKey, value) {
			return wantKey
		}
	case "endpoint":
		e, err := netip.ParseAddrPort(string(value))
		if err != nil {
			return wantEndpoint
		}
		p.peer.Endpoint = p.endpoints.next()
		*p.peer.Endpoint = e
	case "persistent_keepalive_interval":
		n, ok := parseUint(value, 1<<16-1)
		if !ok {
			return wantSeconds
		}
		p.peer.PersistentKeepalive = p.keepalives.next()
		*p.peer.PersistentKeepalive = uint16(n)
	case "replace_allowed_ips":
		if what := parseTrue(&p.peer.ReplaceAllowedIPs, value); what != "" {
			return what
		}
		// Lines act in order: it undoes those above it.
		p.allowedIPs = p.allowedIPs[:0]
		p.peer.AllowedIPs = nil
	case "allowed_ip":
		var a conf.AllowedIP
		value, a.Remove = bytes.CutPrefix(value, []byte{'-'})
		prefix, err := netip.ParsePrefix(string(value))
		if err != nil {
			return wantPrefix
		}
		a.Prefix = prefix.Masked()
		p.addAllowedIP(a)
	case "protocol_version":
		if string(value) != "1" {
			return wantVersion
		}
	}
	return ""
}

// addAllowedIP appends to the peer's list, which ends in the chunk that the
// lists share. If the chunk is full, the list moves to a new one.
func (p *updateParser) addAllowedIP(a conf.AllowedIP) {
	n := len(p.allowedIPs)
	if n == cap(p.allowedIPs) {
		chunk := make([]conf.AllowedIP, n, max(2*n, min(4+len(p.u.Peers), 512)))
		copy(chunk, p.allowedIPs)
		p.allowedIPs = chunk
	}
	p.allowedIPs = append(p.allowedIPs, a)
	p.peer.AllowedIPs = p.allowedIPs[: n+1 : n+1]
}

// A slab hands out zero values of T from chunks that double in size.
type slab[T any] struct {
	free []T
	size int // of the last chunk
}

func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.size = min(max(1, 2*s.size), 256)
		s.free = make([]T, s.size)
	}
	v := &s.free[0]
	s.free = s.free[1:]
	return v
}

func parseKey(k *conf.Key, value []byte) bool {
	if len(value) != hex.EncodedLen(conf.KeySize) {
		return false
	}
	_, err := hex.Decode(k[:], value)
	return err == nil
}

// parseUint is for decimal digits only.
func parseUint(value []byte, limit uint64) (uint64, bool) {
	if len(value) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		// n <= limit < 2⁶⁰, so 10·n + 9 fits.
		if n = 10*n + uint64(c-'0'); n > limit {
			return 0, false
		}
	}
	return n, true
}

// parseTrue sets a flag. The protocol has no false: not sending it is false.
func parseTrue(flag *bool, value []byte) string {
	if string(value) != "true" {
		return wantTrue
	}
	*flag = true
	return ""
}

// printableKey is an unknown key as an error may show it: only what looks like a
// key of the protocol, for a broken client may have put a secret there.
func printableKey(k []byte) string {
	if len(k) > 32 {
		return ""
	}
	for _, c := range k {
		if (c < 'a' || c > 'z') && c != '_' {
			return ""
		}
	}
	return string(k)
}

// update prints a whole set operation.
func (p *printer) update(u *conf.Update) {
	p.text("set", "1")
	if u.PrivateKey != nil {
		p.key("private_key", u.PrivateKey)
	}
	if u.ListenPort != nil {
		p.number("listen_port", uint64(*u.ListenPort))
	}
	if u.FirewallMark != nil {
		p.number("fwmark", uint64(*u.FirewallMark))
	}
	p.flag("replace_peers", u.ReplacePeers)
	for i := range u.Peers {
		q := &u.Peers[i]
		p.key("public_key", &q.PublicKey)
		p.flag("remove", q.Remove)
		p.flag("update_only", q.UpdateOnly)
		if q.PresharedKey != nil {
			p.key("preshared_key", q.PresharedKey)
		}
		if q.Endpoint != nil {
			p.endpoint("endpoint", *q.Endpoint)
		}
		if q.PersistentKeepalive != nil {
			p.number("persistent_keepalive_interval", uint64(*q.PersistentKeepalive))
		}
		p.flag("replace_allowed_ips", q.ReplaceAllowedIPs)
		for _, a := range q.AllowedIPs {
			p.allowedIP(a)
		}
	}
	p.close()
}
