package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/crypto/chacha20poly1305"
	"wgd/uapi"
)

// The parent returns when everything is ready, and only then: no polling here.
func TestBackground(t *testing.T) {
	inNamespace(t)
	name := unique()
	lock := filepath.Join(t.TempDir(), "lock")
	pid := background(t, name, "bash", "-c", "exec 99>"+lock+" "+wgd+" "+name)
	if !answers(name) {
		t.Error("no answer on the socket")
	}
	if file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/99", pid)); file == lock {
		t.Error("it holds the lock of the script that started it")
	}
	if out := ip(t, "link", "show", name); !strings.Contains(out, "mtu 1420") {
		t.Errorf("the MTU is not 1420: %s", out)
	}
	// The MTU that the user sets now is the last.
	ip(t, "link", "set", name, "mtu", "1380", "up")
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("session %d of process %d, %v", session, pid, err)
	}
	if dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); dir != "/" {
		t.Errorf("works in %s", dir)
	}
	for fd := range 3 {
		if file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); file != "/dev/null" {
			t.Errorf("descriptor %d is %s", fd, file)
		}
	}
	if out := ip(t, "link", "show", name); !strings.Contains(out, "mtu 1380") {
		t.Errorf("the MTU was changed back: %s", out)
	}
	syscall.Kill(pid, syscall.SIGTERM)
	await(t, time.Second, "the end", func() bool { return daemonPID(name) == 0 })
	nothingLeft(t, name)
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, f *foreground, name string)
	}{
		{"on SIGTERM", func(t *testing.T, f *foreground, name string) { f.Process.Signal(syscall.SIGTERM) }},
		{"on SIGINT", func(t *testing.T, f *foreground, name string) { f.Process.Signal(syscall.SIGINT) }},
		{"on SIGHUP", func(t *testing.T, f *foreground, name string) { f.Process.Signal(syscall.SIGHUP) }},
		{"when the interface is deleted", func(t *testing.T, f *foreground, name string) { ip(t, "link", "del", name) }},
		{"when the interface is deleted while up", func(t *testing.T, f *foreground, name string) {
			ip(t, "link", "set", name, "up")
			ip(t, "link", "del", name)
		}},
		{"when the socket is removed", func(t *testing.T, f *foreground, name string) { os.Remove(uapi.SocketPath(name)) }},
		{"with a client in the middle of a request", func(t *testing.T, f *foreground, name string) {
			c, err := net.Dial("unix", uapi.SocketPath(name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			fmt.Fprint(c, "set=1\nlisten_port=0\n")
			f.Process.Signal(syscall.SIGTERM)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNamespace(t)
			name := unique()
			f := start(t, nil, wgd, "-f", name)
			await(t, 5*time.Second, "the start", func() bool { return answers(name) })
			c.end(t, f, name)
			f.endsWithin(t, time.Second)
			nothingLeft(t, name)
			if f.stderr.Len() != 0 {
				t.Errorf("it printed %q", &f.stderr)
			}
		})
	}
}

// Start, configure, end: a race shows as something left, or as a slow end.
func TestManyRounds(t *testing.T) {
	inNamespace(t)
	for i := range 40 {
		name := unique()
		f := start(t, nil, wgd, "--foreground", name)
		await(t, 5*time.Second, "the start", func() bool { return socketExists(name) })
		if i%2 == 0 {
			ip(t, "link", "set", name, "up")
		}
		if c, err := net.Dial("unix", uapi.SocketPath(name)); err == nil {
			fmt.Fprintf(c, "set=1\nprivate_key=%s\nlisten_port=0\n\n", strings.Repeat("11", 32))
			c.Close()
		}
		f.Process.Signal(syscall.SIGTERM)
		f.endsWithin(t, time.Second)
		nothingLeft(t, name)
		if t.Failed() {
			return
		}
	}
}

func TestOneClearError(t *testing.T) {
	inNamespace(t)
	taken := unique()
	background(t, taken)
	other := unique()
	ip(t, "link", "add", other, "type", "veth", "peer", "name", unique())
	fresh := unique()
	asNobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", wgd, fresh}
	const emptyDev = "mount -t tmpfs -o mode=755 none /dev; mknod -m 666 /dev/null c 1 3; mkdir /dev/net; "
	for _, c := range []struct {
		name string
		argv []string
		want string
	}{
		{"interface in use", []string{wgd, taken}, "create " + taken + ": name in use"},
		{"interface of another kind", []string{wgd, other}, "create " + other + ": name in use"},
		{"socket in use", []string{"unshare", "-n", wgd, taken}, taken + ": name in use: /var/run/wireguard/" + taken + ".sock"},
		{"no /dev/net/tun", inMounts(emptyDev+"mount -o remount,ro /dev", wgd, fresh), "open /dev/net/tun: no such file (is the tun module loaded? kmod-tun on OpenWrt)"},
		{"unusable /dev/net/tun", inMounts(emptyDev+"mknod /dev/net/tun c 10 254", wgd, fresh), "open /dev/net/tun: no such device (is the tun module loaded? kmod-tun on OpenWrt)"},
		{"not permitted to open", asNobody, "open /dev/net/tun: permission denied"},
		{"not permitted to create", inMounts(emptyDev+"mknod -m 666 /dev/net/tun c 10 200", asNobody...), "create " + fresh + ": operation not permitted"},
		{"name too long", []string{wgd, "sixteen-bytes-xx"}, "interface name \"sixteen-bytes-xx\" is longer than 15 bytes"},
		{"name with a slash", []string{wgd, "-f", "a/b"}, "interface name \"a/b\" is not valid"},
		{"no such cipher", []string{"env", "WGD_AEAD=nonesuch", wgd, fresh}, "WGD_AEAD=nonesuch: no such ChaCha20-Poly1305 implementation for this CPU: " + strings.Join(chacha20poly1305.Implementations(), ", ")},
		{"no such cipher to measure", []string{"env", "WGD_AEAD=nonesuch", wgd, "bench"}, "WGD_AEAD=nonesuch: no such ChaCha20-Poly1305 implementation for this CPU: " + strings.Join(chacha20poly1305.Implementations(), ", ")},
		{"memory that is none", []string{"env", "WGD_MEMORY=32MB", wgd, fresh}, "WGD_MEMORY=32MB: wrong value (expected bytes, or a number and K, M or G, at least 8M)"},
		{"too little memory", []string{"env", "WGD_MEMORY=4M", wgd, "-f", fresh}, "WGD_MEMORY=4M: wrong value (expected bytes, or a number and K, M or G, at least 8M)"},
		{"no such offload", []string{"env", "WGD_OFFLOAD=gso,what", wgd, fresh}, "WGD_OFFLOAD: \"what\": not an offload (expected all, none, or some of "},
		{"no name", []string{wgd, ""}, "interface name is empty"},
		{"TUN descriptor that is none", []string{"env", "WG_TUN_FD=99", wgd, "-f", fresh}, "WG_TUN_FD=\"99\": not a descriptor"},
		{"TUN descriptor that is no number", []string{"env", "WG_TUN_FD=x", wgd, "-f", fresh}, "WG_TUN_FD=\"x\": not a descriptor"},
		{"TUN descriptor of a file", []string{"sh", "-c", "exec 7</dev/null; WG_TUN_FD=7 exec " + wgd + " -f " + fresh}, "descriptor 7: not a TUN interface"},
		{"UAPI descriptor of a file", []string{"sh", "-c", "exec 7</dev/null; WG_UAPI_FD=7 exec " + wgd + " -f " + fresh}, "descriptor 7: not a listening socket"},
		{"directory that cannot be made", inMounts("mount -t tmpfs none /run; mount -o remount,ro /run", wgd, fresh), "wireguard"},
		{"no such file", []string{wgd, "up", "/nosuch/" + fresh + ".conf"}, "/nosuch/" + fresh + ".conf: no such file"},
		{"nothing to end", []string{wgd, "down", fresh}, fresh + ": no daemon serves this interface"},
	} {
		// No subtests: they run on other threads, in other namespaces.
		stdout, stderr := runs(t, 1, c.argv...)
		if stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "wgd: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s:\n got %q\nwant one line with %q", c.name, stdout+stderr, c.want)
		}
	}
	nothingLeft(t, fresh)
	if !answers(taken) {
		t.Error("the first daemon does not answer any more")
	}
}

func TestMakesWhatIsMissing(t *testing.T) {
	for _, c := range []struct{ name, prepare string }{
		{"the node /dev/net/tun", "mount -t tmpfs -o mode=755 none /dev; mknod -m 666 /dev/null c 1 3"},
		{"/var/run/wireguard", "mount -t tmpfs none /var/run"},
		{"/var/run", "mkdir /tmp/newvar.$$; mount -t tmpfs none /var; rmdir /tmp/newvar.$$"},
		{"/proc", "mount -t tmpfs none /proc"},
		{"/proc and the PATH", "mount -t tmpfs none /proc; unset PATH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNamespace(t)
			name := unique()
			pid := background(t, name, inMounts(c.prepare, wgd, name)...)
			if !linkExists(name) {
				t.Error("no interface")
			}
			syscall.Kill(pid, syscall.SIGTERM)
			await(t, time.Second, "the end", func() bool { return daemonPID(name) == 0 })
			nothingLeft(t, name)
		})
	}
}

// However it was called, it finds itself, without /proc.
func TestFindsItself(t *testing.T) {
	const hide = "mount -t tmpfs none /proc"
	dir := filepath.Dir(wgd)
	for _, c := range []struct{ name, call string }{
		{"by a relative path", "cd " + dir + "; exec ./wgd"},
		{"through PATH", "PATH=/nosuch:" + dir + ":$PATH; exec wgd"},
		{"through a symbolic link", "ln -s " + wgd + " " + dir + "/wireguard-go; exec " + dir + "/wireguard-go"},
		{"under another argv[0]", "exec bash -c 'exec -a nonsense " + wgd + " \"$@\"' bash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNamespace(t)
			name := unique()
			pid := background(t, name, "unshare", "-m", "sh", "-ec", hide+"; "+c.call+" "+name)
			ip(t, "link", "del", name)
			await(t, time.Second, "the end", func() bool { return daemonPID(name) == 0 })
			_ = pid
			nothingLeft(t, name)
		})
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	inNamespace(t)
	name := unique()
	pid := background(t, name)
	syscall.Kill(pid, syscall.SIGKILL)
	await(t, 5*time.Second, "the end", func() bool { return daemonPID(name) == 0 && !linkExists(name) })
	if !socketExists(name) {
		t.Fatal("the killed daemon left no socket: nothing is tested")
	}
	pid = background(t, name)
	syscall.Kill(pid, syscall.SIGTERM)
	await(t, time.Second, "the end", func() bool { return daemonPID(name) == 0 })
	nothingLeft(t, name)
}

// Called by its other name it knows no commands: they are interfaces.
func TestCalledWireguardGo(t *testing.T) {
	inNamespace(t)
	link := filepath.Join(t.TempDir(), "wireguard-go")
	if err := os.Symlink(wgd, link); err != nil {
		t.Fatal(err)
	}
	runs(t, 1, link, "run", "x")
	runs(t, 1, link, "a", "b")
	f := start(t, []string{envForeground + "=1"}, link, "up") // the environment of wireguard-go
	await(t, 5*time.Second, "the start", func() bool { return answers("up") })
	ip(t, "link", "del", "dev", "up")
	f.endsWithin(t, time.Second)
}

// Descriptors from another process, as wireguard-go takes them.
func TestDescriptorsFromOutside(t *testing.T) {
	inNamespace(t)
	name := unique()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ifr, _ := unix.NewIfreq(name)
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		t.Fatal(err)
	}
	tunFile := os.NewFile(uintptr(fd), "tun")
	l, err := uapi.Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	for _, background := range []bool{false, true} {
		c := command(wgd, "ignored")
		c.ExtraFiles = []*os.File{tunFile, socket}
		c.Env = append(os.Environ(), "WG_TUN_FD=3", "WG_UAPI_FD=4")
		if !background {
			c.Args = []string{wgd, "-f", name}
		}
		ip(t, "link", "set", name, "mtu", "1500")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if background {
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		await(t, 5*time.Second, "an answer", func() bool { return answers(name) })
		if out := ip(t, "link", "show", name); !strings.Contains(out, "mtu 1420") {
			t.Errorf("the MTU is not 1420: %s", out)
		}
		if background {
			break
		}
		c.Process.Kill() // leaves interface and socket to the next
		c.Wait()
	}
	tunFile.Close()
	socket.Close()
	l.UnixListener.Close()
	syscall.Kill(daemonPID(name), syscall.SIGTERM)
	await(t, time.Second, "the end", func() bool { return daemonPID(name) == 0 })
	nothingLeft(t, name)
}

func TestLogs(t *testing.T) {
	inNamespace(t)
	for _, c := range []struct {
		level string
		want  string
	}{{"verbose", "wgd 1.2.3 started"}, {"debug", "wgd 1.2.3 started"}, {"error", ""}, {"silent", ""}, {"", ""}} {
		name := unique()
		f := start(t, []string{"LOG_LEVEL=" + c.level}, wgd, "-f", name)
		await(t, 5*time.Second, "the start", func() bool { return answers(name) })
		f.Process.Signal(syscall.SIGTERM)
		f.endsWithin(t, time.Second)
		got := f.stderr.String()
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || (got != "" && !strings.HasPrefix(got, name+": ")) {
			t.Errorf("LOG_LEVEL=%s: got %q, want %q", c.level, got, c.want)
		}
	}

	// The reader of the logs has gone: no reason to end.
	name := unique()
	c := command(wgd, name)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr, c.Env = w, append(os.Environ(), "LOG_LEVEL=verbose")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.Close()
	fmtSet := func(port int) {
		s, err := net.Dial("unix", uapi.SocketPath(name))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		fmt.Fprintf(s, "set=1\nnonsense=%d\n\n", port)
		buf := make([]byte, 100)
		s.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := s.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "errno=-22") {
			t.Errorf("answer %q, %v", buf[:n], err)
		}
	}
	fmtSet(1)
	fmtSet(2)
	ip(t, "link", "del", name)
	await(t, time.Second, "the end", func() bool { return daemonPID(name) == 0 })
	nothingLeft(t, name)
}

// Other processes of the user read neither memory nor core files. /proc shows it
// by the owner: a process that is not dumpable belongs to root.
func TestNotDumpable(t *testing.T) {
	inNamespace(t)
	const nobody = 65534
	user := func(argv ...string) []string {
		return inMounts("mount -t tmpfs -o mode=777 none /run; mount -t tmpfs -o mode=755 none /dev; mknod -m 666 /dev/null c 1 3; mkdir /dev/net; mknod -m 666 /dev/net/tun c 10 200",
			append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+net_admin", "--ambient-caps=+net_admin"}, argv...)...)
	}
	owner := func(pid int) (uid uint32) {
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/environ", pid), &st); err != nil {
			return ^uint32(0)
		}
		return st.Uid
	}
	control := start(t, nil, user("sleep", "60")...)
	await(t, 5*time.Second, "a process of nobody", func() bool { return owner(control.Process.Pid) == nobody })

	name := unique()
	f := start(t, nil, user(wgd, "-f", name)...)
	await(t, 5*time.Second, "the interface", func() bool { return linkExists(name) })
	if uid := owner(f.Process.Pid); uid != 0 {
		t.Errorf("its /proc belongs to user %d: it is dumpable", uid)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", f.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(l, "Max core file size"); ok && strings.Join(strings.Fields(rest), " ") != "0 0 bytes" {
			t.Errorf("core files: %s", rest)
		}
	}
	f.Process.Signal(syscall.SIGTERM)
	f.endsWithin(t, time.Second)
	nothingLeft(t, name)
}
