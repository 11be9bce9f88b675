package device

import "net/netip"

// An endpoint is where a peer was heard, or is said to be. Comparable.
type endpoint struct {
	addr   netip.AddrPort // no zone, IPv4 unmapped
	scope  uint32         // interface of a link-local IPv6 address
	mapped bool           // configured as ::ffff:a.b.c.d, shown so
	src    netip.Addr     // local address dialled; invalid: the kernel chooses
	srcIf  uint32         // interface on which the datagram came
}

func newEndpoint(a netip.AddrPort) (endpoint, error) { return endpoint{}, nil }
func (e *endpoint) addrPort() netip.AddrPort         { return e.addr } // as configured, with the zone, for display
func (e *endpoint) is4() bool                        { return e.addr.Addr().Is4() }
func (e *endpoint) valid() bool                      { return e.addr.IsValid() }
func (e *endpoint) forgetSource()                    { e.src, e.srcIf = netip.Addr{}, 0 }
