package uapi

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/internal/loud"
)

func mustListen(t *testing.T, ifname string) *Listener {
	t.Helper()
	l, err := Listen(ifname)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// The directory is made, and nobody else gets in.
func TestListenMakesDirectory(t *testing.T) {
	useDir(t)
	parent := socketDir
	var l *Listener
	for _, dir := range []string{"wireguard", "run/wireguard"} {
		socketDir = filepath.Join(parent, dir)
		l = mustListen(t, "wg0")
		if m := mode(t, socketDir); m != fs.ModeDir|0o700 {
			t.Errorf("mode of %s: %v", dir, m)
		}
	}
	if m := mode(t, l.Path()); m != fs.ModeSocket|0o600 {
		t.Errorf("mode of the socket: %v", m)
	}
	if want := filepath.Join(socketDir, "wg0.sock"); l.Path() != want {
		t.Errorf("path %s, want %s", l.Path(), want)
	}
	l.Close()
	if _, err := os.Stat(l.Path()); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

func TestListenNames(t *testing.T) {
	useDir(t)
	for _, name := range []string{"", ".", "..", "a/b", "../a", "a b", "a\n", "0123456789abcdef", "\x80"} {
		if l, err := Listen(name); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%q: %v", name, err)
			if err == nil {
				l.Close()
			}
		}
		if _, err := Dial(name); !errors.Is(err, unix.EINVAL) {
			t.Errorf("Dial(%q): %v", name, err)
		}
	}
	mustListen(t, "0123456789abcde")
}

// A daemon that was killed leaves its file behind.
func TestListenReplacesStaleSocket(t *testing.T) {
	useDir(t)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: SocketPath("wg0"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	l := mustListen(t, "wg0")
	go Serve(l, new(fakeDevice))
	c, err := Dial("wg0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(); err != nil {
		t.Fatal(err)
	}
}

func TestListenRespectsLiveSocket(t *testing.T) {
	useDir(t)
	l := mustListen(t, "wg0")
	check := func(what string) {
		t.Helper()
		_, err := Listen("wg0")
		if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "another daemon is serving this interface name") {
			t.Errorf("%s: %v", what, err)
		}
		if !l.exists() {
			t.Fatalf("%s: the socket is gone", what)
		}
	}
	check("a daemon that listens")
	// A daemon that hangs accepts nobody: fill its backlog.
	for {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: l.Path()}); err == unix.EAGAIN {
			break
		} else if err != nil {
			loud.Skip(t, "cannot fill the backlog:", err)
		}
	}
	check("a daemon that hangs")
}

func TestListenLeavesOtherFilesAlone(t *testing.T) {
	useDir(t)
	path := SocketPath("wg0")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("wg0"); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "not a socket") {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Error("the file was touched")
	}
}

func TestCloseLeavesSuccessorAlone(t *testing.T) {
	useDir(t)
	old := mustListen(t, "wg0")
	os.Remove(old.Path())
	successor := mustListen(t, "wg0")
	old.Close()
	if !successor.exists() {
		t.Error("Close removed the socket of another daemon")
	}
	if err := old.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

func TestFromFD(t *testing.T) {
	useDir(t)
	parent := mustListen(t, "wg0")
	f, err := parent.File()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(f.Fd()))
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	child, err := FromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	parent.UnixListener.Close() // as exit does
	serve(t, child, &Server{Backend: new(fakeDevice)})
	c, err := Dial("wg0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Set(&conf.Update{}); err != nil {
		t.Fatal(err)
	}
	if child.Path() != parent.Path() {
		t.Errorf("path %s, want %s", child.Path(), parent.Path())
	}
	child.Close()
	if _, err := os.Stat(child.Path()); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}

	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	unix.Close(p[1])
	if _, err := FromFD(p[0]); err == nil {
		t.Error("a pipe was taken for a listening socket")
	}
	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(udp, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(udp, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := FromFD(udp); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a TCP socket: %v", err)
	}
	if _, err := FromFD(-1); err == nil {
		t.Error("descriptor -1 was taken")
	}
}

func TestWaitRemoved(t *testing.T) {
	old := pollInterval
	pollInterval = time.Millisecond
	defer func() { pollInterval = old }()
	for _, wait := range []struct {
		name string
		f    func(*Listener) error
	}{{"inotify", (*Listener).WaitRemoved}, {"polling", (*Listener).poll}} {
		for _, x := range []struct {
			name string
			do   func(*Listener)
			want error
		}{
			{"removed", func(l *Listener) { os.Remove(l.Path()) }, ErrRemoved},
			{"renamed", func(l *Listener) { os.Rename(l.Path(), l.Path()+"x") }, ErrRemoved},
			{"replaced", func(l *Listener) {
				other := mustListen(t, "new")
				os.Rename(other.Path(), l.Path())
			}, ErrRemoved},
			{"its directory renamed", func(l *Listener) {
				os.Rename(socketDir, socketDir+"x")
				os.RemoveAll(socketDir + "x")
			}, ErrRemoved},
			{"its directory removed", func(l *Listener) { os.RemoveAll(socketDir) }, ErrRemoved},
			{"other files come and go; closed", func(l *Listener) {
				os.WriteFile(l.Path()+"x", nil, 0o600)
				os.Remove(l.Path() + "x")
				l.Close()
			}, nil},
		} {
			t.Run(wait.name+"/"+x.name, func(t *testing.T) {
				useDir(t)
				l, err := Listen("wg0")
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- wait.f(l) }()
				// Removed before or while it waits is the same; mostly it is the latter.
				for range 10 {
					runtime.Gosched()
				}
				x.do(l)
				select {
				case err := <-done:
					if err != x.want {
						t.Errorf("got %v, want %v", err, x.want)
					}
				case <-time.After(10 * time.Second):
					t.Error("not noticed")
				}
				l.Close()
				if err := wait.f(l); err != nil {
					t.Errorf("after Close: %v", err)
				}
			})
		}
	}
}

// A client that sees the socket file can connect: wg(8) removes one that refuses it.
func TestListensWhenTheFileIsThere(t *testing.T) {
	useDir(t)
	path := SocketPath("wg0")
	for range 300 {
		started := make(chan *Listener)
		go func() {
			l, err := Listen("wg0")
			if err != nil {
				t.Error(err)
			}
			started <- l
		}()
		for {
			c, err := net.Dial("unix", path)
			if err == nil {
				c.Close()
				break
			}
			if !errors.Is(err, unix.ENOENT) {
				t.Fatalf("connect: %v", err)
			}
		}
		(<-started).Close()
	}
}
