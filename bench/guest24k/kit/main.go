// Command kit is the first process of an emulated router. It measures a tunnel between
// two namespaces as /plan says, prints what it found as JSON, a line each beginning with
// "@", and powers the machine off. There is no shell and no library here.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A plan is what one boot does.
type plan struct {
	MS     int     // milliseconds of each transfer
	Only   string  // not empty: the one test to do, between two marks
	Phases []phase // one after the other
}

// A phase measures one kind of tunnel. A and B are "kernel" or programs of /bin; both
// empty: the wire alone.
type phase struct {
	Name   string
	A, B   string
	Env    []string // of the daemons
	Nice   int      // of the daemons
	Queue  int      // txqueuelen of the tunnel's interfaces, 0 for what they come with
	Simple bool     // the wire's interfaces take packets one by one, as most routers' do
	Outer6 bool     // the tunnel's own datagrams are IPv6
	Check  int      // not 0: compare the content of so many bytes each way, measure nothing
}

func main() {
	mount("proc", "/proc", "proc")
	mount("sys", "/sys", "sysfs")
	mount("dev", "/dev", "devtmpfs")
	mount("debug", "/sys/kernel/debug", "debugfs")
	mount("run", "/run", "tmpfs")
	mount("tmp", "/tmp", "tmpfs")
	os.MkdirAll("/var", 0o755)
	os.Symlink("/run", "/var/run")
	os.MkdirAll("/dev/net", 0o755)
	unix.Mknod("/dev/net/tun", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200)))
	os.Setenv("PATH", "/bin")
	guarded("boot", func() {
		modules()
		var p plan
		b, err := os.ReadFile("/plan")
		check(err)
		check(json.Unmarshal(b, &p))
		version, _ := os.ReadFile("/proc/version")
		cpu, _ := os.ReadFile("/proc/cpuinfo")
		emit(map[string]any{"kernel": strings.TrimSpace(string(version)), "cpu": string(cpu)})
		if p.Only != "" {
			functions()
		}
		for _, ph := range p.Phases {
			guarded(ph.Name, func() { ph.run(p) })
		}
	})
	emit(map[string]any{"done": true})
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func guarded(name string, f func()) {
	defer func() {
		if err := recover(); err != nil {
			emit(map[string]any{"phase": name, "error": fmt.Sprint(err)})
		}
	}()
	f()
}

func emit(v any) {
	b, err := json.Marshal(v)
	check(err)
	fmt.Printf("\n@%s\n", b)
}

func mount(what, where, kind string) {
	os.MkdirAll(where, 0o755)
	if err := unix.Mount(what, where, kind, 0, ""); err != nil && err != unix.EBUSY {
		fmt.Println("mount", where, err)
	}
}

func modules() {
	order, _ := os.ReadFile("/mod/order")
	for _, m := range strings.Fields(string(order)) {
		f, err := os.Open("/mod/" + m)
		check(err)
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
			panic(m + ": " + err.Error())
		}
		f.Close()
	}
}

// functions prints the kernel's, modules included: "#", the address, the name.
func functions() {
	b, err := os.ReadFile("/proc/kallsyms")
	check(err)
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); strings.Contains("tTwW", f[1]) || f[2] == "_end" {
			fmt.Fprintf(&out, "#%s %s\n", f[0][max(0, len(f[0])-8):], f[2])
		}
	}
	fmt.Print(out.String())
}

// A daemon is one that has been started.
type daemon struct{ *exec.Cmd }

// cpu is the processor time that it has used, all threads, in nanoseconds: the process's
// clock, not the ticks of 10 ms in /proc.
func (d *daemon) cpu() int64 {
	const sched = 2 // CPUCLOCK_SCHED, see clock_getcpuclockid(3)
	var t unix.Timespec
	check(unix.ClockGettime(int32(^d.Process.Pid<<3|sched), &t))
	return t.Nano()
}

// kernelShare of its processor time, by ticks.
func (d *daemon) kernelShare() float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Process.Pid))
	check(err)
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return system / max(1, user+system)
}

// memory in kB.
func (d *daemon) memory(field string) (kb int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Process.Pid))
	check(err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			fmt.Sscan(rest, &kb)
		}
	}
	return kb
}

func (d *daemon) stop() {
	d.Process.Kill()
	d.Wait()
}

func (ph *phase) start(e *end) {
	socket := "/var/run/wireguard/" + e.tunnel + ".sock"
	os.Remove(socket)
	d := &daemon{exec.Command("/bin/"+e.device, "-f", e.tunnel)}
	d.Env = append(append(os.Environ(), "LOG_LEVEL=error", "WG_PROCESS_FOREGROUND=1"), ph.Env...)
	d.Stdout, d.Stderr = os.Stdout, os.Stderr
	e.in(func() { check(d.Start()) })
	e.daemon = d
	check(unix.Setpriority(unix.PRIO_PROCESS, d.Process.Pid, ph.Nice))
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if time.Now().After(limit) {
			panic(e.device + ": no " + socket)
		}
	}
}

// A counted is the last line of a blast.
type counted struct {
	Bytes, Calls, US, Bad, Sent, Received int64
	Error                                 string
	CPU                                   int64 `json:"cpu_us"`
	P50                                   int64 `json:"p50_us"`
	P99                                   int64 `json:"p99_us"`
	Segmented                             bool
}

func (c counted) kbps() int64 { return c.Bytes * 8000 / max(1, c.US) }

// receiver starts a blast that receives and waits until it is bound.
func receiver(e *end, args ...string) (c *exec.Cmd, result func() counted) {
	c = exec.Command("/bin/blast", args...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	check(err)
	e.in(func() { check(c.Start()) })
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		panic(fmt.Sprintf("blast %v: %q %v", args, line, err))
	}
	return c, func() counted {
		line, _ := r.ReadString('\n')
		c.Wait()
		return parse(args, line)
	}
}

func sender(e *end, args ...string) counted {
	c := exec.Command("/bin/blast", args...)
	c.Stderr = os.Stderr
	var out strings.Builder
	c.Stdout = &out
	e.in(func() { c.Run() })
	return parse(args, out.String())
}

func parse(args []string, line string) (r counted) {
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		panic(fmt.Sprintf("blast %v: %q", args, line))
	}
	if r.Error != "" {
		panic(fmt.Sprintf("blast %v: %s", args, r.Error))
	}
	return r
}

// unaligned is how many accesses the kernel had to mend so far.
func unaligned() (n int) {
	b, err := os.ReadFile("/sys/kernel/debug/mips/unaligned_instructions")
	if err != nil {
		return -1
	}
	fmt.Sscan(string(b), &n)
	return n
}

const port = "5001"

// A testbed is a phase set up.
type testbed struct {
	*phase
	plan
	a, b   *end
	result map[string]any
}

// at says what comes next, for whoever watches.
func (t *testbed) at(what string) { fmt.Printf("%s: %s\n", t.Name, what) }

func (t *testbed) ends() [2]*end { return [2]*end{t.a, t.b} }

// cpu is that of each daemon now.
func (t *testbed) cpu() (ns [2]int64) {
	for i, e := range t.ends() {
		if e.daemon != nil {
			ns[i] = e.daemon.cpu()
		}
	}
	return ns
}

// memory notes the most of what name was and what a daemon has now.
func (t *testbed) memory(name, field string) {
	kb, _ := t.result[name].(int)
	for _, e := range t.ends() {
		if e.daemon != nil {
			kb = max(kb, e.daemon.memory(field))
		}
	}
	if kb != 0 {
		t.result[name] = kb
	}
}

func (ph *phase) run(p plan) {
	t := &testbed{phase: ph, plan: p, a: newEnd(1, ph.A), b: newEnd(2, ph.B), result: map[string]any{"phase": ph.Name}}
	cable(t.a, t.b)
	if t.Simple {
		for _, e := range t.ends() {
			e.in(func() { simple(e.wire) })
		}
	}
	mended := unaligned()
	defer func() {
		for _, e := range t.ends() {
			if e.daemon != nil {
				e.daemon.stop()
			}
			e.ns.Close() // and the links with it
		}
	}()
	to4, to6 := t.b.wire4.Addr(), t.b.wire6.Addr()
	if ph.A != "" {
		t.tunnels()
		to4, to6 = t.b.tunnel4.Addr(), t.b.tunnel6.Addr()
	}

	t.at("first flow")
	// The handshake, and the first growth of the heap, are not measured.
	_, r := receiver(t.b, "sink", "tcp", port)
	sender(t.a, "send", "tcp", to4.String(), port, "300", "16384")
	r()

	if ph.Check != 0 {
		t.compare(to4, to6)
	} else {
		t.measure(to4.String(), p.MS)
	}
	t.result["unaligned"] = unaligned() - mended
	emit(t.result)
}

func (t *testbed) tunnels() {
	type pair struct{ e, peer *end }
	for _, p := range []pair{{t.a, t.b}, {t.b, t.a}} {
		if p.e.device == "kernel" {
			p.e.in(func() { addLink(p.e.tunnel, "wireguard") })
		} else {
			t.start(p.e)
		}
	}
	t.memory("rss_socket_kb", "VmRSS")
	for _, p := range []pair{{t.a, t.b}, {t.b, t.a}} {
		at := p.peer.wire4.Addr()
		if t.Outer6 {
			at = p.peer.wire6.Addr()
		}
		p.e.in(func() {
			p.e.configure(p.peer, netip.AddrPortFrom(at, 51820))
			up(p.e.tunnel, 1420, p.e.tunnel4, p.e.tunnel6)
			if t.Queue != 0 {
				queue(p.e.tunnel, t.Queue)
			}
		})
	}
	time.Sleep(time.Second)
	t.memory("rss_idle_kb", "VmRSS")
}

func (t *testbed) measure(to string, ms int) {
	window := strconv.Itoa(ms)
	for _, w := range []struct{ name, proto, size string }{
		{"tcp", "tcp", "16384"}, {"udp1392", "udp", "1392"}, {"udp8192", "udp", "8192"},
	} {
		if !t.wanted(w.name) {
			continue
		}
		t.at(w.name)
		var sent, again, sent1, again1 uint64
		t.a.in(func() { sent, again = segments() })
		_, r := receiver(t.b, "sink", w.proto, port)
		t.mark()
		before := t.cpu()
		tx := sender(t.a, "send", w.proto, to, port, window, w.size)
		rx := r()
		after := t.cpu()
		t.mark()
		t.a.in(func() { sent1, again1 = segments() })
		m := map[string]any{"kbps": rx.kbps(), "bytes": rx.Bytes, "sent": tx.Bytes, "sender_cpu_us": tx.CPU,
			"daemon_cpu_us": [2]int64{(after[0] - before[0]) / 1000, (after[1] - before[1]) / 1000}}
		if w.proto == "tcp" {
			m["segments"], m["retransmits"] = sent1-sent, again1-again
		}
		t.result[w.name] = m
	}
	if t.Only == "" {
		t.latency(to, ms)
	}
	if t.A != "" && t.Only != "tcp" {
		t.sendOnly(to, ms)
	}
}

func (t *testbed) wanted(test string) bool { return t.Only == "" || t.Only == test }

// mark tells an observer of this machine that the one test begins, or has ended.
func (t *testbed) mark() {
	if t.Only != "" {
		observed()
	}
}

//go:noinline
func observed() { marks++ }

var marks int

func (t *testbed) latency(to string, ms int) {
	t.at("latency")
	t.result["rtt_idle"] = t.ping(to, ms)
	c, r := receiver(t.b, "sink", "tcp", port)
	stream := make(chan any)
	go func() {
		defer func() {
			err := recover()
			if err != nil {
				c.Process.Kill()
			}
			stream <- err
		}()
		sender(t.a, "send", "tcp", to, port, strconv.Itoa(2*ms+500), "16384")
	}()
	time.Sleep(300 * time.Millisecond)
	t.result["rtt_load"] = t.ping(to, 2*ms)
	if err := <-stream; err != nil {
		panic(err)
	}
	r()
}

func (t *testbed) ping(to string, ms int) map[string]int64 {
	c, _ := receiver(t.b, "echo", "5002")
	p := sender(t.a, "ping", to, "5002", strconv.Itoa(ms), "10")
	c.Process.Kill()
	c.Wait()
	return map[string]int64{"p50_us": p.P50, "p99_us": p.P99, "lost": p.Sent - p.Received}
}

// sendOnly has the whole core for the sending side: what a sends goes to an interface
// that throws it away.
func (t *testbed) sendOnly(to string, ms int) {
	t.memory("rss_load_kb", "VmRSS")
	t.memory("hwm_kb", "VmHWM")
	// Without b's end, whose keepalives would make a's endpoint roam back.
	if t.b.daemon == nil {
		t.b.in(func() { removeLink(t.b.tunnel) })
	} else {
		t.b.daemon.stop()
		t.b.daemon = nil
	}
	drain := netip.MustParsePrefix("198.51.100.1/24")
	t.a.in(func() {
		addLink("drain", "dummy")
		simple("drain")
		up("drain", 1500, drain)
		t.a.moveEndpoint(t.b, netip.AddrPortFrom(drain.Addr().Next(), 9))
	})
	packets := func() (n uint64) {
		t.a.in(func() { n = txPackets("drain") })
		return n
	}
	settled := func() uint64 {
		for n := packets(); ; {
			time.Sleep(100 * time.Millisecond)
			again := packets()
			if n == again {
				return n
			}
			n = again
		}
	}
	for _, w := range []struct{ name, size, rate string }{
		{"send1392", "1392", "0"}, {"send8192", "8192", "0"}, {"paced1392", "1392", "200"},
	} {
		if !t.wanted(w.name) {
			continue
		}
		t.at(w.name)
		n0, cpu0 := settled(), t.cpu()
		t.mark()
		tx := sender(t.a, "send", "udp", to, port, strconv.Itoa(ms), w.size, w.rate)
		n1 := packets()
		n2, cpu2 := settled(), t.cpu()
		t.mark()
		m := map[string]any{"packets": n1 - n0, "drained": n2 - n0, "us": tx.US, "offered": tx.Calls, "sender_cpu_us": tx.CPU}
		if t.a.daemon != nil {
			m["daemon_cpu_ns_per_packet"] = (cpu2[0] - cpu0[0]) / max(1, int64(n2-n0))
		}
		t.result[w.name] = m
	}
	t.memory("rss_end_kb", "VmRSS")
	t.memory("hwm_kb", "VmHWM")
	if t.a.daemon != nil {
		t.result["kernel_share"] = t.a.daemon.kernelShare()
	}
}

// compare transfers contents that the receiver knows beforehand, each way, over both
// families, as a stream and as datagrams of many lengths.
func (t *testbed) compare(to4, to6 netip.Addr) {
	from4, from6 := t.a.wire4.Addr(), t.a.wire6.Addr()
	if t.A != "" {
		from4, from6 = t.a.tunnel4.Addr(), t.a.tunnel6.Addr()
	}
	ok, checks := true, map[string]any{}
	for _, w := range []struct {
		name     string
		from, to *end
		addr     netip.Addr
	}{{"ab4", t.a, t.b, to4}, {"ba4", t.b, t.a, from4}, {"ab6", t.a, t.b, to6}, {"ba6", t.b, t.a, from6}} {
		t.at("check " + w.name)
		_, r := receiver(w.to, "check", "tcp", port)
		tx := sender(w.from, "fill", "tcp", w.addr.String(), port, strconv.Itoa(t.Check))
		rx := r()
		good := rx.Bad == 0 && rx.Bytes == tx.Bytes
		checks[w.name+"_tcp"] = map[string]any{"ok": good, "bytes": rx.Bytes, "bad": rx.Bad}
		ok = ok && good
		for name, segment := range map[string]string{"_udp": "0", "_gso": "1000"} {
			const count = 300
			_, r := receiver(w.to, "check", "udp", port)
			tx := sender(w.from, "fill", "udp", w.addr.String(), port, strconv.Itoa(count), "200", segment)
			rx := r()
			good := rx.Bad == 0 && rx.Calls >= count*99/100
			checks[w.name+name] = map[string]any{"ok": good, "received": rx.Calls, "of": count, "bad": rx.Bad, "segmented": tx.Segmented}
			ok = ok && good
		}
	}
	t.result["check"], t.result["ok"] = checks, ok
	t.memory("hwm_kb", "VmHWM")
}
