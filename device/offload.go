package device

import (
	"fmt"
	"strings"

	"wgd/tun"
)

// An Offload is a set of kernel features that may be tried. What the kernel then
// refuses is done without.
type Offload uint8

const (
	OffloadMmsg Offload = 1 << iota // many datagrams in one system call: sendmmsg, recvmmsg
	OffloadVnet                     // vnet_hdr on the TUN: checksums, and coalesced TCP on the way in
	OffloadTSO                      // TCP super-packets from the TUN; needs vnet
	OffloadUSO                      // UDP super-packets from the TUN; needs vnet and Linux 6.2
	OffloadUGRO                     // coalesced UDP on the way in; needs vnet and Linux 6.2
	OffloadGSO                      // super-datagrams out: UDP_SEGMENT
	OffloadGRO                      // super-datagrams in: UDP_GRO

	// OffloadAll leaves out what other parts of a system have trouble with: VXLAN and
	// the like inside the tunnel, on some kernels, when UDP is coalesced.
	OffloadAll = OffloadMmsg | OffloadVnet | OffloadTSO | OffloadUSO | OffloadGSO | OffloadGRO
)

var offloadNames = []string{"mmsg", "vnet", "tso", "uso", "ugro", "gso", "gro"} // in the order of the bits

// ParseOffload reads a list such as "mmsg,gro". "all" and "none" are what they say.
func ParseOffload(list string) (o Offload, err error) {
	for name := range strings.SplitSeq(list, ",") {
		bit := Offload(0)
		switch name = strings.TrimSpace(name); name {
		case "all":
			bit = OffloadAll
		case "none", "":
			continue
		default:
			for i, n := range offloadNames {
				if n == name {
					bit = 1 << i
				}
			}
		}
		if bit == 0 {
			return 0, fmt.Errorf("%q: not an offload (expected all, none, or some of %s)", name, strings.Join(offloadNames, ","))
		}
		o |= bit
	}
	return o, nil
}

// Tun returns what of o concerns the TUN.
func (o Offload) Tun() (t tun.Offload) {
	for _, x := range []struct {
		is  Offload
		bit tun.Offload
	}{{OffloadVnet, tun.Vnet}, {OffloadTSO, tun.TSO}, {OffloadUSO, tun.USO}, {OffloadUGRO, tun.UGRO}} {
		if o&x.is != 0 {
			t |= x.bit
		}
	}
	return t
}
