package uapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// connectTimeout is for a daemon that hangs with a full backlog.
const connectTimeout = 5 * time.Second

// connect reaches the daemon of an interface. As wg(8) does, it removes a socket that
// refuses: its daemon has died.
func connect(ifname string) (net.Conn, error) {
	if err := checkName(ifname); err != nil {
		return nil, err
	}
	path := SocketPath(ifname)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s: not a socket: %w", path, unix.ENOTSOCK)
	}
	conn, err := net.DialTimeout("unix", path, connectTimeout)
	if errors.Is(err, unix.ECONNREFUSED) {
		os.Remove(path)
	}
	return conn, err
}

// Interfaces are those that have a socket which does not refuse, in the order of the
// directory, as wg(8) shows them. Whether we may connect is another question.
func Interfaces() ([]string, error) {
	dir, err := os.Open(socketDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	files, err := dir.Readdirnames(-1)
	var names []string
	for _, f := range files {
		name, ok := strings.CutSuffix(f, ".sock")
		if !ok {
			continue
		}
		conn, err := connect(name)
		if err == nil {
			conn.Close()
		}
		if err == nil || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EAGAIN) || errors.Is(err, os.ErrDeadlineExceeded) {
			names = append(names, name)
		}
	}
	return names, err
}
