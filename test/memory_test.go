package test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/device"
	"wgd/internal/loud"
)

// The budget is that of the machine, of WGD_MEMORY, or of the key Memory; the
// environment wins over the file. So it is with Offload.
func TestBudgetIsChosen(t *testing.T) {
	t.Parallel()
	const small, large = 28 << 20, 1 << 40
	for _, test := range []struct {
		name   string
		env    string
		file   string // "": without a file
		memory int64
		vnet   bool
	}{
		{"by the machine", "", "", 0, true},
		{"by the environment", "WGD_MEMORY=28M", "", small, true},
		{"by the file", "", "Memory = 28m\n", small, true},
		{"by both", "WGD_MEMORY=1024G", "Memory = 29360128\n", large, true},
		{"offloads by the file", "", "Offload = gso, gro\n", 0, false},
		{"offloads by both", "WGD_OFFLOAD=all", "Offload = none\n", 0, true},
	} {
		for _, command := range []string{"-f", "run", "up"} {
			if (command == "-f") != (test.file == "") {
				continue
			}
			t.Run(test.name+", "+command, func(t *testing.T) {
				t.Parallel()
				h, ifname := newHost(t), unique("m")
				argv := []string{wgd(t), command, ifname}
				if test.file != "" {
					path := filepath.Join(t.TempDir(), ifname+".conf")
					os.WriteFile(path, []byte("[Interface]\nPrivateKey = "+newKey().private+"\n"+test.file), 0o600)
					argv[len(argv)-1] = path
				}
				if test.env != "" {
					argv = append([]string{"env", test.env}, argv...)
				}
				if command == "up" {
					h.run(argv...)
				} else {
					h.start(ifname, argv...).ready()
				}
				h.ip("link set " + ifname + " up")
				b := device.BudgetFor(test.memory)
				// the kernel doubles both
				want := fmt.Sprintf("rb%d,", 2*b.ReceiveBuffer)
				wantOut := fmt.Sprintf("tb%d,", 2*b.SendBuffer)
				var got string
				eventually(t, 10*time.Second, "sockets", func() bool {
					got = h.run("ss", "-Hlunm")
					return strings.Count(got, "skmem:") == 2
				})
				flags, err := strconv.ParseUint(strings.TrimSpace(h.run("cat", "/sys/class/net/"+ifname+"/tun_flags")), 0, 32)
				if err != nil || flags&unix.IFF_VNET_HDR != 0 != test.vnet {
					t.Errorf("TUN flags %#x, %v, want vnet_hdr: %v", flags, err, test.vnet)
				}
				if link, queue := h.run("ip", "link", "show", ifname), fmt.Sprintf("qlen %d\n", b.Queue); !strings.Contains(link, queue) {
					t.Errorf("want %s: %s", queue, link)
				}
				if strings.Count(got, want) != 2 || strings.Count(got, wantOut) != 2 {
					t.Errorf("want %s and %s of two sockets:\n%s", want, wantOut, got)
				}
			})
		}
	}
}

// peak returns the largest resident set since the last call, in bytes.
func (d *daemon) peak() int64 {
	d.t.Helper()
	high := d.status("VmHWM") << 10
	// 5 sets it to what it is now: proc(5)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", d.pid()), []byte("5"), 0); err != nil {
		d.t.Fatal(err)
	}
	return high
}

// iperf runs iperf3 from a to b for some seconds and returns what it prints.
func iperf(a, b *end, args ...string) string {
	a.t.Helper()
	server := b.start(b.ifname, "iperf3", "-s", "-1", "-B", b.inner4)
	eventually(a.t, 10*time.Second, "iperf3 listens", func() bool { return strings.Contains(b.run("ss", "-Hltn"), ":5201") })
	out := a.run(append([]string{"iperf3", "-c", b.inner4, "-f", "m"}, args...)...)
	select {
	case <-server.exited:
	case <-time.After(10 * time.Second):
		a.t.Fatal("iperf3 does not end")
	}
	return out
}

// Whatever comes, the resident set stays small, text of the program included. With
// WGD_SOAK set, and longer, also in a cgroup of 24 MiB without swap (A14, C34).
func TestMemory(t *testing.T) {
	const idleBound, bound = 8_000_000, 12_000_000
	seconds, soak := 1, os.Getenv("WGD_SOAK") != ""
	if soak {
		seconds = 10
	}
	for _, memory := range []string{"28M", "1G"} {
		t.Run(memory, func(t *testing.T) {
			argv := []string{"env", "WGD_MEMORY=" + memory, wgd(t)}
			if soak {
				in, most := limited(t, 24*MiB)
				argv = append(in, argv...)
				defer func() { t.Logf("the cgroup had %s bytes at most", most()) }()
			}
			s := newSiegeOf(t, argv)
			a, b := s.a, s.b
			if idle := b.rss(); idle > idleBound {
				t.Errorf("idle: %d bytes resident, bound %d", idle, idleBound)
			}
			b.peak()
			under := func(load string, f func()) {
				t.Helper()
				f()
				high := b.peak()
				t.Logf("%s: RSS at most %.1f MiB, then %.1f MiB", load, float64(high)/MiB, float64(b.rss())/MiB)
				if high > bound {
					t.Errorf("%s: %d bytes resident at most, bound %d", load, high, bound)
				}
				if !b.running() {
					t.Fatalf("%s: the daemon has ended: %v", load, b.cmd.ProcessState)
				}
			}
			lasts := func(s int) string { return strconv.Itoa(s) }

			under("TCP in", func() { iperf(a, b, "-t", lasts(seconds), "-P", "4") })
			under("TCP out", func() { iperf(a, b, "-t", lasts(seconds), "-P", "4", "-R") })
			under("TCP both ways", func() { iperf(a, b, "-t", lasts(seconds), "--bidir") })
			under("small UDP packets", func() { iperf(a, b, "-t", lasts(seconds), "-u", "-b", "0", "-l", "64") })
			under("large UDP packets for nobody who reads", func() {
				deaf := b.udp(b.inner4 + ":9000")
				deaf.SetReadBuffer(4096)
				app, to := a.udp(a.inner4+":0"), netip.MustParseAddrPort(b.inner4+":9000")
				paced(seconds*5000, 5000, func(int) bool { app.WriteToUDPAddrPort(make([]byte, 8000), to); return true })
			})

			socks := make([]*net.UDPConn, 16)
			for i := range socks {
				socks[i] = s.c.udp(fmt.Sprintf("198.18.1.%d:0", i))
			}
			random := rand.New(rand.NewPCG(3, 4))
			flood := func(rate int, message func(i int) []byte) {
				paced(seconds*rate, rate, func(i int) bool {
					socks[i%len(socks)].WriteToUDPAddrPort(message(i), s.target)
					return true
				})
			}
			under("garbage of all sizes", func() {
				buf := make([]byte, 65507)
				flood(5000, func(i int) []byte {
					m := buf[:random.IntN(1500)]
					if i%16 == 0 {
						m = buf[:random.IntN(len(buf))]
					}
					if len(m) > 16 {
						copy(m, []byte{byte(random.IntN(5)), 0, 0, 0})
						m[4], m[5] = byte(random.Uint32()), byte(random.Uint32())
					}
					return m
				})
			})
			under("initiations", func() {
				var attack [][]byte
				for range 500 {
					m, _ := s.c.stranger(newKey(), b.key.public).initiation(time.Now())
					attack = append(attack, m)
				}
				flood(5000, func(i int) []byte { return attack[i%len(attack)] })
			})

			// Peers that never answer: packets to them are staged, and initiations go out.
			const peers = 1000
			under("packets for 1,000 peers that do not answer", func() {
				var lines strings.Builder
				for i := range peers {
					fmt.Fprintf(&lines, "public_key=%s\nendpoint=198.18.0.2:9\nallowed_ip=10.77.%d.%d/32\n", asHex(newKey().public), i>>8, i&255)
				}
				b.set(lines.String())
				b.ip("route add 10.77.0.0/16 dev " + b.ifname)
				app, packet := b.udp(b.inner4+":0"), make([]byte, 1300)
				paced(200*peers, 50_000, func(i int) bool {
					n := i % peers
					app.WriteToUDPAddrPort(packet, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, byte(n >> 8), byte(n)}), 9))
					return true
				})
			})
			b.ping(a.inner4, 2)
			a.transfer(b.host, b.inner4, 1<<20)
		})
	}
}

// A request that a machine of 32 MB has no memory for is refused; one that it has is
// applied within the same bound as all else.
func TestRequestsFitTheBudget(t *testing.T) {
	limit := device.BudgetFor(28 << 20).Operation
	request := func(bytes int) string {
		text := []byte("set=1\n")
		for i := 0; len(text) < bytes-300; i++ {
			text = fmt.Appendf(text, "public_key=%s\npreshared_key=%[1]s\nendpoint=192.0.2.9:%d\nallowed_ip=10.%d.%d.0/24\nallowed_ip=fd00:%x::/64\n",
				asHex(newKey().public), 1+i, i>>8, i&255, i)
		}
		return string(text) + "\n"
	}
	d := newHost(t).daemon("env", "WGD_MEMORY=28M", wgd(t))
	if got := d.uapi(request(limit + 1000)); got != fmt.Sprintf("errno=-%d\n", unix.EMSGSIZE) {
		t.Errorf("a request of more than %d bytes: %q", limit, got)
	}
	if n := len(d.get("public_key")); n != 0 {
		t.Errorf("%d peers of a refused request", n)
	}
	if got := d.uapi(request(limit)); got != "errno=0\n" {
		t.Errorf("a request of %d bytes: %q", limit, got)
	}
	n := len(d.get("public_key"))
	high := d.peak()
	t.Logf("%d peers: %.1f MiB at most, then %.1f MiB", n, float64(high)/MiB, float64(d.rss())/MiB)
	if n < 1500 || high > 12_000_000 {
		t.Errorf("%d peers, %d bytes resident at most", n, high)
	}
}

// limited returns the beginning of a command for a cgroup of its own that may have so
// many bytes and no swap, which a program that wants more does not survive. most
// returns what it had at most.
func limited(t *testing.T, bytes int64) (argv []string, most func() string) {
	t.Helper()
	var errs []error
	for _, kind := range []struct{ root, limit, withSwap, most string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"},
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.peak"},
	} {
		dir := filepath.Join(kind.root, fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), serial.Add(1)))
		if err := os.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		if err := os.WriteFile(filepath.Join(dir, kind.limit), []byte(strconv.FormatInt(bytes, 10)), 0); err != nil {
			errs = append(errs, err)
			continue
		}
		swap := "0"
		if kind.most == "memory.max_usage_in_bytes" {
			swap = strconv.FormatInt(bytes, 10) // memory and swap together
		}
		os.WriteFile(filepath.Join(dir, kind.withSwap), []byte(swap), 0) // not every kernel counts it
		// ip netns exec has hidden the cgroups.
		join := fmt.Sprintf(`nsenter -t %d -m sh -c "echo $$ >$0/cgroup.procs" && exec "$@"`, os.Getpid())
		return []string{"sh", "-c", join, dir}, func() string {
			b, err := os.ReadFile(filepath.Join(dir, kind.most))
			if err != nil {
				return err.Error()
			}
			return strings.TrimSpace(string(b))
		}
	}
	loud.Skip(t, "no cgroup with a limit of memory: ", errors.Join(errs...))
	return nil, nil
}
