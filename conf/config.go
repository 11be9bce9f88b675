package conf

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A Config is an INI file of wg(8) or wg-quick(8). Pointers are nil where the
// file says nothing.
type Config struct {
	Interface Interface
	Peers     []Peer
}

// An Interface is the [Interface] sections together.
type Interface struct {
	// Of wg(8).
	PrivateKey *Key
	ListenPort *uint16 // 0 lets the kernel choose
	FwMark     *uint32 // 0 is off

	// Of wg-quick(8).
	Address    []netip.Prefix // with their host bits
	DNS        []netip.Addr
	Search     []string // the search domains among the DNS entries
	MTU        int      // bytes; 0 is automatic
	Table      string   // off, auto, a number or a name; "" is auto
	PreUp      []string // hooks are raw text: no comment is cut off
	PostUp     []string
	PreDown    []string
	PostDown   []string
	SaveConfig bool

	// Of wgd alone.
	Memory  int64  // bytes of the machine that budgets are made for; 0 is what it has
	Offload string // kernel features that may be tried, between commas; "" is all
}

// A Peer is one [Peer] section.
type Peer struct {
	PublicKey           Key
	PresharedKey        *Key
	AllowedIPs          []netip.Prefix // masked
	Endpoint            *Endpoint
	PersistentKeepalive *uint16 // seconds; 0 is off
}

// An Endpoint is where a peer is: an address or a name that is still to be
// resolved.
type Endpoint struct {
	Host string // a name, an IPv4 address, or an IPv6 address without brackets that may have a zone
	Port uint16
}

// AddrPort is the endpoint, if its host is an address.
func (e Endpoint) AddrPort() (netip.AddrPort, bool) {
	addr, err := netip.ParseAddr(e.Host)
	return netip.AddrPortFrom(addr, e.Port), err == nil
}

func (e Endpoint) String() string {
	port := strconv.Itoa(int(e.Port))
	if strings.Contains(e.Host, ":") {
		return "[" + e.Host + "]:" + port
	}
	return e.Host + ":" + port
}

// Update is the transaction of wg setconf: the interface and its peers become
// what the file says, and no more. Endpoints with a name go through resolve, which
// may be nil if there are none. The peer of a zero AddrPort gets no endpoint.
func (c *Config) Update(resolve func(Endpoint) (netip.AddrPort, error)) (*Update, error) {
	u := &Update{
		PrivateKey:   new(Key),
		ListenPort:   new(uint16),
		FirewallMark: new(uint32),
		ReplacePeers: true,
		Peers:        make([]PeerUpdate, len(c.Peers)),
	}
	if k := c.Interface.PrivateKey; k != nil {
		*u.PrivateKey = *k
	}
	if p := c.Interface.ListenPort; p != nil {
		*u.ListenPort = *p
	}
	if m := c.Interface.FwMark; m != nil {
		*u.FirewallMark = *m
	}
	for i := range c.Peers {
		p, q := &c.Peers[i], &u.Peers[i]
		q.PublicKey = p.PublicKey
		if p.PresharedKey != nil {
			k := *p.PresharedKey
			q.PresharedKey = &k
		}
		if p.Endpoint != nil {
			e, numeric := p.Endpoint.AddrPort()
			if !numeric {
				var err error
				if resolve == nil {
					err = fmt.Errorf("%s: not an address", p.Endpoint.Host)
				} else {
					e, err = resolve(*p.Endpoint)
				}
				if err != nil {
					u.Wipe()
					return nil, fmt.Errorf("endpoint of peer %s: %w", p.PublicKey, err)
				}
			}
			if e.IsValid() {
				q.Endpoint = &e
			}
		}
		if p.PersistentKeepalive != nil {
			n := *p.PersistentKeepalive
			q.PersistentKeepalive = &n
		}
		q.ReplaceAllowedIPs = true
		q.AllowedIPs = make([]AllowedIP, len(p.AllowedIPs))
		for j, prefix := range p.AllowedIPs {
			q.AllowedIPs[j].Prefix = prefix
		}
	}
	return u, nil
}

// Wipe zeroes the secrets of c.
func (c *Config) Wipe() {
	if k := c.Interface.PrivateKey; k != nil {
		clear(k[:])
	}
	for i := range c.Peers {
		if k := c.Peers[i].PresharedKey; k != nil {
			clear(k[:])
		}
	}
}

// String is the file, laid out as wg-quick saves it. It holds the secrets.
func (c *Config) String() string { return string(c.Append(nil)) }

// Append appends the file to dst.
func (c *Config) Append(dst []byte) []byte {
	line := func(key, value string) {
		dst = append(append(append(append(dst, key...), " = "...), value...), '\n')
	}
	lines := func(key string, values []string) {
		for _, v := range values {
			line(key, v)
		}
	}
	number := func(key string, n uint64) { line(key, strconv.FormatUint(n, 10)) }

	dst = append(dst, "[Interface]\n"...)
	f := &c.Interface
	for _, a := range f.Address {
		line("Address", a.String())
	}
	for _, a := range f.DNS {
		line("DNS", a.String())
	}
	lines("DNS", f.Search)
	if f.MTU != 0 {
		number("MTU", uint64(f.MTU))
	}
	if f.Table != "" {
		line("Table", f.Table)
	}
	if f.SaveConfig {
		line("SaveConfig", "true")
	}
	if f.Memory != 0 {
		number("Memory", uint64(f.Memory))
	}
	if f.Offload != "" {
		line("Offload", f.Offload)
	}
	lines("PreUp", f.PreUp)
	lines("PostUp", f.PostUp)
	lines("PreDown", f.PreDown)
	lines("PostDown", f.PostDown)
	if f.ListenPort != nil {
		number("ListenPort", uint64(*f.ListenPort))
	}
	if f.FwMark != nil {
		line("FwMark", "0x"+strconv.FormatUint(uint64(*f.FwMark), 16))
	}
	if f.PrivateKey != nil {
		line("PrivateKey", f.PrivateKey.String())
	}

	for i := range c.Peers {
		p := &c.Peers[i]
		dst = append(dst, "\n[Peer]\n"...)
		line("PublicKey", p.PublicKey.String())
		if p.PresharedKey != nil {
			line("PresharedKey", p.PresharedKey.String())
		}
		for j, prefix := range p.AllowedIPs {
			if j == 0 {
				dst = append(dst, "AllowedIPs = "...)
			} else {
				dst = append(dst, ", "...)
			}
			dst = prefix.AppendTo(dst)
		}
		if len(p.AllowedIPs) > 0 {
			dst = append(dst, '\n')
		}
		if p.Endpoint != nil {
			line("Endpoint", p.Endpoint.String())
		}
		if p.PersistentKeepalive != nil {
			number("PersistentKeepalive", uint64(*p.PersistentKeepalive))
		}
	}
	return dst
}
