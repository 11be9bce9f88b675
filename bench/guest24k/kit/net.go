package main

import (
	"crypto/ecdh"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"wgd/internal/rtnl"
)

// An end is one side of the wire, in a network namespace of its own.
type end struct {
	ns               *os.File
	wire, tunnel     string // interface names
	wire4, wire6     netip.Prefix
	tunnel4, tunnel6 netip.Prefix
	private          *ecdh.PrivateKey
	device           string // "kernel", or a program of /bin
	daemon           *daemon
}

func newEnd(n int, device string) *end {
	side := string(rune('a' + n - 1))
	var scalar [32]byte
	scalar[0], scalar[31] = byte(8*n), 64
	private, err := ecdh.X25519().NewPrivateKey(scalar[:])
	check(err)
	e := &end{
		wire: "v" + side, tunnel: "wg" + side, private: private, device: device,
		wire4:   netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", n)),
		wire6:   netip.MustParsePrefix(fmt.Sprintf("2001:db8::%d/64", n)),
		tunnel4: netip.MustParsePrefix(fmt.Sprintf("10.1.0.%d/24", n)),
		tunnel6: netip.MustParsePrefix(fmt.Sprintf("fd77::%d/64", n)),
	}
	onThread(func() {
		check(unix.Unshare(unix.CLONE_NEWNET))
		e.ns, err = os.Open("/proc/thread-self/ns/net")
		check(err)
	})
	e.in(func() { up("lo", 0) })
	return e
}

// onThread runs f on a thread that ends with it.
func onThread(f func()) {
	done := make(chan any)
	go func() {
		runtime.LockOSThread()
		defer func() { done <- recover() }()
		f()
	}()
	if err := <-done; err != nil {
		panic(err)
	}
}

// in runs f in the end's namespace, programs that it starts included.
func (e *end) in(f func()) {
	onThread(func() {
		check(unix.Setns(int(e.ns.Fd()), unix.CLONE_NEWNET))
		f()
	})
}

func netlink(requests ...rtnl.Request) {
	c, err := rtnl.Dial()
	check(err)
	defer c.Close()
	for _, r := range requests {
		check(c.Do(r))
	}
}

// nest appends an attribute whose value is the attributes that f appends.
func nest(r rtnl.Request, typ uint16, f func(rtnl.Request) rtnl.Request) rtnl.Request {
	inner := f(rtnl.NewRequest(0, 0, nil))
	return r.Attr(typ|unix.NLA_F_NESTED, inner[unix.SizeofNlMsghdr:])
}

// addLink makes an interface that needs a name and a kind.
func addLink(name, kind string) {
	netlink(nest(rtnl.LinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0).String(unix.IFLA_IFNAME, name),
		unix.IFLA_LINKINFO, func(r rtnl.Request) rtnl.Request { return r.String(unix.IFLA_INFO_KIND, kind) }))
}

// cable joins two ends by a veth pair.
func cable(a, b *end) {
	const vethPeer = 1 // VETH_INFO_PEER: an ifinfomsg and attributes
	peer := rtnl.LinkRequest(0, 0, 0).String(unix.IFLA_IFNAME, b.wire).Uint32(unix.IFLA_NET_NS_FD, uint32(b.ns.Fd()))
	netlink(nest(rtnl.LinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0).
		String(unix.IFLA_IFNAME, a.wire).Uint32(unix.IFLA_NET_NS_FD, uint32(a.ns.Fd())),
		unix.IFLA_LINKINFO, func(r rtnl.Request) rtnl.Request {
			return nest(r.String(unix.IFLA_INFO_KIND, "veth"), unix.IFLA_INFO_DATA, func(r rtnl.Request) rtnl.Request {
				return r.Attr(vethPeer, peer[unix.SizeofNlMsghdr:])
			})
		}))
	for _, e := range []*end{a, b} {
		e.in(func() { up(e.wire, 0, e.wire4, e.wire6) })
	}
}

func index(name string) int {
	i, err := net.InterfaceByName(name)
	check(err)
	return i.Index
}

func up(name string, mtu int, addrs ...netip.Prefix) {
	i := index(name)
	if mtu != 0 {
		netlink(rtnl.LinkRequest(unix.RTM_NEWLINK, 0, i).Uint32(unix.IFLA_MTU, uint32(mtu)))
	}
	for _, a := range addrs {
		family := byte(unix.AF_INET)
		if a.Addr().Is6() {
			family = unix.AF_INET6
		}
		body := []byte{family, byte(a.Bits()), unix.IFA_F_NODAD, 0, 0, 0, 0, 0}
		rtnl.PutUint32(body[4:], uint32(i))
		netlink(rtnl.NewRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE, body).
			Attr(unix.IFA_LOCAL, a.Addr().AsSlice()).Attr(unix.IFA_ADDRESS, a.Addr().AsSlice()))
	}
	netlink(rtnl.LinkFlags(i, unix.IFF_UP, unix.IFF_UP))
}

// txPackets is read from /proc: it shows the thread's namespace, sysfs that of its mount.
func txPackets(name string) (n uint64) {
	b, err := os.ReadFile("/proc/thread-self/net/dev")
	check(err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			f := strings.Fields(rest)
			fmt.Sscan(f[9], &n)
		}
	}
	return n
}

// segments are the TCP segments sent, and those of them sent again.
func segments() (sent, again uint64) {
	b, err := os.ReadFile("/proc/thread-self/net/snmp")
	check(err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == "Tcp:" && len(f) > 12 && f[1] != "RtoAlgorithm" {
			fmt.Sscan(f[11], &sent)
			fmt.Sscan(f[12], &again)
		}
	}
	return sent, again
}

// configure gives e its key and its one peer.
func (e *end) configure(peer *end, endpoint netip.AddrPort) {
	allowed := []netip.Prefix{netip.PrefixFrom(peer.tunnel4.Addr(), 32), netip.PrefixFrom(peer.tunnel6.Addr(), 128)}
	if e.device != "kernel" {
		s := fmt.Sprintf("private_key=%x\nlisten_port=51820\npublic_key=%x\nendpoint=%v\n", e.private.Bytes(), peer.private.PublicKey().Bytes(), endpoint)
		for _, p := range allowed {
			s += fmt.Sprintf("allowed_ip=%v\n", p)
		}
		uapi(e.tunnel, s)
		return
	}
	native := binary.NativeEndian
	generic(func(r rtnl.Request) rtnl.Request {
		r = r.String(unix.WGDEVICE_A_IFNAME, e.tunnel).Attr(unix.WGDEVICE_A_PRIVATE_KEY, e.private.Bytes()).Attr(unix.WGDEVICE_A_LISTEN_PORT, native.AppendUint16(nil, 51820))
		return nest(r, unix.WGDEVICE_A_PEERS, func(r rtnl.Request) rtnl.Request {
			return nest(r, 0, func(r rtnl.Request) rtnl.Request {
				r = r.Attr(unix.WGPEER_A_PUBLIC_KEY, peer.private.PublicKey().Bytes()).Attr(unix.WGPEER_A_ENDPOINT, sockaddr(endpoint))
				return nest(r, unix.WGPEER_A_ALLOWEDIPS, func(r rtnl.Request) rtnl.Request {
					for _, p := range allowed {
						r = nest(r, 0, func(r rtnl.Request) rtnl.Request {
							af := uint16(unix.AF_INET)
							if p.Addr().Is6() {
								af = unix.AF_INET6
							}
							return r.Attr(unix.WGALLOWEDIP_A_FAMILY, native.AppendUint16(nil, af)).Attr(unix.WGALLOWEDIP_A_IPADDR, p.Addr().AsSlice()).Attr(unix.WGALLOWEDIP_A_CIDR_MASK, []byte{byte(p.Bits())})
						})
					}
					return r
				})
			})
		})
	})
}

// sockaddr is a sockaddr_in or sockaddr_in6: the family in the host's order, the port in
// the network's.
func sockaddr(a netip.AddrPort) []byte {
	if a.Addr().Is4() {
		b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
		b = binary.BigEndian.AppendUint16(b, a.Port())
		return append(append(b, a.Addr().AsSlice()...), make([]byte, 8)...)
	}
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	b = binary.BigEndian.AppendUint16(b, a.Port())
	b = append(b, 0, 0, 0, 0) // flow label
	return append(append(b, a.Addr().AsSlice()...), 0, 0, 0, 0)
}

// generic sends the kernel's WireGuard a SET_DEVICE with the attributes that f appends.
func generic(f func(rtnl.Request) rtnl.Request) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	check(err)
	defer unix.Close(fd)
	const genericHeader = 4 // command, version, reserved
	ask := func(r rtnl.Request) (family uint16) {
		check(unix.Sendto(fd, r, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
		for {
			b := make([]byte, rtnl.BufferSize)
			n, _, err := unix.Recvfrom(fd, b, 0)
			check(err)
			for m := range rtnl.Messages(b[:n]) {
				if m.Type == unix.NLMSG_ERROR {
					check(m.Err())
					return family
				}
				for typ, v := range m.Attrs(genericHeader) {
					if typ == unix.CTRL_ATTR_FAMILY_ID {
						family = binary.NativeEndian.Uint16(v)
					}
				}
			}
		}
	}
	id := ask(rtnl.NewRequest(unix.GENL_ID_CTRL, unix.NLM_F_ACK, []byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}).String(unix.CTRL_ATTR_FAMILY_NAME, "wireguard"))
	ask(f(rtnl.NewRequest(id, unix.NLM_F_ACK, []byte{unix.WG_CMD_SET_DEVICE, 1, 0, 0})))
}

func uapi(ifname, set string) {
	c, err := net.Dial("unix", "/var/run/wireguard/"+ifname+".sock")
	check(err)
	defer c.Close()
	_, err = c.Write([]byte("set=1\n" + set + "\n"))
	check(err)
	b := make([]byte, 256)
	n, err := c.Read(b)
	check(err)
	if string(b[:n]) != "errno=0\n\n" {
		panic(fmt.Sprintf("%s: set: %q", ifname, b[:n]))
	}
}

// moveEndpoint tells e that its peer is elsewhere.
func (e *end) moveEndpoint(peer *end, to netip.AddrPort) {
	if e.device == "kernel" {
		e.configure(peer, to)
		return
	}
	uapi(e.tunnel, "public_key="+hex.EncodeToString(peer.private.PublicKey().Bytes())+"\nupdate_only=true\nendpoint="+to.String()+"\n")
}

func removeLink(name string) {
	netlink(rtnl.LinkRequest(unix.RTM_DELLINK, 0, index(name)))
}

// simple makes the interface one of a simple router: what is to leave as several packets
// is cut up before it gets there. (A dummy takes it whole, and counts it as one.)
func simple(name string) {
	netlink(rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index(name)).Uint32(unix.IFLA_GSO_MAX_SEGS, 1))
}

func queue(name string, length int) {
	netlink(rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index(name)).Uint32(unix.IFLA_TXQLEN, uint32(length)))
}
