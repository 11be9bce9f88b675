// Package conf holds WireGuard configuration: keys, the transactions and states
// that the daemon and its clients exchange, and the INI language of wg(8) and
// wg-quick(8).
package conf

import (
	"net/netip"
	"time"
)

// An AllowedIP is one change of a peer's allowed IPs.
type AllowedIP struct {
	Prefix netip.Prefix // masked; a 4-in-6 prefix is an IPv6 prefix
	Remove bool         // remove it if it is this peer's; else add it, taking it from any other peer
}

// A PeerUpdate is the change of one peer. A nil pointer leaves the value as it is.
type PeerUpdate struct {
	PublicKey           Key
	Remove              bool            // remove the peer; what else is set does not matter
	UpdateOnly          bool            // do nothing if there is no such peer
	PresharedKey        *Key            // the zero key removes it
	Endpoint            *netip.AddrPort // numeric; may have a zone; 4-in-6 is kept
	PersistentKeepalive *uint16         // seconds; 0 is off
	ReplaceAllowedIPs   bool            // remove all allowed IPs first
	AllowedIPs          []AllowedIP     // then these, in order
}

// An Update is one transaction: it is applied whole or not at all. The zero
// value changes nothing.
type Update struct {
	PrivateKey   *Key         // the zero key removes it
	ListenPort   *uint16      // 0 lets the kernel choose
	FirewallMark *uint32      // 0 is off
	ReplacePeers bool         // remove all peers first
	Peers        []PeerUpdate // then these, in order; a peer may occur more than once
}

// Wipe zeroes the secrets of u.
func (u *Update) Wipe() {
	if u.PrivateKey != nil {
		clear(u.PrivateKey[:])
	}
	for i := range u.Peers {
		if k := u.Peers[i].PresharedKey; k != nil {
			clear(k[:])
		}
	}
}

// A PeerState is what the daemon knows of one peer.
type PeerState struct {
	PublicKey           Key
	PresharedKey        Key
	Endpoint            netip.AddrPort // invalid: none; may have a zone
	LastHandshake       time.Time      // wall clock; zero: never
	RxBytes, TxBytes    uint64         // UDP payload, handshakes included
	PersistentKeepalive uint16         // seconds; 0 is off
	AllowedIPs          []netip.Prefix
}

// A State is a snapshot of one interface. Peers stand in the order in which
// they were added.
type State struct {
	PrivateKey   Key
	ListenPort   uint16
	FirewallMark uint32
	Peers        []PeerState
}

// Wipe zeroes the secrets of s.
func (s *State) Wipe() {
	clear(s.PrivateKey[:])
	for i := range s.Peers {
		clear(s.Peers[i].PresharedKey[:])
	}
}
