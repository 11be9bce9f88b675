package tun

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	wgtun "golang.zx2c4.com/wireguard/tun"

	"wgd/internal/ready"
	"wgd/internal/rtnl"
)

const (
	clonePath   = "/dev/net/tun"
	cloneMajor  = 10 // Documentation/admin-guide/devices.txt
	cloneMinor  = 200
	deviceFlags = unix.IFF_TUN | unix.IFF_NO_PI
)

// Kernel is a TUN of the Linux kernel.
type Kernel struct {
	file  *os.File // not on Go's poller
	raw   syscall.RawConn
	ready *ready.Waiter // of file
	fd    int           // of file; used only where it is kept open: see Close
	empty atomic.Bool   // the last TryRead found nothing
	gone  atomic.Bool   // a TryRead found no interface
	vnet  bool          // each packet has a vnet header, on both ways
	big   bool          // it is big-endian

	writing sync.Mutex  // around the system call alone, against Close
	gather  *gatherer   // owned by Gather; nil: packets are written one by one
	told    atomic.Bool // that the kernel refuses single packets

	polling sync.Mutex // while f of Poll runs, against another and Close

	// link is what Watch was last told. Its fields are never changed.
	link   atomic.Pointer[State]
	closed atomic.Bool

	mu      sync.Mutex
	netlink *os.File // guarded by mu; replaced when the interface changes its namespace
	foreign bool     // owned by Watch: netlink is in another namespace than ours
	stop    chan struct{}
}

// foreignInterval is how often an interface in another namespace is looked at.
// A socket that listens there would keep the namespace alive, and with it the
// interface, after the container is gone.
const foreignInterval = time.Second

// Options say how a TUN is made.
type Options struct {
	MTU     int
	Offload Offload
}

// Create makes the interface, or attaches to a persistent TUN of that name, and
// sets its MTU. It and what watches it live in the calling thread's namespace.
func Create(name string, o Options) (*Kernel, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	k, err := attach(name, o.Offload)
	if errors.Is(err, errNoVnet) {
		k, err = attach(name, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := k.setMTU(o.MTU); err != nil {
		k.Close()
		return nil, fmt.Errorf("%s: set MTU %d: %w", name, o.MTU, err)
	}
	return k, nil
}

func attach(name string, off Offload) (*Kernel, error) {
	fd, err := openClone()
	if err != nil {
		return nil, err
	}
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	err = unix.EINVAL
	if off&Vnet != 0 {
		ifr.SetUint16(deviceFlags | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err == unix.EINVAL {
		ifr.SetUint16(deviceFlags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("create %s: %s", name, createError(err))
	}
	return newKernel(fd, off)
}

// FromFD takes over a descriptor on which TUNSETIFF was done, with IFF_VNET_HDR or
// without. The MTU stays as it is.
func FromFD(fd int, off Offload) (*Kernel, error) { return newKernel(fd, off) }

// CheckName returns an error unless name can be an interface's: 1 to 15 bytes
// without '/', ':', '%' (the kernel's template for a free number) and spaces,
// and neither "." nor "..".
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("interface name is empty")
	case len(name) >= unix.IFNAMSIZ:
		return fmt.Errorf("interface name %q is longer than %d bytes", name, unix.IFNAMSIZ-1)
	case name == "." || name == ".." || strings.ContainsAny(name, "/:%"):
		return fmt.Errorf("interface name %q is not valid", name)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f {
			return fmt.Errorf("interface name %q is not valid", name)
		}
	}
	return nil
}

// createError explains what TUNSETIFF refuses.
func createError(err error) string {
	switch err {
	case unix.EBUSY:
		return "name in use: another process holds this interface"
	case unix.EINVAL, unix.EEXIST:
		return "name in use: the interface exists and is no TUN"
	case unix.EPERM, unix.EACCES:
		return "operation not permitted (needs root or CAP_NET_ADMIN)"
	}
	return err.Error()
}

// openClone opens the node that makes TUNs. Root makes the node if it is
// missing: opening it loads the module where that is automatic.
func openClone() (int, error) {
	open := func() (int, error) { return unix.Open(clonePath, unix.O_RDWR|unix.O_CLOEXEC, 0) }
	fd, err := open()
	if err == unix.ENOENT && os.Geteuid() == 0 {
		unix.Mkdir("/dev/net", 0o755)
		if unix.Mknod(clonePath, unix.S_IFCHR|0o600, int(unix.Mkdev(cloneMajor, cloneMinor))) == nil {
			if fd, err = open(); err != nil {
				unix.Unlink(clonePath)
			}
		}
	}
	switch err {
	case nil:
		return fd, nil
	case unix.ENOENT:
		return -1, errors.New("open " + clonePath + ": no such file (is the tun module loaded? kmod-tun on OpenWrt)")
	case unix.ENODEV, unix.ENXIO:
		return -1, errors.New("open " + clonePath + ": no such device (is the tun module loaded? kmod-tun on OpenWrt)")
	case unix.EPERM, unix.EACCES:
		return -1, errors.New("open " + clonePath + ": permission denied (needs root or CAP_NET_ADMIN)")
	}
	return -1, fmt.Errorf("open %s: %w", clonePath, err)
}

// newKernel owns fd from here on. The wireguard package's Device is dropped for
// its file: its own Read, Write and monitor are not used.
func newKernel(fd int, off Offload) (*Kernel, error) {
	ifr, err := getIff(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("descriptor %d: not a TUN interface: %w", fd, err)
	}
	if got := ifr.Uint16() & (unix.IFF_TUN | unix.IFF_TAP | unix.IFF_NO_PI); got != deviceFlags {
		unix.Close(fd)
		return nil, fmt.Errorf("%s: TUN flags %#x, need IFF_TUN and IFF_NO_PI", ifr.Name(), got)
	}
	vnet := ifr.Uint16()&unix.IFF_VNET_HDR != 0
	big := false
	if vnet {
		if big, err = setVnet(fd); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("%s: %w: %w", ifr.Name(), errNoVnet, err)
		}
	}
	dev, name, err := wgtun.CreateUnmonitoredTUNFromFD(fd)
	if err != nil {
		return nil, err
	}
	// That file is on Go's poller.
	fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	dev.File().Close()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	k := &Kernel{file: ready.File(fd, clonePath), fd: fd, vnet: vnet, big: big, stop: make(chan struct{})}
	if vnet {
		setOffload(fd, off)
		if off&Vnet != 0 {
			k.gather = newGatherer(true, off&UGRO != 0, big, k.writev)
		}
	}
	if k.raw, err = k.file.SyscallConn(); err != nil {
		k.file.Close()
		return nil, err
	}
	if k.ready, err = ready.NewWaiter(fd); err != nil {
		k.file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	k.link.Store(&State{Name: name, MTU: DefaultMTU})
	if err := k.openNetlink(); err != nil {
		k.ready.Close()
		k.file.Close()
		return nil, fmt.Errorf("%s: rtnetlink: %w", name, err)
	}
	if mtu, err := k.getMTU(); err == nil {
		k.link.Store(&State{Name: name, MTU: mtu})
	}
	return k, nil
}

func getIff(fd int) (*unix.Ifreq, error) {
	ifr, err := unix.NewIfreq("")
	if err != nil {
		return nil, err
	}
	return ifr, unix.IoctlIfreq(fd, unix.TUNGETIFF, ifr)
}

// File is the descriptor to hand to another process.
func (k *Kernel) File() *os.File { return k.file }

func (k *Kernel) Name() string { return k.link.Load().Name }
func (k *Kernel) MTU() int     { return k.link.Load().MTU }

func (k *Kernel) Drain(f func() bool) error {
	err := k.ready.Wait(func() bool {
		for {
			k.empty.Store(false)
			if !f() || k.gone.Load() || k.closed.Load() {
				return true
			}
			// Parking before EAGAIN could last for ever.
			if k.empty.Load() {
				return false
			}
		}
	})
	switch {
	case k.closed.Load():
		return nil
	case k.gone.Load():
		return ErrRemoved
	}
	return err
}

func (k *Kernel) Poll(f func()) {
	if !k.polling.TryLock() {
		return // another goroutine is at it
	}
	defer k.polling.Unlock()
	if !k.closed.Load() {
		f()
	}
}

func (k *Kernel) TryRead(s *Super) (bool, error) {
	start := Headroom
	if k.vnet {
		start -= vnetSize
	}
	buf := s.buf[start : Headroom+maxPacket]
	for {
		// Raw: it does not block, and the Go scheduler, told of a system call that
		// takes long on a slow CPU, would hand our place to another thread.
		n, _, err := unix.RawSyscall(unix.SYS_READ, uintptr(k.fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
		switch err {
		case 0:
			if !k.vnet {
				s.set(int(n))
			} else {
				s.setVnet(max(int(n)-vnetSize, 0), k.big)
			}
			return true, nil
		case unix.EAGAIN:
			k.empty.Store(true)
			return false, nil
		case unix.EINTR:
		case unix.EBADFD:
			k.gone.Store(true) // Drain returns it
			return false, nil
		default:
			return false, err
		}
	}
}

func (k *Kernel) Write(buf []byte) error {
	var iov [1]unix.Iovec
	if k.vnet {
		iov[0] = withVnet(buf)
		clear(buf[Headroom-vnetSize : Headroom])
	} else {
		iov[0].Base = &buf[Headroom]
		iov[0].SetLen(len(buf) - Headroom)
	}
	if errno := k.writev(iov[:]); errno != 0 {
		return k.explain(errno)
	}
	return nil
}

func (k *Kernel) Gather(buf []byte) error {
	if k.gather == nil {
		return k.Write(buf)
	}
	k.gather.add(buf)
	return k.explain(k.gather.report())
}

func (k *Kernel) Flush() error {
	if k.gather == nil {
		return nil
	}
	k.gather.flush()
	return k.explain(k.gather.report())
}

// writev hands one packet or super-packet to the kernel. As in TryRead, the call is a
// raw one: the descriptor never blocks.
func (k *Kernel) writev(iov []unix.Iovec) syscall.Errno {
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.closed.Load() {
		return unix.EBADF // k.fd may be another file's by now
	}
	for {
		var errno syscall.Errno
		if len(iov) == 1 {
			_, _, errno = unix.RawSyscall(unix.SYS_WRITE, uintptr(k.fd), uintptr(unsafe.Pointer(iov[0].Base)), uintptr(iov[0].Len))
		} else {
			_, _, errno = unix.RawSyscall(unix.SYS_WRITEV, uintptr(k.fd), uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov)))
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// explain makes a RefusedError, once, of what should not happen to a single packet.
func (k *Kernel) explain(err error) error {
	switch err {
	case nil, unix.EIO, unix.EBADF, unix.EBADFD, unix.EAGAIN, unix.ENOMEM, unix.ENOBUFS:
		return err
	}
	if errno, ok := err.(syscall.Errno); ok && !k.told.Swap(true) {
		return &RefusedError{What: "single packets", Errno: errno}
	}
	return err
}

// currentName asks the TUN itself, whatever its namespace.
func (k *Kernel) currentName() (name string, err error) {
	err2 := k.raw.Control(func(fd uintptr) {
		var ifr *unix.Ifreq
		if ifr, err = getIff(int(fd)); err == nil {
			name = ifr.Name()
		}
	})
	return name, errors.Join(err2, err)
}

func (k *Kernel) Close() error {
	if k.closed.Swap(true) {
		return nil
	}
	close(k.stop)
	k.mu.Lock()
	k.netlink.Close()
	k.mu.Unlock()
	k.ready.Close()
	k.polling.Lock() // whoever reads or writes now still has the descriptor
	defer k.polling.Unlock()
	k.writing.Lock()
	defer k.writing.Unlock()
	return k.file.Close()
}

// setMTU and getMTU use ioctls: they are what qemu's user mode translates.
func (k *Kernel) setMTU(mtu int) error {
	ifr, err := unix.NewIfreq(k.Name())
	if err != nil {
		return err
	}
	ifr.SetUint32(uint32(mtu))
	if err := k.ioctl(unix.SIOCSIFMTU, ifr); err != nil {
		return err
	}
	k.link.Store(&State{Name: k.Name(), MTU: mtu})
	return nil
}

func (k *Kernel) getMTU() (int, error) {
	ifr, err := unix.NewIfreq(k.Name())
	if err != nil {
		return 0, err
	}
	err = k.ioctl(unix.SIOCGIFMTU, ifr)
	return int(ifr.Uint32()), err
}

// ioctl runs an interface request in the namespace of the netlink socket: any
// socket serves them.
func (k *Kernel) ioctl(req uint, ifr *unix.Ifreq) error {
	k.mu.Lock()
	conn, err := k.netlink.SyscallConn()
	k.mu.Unlock()
	if err != nil {
		return err
	}
	err2 := conn.Control(func(fd uintptr) { err = unix.IoctlIfreq(int(fd), req, ifr) })
	return errors.Join(err2, err)
}

// openNetlink opens a listener in the interface's namespace. That is the
// calling thread's, unless another process handed us the TUN or the interface
// was moved; kernels before 5.8 cannot tell (TUNGETDEVNETNS).
func (k *Kernel) openNetlink() error {
	fd, err := rtnl.Socket(unix.SOCK_NONBLOCK, unix.RTMGRP_LINK|rtnl.GroupNetconf)
	if err != nil {
		return err
	}
	k.foreign = false
	k.raw.Control(func(tun uintptr) {
		if ns, err := unix.IoctlRetInt(int(tun), unix.TUNGETDEVNETNS); err == nil {
			if own, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS); err == nil {
				if !sameFile(ns, own) {
					if other, err := socketIn(ns); err == nil {
						unix.Close(fd)
						fd, k.foreign = other, true
					}
				}
				unix.Close(own)
			}
			unix.Close(ns)
		}
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed.Load() {
		unix.Close(fd)
		return os.ErrClosed
	}
	if k.netlink != nil {
		k.netlink.Close()
	}
	k.netlink = os.NewFile(uintptr(fd), "rtnetlink")
	return nil
}

func sameFile(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// socketIn opens a listener in another namespace, on a thread that ends with
// the goroutine because it stays locked to it. The process's first thread cannot end,
// and would keep the namespace alive: it is held here while another does it.
func socketIn(ns int) (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			fd, err = socketIn(ns)
			runtime.UnlockOSThread()
			return
		}
		if err = unix.Setns(ns, unix.CLONE_NEWNET); err == nil {
			fd, err = rtnl.Socket(unix.SOCK_NONBLOCK, unix.RTMGRP_LINK|rtnl.GroupNetconf)
		}
	}()
	<-done
	return fd, err
}

func (k *Kernel) Watch(f func(State)) error {
	buf := make([]byte, rtnl.BufferSize)
	var last State
	index := 0 // of the interface; 0: not known yet in this namespace
	bound := superBounds{k: k}
	err := k.askState()
	for {
		if k.closed.Load() {
			return nil
		}
		if errors.Is(err, unix.EBADFD) {
			// The kernel wakes who polls the TUN just before it is gone: Drain may have
			// found it still there.
			k.gone.Store(true)
			k.ready.Close()
			return ErrRemoved
		}
		if err != nil {
			return fmt.Errorf("%s: rtnetlink: %w", k.Name(), err)
		}
		k.mu.Lock()
		nl := k.netlink
		k.mu.Unlock()
		n, readErr := nl.Read(buf)
		anew := false
		if errors.Is(readErr, unix.ENOBUFS) {
			// Events were lost, and answers would be until the queue is empty.
			anew = true
		} else {
			err = readErr
		}
		for m := range rtnl.Messages(buf[:max(n, 0)]) {
			if c, ok := m.Netconf(); ok && c.Index == index {
				bound.forwarding(nl, c)
				continue
			}
			switch l, isLink := m.Link(); {
			case m.Type == unix.RTM_NEWLINK && isLink && (l.Index == index || index == 0 && l.Name == k.Name()):
				index = l.Index
				bound.follow(nl, l)
				s := State{Name: l.Name, Index: l.Index, MTU: l.MTU, Up: l.Flags&unix.IFF_UP != 0}
				if s != last {
					last = s
					k.link.Store(&s)
					f(s)
				}
			case m.Type == unix.RTM_DELLINK && isLink && l.Index == index:
				// Deleted, or moved to another namespace.
				anew = true
			case m.Type == unix.NLMSG_ERROR:
				// No such name. Asking again helps if it was just changed. What is
				// left is a namespace that this kernel cannot name: Drain sees
				// the end, and an event the return.
				asked := k.Name()
				var name string
				if name, err = k.currentName(); err == nil && name != asked {
					err = k.askState()
				}
			}
		}
		if k.foreign && err == nil {
			k.rest()
			anew = true
		}
		if anew && err == nil {
			index = 0
			if err = k.openNetlink(); err == nil {
				err = k.askState()
			}
		}
	}
}

// rest lets go of a foreign namespace for a while.
func (k *Kernel) rest() {
	k.mu.Lock()
	k.netlink.Close()
	k.mu.Unlock()
	select {
	case <-time.After(foreignInterval):
	case <-k.stop:
	}
}

// askState sends the question whose answer Watch reads among the events. It
// asks by name, for that is what the TUN itself knows in any namespace.
func (k *Kernel) askState() error {
	name, err := k.currentName()
	if err != nil {
		return err
	}
	if s := *k.link.Load(); s.Name != name {
		s.Name = name
		k.link.Store(&s)
	}
	k.mu.Lock()
	nl := k.netlink
	k.mu.Unlock()
	_, err = nl.Write(rtnl.LinkRequest(unix.RTM_GETLINK, 0, 0).String(unix.IFLA_IFNAME, name))
	return err
}
