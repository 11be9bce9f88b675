package wgnl

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/internal/rtnl"
)

// Bytes. With a refusal the kernel returns the whole request, behind 20 bytes of its
// own, and that must fit into the buffer of the connection. It also keeps the lengths of
// nested attributes within their 16 bits.
const (
	maxMessage   = rtnl.BufferSize - 64
	maxPeer      = 4 + 36 + 8 + 36 + 32 + 8 + 4 // the keys, flags, endpoint, keepalive, and the list
	maxAllowedIP = 4 + 8 + 20 + 8 + 8           // family, address, length, flags
)

// WGALLOWEDIP_A_FLAGS and WGALLOWEDIP_F_REMOVE_ME of Linux 6.16.
const (
	allowedIPFlags  = 4
	removeAllowedIP = 1
)

// A writer cuts an update into messages.
type writer struct {
	start func() rtnl.Request // the beginning of each message
	send  func(rtnl.Request) error
	index func(zone string) (uint32, error)

	r     rtnl.Request
	peers int // offset of the list of peers in r
}

// begin starts a message. It reserves the memory, so that no key is copied when it grows.
func (w *writer) begin() { w.r = slices.Grow(w.start(), maxMessage) }

// beginPeers starts the list of peers.
func (w *writer) beginPeers() { w.r, w.peers = w.r.Nest(unix.WGDEVICE_A_PEERS) }

// end sends the message and wipes it.
func (w *writer) end() error {
	err := w.send(w.r)
	clear(w.r)
	return err
}

// endPeers ends the list of peers and sends the message.
func (w *writer) endPeers() error {
	w.r = w.r.End(w.peers)
	return w.end()
}

func (w *writer) full(more int) bool { return len(w.r)+more > maxMessage }

func (w *writer) update(u *conf.Update) error {
	for i := range u.Peers { // nothing is sent if an interface is missing
		if _, err := w.endpoint(&u.Peers[i]); err != nil {
			return err
		}
	}
	w.begin()
	if u.PrivateKey != nil {
		w.r = w.r.Attr(unix.WGDEVICE_A_PRIVATE_KEY, u.PrivateKey[:])
	}
	if u.ListenPort != nil {
		w.uint16(unix.WGDEVICE_A_LISTEN_PORT, *u.ListenPort)
	}
	if u.FirewallMark != nil {
		w.r = w.r.Uint32(unix.WGDEVICE_A_FWMARK, *u.FirewallMark)
	}
	if u.ReplacePeers {
		w.r = w.r.Uint32(unix.WGDEVICE_A_FLAGS, unix.WGDEVICE_F_REPLACE_PEERS)
	}
	w.beginPeers()
	for i := range u.Peers {
		if w.full(maxPeer + maxAllowedIP) {
			if err := w.endPeers(); err != nil {
				return err
			}
			w.begin()
			w.beginPeers()
		}
		if err := w.peer(&u.Peers[i]); err != nil {
			clear(w.r)
			return err
		}
	}
	return w.endPeers()
}

func (w *writer) peer(p *conf.PeerUpdate) error {
	var at int
	w.r, at = w.r.Nest(0)
	w.r = w.r.Attr(unix.WGPEER_A_PUBLIC_KEY, p.PublicKey[:])
	if p.Remove {
		w.r = w.r.Uint32(unix.WGPEER_A_FLAGS, unix.WGPEER_F_REMOVE_ME).End(at)
		return nil
	}
	var flags uint32
	if p.UpdateOnly {
		flags |= unix.WGPEER_F_UPDATE_ONLY
	}
	if p.ReplaceAllowedIPs {
		flags |= unix.WGPEER_F_REPLACE_ALLOWEDIPS
	}
	if flags != 0 {
		w.r = w.r.Uint32(unix.WGPEER_A_FLAGS, flags)
	}
	if p.PresharedKey != nil {
		w.r = w.r.Attr(unix.WGPEER_A_PRESHARED_KEY, p.PresharedKey[:])
	}
	addr, err := w.endpoint(p)
	if err != nil {
		return err
	}
	if addr != nil {
		w.r = w.r.Attr(unix.WGPEER_A_ENDPOINT, addr)
	}
	if p.PersistentKeepalive != nil {
		w.uint16(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, *p.PersistentKeepalive)
	}
	if len(p.AllowedIPs) > 0 {
		var list int
		w.r, list = w.r.Nest(unix.WGPEER_A_ALLOWEDIPS)
		for _, a := range p.AllowedIPs {
			if w.full(maxAllowedIP) {
				w.r = w.r.End(list).End(at)
				if err := w.endPeers(); err != nil {
					return err
				}
				w.begin()
				w.beginPeers()
				// Someone may have removed the peer meanwhile: it must not come back
				// with half of what it was.
				w.r, at = w.r.Nest(0)
				w.r = w.r.Attr(unix.WGPEER_A_PUBLIC_KEY, p.PublicKey[:]).Uint32(unix.WGPEER_A_FLAGS, unix.WGPEER_F_UPDATE_ONLY)
				w.r, list = w.r.Nest(unix.WGPEER_A_ALLOWEDIPS)
			}
			w.allowedIP(a)
		}
		w.r = w.r.End(list)
	}
	w.r = w.r.End(at)
	return nil
}

func (w *writer) allowedIP(a conf.AllowedIP) {
	var at int
	w.r, at = w.r.Nest(0)
	family := uint16(unix.AF_INET6)
	if a.Prefix.Addr().Is4() {
		family = unix.AF_INET
	}
	w.uint16(unix.WGALLOWEDIP_A_FAMILY, family)
	w.r = w.r.Attr(unix.WGALLOWEDIP_A_IPADDR, a.Prefix.Addr().AsSlice())
	w.r = w.r.Attr(unix.WGALLOWEDIP_A_CIDR_MASK, []byte{byte(a.Prefix.Bits())})
	if a.Remove {
		w.r = w.r.Uint32(allowedIPFlags, removeAllowedIP)
	}
	w.r = w.r.End(at)
}

// endpoint is that of a peer as a sockaddr, nil if it stays.
func (w *writer) endpoint(p *conf.PeerUpdate) ([]byte, error) {
	if p.Endpoint == nil {
		return nil, nil
	}
	var b [sockSize6]byte
	binary.BigEndian.PutUint16(b[sockPort:], p.Endpoint.Port())
	addr := p.Endpoint.Addr()
	if addr.Is4() {
		native.PutUint16(b[:], unix.AF_INET)
		copy(b[sockAddr4:], addr.AsSlice())
		return b[:sockSize4], nil
	}
	native.PutUint16(b[:], unix.AF_INET6)
	copy(b[sockAddr6:], addr.AsSlice())
	if zone := addr.Zone(); zone != "" {
		scope, err := w.index(zone)
		if err != nil {
			return nil, fmt.Errorf("endpoint of peer %s: %w", p.PublicKey, err)
		}
		native.PutUint32(b[sockScope:], scope)
	}
	return b[:], nil
}

func (w *writer) uint16(typ, v uint16) {
	var b [2]byte
	native.PutUint16(b[:], v)
	w.r = w.r.Attr(typ, b[:])
}
