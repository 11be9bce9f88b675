package test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hasLink says whether the interface exists in the host.
func (h *host) hasLink(ifname string) bool {
	_, err := attempt("ip", "-n", h.name, "link", "show", ifname)
	return err == nil
}

// leavesNothing waits until neither processes nor sockets nor interfaces of a
// daemon are left in the host.
func (h *host) leavesNothing(ifname string) {
	h.t.Helper()
	eventually(h.t, 5*time.Second, "no process, socket or interface is left", func() bool {
		_, err := os.Lstat(socketDir + ifname + ".sock")
		return h.processes() == 0 && err != nil && !h.hasLink(ifname)
	})
}

// The parent of a daemon returns when all is ready, and says nothing.
func TestDaemonize(t *testing.T) {
	t.Parallel()
	alias := filepath.Join(t.TempDir(), "wireguard-go")
	if err := os.Symlink(wgd(t), alias); err != nil {
		t.Fatal(err)
	}
	// Its /proc is hidden behind an empty file system (B28).
	noProc := func(command string) []string {
		return []string{"unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && " + command}
	}
	for _, test := range []struct {
		name string
		argv func(ifname string) []string
	}{
		{"wgd IF", func(ifname string) []string { return []string{wgd(t), ifname} }},
		{"as wireguard-go", func(ifname string) []string { return []string{alias, ifname} }},
		{"without /proc", func(ifname string) []string { return noProc("exec " + wgd(t) + " " + ifname) }},
		{"without /proc, by a relative path", func(ifname string) []string {
			return noProc("cd " + filepath.Dir(wgd(t)) + " && exec ./" + filepath.Base(wgd(t)) + " " + ifname)
		}},
		{"found in PATH", func(ifname string) []string {
			return []string{"env", "PATH=" + filepath.Dir(wgd(t)) + ":" + os.Getenv("PATH"), filepath.Base(wgd(t)), ifname}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, ifname := newHost(t), unique("d")
			out, err := exec.Command("ip", h.in(test.argv(ifname))[1:]...).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Fatalf("got %v and output %q, want neither", err, out)
			}
			// at once, without waiting:
			if got := h.run("wg", "show", ifname, "listen-port"); got == "" {
				t.Error("no answer on the socket")
			}
			if got := command(t, "ip", "-n", h.name, "link", "show", ifname); !strings.Contains(got, "mtu 1420") {
				t.Errorf("MTU is not 1420: %s", got)
			}
			if n := h.processes(); n != 1 {
				t.Errorf("%d processes, want 1", n)
			}
			h.run("ip", "link", "del", ifname)
			h.leavesNothing(ifname)
		})
	}
}

// What makes a daemon in the foreground exit, cleanly and within a second, and
// with nothing left.
func TestExit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(d *daemon)
	}{
		{"SIGTERM", func(d *daemon) { d.cmd.Process.Signal(unix.SIGTERM) }},
		{"SIGINT", func(d *daemon) { d.cmd.Process.Signal(unix.SIGINT) }},
		{"the interface is removed", func(d *daemon) { d.ip("link del " + d.ifname) }},
		{"the socket is removed", func(d *daemon) { os.Remove(d.socket()) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
			tun.a.ping(tun.b.inner4, 1)
			start := time.Now()
			test.end(tun.a.daemon)
			select {
			case <-tun.a.exited:
			case <-time.After(10 * time.Second):
				t.Fatal("the daemon goes on")
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("exit took %v", took)
			}
			if code := tun.a.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit status %d\n%s", code, tun.a.stderr)
			}
			if out := tun.a.stderr.String(); out != "" {
				t.Errorf("a session of one ping wrote %q, want nothing", out)
			}
			tun.a.leavesNothing(tun.a.ifname)
		})
	}
}

// 500 rounds of start, configure, SIGTERM, in several states: each exits within
// a second, and none leaves a process, a socket or an interface (C12).
func TestRounds(t *testing.T) {
	const rounds = 500
	binary := wgd(t)
	peer := asHex(newKey().public)
	var wg sync.WaitGroup
	for worker := range 2 {
		h := newHost(t)
		h.ip("link add veth0 type veth peer name veth1", "addr add 192.0.2.1/24 dev veth0", "link set veth0 up", "link set veth1 up")
		wg.Go(func() {
			for i := worker; i < rounds; i += 2 {
				ifname := unique("r")
				if err := h.round(binary, ifname, i%5, peer); err != nil {
					t.Errorf("round %d, state %d: %v", i, i%5, err)
					return
				}
				if _, err := os.Lstat(socketDir + ifname + ".sock"); err == nil {
					t.Errorf("round %d, state %d: the socket is left", i, i%5)
				}
			}
			links := command(t, "ip", "-n", h.name, "-o", "link")
			if strings.Contains(links, "POINTOPOINT") {
				t.Errorf("interfaces are left:\n%s", links)
			}
			if n := h.processes(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
	wg.Wait()
}

// round starts a daemon, brings it to the state and ends it.
func (h *host) round(binary, ifname string, state int, peer string) error {
	const (
		justStarted = iota
		ready
		configured
		handshaking
		inOperation
	)
	var output log
	cmd := exec.Command(binary, "-f", ifname)
	cmd.Stdout, cmd.Stderr = &output, &output
	var err error
	h.do(func() { err = cmd.Start() }) // the child inherits the thread's namespace
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	client := net.Conn(nil)
	if state == justStarted {
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) // any instant of the start is fine
	} else {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if client, err = net.Dial("unix", socketDir+ifname+".sock"); err == nil {
				defer client.Close()
				break
			}
			if time.Now().After(end) {
				cmd.Process.Kill()
				<-ended
				return fmt.Errorf("no socket in 20 s\n%s", &output)
			}
		}
	}
	if state >= configured {
		fmt.Fprintf(client, "set=1\nprivate_key=%s\nlisten_port=0\npublic_key=%s\nendpoint=192.0.2.2:9\npersistent_keepalive_interval=1\nallowed_ip=10.0.0.2/32\n\n",
			asHex(newKey().private), peer)
		reply := make([]byte, 64)
		client.SetDeadline(time.Now().Add(10 * time.Second))
		if n, err := client.Read(reply); string(reply[:n]) != "errno=0\n\n" {
			return fmt.Errorf("set: %q, %v", reply[:n], err)
		}
	}
	if state >= handshaking {
		if _, err := attempt("ip", "-n", h.name, "link", "set", ifname, "up"); err != nil {
			return err
		}
	}
	if state == inOperation {
		fmt.Fprintf(client, "get=1\n\nset=1\nreplace_peers=true\nlisten_port=0\n\nget=1\n\nset=1\nlisten_port=")
	}
	start := time.Now()
	cmd.Process.Signal(unix.SIGTERM)
	select {
	case err = <-ended:
	case <-time.After(10 * time.Second):
		cmd.Process.Kill()
		<-ended
		return errors.New("no exit in 10 s")
	}
	if took := time.Since(start); took > time.Second {
		return fmt.Errorf("exit took %v", took)
	}
	// before its signal handler is there, a signal kills it
	if err != nil && !(state == justStarted && cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()) {
		return fmt.Errorf("%v\n%s", err, &output)
	}
	return nil
}

// A start that cannot succeed: one clear line on stderr, exit 1, nothing left.
func TestRefusals(t *testing.T) {
	t.Parallel()
	self := wgd(t)
	live := newHost(t).daemon(self)
	foreign := newHost(t)
	foreign.ip("link add veth0 type veth peer name veth1")
	dir := t.TempDir()
	bad := filepath.Join(dir, unique("c")+".conf")
	os.WriteFile(bad, []byte("[Interface]\nPrivateKey = nonsense\n"), 0o600)
	inMount := func(prepare, command string) []string {
		return []string{"unshare", "-m", "sh", "-c", prepare + " && exec " + self + " " + command}
	}
	name := unique("x")
	for _, test := range []struct {
		name string
		on   *host
		argv []string
		want []string
	}{
		{"the name is another daemon's", foreign, []string{self, "-f", live.ifname}, []string{live.ifname}},
		{"the name is another daemon's, in the same namespace", live.host, []string{self, live.ifname}, []string{live.ifname}},
		{"the name is another kind of interface's", foreign, []string{self, "-f", "veth0"}, []string{"veth0"}},
		{"the name is too long", foreign, []string{self, "-f", "a-name-of-16-chr"}, []string{"a-name-of-16-chr"}},
		{"the name has a slash", foreign, []string{self, "-f", "a/b"}, []string{"a/b"}},
		{"the name is empty", foreign, []string{self, "-f", ""}, nil},
		{"no /dev/net/tun, and none can be made (B24)", foreign,
			inMount("mount -t tmpfs -o ro none /dev/net", "-f "+name), []string{"/dev/net/tun", "tun"}},
		{"/dev/net/tun without a driver (B24)", foreign,
			inMount("mount -t tmpfs none /dev/net && mknod /dev/net/tun c 10 199", "-f "+name), []string{"/dev/net/tun", "kmod-tun"}},
		{"no permission", foreign, []string{"setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", "-all", self, "-f", name}, []string{"permi"}},
		{"no permission, in the background", foreign, []string{"setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", "-all", self, name}, []string{"permi"}},
		{"an error in the file", foreign, []string{self, "run", bad}, []string{bad + ":2:", "PrivateKey"}},
		{"an error in the file, up", foreign, []string{self, "up", bad}, []string{bad + ":2:", "PrivateKey"}},
		{"no such file", foreign, []string{self, "run", "/nowhere/wg.conf"}, []string{"/nowhere/wg.conf"}},
		{"down of what is not up", foreign, []string{self, "down", name}, []string{name}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.Command("ip", test.on.in(test.argv)[1:]...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("exit: %v, want status 1", err)
			}
			text := string(out)
			if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
				t.Errorf("want one line, got %q", text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %q", want, text)
				}
			}
		})
	}
	if n := foreign.processes(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if _, err := os.Lstat(socketDir + name + ".sock"); err == nil {
		t.Errorf("%s has a socket", name)
	}
	live.get("listen_port") // still there
}

// As root the node is made where it is missing and can be (B24).
func TestMakesTunNode(t *testing.T) {
	t.Parallel()
	h, ifname := newHost(t), unique("m")
	h.start(ifname, "unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/net && exec "+wgd(t)+" -f "+ifname).ready()
}

// A socket whose daemon was killed is replaced; the missing directory is made,
// for root only (B23).
func TestStaleSocketAndMissingDirectory(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.daemon(wgd(t))
	d.cmd.Process.Kill()
	<-d.exited
	if _, err := os.Lstat(d.socket()); err != nil {
		t.Fatal("a killed daemon left no socket: this tests nothing")
	}
	again := h.start(d.ifname, wgd(t), "-f", d.ifname)
	again.ready()

	ifname := unique("s")
	p := h.start(ifname, "unshare", "-m", "sh", "-c", "mount -t tmpfs none /run && exec "+wgd(t)+" -f "+ifname)
	root := fmt.Sprintf("/proc/%d/root/run/wireguard", p.pid())
	eventually(t, 20*time.Second, "the socket in the new directory", func() bool {
		_, err := os.Lstat(root + "/" + ifname + ".sock")
		return err == nil
	})
	if info, err := os.Lstat(root); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: mode %v, %v, want 0700", root, info.Mode(), err)
	}
	if info, err := os.Lstat(root + "/" + ifname + ".sock"); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the socket: mode %v, %v, want nothing for others", info.Mode(), err)
	}
}

// WG_TUN_FD and WG_UAPI_FD hand over a TUN and a listening socket, as with
// wireguard-go.
func TestInheritedDescriptors(t *testing.T) {
	t.Parallel()
	h, ifname := newHost(t), unique("f")
	var tun *os.File
	var err error
	h.do(func() {
		var fd int
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		var request struct {
			name  [unix.IFNAMSIZ]byte
			flags uint16
			_     [22]byte
		}
		copy(request.name[:], ifname)
		request.flags = unix.IFF_TUN | unix.IFF_NO_PI
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TUNSETIFF, uintptr(unsafe.Pointer(&request))); e != 0 {
			err = e
		}
		tun = os.NewFile(uintptr(fd), "tun")
	})
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(socketDir, 0o700)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketDir + ifname + ".sock"})
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()

	d := &daemon{host: h, ifname: ifname, stderr: new(log), exited: make(chan struct{})}
	argv := h.in([]string{"env", "WG_TUN_FD=3", "WG_UAPI_FD=4", "WG_PROCESS_FOREGROUND=1", wgd(t), ifname})
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.ExtraFiles = []*os.File{tun, socket}
	d.cmd.Stdout, d.cmd.Stderr = d.stderr, d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tun.Close()
	socket.Close()
	go func() { d.cmd.Wait(); close(d.exited) }()
	t.Cleanup(func() { d.stop() })
	d.set("listen_port=40000\n")
	h.ip("link set " + ifname + " up")
	eventually(t, 5*time.Second, "its sockets are open", func() bool { return len(h.sockets()) == 2 })
	d.stop()
	h.leavesNothing(ifname)
}

// Keys: ours and those of stock wg are the same language.
func TestKeys(t *testing.T) {
	t.Parallel()
	private := command(t, wgd(t), "genkey")
	theirs, err := attemptInput(private, "wg", "pubkey")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := attemptInput(private, wgd(t), "pubkey")
	if err != nil || ours != theirs {
		t.Errorf("pubkey: got %q, %v, want %q", ours, err, theirs)
	}
	if psk := command(t, wgd(t), "genpsk"); len(psk) != 45 || psk == command(t, wgd(t), "genpsk") {
		t.Errorf("genpsk: %q", psk)
	}
	if _, err := attemptInput("nonsense\n", wgd(t), "pubkey"); err == nil {
		t.Error("pubkey takes nonsense")
	}
	if got := command(t, wgd(t), "version"); !strings.HasPrefix(got, "wgd ") {
		t.Errorf("version: %q", got)
	}
}

// up and run configure addresses, MTU and routes from a file; down and SIGTERM
// take all away.
func TestUpDownRun(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ka, kb := newKey(), newKey()
	far := b.daemon(wgd(t))
	far.wg("setconf", "{if}", file(t, "c", "[Interface]\nPrivateKey = "+kb.private+"\nListenPort = "+port+
		"\n[Peer]\nPublicKey = "+ka.public+"\nAllowedIPs = 10.8.0.1/32, fd08::1/128\n"))
	far.ip("addr add 10.9.0.2/32 dev "+far.ifname, "addr add fd09::2/128 dev "+far.ifname+" nodad", "link set "+far.ifname+" up",
		"route add 10.8.0.0/16 dev "+far.ifname, "route add fd08::/64 dev "+far.ifname)
	ifname := unique("u")
	conf := filepath.Join(t.TempDir(), ifname+".conf")
	os.WriteFile(conf, []byte(fmt.Sprintf("[Interface]\nPrivateKey = %s\nAddress = 10.8.0.1/24, fd08::1/64\nMTU = 1380\n"+
		"[Peer]\nPublicKey = %s\nAllowedIPs = 10.9.0.0/16, fd09::/64\nEndpoint = %s:%s\n", ka.private, kb.public, outerB, port)), 0o600)
	before := a.run("ip", "route")
	works := func() {
		t.Helper()
		if got := a.run("ip", "link", "show", ifname); !strings.Contains(got, "mtu 1380") {
			t.Errorf("no mtu 1380: %s", got)
		}
		a.ping("10.9.0.2", 2)
		a.ping("fd09::2", 2)
		a.transfer(b, "10.9.0.2", 1<<20)
	}
	for range 2 {
		if out, err := exec.Command("ip", a.in([]string{wgd(t), "up", conf})[1:]...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("up: %v, output %q", err, out)
		}
		works()
		a.run(wgd(t), "down", conf)
		a.leavesNothing(ifname)
	}
	d := a.start(ifname, wgd(t), "run", conf)
	d.ready()
	eventually(t, 10*time.Second, "the routes", func() bool {
		out, err := a.try("ip", "-6", "route", "get", "fd09::2")
		return err == nil && strings.Contains(out, ifname)
	})
	works()
	d.stop()
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("run: exit status %d", code)
	}
	a.leavesNothing(ifname)
	if after := a.run("ip", "route"); after != before {
		t.Errorf("routes before:\n%safter:\n%s", before, after)
	}
}
