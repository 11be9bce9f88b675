package uapi

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRemoved tells that the socket file is gone: the user wants the daemon to end.
var ErrRemoved = errors.New("socket removed")

// pollInterval is for kernels without inotify. Tests shorten it.
var pollInterval = 2 * time.Second

// WaitRemoved waits until the socket file is removed or replaced, and returns
// ErrRemoved, or until Close, and returns nil.
func (l *Listener) WaitRemoved() error {
	if f, err := l.watch(); err == nil {
		return l.waitEvents(f)
	}
	return l.poll()
}

// watch opens an inotify descriptor on the directory. On the file itself it would
// not see a replacement by rename in time.
func (l *Listener) watch() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	const events = unix.IN_DELETE | unix.IN_MOVE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(l.path), events); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}

// waitEvents takes any event as a reason to look, and closes f.
func (l *Listener) waitEvents(f *os.File) error {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-l.closed:
		case <-done:
		}
		f.Close()
	}()
	buf := make([]byte, 4096) // at least one event
	for {
		if !l.exists() {
			return l.removed()
		}
		if _, err := f.Read(buf); err != nil {
			select {
			case <-l.closed:
				return nil
			default:
				return l.poll()
			}
		}
	}
}

func (l *Listener) poll() error {
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for l.exists() {
		select {
		case <-l.closed:
			return nil
		case <-t.C:
		}
	}
	return l.removed()
}

// removed tells a removal by others from ours in Close.
func (l *Listener) removed() error {
	select {
	case <-l.closed:
		return nil
	default:
		return ErrRemoved
	}
}
