package wgnl

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/internal/rtnl"
)

var native = binary.NativeEndian

// Offsets in a sockaddr of AF_INET or AF_INET6, and sizes. Both begin with the family, in
// host order, and the port, in network order.
const (
	sockPort     = 2
	sockAddr4    = 4
	sockSize4    = unix.SizeofSockaddrInet4 // with 8 bytes of padding
	sockAddr6    = 8                        // behind the flow label
	sockScope    = 24
	sockSize6    = unix.SizeofSockaddrInet6
	timespecSize = 16 // struct __kernel_timespec: 64-bit seconds and nanoseconds everywhere
)

// read collects the answer to WG_CMD_GET_DEVICE, until nobody changed the interface
// while it was read. dump asks, and hands each message to f. Zones are numbers.
func read(family uint16, dump func(f func(rtnl.Message)) error) (*conf.State, error) {
	for range attempts {
		a := answer{state: new(conf.State)}
		err := dump(func(m rtnl.Message) {
			if m.Type == family {
				a.message(m)
			}
		})
		if err == nil && a.broken {
			err = errBroken
		}
		if err == nil && !a.changed {
			return a.state, nil
		}
		a.state.Wipe()
		if err != nil {
			return nil, err
		}
	}
	return nil, errChanging
}

// An answer is a state that is being read.
type answer struct {
	state   *conf.State
	changed bool // meanwhile, by someone else
	broken  bool
}

// message takes one message. The first tells about the interface; if not all peers fit,
// the next ones go on with them, even within the allowed IPs of one.
func (a *answer) message(m rtnl.Message) {
	if len(m.Body) < unix.GENL_HDRLEN || m.Body[0] != unix.WG_CMD_GET_DEVICE {
		return
	}
	if m.Flags&unix.NLM_F_DUMP_INTR != 0 {
		a.changed = true
	}
	s := a.state
	for typ, v := range m.Attrs(unix.GENL_HDRLEN) {
		ok := true
		switch typ {
		case unix.WGDEVICE_A_PRIVATE_KEY:
			ok = readKey(&s.PrivateKey, v)
		case unix.WGDEVICE_A_LISTEN_PORT:
			ok = readUint16(&s.ListenPort, v)
		case unix.WGDEVICE_A_FWMARK:
			if ok = len(v) == 4; ok {
				s.FirewallMark = native.Uint32(v)
			}
		case unix.WGDEVICE_A_PEERS:
			for _, v := range rtnl.Attrs(v) {
				ok = a.peer(v) && ok
			}
		}
		a.broken = a.broken || !ok
	}
}

// peer takes one peer, or the rest of the last one, and tells whether it makes sense.
func (a *answer) peer(attrs []byte) bool {
	var key conf.Key
	known := false
	for typ, v := range rtnl.Attrs(attrs) {
		if typ == unix.WGPEER_A_PUBLIC_KEY {
			known = readKey(&key, v)
		}
	}
	if !known {
		return false
	}
	s := a.state
	if n := len(s.Peers); n == 0 || s.Peers[n-1].PublicKey != key {
		s.Peers = append(s.Peers, conf.PeerState{PublicKey: key})
	}
	p := &s.Peers[len(s.Peers)-1]

	for typ, v := range rtnl.Attrs(attrs) {
		ok := true
		switch typ {
		case unix.WGPEER_A_PRESHARED_KEY:
			ok = readKey(&p.PresharedKey, v)
		case unix.WGPEER_A_ENDPOINT:
			p.Endpoint, ok = readEndpoint(v)
		case unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL:
			ok = readUint16(&p.PersistentKeepalive, v)
		case unix.WGPEER_A_LAST_HANDSHAKE_TIME:
			p.LastHandshake, ok = readTime(v)
		case unix.WGPEER_A_RX_BYTES:
			ok = readUint64(&p.RxBytes, v)
		case unix.WGPEER_A_TX_BYTES:
			ok = readUint64(&p.TxBytes, v)
		case unix.WGPEER_A_ALLOWEDIPS:
			for _, v := range rtnl.Attrs(v) {
				prefix, known := readPrefix(v)
				if !known {
					return false
				}
				p.AllowedIPs = append(p.AllowedIPs, prefix)
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// The readers tell whether v has the right size, and leave the value alone if not.

func readKey(k *conf.Key, v []byte) bool {
	if len(v) != conf.KeySize {
		return false
	}
	copy(k[:], v)
	return true
}

func readUint16(n *uint16, v []byte) bool {
	if len(v) != 2 {
		return false
	}
	*n = native.Uint16(v)
	return true
}

func readUint64(n *uint64, v []byte) bool {
	if len(v) != 8 {
		return false
	}
	*n = native.Uint64(v)
	return true
}

// readTime keeps the zero time for "never", which is 0 s 0 ns.
func readTime(v []byte) (t time.Time, ok bool) {
	if len(v) != timespecSize {
		return t, false
	}
	sec, nsec := int64(native.Uint64(v)), int64(native.Uint64(v[8:]))
	if sec < 0 || nsec < 0 || nsec >= 1e9 {
		return t, false
	}
	if sec != 0 || nsec != 0 {
		t = time.Unix(sec, nsec)
	}
	return t, true
}

// readEndpoint reads a sockaddr. The kernel leaves the attribute out if there is none.
func readEndpoint(v []byte) (e netip.AddrPort, ok bool) {
	if len(v) < sockPort+2 {
		return e, false
	}
	port := binary.BigEndian.Uint16(v[sockPort:])
	switch family := native.Uint16(v); {
	case family == unix.AF_INET && len(v) == sockSize4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(v[sockAddr4:])), port), true
	case family == unix.AF_INET6 && len(v) == sockSize6:
		e = netip.AddrPortFrom(netip.AddrFrom16([16]byte(v[sockAddr6:])), port)
		if scope := native.Uint32(v[sockScope:]); scope != 0 {
			e = withZone(e, strconv.FormatUint(uint64(scope), 10))
		}
		return e, true
	}
	return e, false
}

func withZone(e netip.AddrPort, zone string) netip.AddrPort {
	return netip.AddrPortFrom(e.Addr().WithZone(zone), e.Port())
}

func readPrefix(attrs []byte) (p netip.Prefix, ok bool) {
	var family uint16
	var addr netip.Addr
	bits := -1
	for typ, v := range rtnl.Attrs(attrs) {
		switch {
		case typ == unix.WGALLOWEDIP_A_FAMILY:
			readUint16(&family, v)
		case typ == unix.WGALLOWEDIP_A_IPADDR && (len(v) == 4 || len(v) == 16):
			addr, _ = netip.AddrFromSlice(v)
		case typ == unix.WGALLOWEDIP_A_CIDR_MASK && len(v) == 1:
			bits = int(v[0])
		}
	}
	if !(family == unix.AF_INET && addr.Is4() || family == unix.AF_INET6 && addr.Is6()) {
		return p, false
	}
	p, err := addr.Prefix(bits)
	return p, err == nil
}
