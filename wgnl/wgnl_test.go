package wgnl

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/internal/rtnl"
)

const testFamily = 31

func testKey(n int) (k conf.Key) {
	copy(k[:], fmt.Sprintf("key %d", n))
	return k
}

// A fakeKernel applies requests and answers as the header of the kernel says, with its
// own reading of the attributes.
type fakeKernel struct {
	t        *testing.T
	state    conf.State
	messages int
	largest  int
	err      error // of the next request
}

func (k *fakeKernel) writer() *writer {
	return &writer{
		start: func() rtnl.Request {
			return generic(testFamily, unix.WG_CMD_SET_DEVICE).String(unix.WGDEVICE_A_IFNAME, "wg0")
		},
		send: k.set,
		index: func(zone string) (uint32, error) {
			if zone != "eth0" {
				return 0, unix.ENODEV
			}
			return 7, nil
		},
	}
}

// attributes is a tree level: one value for each type.
func attributes(b []byte) map[uint16][]byte {
	m := map[uint16][]byte{}
	for typ, v := range rtnl.Attrs(b) {
		m[typ] = v
	}
	return m
}

func flags(b []byte) uint32 {
	if b == nil {
		return 0
	}
	return native.Uint32(b)
}

func (k *fakeKernel) set(r rtnl.Request) error {
	k.messages++
	k.largest = max(k.largest, len(r))
	if k.err != nil {
		return k.err
	}
	msgs := slices.Collect(rtnl.Messages(r))
	if len(msgs) != 1 || msgs[0].Type != testFamily || !bytes.Equal(msgs[0].Body[:4], []byte{unix.WG_CMD_SET_DEVICE, 1, 0, 0}) {
		k.t.Fatalf("not one message to the family: %x", []byte(r))
	}
	a := attributes(msgs[0].Body[4:])
	if got := string(a[unix.WGDEVICE_A_IFNAME]); got != "wg0\x00" {
		k.t.Fatalf("interface %q", got)
	}
	if v := a[unix.WGDEVICE_A_PRIVATE_KEY]; v != nil {
		k.state.PrivateKey = conf.Key(v)
	}
	if v := a[unix.WGDEVICE_A_LISTEN_PORT]; v != nil {
		k.state.ListenPort = native.Uint16(v)
	}
	if v := a[unix.WGDEVICE_A_FWMARK]; v != nil {
		k.state.FirewallMark = native.Uint32(v)
	}
	if flags(a[unix.WGDEVICE_A_FLAGS])&unix.WGDEVICE_F_REPLACE_PEERS != 0 {
		k.state.Peers = nil
	}
	for _, v := range rtnl.Attrs(a[unix.WGDEVICE_A_PEERS]) {
		k.setPeer(attributes(v))
	}
	return nil
}

func (k *fakeKernel) setPeer(a map[uint16][]byte) {
	key, flags := conf.Key(a[unix.WGPEER_A_PUBLIC_KEY]), flags(a[unix.WGPEER_A_FLAGS])
	i := slices.IndexFunc(k.state.Peers, func(p conf.PeerState) bool { return p.PublicKey == key })
	if flags&unix.WGPEER_F_REMOVE_ME != 0 {
		if i >= 0 {
			k.state.Peers = slices.Delete(k.state.Peers, i, i+1)
		}
		return
	}
	if i < 0 {
		if flags&unix.WGPEER_F_UPDATE_ONLY != 0 {
			return
		}
		i = len(k.state.Peers)
		k.state.Peers = append(k.state.Peers, conf.PeerState{PublicKey: key})
	}
	p := &k.state.Peers[i]
	if v := a[unix.WGPEER_A_PRESHARED_KEY]; v != nil {
		p.PresharedKey = conf.Key(v)
	}
	if v := a[unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL]; v != nil {
		p.PersistentKeepalive = native.Uint16(v)
	}
	if v := a[unix.WGPEER_A_ENDPOINT]; v != nil {
		port := uint16(v[2])<<8 | uint16(v[3])
		switch family := native.Uint16(v); {
		case family == unix.AF_INET && len(v) == 16:
			p.Endpoint = netip.AddrPortFrom(netip.AddrFrom4([4]byte(v[4:8])), port)
		case family == unix.AF_INET6 && len(v) == 28:
			addr := netip.AddrFrom16([16]byte(v[8:24]))
			if scope := native.Uint32(v[24:]); scope != 0 {
				addr = addr.WithZone(fmt.Sprint(scope))
			}
			p.Endpoint = netip.AddrPortFrom(addr, port)
		default:
			k.t.Fatalf("sockaddr %x", v)
		}
	}
	if flags&unix.WGPEER_F_REPLACE_ALLOWEDIPS != 0 {
		p.AllowedIPs = nil
	}
	for _, v := range rtnl.Attrs(a[unix.WGPEER_A_ALLOWEDIPS]) {
		a := attributes(v)
		addr, _ := netip.AddrFromSlice(a[unix.WGALLOWEDIP_A_IPADDR])
		want := map[int]uint16{4: unix.AF_INET, 16: unix.AF_INET6}[len(a[unix.WGALLOWEDIP_A_IPADDR])]
		if native.Uint16(a[unix.WGALLOWEDIP_A_FAMILY]) != want {
			k.t.Fatalf("allowed IP %x", v)
		}
		prefix := netip.PrefixFrom(addr, int(a[unix.WGALLOWEDIP_A_CIDR_MASK][0]))
		is := func(q netip.Prefix) bool { return q == prefix }
		if f := a[4]; f != nil {
			if native.Uint32(f) != 1 {
				k.t.Fatalf("flags %x", f)
			}
			p.AllowedIPs = slices.DeleteFunc(p.AllowedIPs, is)
			continue
		}
		for j := range k.state.Peers {
			q := &k.state.Peers[j]
			q.AllowedIPs = slices.DeleteFunc(q.AllowedIPs, is)
		}
		p.AllowedIPs = append(p.AllowedIPs, prefix)
	}
}

// dump is the kernel's answer to WG_CMD_GET_DEVICE in messages of about limit bytes.
func dump(s *conf.State, limit int) (messages [][]byte) {
	var r rtnl.Request
	var peers, peer, list int
	number16 := func(typ, v uint16) { r = r.Attr(typ, native.AppendUint16(nil, v)) }
	begin := func() {
		r = generic(testFamily, unix.WG_CMD_GET_DEVICE)
		if len(messages) == 0 {
			number16(unix.WGDEVICE_A_LISTEN_PORT, s.ListenPort)
			r = r.Uint32(unix.WGDEVICE_A_FWMARK, s.FirewallMark).Uint32(unix.WGDEVICE_A_IFINDEX, 5)
		}
		r = r.String(unix.WGDEVICE_A_IFNAME, "wg0")
		if len(messages) == 0 && !s.PrivateKey.IsZero() {
			r = r.Attr(unix.WGDEVICE_A_PRIVATE_KEY, s.PrivateKey[:]).Attr(unix.WGDEVICE_A_PUBLIC_KEY, s.PrivateKey[:])
		}
		r, peers = r.Nest(unix.WGDEVICE_A_PEERS)
	}
	end := func() {
		r = r.End(peers)
		messages = append(messages, r)
	}
	begin()
	for i := range s.Peers {
		p := &s.Peers[i]
		if len(r) > limit {
			end()
			begin()
		}
		r, peer = r.Nest(0)
		r = r.Attr(unix.WGPEER_A_PUBLIC_KEY, p.PublicKey[:]).Attr(unix.WGPEER_A_PRESHARED_KEY, p.PresharedKey[:])
		var sec, nsec uint64
		if !p.LastHandshake.IsZero() {
			sec, nsec = uint64(p.LastHandshake.Unix()), uint64(p.LastHandshake.Nanosecond())
		}
		r = r.Attr(unix.WGPEER_A_LAST_HANDSHAKE_TIME, native.AppendUint64(native.AppendUint64(nil, sec), nsec))
		number16(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, p.PersistentKeepalive)
		r = r.Attr(unix.WGPEER_A_UNSPEC, nil) // padding of the next
		r = r.Attr(unix.WGPEER_A_TX_BYTES, native.AppendUint64(nil, p.TxBytes)).Attr(unix.WGPEER_A_RX_BYTES, native.AppendUint64(nil, p.RxBytes))
		r = r.Uint32(unix.WGPEER_A_PROTOCOL_VERSION, 1)
		if p.Endpoint.IsValid() {
			w := writer{index: func(zone string) (n uint32, _ error) { fmt.Sscan(zone, &n); return n, nil }}
			sockaddr, _ := w.endpoint(&conf.PeerUpdate{Endpoint: &p.Endpoint})
			r = r.Attr(unix.WGPEER_A_ENDPOINT, sockaddr)
		}
		r, list = r.Nest(unix.WGPEER_A_ALLOWEDIPS)
		for _, prefix := range p.AllowedIPs {
			if len(r) > limit {
				r = r.End(list).End(peer)
				end()
				begin()
				r, peer = r.Nest(0)
				r = r.Attr(unix.WGPEER_A_PUBLIC_KEY, p.PublicKey[:])
				r, list = r.Nest(unix.WGPEER_A_ALLOWEDIPS)
			}
			w := writer{r: r}
			w.allowedIP(conf.AllowedIP{Prefix: prefix})
			r = w.r
		}
		r = r.End(list).End(peer)
	}
	end()
	return messages
}

// readAll reads an answer made of those messages.
func readAll(messages [][]byte) (*conf.State, error) {
	return read(testFamily, func(f func(rtnl.Message)) error {
		for _, b := range messages {
			for m := range rtnl.Messages(b) {
				f(m)
			}
		}
		return nil
	})
}

func prefixes(n, from int) (all []netip.Prefix) {
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, byte((from + i) >> 8), byte(from + i), 0})
		bits := 24
		if i%3 == 2 {
			addr, bits = netip.AddrFrom16([16]byte{0xfd, byte((from + i) >> 8), byte(from + i)}), 64
		}
		all = append(all, netip.PrefixFrom(addr, bits))
	}
	return all
}

func testState() *conf.State {
	s := &conf.State{PrivateKey: testKey(1), ListenPort: 51820, FirewallMark: 0xca6c0001, Peers: []conf.PeerState{
		{PublicKey: testKey(2), PresharedKey: testKey(3), Endpoint: netip.MustParseAddrPort("192.0.2.7:258"),
			LastHandshake: time.Unix(1<<33, 999_999_999), RxBytes: 1<<40 + 1, TxBytes: 1<<41 + 2, PersistentKeepalive: 25,
			AllowedIPs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("::ffff:1.2.3.4/128")}},
		{PublicKey: testKey(4), Endpoint: netip.MustParseAddrPort("[fe80::1%7]:65535")},
		{PublicKey: testKey(5), Endpoint: netip.MustParseAddrPort("[::ffff:192.0.2.1]:1"), AllowedIPs: prefixes(700, 0)},
	}}
	for i := range 300 {
		s.Peers = append(s.Peers, conf.PeerState{PublicKey: testKey(100 + i), AllowedIPs: prefixes(2, 1000+2*i)})
	}
	return s
}

// What the kernel lists arrives whole, wherever it cuts.
func TestGet(t *testing.T) {
	for _, s := range []*conf.State{{}, testState()} {
		for _, limit := range []int{300, 3700, 8000} {
			messages := dump(s, limit)
			got, err := readAll(messages)
			if err != nil || !reflect.DeepEqual(got, s) {
				t.Errorf("%d messages of %d bytes: %v\n got %+v\nwant %+v", len(messages), limit, err, got, s)
			}
		}
	}
}

// A list that changes while it is read is read again, and not for ever.
func TestGetChanging(t *testing.T) {
	want := testState()
	messages := dump(want, 3700)
	for _, c := range []struct {
		changes, dumps int
		err            error
	}{{0, 1, nil}, {2, 3, nil}, {1000, attempts, unix.EINTR}} {
		dumps := 0
		got, err := read(testFamily, func(f func(rtnl.Message)) error {
			dumps++
			for i, b := range messages {
				for m := range rtnl.Messages(b) {
					if dumps <= c.changes && i == 1 {
						m.Flags |= unix.NLM_F_DUMP_INTR
					}
					f(m)
				}
			}
			return nil
		})
		if dumps != c.dumps || !errors.Is(err, c.err) || (err == nil) != reflect.DeepEqual(got, want) {
			t.Errorf("%d changes: %d dumps, %v, want %d, %v", c.changes, dumps, err, c.dumps, c.err)
		}
	}
}

// Values of other sizes are not guessed at.
func TestGetBroken(t *testing.T) {
	peer := func(typ uint16, v []byte) []byte {
		r, peers := generic(testFamily, unix.WG_CMD_GET_DEVICE).Nest(unix.WGDEVICE_A_PEERS)
		r, at := r.Nest(0)
		k := testKey(1)
		return r.Attr(unix.WGPEER_A_PUBLIC_KEY, k[:]).Attr(typ, v).End(at).End(peers)
	}
	allowedIP := func(family uint16, addr []byte, bits ...byte) []byte {
		r, at := rtnl.Request(make([]byte, 16)).Nest(0)
		r = r.Attr(unix.WGALLOWEDIP_A_FAMILY, native.AppendUint16(nil, family)).Attr(unix.WGALLOWEDIP_A_IPADDR, addr).Attr(unix.WGALLOWEDIP_A_CIDR_MASK, bits).End(at)
		return peer(unix.WGPEER_A_ALLOWEDIPS, r[16:])
	}
	device := func(typ uint16, v []byte) []byte { return generic(testFamily, unix.WG_CMD_GET_DEVICE).Attr(typ, v) }
	sockaddr := func(family uint16, n int) []byte {
		return append(native.AppendUint16(nil, family), make([]byte, n-2)...)
	}
	for name, b := range map[string][]byte{
		"private key of 31 bytes":      device(unix.WGDEVICE_A_PRIVATE_KEY, make([]byte, 31)),
		"port of 4 bytes":              device(unix.WGDEVICE_A_LISTEN_PORT, make([]byte, 4)),
		"mark of 2 bytes":              device(unix.WGDEVICE_A_FWMARK, make([]byte, 2)),
		"peer without a key":           device(unix.WGDEVICE_A_PEERS, rtnl.Request(make([]byte, 16)).Attr(0, nil)[16:]),
		"preshared key of 33 bytes":    peer(unix.WGPEER_A_PRESHARED_KEY, make([]byte, 33)),
		"endpoint of 3 bytes":          peer(unix.WGPEER_A_ENDPOINT, make([]byte, 3)),
		"endpoint of another family":   peer(unix.WGPEER_A_ENDPOINT, sockaddr(unix.AF_UNIX, 16)),
		"IPv6 endpoint of 16 bytes":    peer(unix.WGPEER_A_ENDPOINT, sockaddr(unix.AF_INET6, 16)),
		"interval of 1 byte":           peer(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, make([]byte, 1)),
		"time of 8 bytes":              peer(unix.WGPEER_A_LAST_HANDSHAKE_TIME, make([]byte, 8)),
		"time before 1970":             peer(unix.WGPEER_A_LAST_HANDSHAKE_TIME, bytes.Repeat([]byte{255}, 16)),
		"counter of 4 bytes":           peer(unix.WGPEER_A_RX_BYTES, make([]byte, 4)),
		"allowed IP of nothing":        peer(unix.WGPEER_A_ALLOWEDIPS, rtnl.Request(make([]byte, 16)).Attr(0, nil)[16:]),
		"allowed IP of 33 bits":        allowedIP(unix.AF_INET, make([]byte, 4), 33),
		"allowed IP without a length":  allowedIP(unix.AF_INET, make([]byte, 4)),
		"allowed IP of another family": allowedIP(unix.AF_INET6, make([]byte, 4), 32),
	} {
		if got, err := readAll([][]byte{b}); got != nil || !errors.Is(err, unix.EPROTO) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// whole is the update that makes s of any interface, but for what only the kernel sets.
func whole(s *conf.State) *conf.Update {
	u := &conf.Update{PrivateKey: &s.PrivateKey, ListenPort: &s.ListenPort, FirewallMark: &s.FirewallMark, ReplacePeers: true}
	for i := range s.Peers {
		p := &s.Peers[i]
		q := conf.PeerUpdate{PublicKey: p.PublicKey, PresharedKey: &p.PresharedKey, PersistentKeepalive: &p.PersistentKeepalive, ReplaceAllowedIPs: true}
		if p.Endpoint.IsValid() {
			q.Endpoint = &p.Endpoint
		}
		for _, prefix := range p.AllowedIPs {
			q.AllowedIPs = append(q.AllowedIPs, conf.AllowedIP{Prefix: prefix})
		}
		u.Peers = append(u.Peers, q)
	}
	return u
}

// configured is s without what only the kernel sets.
func configured(s *conf.State) *conf.State {
	c := *s
	c.Peers = slices.Clone(s.Peers)
	for i := range c.Peers {
		p := &c.Peers[i]
		p.LastHandshake, p.RxBytes, p.TxBytes = time.Time{}, 0, 0
	}
	return &c
}

// An update of any size arrives, in messages whose refusal fits into the buffer.
func TestSet(t *testing.T) {
	s := testState()
	s.Peers[1].Endpoint = netip.MustParseAddrPort("[fe80::1%eth0]:65535")
	k := &fakeKernel{t: t, state: conf.State{Peers: []conf.PeerState{{PublicKey: testKey(9)}}}}
	if err := k.writer().update(whole(s)); err != nil {
		t.Fatal(err)
	}
	want := configured(testState())
	if !reflect.DeepEqual(&k.state, want) {
		t.Errorf("%d messages:\n got %+v\nwant %+v", k.messages, k.state, want)
	}
	if k.messages < 5 || k.largest > rtnl.BufferSize-20 || k.largest < rtnl.BufferSize*9/10 {
		t.Errorf("%d messages of at most %d bytes", k.messages, k.largest)
	}
}

// Each flag does what it says, and what is not said stays.
func TestSetParts(t *testing.T) {
	k := &fakeKernel{t: t, state: *configured(testState())}
	want := configured(testState())
	no, keepalive := conf.Key{}, uint16(0)
	p := netip.MustParsePrefix
	u := conf.Update{Peers: []conf.PeerUpdate{
		{PublicKey: testKey(2), PresharedKey: &no, PersistentKeepalive: &keepalive, AllowedIPs: []conf.AllowedIP{{Prefix: p("::/0"), Remove: true}, {Prefix: p("10.9.0.0/16")}}},
		{PublicKey: testKey(4), Remove: true, AllowedIPs: []conf.AllowedIP{{Prefix: p("10.0.0.0/24")}}},
		{PublicKey: testKey(6), UpdateOnly: true},
		{PublicKey: testKey(5), UpdateOnly: true, ReplaceAllowedIPs: true, AllowedIPs: []conf.AllowedIP{{Prefix: p("10.8.0.0/16")}}},
	}}
	want.Peers[0].PresharedKey, want.Peers[0].PersistentKeepalive = no, 0
	want.Peers[0].AllowedIPs = []netip.Prefix{p("0.0.0.0/0"), p("::ffff:1.2.3.4/128"), p("10.9.0.0/16")}
	want.Peers[2].AllowedIPs = []netip.Prefix{p("10.8.0.0/16")}
	want.Peers = slices.Delete(want.Peers, 1, 2)
	if err := k.writer().update(&u); err != nil || !reflect.DeepEqual(&k.state, want) || k.messages != 1 {
		t.Errorf("%d messages, %v:\n got %+v\nwant %+v", k.messages, err, k.state.Peers[:3], want.Peers[:3])
	}

	// A peer whose allowed IPs are in several messages does not come back.
	k = &fakeKernel{t: t}
	w := k.writer()
	set := w.send
	w.send = func(r rtnl.Request) error {
		err := set(r)
		if k.messages == 1 {
			k.state.Peers = nil
		}
		return err
	}
	s := &conf.State{Peers: []conf.PeerState{{PublicKey: testKey(1), AllowedIPs: prefixes(600, 0)}}}
	if err := w.update(whole(s)); err != nil || k.messages < 3 || len(k.state.Peers) != 0 {
		t.Errorf("removed between %d messages, %v: %+v", k.messages, err, k.state.Peers)
	}
}

// After a refusal nothing more is sent, and no key stays in memory, as after success.
func TestSetRefused(t *testing.T) {
	for _, refusal := range []error{nil, unix.EPERM} {
		k := &fakeKernel{t: t, err: refusal}
		w := k.writer()
		var sent []rtnl.Request
		set := w.send
		w.send = func(r rtnl.Request) error { sent = append(sent, r); return set(r) }
		s := testState()
		s.Peers[1].Endpoint = netip.AddrPort{}
		if err := w.update(whole(s)); err != refusal || refusal != nil && k.messages != 1 {
			t.Errorf("%v after %d messages, want %v", err, k.messages, refusal)
		}
		for _, r := range sent {
			if bytes.Contains(r[:cap(r)], []byte("key")) {
				t.Error("a key is left in memory")
			}
		}
	}
	k := &fakeKernel{t: t}
	w := k.writer()
	w.begin()
	for first := &w.r[0]; !w.full(maxAllowedIP); {
		if w.allowedIP(conf.AllowedIP{Prefix: netip.MustParsePrefix("::/0"), Remove: true}); first != &w.r[0] {
			t.Fatalf("a message of %d bytes has been copied", len(w.r))
		}
	}
	e := netip.MustParseAddrPort("[fe80::1%nosuch]:1")
	u := whole(testState())
	u.Peers[1].Endpoint, u.Peers[200].Endpoint = nil, &e
	if err := k.writer().update(u); !errors.Is(err, unix.ENODEV) || !strings.Contains(err.Error(), u.Peers[200].PublicKey.String()) || k.messages != 0 {
		t.Errorf("an unknown zone: %v after %d messages", err, k.messages)
	}
}

func TestWords(t *testing.T) {
	port := uint16(51820)
	remove := conf.Update{Peers: []conf.PeerUpdate{{AllowedIPs: []conf.AllowedIP{{Remove: true}}}}}
	for _, c := range []struct {
		errno unix.Errno
		u     conf.Update
		want  string
	}{
		{unix.ENODEV, conf.Update{}, "no such device"},
		{unix.EPERM, conf.Update{}, "not permitted (needs CAP_NET_ADMIN)"},
		{unix.EOPNOTSUPP, conf.Update{}, "not a WireGuard interface"},
		{unix.EADDRINUSE, conf.Update{ListenPort: &port}, "port 51820 is in use"},
		{unix.EADDRINUSE, conf.Update{}, "address already in use"},
		{unix.EINVAL, remove, "this kernel cannot take away single allowed IPs (Linux 6.16 can)"},
		{unix.EINVAL, conf.Update{}, "invalid argument"},
	} {
		if err := inWords(c.errno, &c.u); err.Error() != c.want || !errors.Is(err, c.errno) {
			t.Errorf("%v: got %q, want %q", c.errno, err, c.want)
		}
	}
	if err := inWords(nil, &remove); err != nil {
		t.Errorf("nil became %v", err)
	}
	for _, name := range []string{"", "sixteen-letters-"} {
		if _, err := Dial(name); !errors.Is(err, unix.ENODEV) {
			t.Errorf("Dial(%q): %v", name, err)
		}
	}
	if c, err := Dial("nosuch"); err == nil {
		c.Close()
	} else if !errors.Is(err, unix.EPROTONOSUPPORT) || err.Error() != "this kernel has no WireGuard" {
		t.Errorf("Dial: %v", err)
	}
}

// An interface of WireGuard is one by its kind, not by its name.
func TestWireguardLink(t *testing.T) {
	link := func(typ uint16, kind string) []byte {
		r, at := rtnl.LinkRequest(typ, 0, 7).String(unix.IFLA_IFNAME, "wireguard").Nest(unix.IFLA_LINKINFO)
		return r.String(unix.IFLA_INFO_KIND, kind).End(at)
	}
	for _, c := range []struct {
		b  []byte
		ok bool
	}{
		{link(unix.RTM_NEWLINK, "wireguard"), true},
		{link(unix.RTM_NEWLINK, "tun"), false},
		{link(unix.RTM_DELLINK, "wireguard"), false},
		{rtnl.LinkRequest(unix.RTM_NEWLINK, 0, 7).String(unix.IFLA_IFNAME, "wireguard"), false},
	} {
		for m := range rtnl.Messages(c.b) {
			if name, ok := wireguardLink(m); ok != c.ok || ok && name != "wireguard" {
				t.Errorf("%x: %q %v, want %v", c.b, name, ok, c.ok)
			}
		}
	}
}

// Whatever the kernel says, what was understood can be said again, and then means the same.
func FuzzAnswer(f *testing.F) {
	for _, s := range []*conf.State{{}, testState()} {
		s.Peers = s.Peers[:min(len(s.Peers), 4)]
		for i := range s.Peers {
			p := &s.Peers[i]
			p.AllowedIPs = p.AllowedIPs[:min(len(p.AllowedIPs), 5)]
		}
		f.Add(bytes.Join(dump(s, 8000), nil))
		f.Add(bytes.Join(dump(s, 300), nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := readAll([][]byte{b})
		for m := range rtnl.Messages(b) {
			wireguardLink(m)
		}
		if err != nil {
			return
		}
		for _, p := range s.Peers {
			for _, prefix := range p.AllowedIPs {
				if prefix != prefix.Masked() || !prefix.IsValid() {
					t.Errorf("allowed IP %v", prefix)
				}
			}
		}
		if len(b) > 60000 {
			return // a peer of those may not fit into one attribute
		}
		again, err := readAll(dump(s, 4000))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%v\n got %+v\nwant %+v", err, again, s)
		}
	})
}
