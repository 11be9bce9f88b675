package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// readyWord is what the child says when everything works. Anything else is its
	// error, and nothing that it has died.
	readyWord    = "ready\n"
	readyTimeout = 20 * time.Second

	atExecFn = 31 // of the auxiliary vector: the path given to execve, getauxval(3)
)

// daemonize makes the interface and its UAPI socket, and leaves them to a child
// in the background. It returns when that is ready, or its error.
//
// A Go process cannot fork, so the program executes itself anew. Descriptors 3
// to 5 are the TUN, the listening socket, and a pipe for the answer.
func daemonize(name string, mtu int) error {
	path, err := executable()
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil { // the child starts in another directory
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	o, err := chooseOptions()
	if err != nil {
		return err
	}
	k, l, err := open(name, mtu, o.Offload.Tun())
	if err != nil {
		return err
	}
	defer k.Close()
	answer, err := startChild(path, k.Name(), null, k.File(), l)
	// The child has the listener too: only if there is none may the socket file go.
	if err != nil || answer != readyWord {
		l.Close()
	} else {
		l.UnixListener.Close()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: start of the daemon: %w", name, err)
	case answer != readyWord:
		return errors.New(answer)
	}
	return nil
}

// A filer is a listener whose descriptor can be duplicated.
type filer interface{ File() (*os.File, error) }

func startChild(path, name string, null, tun *os.File, l filer) (answer string, err error) {
	socket, err := l.File()
	if err != nil {
		return "", err
	}
	defer socket.Close()
	ready, childReady, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer ready.Close()

	// What a script has open, such as its lock file, must not stay open in the daemon.
	for fd := 3; fd < 1024; fd++ {
		unix.CloseOnExec(fd)
	}
	// Who asks for logs wants to see them, as with wireguard-go.
	stderr := null
	if level := os.Getenv("LOG_LEVEL"); level != "" && level != "silent" {
		stderr = os.Stderr
	}
	os.Unsetenv(envReady)
	process, err := os.StartProcess(path, []string{os.Args[0], "-f", name}, &os.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), envTun+"=3", envUAPI+"=4", envReady+"=5", envForeground+"=1"),
		Files: []*os.File{null, null, stderr, tun, socket, childReady},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	childReady.Close()
	if err != nil {
		return "", err
	}
	ready.SetReadDeadline(time.Now().Add(readyTimeout))
	told, err := io.ReadAll(ready)
	if string(told) == readyWord && err == nil {
		process.Release()
		return readyWord, nil
	}
	process.Kill()
	state, waitErr := process.Wait()
	switch {
	case err != nil:
		return "", err
	case len(told) != 0:
		return string(told), nil
	case waitErr != nil:
		return "", waitErr
	}
	return "", errors.New(state.String())
}

// executable is the path by which we were executed. It works without /proc:
// the kernel has left the path on our stack, and a shell in argv[0].
func executable() (string, error) {
	aux, _ := unix.Auxv()
	for _, a := range aux {
		if a[0] == atExecFn {
			if path := stringAt(a[1]); isExecutable(path) {
				return path, nil
			}
		}
	}
	if strings.Contains(os.Args[0], "/") {
		if isExecutable(os.Args[0]) {
			return os.Args[0], nil
		}
	} else {
		for dir := range strings.SplitSeq(os.Getenv("PATH"), ":") {
			if path := dir + "/" + os.Args[0]; dir != "" && isExecutable(path) {
				return path, nil
			}
		}
	}
	if path, err := os.Executable(); err == nil && isExecutable(path) {
		return path, nil
	}
	return "", fmt.Errorf("%s: my own executable is not to be found, use -f", os.Args[0])
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil
}

// stringAt reads a string of the kernel's, which lies above the stack of the
// first thread and never moves.
func stringAt(address uintptr) string {
	return unix.BytePtrToString(*(**byte)(unsafe.Pointer(&address)))
}
