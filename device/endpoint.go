package device

import (
	"fmt"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An endpoint is where a peer is, and how we are reached from there.
type endpoint struct {
	addr   netip.AddrPort // without zone; IPv4 is never written as IPv6
	scope  uint32         // interface index of a link-local IPv6 address
	mapped bool           // configured as ::ffff:a.b.c.d and shown so
	src    netip.Addr     // our address that the peer dialled; invalid: the kernel chooses
	srcIf  uint32         // index of the interface on which it came; 0: any
}

// newEndpoint takes an address as configured. The zone may be the name or the
// index of an interface.
func newEndpoint(a netip.AddrPort) (endpoint, error) {
	addr := a.Addr()
	e := endpoint{
		addr:   netip.AddrPortFrom(addr.Unmap().WithZone(""), a.Port()),
		mapped: addr.Is4In6(),
	}
	if zone := addr.Zone(); zone != "" && !e.mapped {
		index, err := strconv.ParseUint(zone, 10, 32)
		if err != nil {
			index, err = interfaceIndex(zone)
		}
		if err != nil {
			return endpoint{}, fmt.Errorf("endpoint %v: interface %s: %w", a, zone, err)
		}
		e.scope = uint32(index)
	}
	return e, nil
}

// addrPort returns the address as it is shown: with the interface's name.
func (e *endpoint) addrPort() netip.AddrPort {
	addr := e.addr.Addr()
	switch {
	case e.mapped:
		addr = netip.AddrFrom16(addr.As16())
	case e.scope != 0:
		addr = addr.WithZone(interfaceName(e.scope))
	}
	return netip.AddrPortFrom(addr, e.addr.Port())
}

// String is for logs: what is not logged is not looked up.
func (e endpoint) String() string { return e.addrPort().String() }

func (e *endpoint) valid() bool { return e.addr.IsValid() }

// is4 tells which socket reaches the endpoint.
func (e *endpoint) is4() bool { return e.addr.Addr().Is4() }

// forgetSource lets the kernel choose how to reach the peer again.
func (e *endpoint) forgetSource() { e.src, e.srcIf = netip.Addr{}, 0 }

// An ifreq is struct ifreq of netdevice(7) where the union holds an index.
type ifreq struct {
	name  [unix.IFNAMSIZ]byte
	index int32
	_     [20]byte
}

func (r *ifreq) ioctl(request uintptr) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(r))); errno != 0 {
		return errno
	}
	return nil
}

func interfaceIndex(name string) (uint64, error) {
	var r ifreq
	if len(name) >= len(r.name) {
		return 0, unix.ENODEV
	}
	copy(r.name[:], name)
	err := r.ioctl(unix.SIOCGIFINDEX)
	return uint64(r.index), err
}

// interfaceName returns the name of an interface, its index if it is gone.
func interfaceName(index uint32) string {
	r := ifreq{index: int32(index)}
	if r.ioctl(unix.SIOCGIFNAME) != nil {
		return strconv.FormatUint(uint64(index), 10)
	}
	return unix.ByteSliceToString(r.name[:])
}
