package tun

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"wgd/internal/rtnl"
)

var errNoVnet = errors.New("no use of IFF_VNET_HDR")

// tunTCP is what wireguard/tun sets when it adopts a descriptor with IFF_VNET_HDR; it
// gives up if that is refused. Linux 2.6.27 has it all.
const tunTCP = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6

// setVnet makes sure of the form of the vnet headers, and returns whether they are
// big-endian.
func setVnet(fd int) (big bool, err error) {
	// A persistent TUN, or one that we are handed, may have another.
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, vnetSize); err != nil {
		// Before Linux 2.6.38 there is but one.
		if n, err2 := unix.IoctlGetInt(fd, unix.TUNGETVNETHDRSZ); err2 == nil && n != vnetSize {
			return false, fmt.Errorf("header of %d bytes: %w", n, err)
		}
	}
	// One order for all, rather than the machine's, lets an emulated daemon of another
	// order have the same headers.
	if unix.IoctlSetPointerInt(fd, unix.TUNSETVNETLE, 1) != nil {
		big = !littleEndian
	}
	return big, unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tunTCP)
}

// setOffload says what may be read beyond whole packets.
func setOffload(fd int, off Offload) {
	if off&Vnet == 0 {
		unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, 0)
		return
	}
	bits := unix.TUN_F_CSUM
	if off&TSO != 0 {
		bits |= tunTCP | unix.TUN_F_TSO_ECN
	}
	if off&USO != 0 {
		bits |= unix.TUN_F_USO4 | unix.TUN_F_USO6
	}
	// One after the other is given up: kernels refuse all when they do not know one.
	for _, optional := range []int{0, unix.TUN_F_USO4 | unix.TUN_F_USO6, unix.TUN_F_TSO_ECN} {
		bits &^= optional
		if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, bits) == nil {
			return
		}
	}
}

const (
	maxDatagram = 65507 // bytes of a UDP datagram, also of one that is cut on its way
	maxCuts     = 64    // what a kernel cuts one into, at most: UDP_MAX_SEGMENTS
	perMessage  = 32    // bytes that a transport message adds to a packet: §5.4.6

	gsoMaxSize   = 65536 // what a device has by default
	gsoMaxSegs   = 65535
	tcpHeaderMax = 320 // what the kernel's TCP leaves room for in it: MAX_TCP_HEADER, of 128 to 320
)

// superBound returns the gso_max_size and gso_max_segs with which TCP makes super-packets
// that can leave as one datagram. With more headers than 40 bytes, which are 20 of IPv4
// and 20 of TCP, the number of packets is what bounds.
func superBound(mtu int) (size, packets int) {
	packets = max(min(maxDatagram/(mtu+perMessage), maxCuts), 1)
	return min(packets*(mtu-40)+tcpHeaderMax+1, gsoMaxSize), packets
}

// superBounds tells the kernel, as Linux 4.16 and later allow. A refusal, which Watch finds
// harmless, costs a second datagram for a super-packet.
//
// What a router forwards comes in super-packets that others made, of 64 kB if there are
// many. Those that are over the bounds the kernel cuts itself, and we would read each
// packet: so there are no bounds where packets are forwarded.
type superBounds struct {
	k          *Kernel
	index, mtu int
	forwards   [2]bool // IPv4, IPv6
}

func (b *superBounds) follow(nl io.Writer, l rtnl.Link) {
	if !b.k.vnet || l.Index == b.index && l.MTU == b.mtu {
		return
	}
	if l.Index != b.index {
		b.forwards = [2]bool{}
		nl.Write(rtnl.NetconfRequest(unix.AF_INET, l.Index))
		nl.Write(rtnl.NetconfRequest(unix.AF_INET6, l.Index))
	}
	b.index, b.mtu = l.Index, l.MTU
	b.set(nl)
}

func (b *superBounds) forwarding(nl io.Writer, c rtnl.Netconf) {
	family := 0
	if c.Family == unix.AF_INET6 {
		family = 1
	}
	if b.k.vnet && b.forwards[family] != c.Forwarding {
		b.forwards[family] = c.Forwarding
		b.set(nl)
	}
}

func (b *superBounds) set(nl io.Writer) {
	size, packets := superBound(b.mtu)
	if b.forwards[0] || b.forwards[1] {
		size, packets = gsoMaxSize, gsoMaxSegs
	}
	nl.Write(rtnl.LinkRequest(unix.RTM_NEWLINK, 0, b.index).
		Uint32(unix.IFLA_GSO_MAX_SIZE, uint32(size)).
		Uint32(unix.IFLA_GSO_MAX_SEGS, uint32(packets)))
}

// LimitQueue makes at most n packets, super-packets or not, wait to be read.
func (k *Kernel) LimitQueue(n int) error {
	ifr, err := unix.NewIfreq(k.Name())
	if err != nil {
		return err
	}
	if err := k.ioctl(unix.SIOCGIFTXQLEN, ifr); err != nil {
		return err
	}
	if ifr.Uint32() <= uint32(n) {
		return nil
	}
	ifr.SetUint32(uint32(n))
	return k.ioctl(unix.SIOCSIFTXQLEN, ifr)
}
