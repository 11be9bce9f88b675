// Package wgnl configures the WireGuard interfaces of the kernel, as package uapi
// does those of daemons: the generic netlink family "wireguard",
// include/uapi/linux/wireguard.h.
//
//	0        16                  20
//	| header | command, version | attributes: device { peer { allowed IP ... } ... } |
//
// Numbers are in host order, but for the port of an endpoint.
package wgnl

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/internal/rtnl"
)

// attempts to read a list that others change meanwhile.
const attempts = 20

// An Error is a refusal of the kernel.
type Error struct {
	What  string
	Errno unix.Errno
}

func (e *Error) Error() string { return e.What }

func (e *Error) Unwrap() error { return e.Errno }

var (
	errNoDevice = &Error{"no such device", unix.ENODEV}
	errBroken   = &Error{"the kernel's answer is not understood", unix.EPROTO}
	errChanging = &Error{"changed too often to be read", unix.EINTR}
)

// Interfaces are the kernel's WireGuard interfaces, in its order.
func Interfaces() ([]string, error) {
	c, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for range attempts {
		var names []string
		changed := false
		err := c.Dump(rtnl.LinkRequest(unix.RTM_GETLINK, 0, 0), func(m rtnl.Message) {
			changed = changed || m.Flags&unix.NLM_F_DUMP_INTR != 0
			if name, ok := wireguardLink(m); ok {
				names = append(names, name)
			}
		})
		if err != nil {
			return nil, err
		}
		if !changed {
			return names, nil
		}
	}
	return nil, errChanging
}

// wireguardLink tells whether a message is about an interface of ours.
func wireguardLink(m rtnl.Message) (name string, ok bool) {
	l, ok := m.Link()
	if !ok || m.Type != unix.RTM_NEWLINK {
		return "", false
	}
	for typ, v := range m.Attrs(rtnl.LinkSize) {
		if typ != unix.IFLA_LINKINFO {
			continue
		}
		for typ, v := range rtnl.Attrs(v) {
			if typ == unix.IFLA_INFO_KIND && unix.ByteSliceToString(v) == unix.WG_GENL_NAME {
				return l.Name, l.Name != ""
			}
		}
	}
	return "", false
}

// A Client configures one interface. It is for one goroutine.
type Client struct {
	ifname string
	family uint16
	conn   *rtnl.Conn
}

// Dial reaches the kernel's WireGuard in the network namespace of this thread. Whether
// there is such an interface shows when it is asked for.
func Dial(ifname string) (*Client, error) {
	if ifname == "" || len(ifname) >= unix.IFNAMSIZ {
		return nil, errNoDevice
	}
	conn, err := rtnl.DialGeneric()
	if err == nil {
		c := &Client{ifname: ifname, conn: conn}
		if c.family, err = family(conn); err == nil {
			return c, nil
		}
		conn.Close()
	}
	// No family, or no generic netlink at all.
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		err = &Error{"this kernel has no WireGuard", unix.EPROTONOSUPPORT}
	}
	return nil, err
}

// family asks for the number of our family: it is the type of its messages. The kernel
// loads the module for it.
func family(conn *rtnl.Conn) (id uint16, err error) {
	r := generic(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY).String(unix.CTRL_ATTR_FAMILY_NAME, unix.WG_GENL_NAME)
	err = conn.Get(r, func(m rtnl.Message) {
		for typ, v := range m.Attrs(unix.GENL_HDRLEN) {
			if typ == unix.CTRL_ATTR_FAMILY_ID && len(v) == 2 {
				id = native.Uint16(v)
			}
		}
	})
	if err == nil && id == 0 {
		err = errBroken
	}
	return id, err
}

// generic starts a message to a family. The version is 1 of both families that we use.
func generic(family uint16, command byte) rtnl.Request {
	return rtnl.NewRequest(family, 0, []byte{command, unix.WG_GENL_VERSION, 0, 0})
}

// request starts a message about the interface.
func (c *Client) request(command byte) rtnl.Request {
	return generic(c.family, command).String(unix.WGDEVICE_A_IFNAME, c.ifname)
}

// Get reads the state. The caller may Wipe it.
func (c *Client) Get() (*conf.State, error) {
	defer c.conn.Wipe()
	s, err := read(c.family, func(f func(rtnl.Message)) error {
		return c.conn.Dump(c.request(unix.WG_CMD_GET_DEVICE), f)
	})
	if err != nil {
		return nil, inWords(err, &conf.Update{})
	}
	c.nameZones(s)
	return s, nil
}

// Set applies u in as many messages as it takes. Unlike a daemon, the kernel keeps what
// it did before the part that it refuses.
func (c *Client) Set(u *conf.Update) error {
	defer c.conn.Wipe()
	w := writer{start: func() rtnl.Request { return c.request(unix.WG_CMD_SET_DEVICE) }, send: c.conn.Do, index: c.index}
	return inWords(w.update(u), u)
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// inWords says what the kernel refused, if that can be told.
func inWords(err error, u *conf.Update) error {
	errno, ok := err.(unix.Errno)
	if !ok {
		return err
	}
	what := errno.Error()
	switch {
	case errno == unix.ENODEV:
		return errNoDevice
	case errno == unix.EPERM:
		what = "not permitted (needs CAP_NET_ADMIN)"
	case errno == unix.EOPNOTSUPP:
		what = "not a WireGuard interface"
	case errno == unix.EADDRINUSE && u.ListenPort != nil:
		what = "port " + strconv.Itoa(int(*u.ListenPort)) + " is in use"
	case errno == unix.EINVAL && removesAllowedIP(u):
		what = "this kernel cannot take away single allowed IPs (Linux 6.16 can)"
	}
	return &Error{what, errno}
}

func removesAllowedIP(u *conf.Update) bool {
	for i := range u.Peers {
		for _, a := range u.Peers[i].AllowedIPs {
			if a.Remove {
				return true
			}
		}
	}
	return false
}

// index is the scope of a zone, which is a number or the name of an interface.
func (c *Client) index(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifr, err := unix.NewIfreq(zone)
	if err == nil {
		err = c.conn.Ioctl(unix.SIOCGIFINDEX, ifr)
	}
	if err != nil {
		return 0, fmt.Errorf("interface %s: %w", zone, err)
	}
	return ifr.Uint32(), nil
}

// nameZones makes names of the numbers that read left as zones, where interfaces have them.
func (c *Client) nameZones(s *conf.State) {
	for i := range s.Peers {
		e := &s.Peers[i].Endpoint
		n, err := strconv.ParseUint(e.Addr().Zone(), 10, 32)
		if err != nil {
			continue
		}
		ifr, _ := unix.NewIfreq("")
		ifr.SetUint32(uint32(n))
		if c.conn.Ioctl(unix.SIOCGIFNAME, ifr) == nil {
			*e = withZone(*e, ifr.Name())
		}
	}
}
