package device

import (
	"encoding/binary"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxDatagram = 64 << 10 // no UDP payload is longer, coalesced or not

	udpBurst = 64 // reads between two calls of handle
	// The kernel coalesces 64, newer ones 128. A burst is ended by the first half.
	maxBatch = 256

	arenaSize = maxDatagram + udpBurst*1536 // a burst of full Ethernet frames
)

// A udpReader reads datagrams into one arena:
//
//	| datagram |pad| datagram |datagram|datagram|pad| …   | >= maxDatagram free |
//	0              ^ a multiple of 16  ^ coalesced by the kernel
type udpReader struct {
	v6    bool
	arena []byte
	batch []datagram
	many  *udpMany // nil: one message at a time

	msg     unix.Msghdr // points to the four below
	iov     unix.Iovec
	from    unix.RawSockaddrInet6 // or Inet4, which is shorter
	control [128]byte             // PKTINFO, traffic class, UDP_GRO

	troubles int // errors in a row
	log      *Logger
}

// newUDPReader makes a reader that keeps about size bytes for datagrams. With many it
// takes several in one system call.
func newUDPReader(v6, many bool, size int, log *Logger) *udpReader {
	if size == 0 {
		size = arenaSize
	}
	r := &udpReader{v6: v6, log: log, batch: make([]datagram, 0, maxBatch)}
	r.msg.Name = (*byte)(unsafe.Pointer(&r.from))
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
	r.msg.Control = &r.control[0]
	if many {
		r.many = newUDPMany(size)
	}
	if r.many == nil {
		r.arena = make([]byte, max(size, maxDatagram))
	}
	return r
}

func (r *udpReader) close() {
	if r.many != nil {
		r.many.close()
	}
}

// burst fills batch with what is there. It reports whether the socket was left
// empty, or the error that it will not recover from.
func (r *udpReader) burst(fd int) (empty bool, err error) {
	r.batch = r.batch[:0]
	if r.many != nil {
		empty, errno := r.burstOfMany(fd)
		switch errno {
		case 0:
			return empty, nil
		case unix.ENOSYS, unix.EPERM, unix.EACCES: // before Linux 2.6.33, or refused by a sandbox
			r.arena = make([]byte, max(r.many.size, maxDatagram))
			r.many.close()
			r.many = nil
			r.log.once(LogVerbose, "recvmmsg: %v: done without", errno)
		default:
			return false, r.trouble(errno)
		}
	}
	free := 0
	for range udpBurst {
		if len(r.arena)-free < maxDatagram || len(r.batch) >= maxBatch/2 {
			break
		}
		n, errno := r.receive(fd, r.arena[free:free+maxDatagram])
		switch errno {
		case 0:
			r.troubles = 0
		case unix.EAGAIN:
			return true, nil
		case unix.EINTR:
			continue
		default:
			return false, r.trouble(errno)
		}
		if n == 0 || r.msg.Flags&unix.MSG_TRUNC != 0 {
			continue // no message of ours is empty or longer than UDP allows
		}
		var d datagram
		size := d.describe(r.v6, &r.from, r.control[:min(int(r.msg.Controllen), len(r.control))])
		free = r.split(d, free, n, size)
	}
	return false, nil
}

// receive is recvmsg(2) into buf. A raw call, like those that send: it does not
// block, and the Go scheduler, told of a system call that takes long on a slow CPU,
// would hand our place to another thread (a quarter of all CPU time on a 24Kc).
func (r *udpReader) receive(fd int, buf []byte) (int, unix.Errno) {
	r.iov.Base = &buf[0]
	r.iov.SetLen(len(buf))
	r.msg.Namelen = uint32(unsafe.Sizeof(r.from))
	r.msg.SetControllen(len(r.control))
	r.msg.Flags = 0
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
	return int(n), errno
}

// split adds the n bytes at arena[off:] to the batch: datagrams of size bytes, the
// last of which may be shorter; 0: one of n bytes. All came as d says. It returns
// where the next may lie.
func (r *udpReader) split(d datagram, off, n, size int) (free int) {
	if size <= 0 || size > n {
		size = n
	}
	stride := size
	if count := (n + size - 1) / size; size%4 != 0 && count > 1 {
		// Words must be aligned for what opens them, or some CPUs take far longer
		// than this does. Without room for it they stay where they are.
		if aligned := (size + 3) &^ 3; off+(count-1)*aligned+size <= len(r.arena) {
			stride = aligned
			for i := count - 1; i > 0; i-- {
				copy(r.arena[off+i*stride:], r.arena[off+i*size:off+(i+1)*size])
			}
		}
	}
	for ; n > 0; n -= size {
		end := off + min(size, n)
		d.data = r.arena[off:end:end]
		r.batch = append(r.batch, d)
		free = end
		off += stride
	}
	return (free + 15) &^ 15
}

// trouble judges an error of recvmsg. What an earlier datagram met on its way,
// or a moment without memory, passes: nil. Not if it goes on for a second.
func (r *udpReader) trouble(errno unix.Errno) error {
	switch errno {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENETDOWN,
		unix.EMSGSIZE, unix.EPROTO, unix.ENOPROTOOPT, unix.EACCES, unix.EPERM,
		unix.ENOBUFS, unix.ENOMEM:
	default:
		return errno
	}
	if r.troubles++; r.troubles > 100 {
		return errno
	}
	if r.troubles > 4 {
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// describe reads where a message came from and how. If the kernel coalesced several
// datagrams into it, it returns the length of each, else 0.
func (d *datagram) describe(v6 bool, from *unix.RawSockaddrInet6, control []byte) (size int) {
	sa := unsafe.Slice((*byte)(unsafe.Pointer(from)), unsafe.Sizeof(*from))
	port := binary.BigEndian.Uint16(sa[2:])
	if v6 {
		d.from.addr = netip.AddrPortFrom(netip.AddrFrom16([16]byte(sa[8:24])), port)
		d.from.scope = binary.NativeEndian.Uint32(sa[24:])
	} else {
		d.from.addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), port)
	}

	for len(control) >= unix.SizeofCmsghdr {
		level, kind, data, rest := parseControl(control)
		control = rest
		switch {
		case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO && len(data) >= 12:
			// struct in_pktinfo: interface, our address, the header's address. The
			// last is no source for a reply if it is a broadcast address.
			d.from.srcIf = binary.NativeEndian.Uint32(data)
			d.from.src = netip.AddrFrom4([4]byte(data[4:8]))
		case level == unix.IPPROTO_IP && kind == unix.IP_TOS && len(data) >= 1:
			d.tos = data[0]
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO && len(data) >= 20:
			// struct in6_pktinfo: the header's address, interface.
			d.from.srcIf = binary.NativeEndian.Uint32(data[16:])
			if a := netip.AddrFrom16([16]byte(data[:16])); !a.IsMulticast() {
				d.from.src = a
			}
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_TCLASS && len(data) >= 4:
			d.tos = byte(binary.NativeEndian.Uint32(data))
		case level == unix.SOL_UDP && kind == unix.UDP_GRO:
			size = coalescedSize(data, binary.NativeEndian)
		}
	}
	return size
}

// coalescedSize reads what UDP_GRO says, an int in the order of the host: its first
// two bytes alone are 0 on a big-endian one. 0: nothing that makes sense.
func coalescedSize(data []byte, order binary.ByteOrder) int {
	var size uint32
	switch {
	case len(data) >= 4:
		size = order.Uint32(data)
	case len(data) >= 2:
		size = uint32(order.Uint16(data))
	}
	if size > maxDatagram {
		return 0
	}
	return int(size)
}

// A udpMany reads by recvmmsg(2). Each message gets room for the longest datagram, but
// of memory that costs nothing until it is written to: most fill a part of one page.
//
//	| datagram | … maxDatagram | 2 KiB | datagram | …
//
// The 2 KiB let all of a cache be used: it is addressed by the low bits.
type udpMany struct {
	size  int // bytes to keep
	page  int
	area  []byte
	spill int // bytes beyond the first page of each message, since they were given back

	msgs    []mmsghdr
	iovs    []unix.Iovec
	from    []unix.RawSockaddrInet6
	control [][64]byte // PKTINFO and traffic class
}

const manyStride = maxDatagram + 2048

// mapMemory is mmap(2); a test stands in for a kernel without that much memory.
var mapMemory = unix.Mmap

// newUDPMany returns nil if there is no such memory.
func newUDPMany(size int) *udpMany {
	page := os.Getpagesize()
	n := min(max(size/page, 2), udpBurst)
	area, err := mapMemory(-1, 0, n*manyStride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	m := &udpMany{
		size: size, page: page, area: area,
		msgs:    make([]mmsghdr, n),
		iovs:    make([]unix.Iovec, n),
		from:    make([]unix.RawSockaddrInet6, n),
		control: make([][64]byte, n),
	}
	for i := range m.msgs {
		h := &m.msgs[i].msg
		h.Name = (*byte)(unsafe.Pointer(&m.from[i]))
		h.Iov = &m.iovs[i]
		h.SetIovlen(1)
		h.Control = &m.control[i][0]
		m.iovs[i].Base = &area[i*manyStride]
		m.iovs[i].SetLen(maxDatagram)
	}
	return m
}

func (m *udpMany) close() { unix.Munmap(m.area) }

// burstOfMany fills batch by one system call. What it found there is never ENOSYS.
func (r *udpReader) burstOfMany(fd int) (empty bool, errno unix.Errno) {
	m := r.many
	if m.spill > m.size {
		// Long datagrams came. Also if this fails, as in a sandbox, the area is finite.
		unix.Madvise(m.area, unix.MADV_DONTNEED)
		m.spill = 0
	}
	for i := range m.msgs {
		h := &m.msgs[i].msg
		h.Namelen = uint32(unsafe.Sizeof(m.from[i]))
		h.SetControllen(len(m.control[i]))
		h.Flags = 0
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.msgs[0])),
		uintptr(len(m.msgs)), unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		r.troubles = 0
	case unix.EAGAIN:
		return true, 0
	case unix.EINTR:
		return false, 0
	default:
		return false, errno
	}
	for i := range m.msgs[:n] {
		h := &m.msgs[i]
		if h.n == 0 || h.msg.Flags&unix.MSG_TRUNC != 0 {
			continue
		}
		at := i * manyStride
		d := datagram{data: m.area[at : at+int(h.n) : at+int(h.n)]}
		d.describe(r.v6, &m.from[i], m.control[i][:min(int(h.msg.Controllen), len(m.control[i]))])
		r.batch = append(r.batch, d)
		m.spill += max(int(h.n)-m.page, 0)
	}
	// Less than was asked for: the next call would say EAGAIN.
	return int(n) < len(m.msgs), 0
}
