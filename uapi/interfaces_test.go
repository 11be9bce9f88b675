package uapi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Interfaces are those of living daemons; what a dead one left is removed, and nothing else.
func TestInterfaces(t *testing.T) {
	useDir(t)
	if names, err := Interfaces(); err != nil || len(names) != 0 {
		t.Fatalf("an empty directory: %q, %v", names, err)
	}
	l := mustListen(t, "live")
	defer l.Close()
	dead := mustListen(t, "dead")
	dead.UnixListener.Close()
	for _, name := range []string{"plain.sock", "live.new", "notes"} {
		if err := os.WriteFile(filepath.Join(socketDir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := Interfaces(); err != nil || len(names) != 1 || names[0] != "live" {
		t.Errorf("got %q, %v; want live", names, err)
	}
	for name, want := range map[string]bool{"live.sock": true, "dead.sock": false, "plain.sock": true, "notes": true} {
		if _, err := os.Lstat(filepath.Join(socketDir, name)); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", name, err == nil, want)
		}
	}
}

func TestDialNobody(t *testing.T) {
	useDir(t)
	if _, err := Dial("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	os.WriteFile(SocketPath("plain"), nil, 0o600)
	if _, err := Dial("plain"); !errors.Is(err, unix.ENOTSOCK) {
		t.Errorf("a file: %v", err)
	}
	if _, err := Dial("../x"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("not a name: %v", err)
	}
	dead := mustListen(t, "dead")
	dead.UnixListener.Close()
	if _, err := Dial("dead"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a dead daemon: %v", err)
	}
	if _, err := Dial("dead"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is not removed: %v", err)
	}
}
