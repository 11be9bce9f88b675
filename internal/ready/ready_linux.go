// Package ready waits for a descriptor to become readable, and for nothing else.
//
// A file on Go's poller wakes it also when it becomes writable: after each datagram
// that the system has sent, and each packet that it has taken from a TUN. Nobody waits
// for that here, and each time costs a turn of the processor. So the file is not on the
// poller; an epoll instance is, which knows of it and asks for EPOLLIN alone.
package ready

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// File takes over a descriptor that does not block, as a file that Go does not poll.
// Its Close does not wait for calls of its RawConn.
func File(fd int, name string) *os.File {
	// os.NewFile polls what does not block.
	unix.SetNonblock(fd, false)
	f := os.NewFile(uintptr(fd), name)
	unix.SetNonblock(fd, true)
	return f
}

// A Waiter parks until a descriptor is readable, has an error or was shut down.
type Waiter struct {
	file *os.File // the epoll instance
	raw  syscall.RawConn
}

// NewWaiter returns a Waiter for fd, which must stay open until it is closed.
func NewWaiter(fd int) (*Waiter, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		unix.Close(ep)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	unix.SetNonblock(ep, true)
	w := &Waiter{file: os.NewFile(uintptr(ep), "epoll")}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// Wait calls f until it returns true. Before each call but the first it parks; f must
// have found the descriptor empty when it returns false, for only what comes after that
// wakes it. After Close it returns an error; an f that is running then finishes first.
func (w *Waiter) Wait(f func() bool) error {
	return w.raw.Read(func(uintptr) bool { return f() })
}

// Close ends Wait, and waits for its f.
func (w *Waiter) Close() error { return w.file.Close() }
