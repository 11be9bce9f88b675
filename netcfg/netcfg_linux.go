// Package netcfg gives an interface its MTU, addresses and routes through
// rtnetlink.
package netcfg

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"wgd/internal/rtnl"
)

// minMTU6 is the smallest MTU with which an interface has IPv6: RFC 8200 §5.
const minMTU6 = 1280

// A Link is an interface of the namespace of the thread that opened it. It is
// for one goroutine.
type Link struct {
	conn  *rtnl.Conn
	name  string
	index int
	mtu   int
}

// Open finds an interface; the error wraps ENODEV if there is none.
func Open(name string) (*Link, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: %w", err)
	}
	l := &Link{conn: conn, name: name}
	err = conn.Get(rtnl.LinkRequest(unix.RTM_GETLINK, 0, 0).String(unix.IFLA_IFNAME, name), func(m rtnl.Message) {
		if found, ok := m.Link(); ok {
			l.index, l.mtu = found.Index, found.MTU
		}
	})
	if err == nil && l.index == 0 {
		err = unix.ENODEV
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func (l *Link) Close() error { return l.conn.Close() }

// SetMTU sets the MTU by ioctl, whose number qemu's user mode translates.
func (l *Link) SetMTU(mtu int) error {
	ifr, err := unix.NewIfreq(l.name)
	if err != nil {
		return err
	}
	ifr.SetUint32(uint32(mtu))
	if err := l.conn.Ioctl(unix.SIOCSIFMTU, ifr); err != nil {
		return fmt.Errorf("%s: set MTU %d: %w", l.name, mtu, err)
	}
	l.mtu = mtu
	return nil
}

// SetUp sets the interface up or down.
func (l *Link) SetUp(up bool) error {
	var flags uint32
	what := "down"
	if up {
		flags, what = unix.IFF_UP, "up"
	}
	if err := l.conn.Do(rtnl.LinkFlags(l.index, flags, unix.IFF_UP)); err != nil {
		return fmt.Errorf("%s: set %s: %w", l.name, what, err)
	}
	return nil
}

// Delete removes the interface, and with it addresses and routes.
func (l *Link) Delete() error {
	if err := l.conn.Do(rtnl.LinkRequest(unix.RTM_DELLINK, 0, l.index)); err != nil {
		return fmt.Errorf("%s: delete: %w", l.name, err)
	}
	return nil
}

// AddAddress adds an address with the length of its network. One that is there
// already is no error.
func (l *Link) AddAddress(p netip.Prefix) error {
	body := make([]byte, rtnl.AddrSize)
	body[0], body[1] = family(p), byte(p.Bits())
	rtnl.PutUint32(body[4:], uint32(l.index))
	addr := p.Addr().AsSlice()
	err := l.conn.Do(rtnl.NewRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body).
		Attr(unix.IFA_LOCAL, addr).Attr(unix.IFA_ADDRESS, addr))
	if err != nil && err != unix.EEXIST {
		return fmt.Errorf("%s: address %v: %w", l.name, p, err)
	}
	return nil
}

// AddRoute adds a route through the interface to the main table.
func (l *Link) AddRoute(p netip.Prefix) error {
	p = p.Masked()
	scope := byte(unix.RT_SCOPE_LINK)
	if p.Addr().Is6() {
		scope = unix.RT_SCOPE_UNIVERSE
	}
	body := make([]byte, rtnl.RouteSize)
	body[0], body[1] = family(p), byte(p.Bits())
	body[4], body[5], body[6], body[7] = unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, scope, unix.RTN_UNICAST
	err := l.conn.Do(rtnl.NewRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body).
		Attr(unix.RTA_DST, p.Addr().AsSlice()).Uint32(unix.RTA_OIF, uint32(l.index)))
	switch {
	case err == unix.EEXIST:
		return fmt.Errorf("%s: route %v: another route to it exists", l.name, p)
	case err != nil:
		return fmt.Errorf("%s: route %v: %w", l.name, p, err)
	}
	return nil
}

func family(p netip.Prefix) byte {
	if p.Addr().Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// A Config is what Apply gives to an interface.
type Config struct {
	Addresses []netip.Prefix
	Routes    []netip.Prefix // allowed IPs: those within an address's network need no route
}

// Apply adds the addresses, sets the interface up and adds the routes. IPv6 is
// left out, with a warning, where the kernel or the interface has none. It stops at
// the first error; deleting the interface undoes all of it.
func (l *Link) Apply(c Config) (warnings []string, err error) {
	no6 := l.mtu < minMTU6
	skipped6 := false
	// try runs add, unless p is of an IPv6 that is missing.
	try := func(p netip.Prefix, add func(netip.Prefix) error) error {
		if !p.Addr().Is6() {
			return add(p)
		}
		if !no6 {
			err := add(p)
			if !missing6(err) {
				return err
			}
			no6 = true
		}
		skipped6 = true
		return nil
	}
	for _, p := range c.Addresses {
		if err := try(p, l.AddAddress); err != nil {
			return nil, err
		}
	}
	if err := l.SetUp(true); err != nil {
		return nil, err
	}
	for _, p := range needed(c) {
		if p.Bits() == 0 {
			warnings = append(warnings, fmt.Sprintf("%s: route %v: default routes are left to you: the way to the endpoints must not follow them", l.name, p))
			continue
		}
		if err := try(p, l.AddRoute); err != nil {
			return warnings, err
		}
	}
	if skipped6 {
		why := "IPv6 is disabled"
		if l.mtu < minMTU6 {
			why = fmt.Sprintf("IPv6 needs an MTU of %d", minMTU6)
		}
		warnings = append(warnings, fmt.Sprintf("%s: %s: its addresses and routes are skipped", l.name, why))
	}
	return warnings, nil
}

// missing6 tells the errors of an IPv6 request to a kernel without IPv6, or
// with disable_ipv6 set for the interface.
func missing6(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)
}

// needed returns the routes to add: each once, and none within a network to which
// an address leads.
func needed(c Config) []netip.Prefix {
	var routes []netip.Prefix
	for _, r := range c.Routes {
		r = r.Masked()
		covered := func(a netip.Prefix) bool { return a.Bits() <= r.Bits() && a.Contains(r.Addr()) }
		if !slices.Contains(routes, r) && !slices.ContainsFunc(c.Addresses, covered) {
			routes = append(routes, r)
		}
	}
	return routes
}
