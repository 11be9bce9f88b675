package test

import (
	"bufio"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const socketDir = "/var/run/wireguard/"

// A daemon runs in the foreground on one host, with one interface.
type daemon struct {
	*host
	ifname string
	cmd    *exec.Cmd
	stderr *log
	exited chan struct{} // closed when the process has been waited for
}

// daemon starts `argv... -f IF` and waits until it answers on its socket.
func (h *host) daemon(argv ...string) *daemon {
	h.t.Helper()
	ifname := unique("w")
	d := h.start(ifname, append(argv, "-f", ifname)...)
	d.ready()
	return d
}

// start runs a program in the background until the test ends. Environment
// variables may stand before it, as in a shell.
func (h *host) start(ifname string, argv ...string) *daemon {
	h.t.Helper()
	d := &daemon{host: h, ifname: ifname, stderr: new(log), exited: make(chan struct{})}
	if strings.Contains(argv[0], "=") {
		argv = append([]string{"env"}, argv...)
	}
	argv = h.in(argv)
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = d.stderr, d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.WaitDelay = time.Second
	if err := d.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		d.cmd.Wait()
		close(d.exited)
	}()
	h.t.Cleanup(func() {
		d.stop()
		out := d.stderr.String()
		for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "SIGSEGV", "SIGBUS"} {
			if strings.Contains(out, bad) {
				h.t.Errorf("%s: %s", ifname, bad)
			}
		}
		if h.t.Failed() && out != "" {
			h.t.Logf("%s wrote:\n%s", ifname, out)
		}
	})
	return d
}

// ready waits until the daemon answers on its socket.
func (d *daemon) ready() {
	d.t.Helper()
	eventually(d.t, 20*time.Second, d.ifname+" answers on its socket", func() bool {
		select {
		case <-d.exited:
			d.t.Fatalf("%s exited: %v\n%s", d.ifname, d.cmd.ProcessState, d.stderr)
		default:
		}
		c, err := net.Dial("unix", d.socket())
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

func (d *daemon) socket() string { return socketDir + d.ifname + ".sock" }

func (d *daemon) running() bool {
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}

// stop ends the daemon as a service manager does, and waits for it.
func (d *daemon) stop() {
	d.t.Helper()
	if !d.running() {
		return
	}
	unix.Kill(d.cmd.Process.Pid, unix.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(10 * time.Second):
		d.t.Errorf("%s does not exit on SIGTERM", d.ifname)
		d.cmd.Process.Kill()
		<-d.exited
	}
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

// uapi sends text to the daemon's socket and returns the reply up to its empty
// line, which must come within ten seconds.
func (d *daemon) uapi(text string) string {
	d.t.Helper()
	c := d.dial()
	defer c.Close()
	io.WriteString(c, text)
	return readReply(d.t, bufio.NewReader(c))
}

// dial opens a client's connection to the daemon's socket.
func (d *daemon) dial() *net.UnixConn {
	d.t.Helper()
	c, err := net.Dial("unix", d.socket())
	if err != nil {
		d.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.UnixConn)
}

// readReply returns one reply without its empty line.
func readReply(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	var reply strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("UAPI reply: %v after %q", err, reply.String())
		}
		if line == "\n" {
			return reply.String()
		}
		reply.WriteString(line)
	}
}

// set expects the daemon to accept the lines as one transaction.
func (d *daemon) set(lines string) {
	d.t.Helper()
	if got := d.uapi("set=1\n" + lines + "\n"); got != "errno=0\n" {
		d.t.Fatalf("set %q: got %q, want errno=0", lines, got)
	}
}

// get returns the values of key in a get=1, in order.
func (d *daemon) get(key string) (values []string) {
	d.t.Helper()
	for line := range strings.Lines(d.uapi("get=1\n\n")) {
		if k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "="); k == key {
			values = append(values, v)
		}
	}
	return values
}

// value returns the first value of key in a get=1, or "".
func (d *daemon) value(key string) string {
	d.t.Helper()
	if all := d.get(key); len(all) > 0 {
		return all[0]
	}
	return ""
}

// wg runs the stock tool, with the name of the interface for {if}.
func (d *daemon) wg(args ...string) string {
	d.t.Helper()
	out, err := d.tryWg(args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *daemon) tryWg(args ...string) (string, error) {
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{if}", d.ifname)
	}
	return d.try(append([]string{"wg"}, args...)...)
}

// sockets returns the UDP sockets that are open in the host, as ss names them.
func (h *host) sockets() []string {
	h.t.Helper()
	var ports []string
	for line := range strings.Lines(h.run("ss", "-Hlun")) {
		if f := strings.Fields(line); len(f) > 3 {
			ports = append(ports, f[3])
		}
	}
	return ports
}

// rss is the resident set in bytes.
func (d *daemon) rss() int64 { return d.status("VmRSS") << 10 }

// status returns a number from /proc/PID/status.
func (d *daemon) status(key string) int64 {
	d.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.pid()))
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			if err != nil {
				d.t.Fatal(err)
			}
			return n
		}
	}
	d.t.Fatalf("/proc/%d/status: no %s", d.pid(), key)
	return 0
}

// cpu is what the process has used so far, threads that ended included.
func (d *daemon) cpu() time.Duration {
	d.t.Helper()
	const sched = 2 // CPUCLOCK_SCHED: user and system time, in nanoseconds
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^d.pid()<<3|sched), &ts); err != nil {
		d.t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// A keypair is a static identity, in base64 as INI files have it.
type keypair struct {
	secret          *ecdh.PrivateKey
	private, public string
}

func newKey() keypair {
	var b [32]byte
	rand.Read(b[:])
	b[0] &= 248 // clamped, as wg genkey prints it
	b[31] = b[31]&127 | 64
	k, err := ecdh.X25519().NewPrivateKey(b[:])
	if err != nil {
		panic(err)
	}
	return keypair{k, base64.StdEncoding.EncodeToString(k.Bytes()), base64.StdEncoding.EncodeToString(k.PublicKey().Bytes())}
}

func newPSK() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.StdEncoding.EncodeToString(b[:])
}

// asHex turns a key from INI's form into UAPI's.
func asHex(key string) string { return hex.EncodeToString(fromBase64(key)) }

func fromBase64(key string) []byte {
	b, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		panic(err)
	}
	return b
}

// file writes a file for the test and returns its path.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An end is one end of a tunnel.
type end struct {
	*daemon
	key            keypair
	inner4, inner6 string
}

// A side says what a tunnel's end is made of.
type side struct {
	name string
	argv []string
}

// tunnel are two daemons on two hosts that know each other. a has b's endpoint
// and will initiate; b learns a's.
type tunnel struct {
	a, b *end
	psk  string
}

const port = "51820"

type tunnelOptions struct {
	a, b   []string // the daemons' commands
	outer6 bool
	psk    bool
}

func newTunnel(t testing.TB, o tunnelOptions) tunnel {
	t.Helper()
	ha, hb := newPair(t)
	tun := tunnel{
		a: &end{ha.daemon(o.a...), newKey(), "10.0.0.1", "fd00::1"},
		b: &end{hb.daemon(o.b...), newKey(), "10.0.0.2", "fd00::2"},
	}
	if o.psk {
		tun.psk = newPSK()
	}
	endpoint := outerB + ":" + port
	if o.outer6 {
		endpoint = "[" + outerB6 + "]:" + port
	}
	tun.configure("Endpoint = " + endpoint + "\n")
	tun.a.up()
	tun.b.up()
	return tun
}

// up gives the interface its addresses and brings it up.
func (e *end) up() {
	e.t.Helper()
	e.ip("addr add "+e.inner4+"/24 dev "+e.ifname, "addr add "+e.inner6+"/64 dev "+e.ifname+" nodad",
		"link set "+e.ifname+" mtu 1420 up")
	// the kernel completes an IPv6 address later, in a work queue
	eventually(e.t, 10*time.Second, e.inner6+" is usable", func() bool {
		return !strings.Contains(command(e.t, "ip", "-n", e.name, "-6", "-o", "addr", "show", "dev", e.ifname, "tentative"), e.inner6) &&
			strings.Contains(command(e.t, "ip", "-n", e.name, "-6", "route", "show", "table", "local"), "local "+e.inner6+" dev "+e.ifname)
	})
}

// configure gives both daemons their configuration with the stock tool. extra
// are a's further lines about b.
func (tun tunnel) configure(extra string) {
	tun.a.t.Helper()
	for _, s := range []struct {
		e, peer *end
		extra   string
	}{{tun.a, tun.b, extra}, {tun.b, tun.a, ""}} {
		conf := "[Interface]\nPrivateKey = " + s.e.key.private + "\nListenPort = " + port + "\n"
		conf += "[Peer]\nPublicKey = " + s.peer.key.public + "\nAllowedIPs = " + s.peer.inner4 + "/32, " + s.peer.inner6 + "/128\n" + s.extra
		if tun.psk != "" {
			conf += "PresharedKey = " + tun.psk + "\n"
		}
		s.e.wg("setconf", "{if}", file(s.e.t, "conf", conf))
	}
}

// endpoint is where e sends to for its first peer.
func (e *end) endpoint() string {
	e.t.Helper()
	return e.value("endpoint")
}

// handshake is the UNIX time in nanoseconds of the last one with the first peer.
func (e *end) handshake() int64 {
	e.t.Helper()
	var n int64
	for _, key := range []string{"last_handshake_time_sec", "last_handshake_time_nsec"} {
		x, err := strconv.ParseInt(e.value(key), 10, 64)
		if err != nil {
			e.t.Fatal(err)
		}
		n = n*1e9 + x
	}
	return n
}
