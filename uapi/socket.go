package uapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketDir is where wg(8) looks for the sockets of userspace daemons. Tests
// have their own.
var socketDir = "/var/run/wireguard"

// SocketPath is the path of the socket of an interface.
func SocketPath(ifname string) string { return filepath.Join(socketDir, ifname+".sock") }

func checkName(ifname string) error {
	if ifname == "" || len(ifname) >= unix.IFNAMSIZ || ifname == "." || ifname == ".." {
		return fmt.Errorf("%q: not an interface name: %w", ifname, unix.EINVAL)
	}
	for i := range len(ifname) {
		if c := ifname[i]; c <= ' ' || c == '/' || c == ':' || c >= 0x7f {
			return fmt.Errorf("%q: not an interface name: %w", ifname, unix.EINVAL)
		}
	}
	return nil
}

// A Listener is the listening socket of one interface. Close removes its file
// if that is still ours.
type Listener struct {
	*net.UnixListener
	path     string
	dev, ino uint64 // of the file
	closing  sync.Once
	closed   chan struct{}
}

// freshSuffix is on the name of a socket on which nobody listens yet. wg(8) looks at
// names that end with .sock only.
const freshSuffix = ".new"

// Listen makes the socket of an interface, accessible to its owner only, and its
// directory if need be. A socket file on which nobody listens is replaced. If
// somebody does, the error wraps EADDRINUSE.
func Listen(ifname string) (*Listener, error) {
	if err := checkName(ifname); err != nil {
		return nil, err
	}
	if err := makeDir(); err != nil {
		return nil, err
	}
	// Between the look at a stale file and its removal another daemon may replace it:
	// daemons take turns. Where the directory cannot be locked they do not.
	if dir, err := os.Open(socketDir); err == nil {
		defer dir.Close()
		unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	path := SocketPath(ifname)
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The file comes to its place when it is listened on: a client that found it
	// earlier would be refused, and wg(8) removes a socket that refuses it.
	fresh := path + freshSuffix
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := listen(fresh)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, path); err != nil {
		l.Close()
		os.Remove(fresh)
		return nil, err
	}
	return newListener(l, path)
}

func makeDir() error {
	err := os.Mkdir(socketDir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(socketDir), 0o755); err != nil {
			return err
		}
		err = os.Mkdir(socketDir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func listen(path string) (*net.UnixListener, error) {
	// The file gets the mode of the socket: there is no moment at which others could
	// connect, and the process-wide umask is left alone.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); e != nil {
			return e
		}
		return err
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes a socket file on which nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s: exists and is not a socket: %w", path, unix.EADDRINUSE)
	}
	// Not blocking: a daemon that hangs with a full backlog is alive too (EAGAIN).
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	unix.Close(fd)
	switch err {
	case unix.ECONNREFUSED:
		err = os.Remove(path)
	case unix.ENOENT:
	case nil, unix.EAGAIN:
		return fmt.Errorf("%s: another daemon is serving this interface name: %w", path, unix.EADDRINUSE)
	default:
		return &os.PathError{Op: "connect", Path: path, Err: err}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// FromFD takes over an inherited descriptor of a listening socket.
func FromFD(fd int) (*Listener, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "uapi")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, unix.EBADF)
	}
	defer f.Close() // the listener has a duplicate
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: not a listening socket: %w", fd, err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, fmt.Errorf("descriptor %d: not a unix socket: %w", fd, unix.EINVAL)
	}
	// The socket goes on to name the path at which it was bound.
	return newListener(u, strings.TrimSuffix(u.Addr().String(), freshSuffix))
}

func newListener(l *net.UnixListener, path string) (*Listener, error) {
	l.SetUnlinkOnClose(false) // it would remove the socket of a successor
	n := &Listener{UnixListener: l, path: path, closed: make(chan struct{})}
	var err error
	if n.dev, n.ino, err = statSocket(path); err != nil {
		l.Close()
		return nil, err
	}
	return n, nil
}

func statSocket(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return uint64(st.Dev), st.Ino, nil
}

// Path is the path of the socket file.
func (l *Listener) Path() string { return l.path }

// exists tells whether the socket file is still there and ours.
func (l *Listener) exists() bool {
	dev, ino, err := statSocket(l.path)
	return err == nil && dev == l.dev && ino == l.ino
}

// Close stops listening and removes the socket file.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.closing.Do(func() {
		close(l.closed) // first, so that WaitRemoved knows who removed the file
		// While it listens, so that a daemon that starts now finds no stale file.
		if l.exists() {
			os.Remove(l.path)
		}
		err = l.UnixListener.Close()
	})
	return err
}
