package conf

import (
	"net/netip"
	"strings"
)

// The values of wg set: written as in a file, but each an argument of its own, in which
// only a list may have spaces. Errors are without a position.

// ParsePort reads a ListenPort.
func ParsePort(s string) (uint16, error) {
	c, _, err := parseArgument("listenport", s)
	if err != nil {
		return 0, err
	}
	return *c.Interface.ListenPort, nil
}

// ParseMark reads a FwMark.
func ParseMark(s string) (uint32, error) {
	c, _, err := parseArgument("fwmark", s)
	if err != nil {
		return 0, err
	}
	return *c.Interface.FwMark, nil
}

// ParseKeepalive reads a PersistentKeepalive.
func ParseKeepalive(s string) (uint16, error) {
	c, _, err := parseArgument("persistentkeepalive", s)
	if err != nil {
		return 0, err
	}
	return *c.Peers[0].PersistentKeepalive, nil
}

// ParseEndpoint reads an Endpoint.
func ParseEndpoint(s string) (Endpoint, error) {
	c, _, err := parseArgument("endpoint", s)
	if err != nil {
		return Endpoint{}, err
	}
	return *c.Peers[0].Endpoint, nil
}

// ParseAllowedIPs reads AllowedIPs, of which each may have + or - before it: if one
// has, the list is a change, else all that there is. Warnings are about host bits.
func ParseAllowedIPs(s string) (ips []AllowedIP, change bool, warnings []string, err error) {
	s = string(squeeze([]byte(s)))
	if s == "" {
		return nil, false, nil, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		var a AllowedIP
		plus := strings.HasPrefix(item, "+")
		a.Remove = strings.HasPrefix(item, "-")
		if plus || a.Remove {
			change, item = true, item[1:]
		}
		c, w, err := parseArgument("allowedips", item)
		if err != nil {
			return nil, false, nil, err
		}
		for i := range w {
			warnings = append(warnings, w[i].Text)
		}
		a.Prefix = c.Peers[0].AllowedIPs[0]
		ips = append(ips, a)
	}
	return ips, change, warnings, nil
}

func parseArgument(lower, s string) (*Config, []Warning, error) {
	p := parser{config: &Config{Peers: make([]Peer, 1)}, raw: []byte(s), owners: make(map[netip.Prefix]int)}
	err := p.plainText(0, len(s))
	switch {
	case err != nil:
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) }):
		err = p.fault(0, "%s: a space in it", show(p.raw))
	case isInterfaceKey(lower):
		err = p.interfaceKey(lower, 0, len(s))
	default:
		err = p.peerKey(lower, 0, len(s))
	}
	if err != nil {
		return nil, nil, err.(*Error).Err
	}
	return p.config, p.warnings, nil
}
