package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
)

// What Linux 3.2, the oldest that Go runs on, answers to what is newer.
var linux3_2 = []string{
	"312+=ENOSYS",                                            // kcmp, 3.5, and all after it: amd64 numbers them by age
	"timerfd_create:7=EINVAL",                                // CLOCK_BOOTTIME, 3.15
	fmt.Sprintf("waitid:%d=EINVAL", unix.P_PIDFD),            // 5.4
	fmt.Sprintf("prctl:%d+=EINVAL", unix.PR_GET_TID_ADDRESS), // 3.5
	"fcntl:1033+=EINVAL",                                     // F_ADD_SEALS, 3.17; before it F_GETPIPE_SZ
	"madvise:*:*:16+=EINVAL",                                 // MADV_DONTDUMP, 3.4
	fmt.Sprintf("madvise:*:*:%d=EINVAL", unix.MADV_FREE),     // 4.5

	fmt.Sprintf("ioctl:%#x=EINVAL", uint32(unix.TUNGETDEVNETNS)),                         // 5.8
	fmt.Sprintf("ioctl:%#x=ENOTTY", unix.SIOCGSKNS),                                      // 4.10
	fmt.Sprintf("ioctl:%#x:&0x60=EINVAL", uint32(unix.TUNSETOFFLOAD)),                    // TUN_F_USO4 and 6, 6.2
	fmt.Sprintf("setsockopt:%d:%d=ENOPROTOOPT", unix.SOL_SOCKET, unix.SO_REUSEPORT),      // 3.9
	fmt.Sprintf("setsockopt:%d:41+=ENOPROTOOPT", unix.SOL_SOCKET),                        // SO_WIFI_STATUS, 3.3
	fmt.Sprintf("setsockopt:%d:%d+=ENOPROTOOPT", unix.SOL_UDP, unix.UDP_NO_CHECK6_TX),    // 3.16; UDP_SEGMENT, UDP_GRO
	fmt.Sprintf("setsockopt:%d:%d+=ENOPROTOOPT", unix.SOL_NETLINK, unix.NETLINK_RX_RING), // 3.10
}

// What carries packets also where it is missing or refused.
var optional = []string{
	"sendmmsg=ENOSYS", "recvmmsg=ENOSYS",
	fmt.Sprintf("setsockopt:%d=ENOPROTOOPT", unix.SOL_UDP),
	fmt.Sprintf("setsockopt:%d:%d=EPERM", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE),
	fmt.Sprintf("setsockopt:%d:%d=EPERM", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE),
	fmt.Sprintf("setsockopt:%d:%d=ENOPROTOOPT", unix.SOL_IP, unix.IP_PKTINFO),
	fmt.Sprintf("setsockopt:%d:%d=ENOPROTOOPT", unix.SOL_IP, unix.IP_RECVTOS),
	fmt.Sprintf("setsockopt:%d:%d=ENOPROTOOPT", unix.SOL_IP, unix.IP_MTU_DISCOVER),
	fmt.Sprintf("setsockopt:%d:%d=ENOPROTOOPT", unix.SOL_IPV6, unix.IPV6_RECVPKTINFO),
	fmt.Sprintf("setsockopt:%d:%d=ENOPROTOOPT", unix.SOL_IPV6, unix.IPV6_RECVTCLASS),
	fmt.Sprintf("setsockopt:%d:%d=ENOPROTOOPT", unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER),
	fmt.Sprintf("ioctl:%#x=EINVAL", uint32(unix.TUNSETOFFLOAD)),
	fmt.Sprintf("ioctl:%#x=EINVAL", uint32(unix.TUNSETVNETHDRSZ)),
}

// oldKernels are the kernels on which everything works that does not need a newer one.
var oldKernels = []struct {
	name  string
	lacks []string
}{
	{"Linux 3.2", linux3_2},
	{"Linux 3.2 with all refused that may be", append(optional, linux3_2...)},
	{"all refused that may be", optional},
}

// On an old kernel the tunnel does without what it lacks, and says so once (C09).
func TestOldKernel(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		loud.Skip(t, "the numbers of system calls are those of amd64")
	}
	for _, kernel := range oldKernels {
		t.Run(kernel.name, func(t *testing.T) {
			t.Parallel()
			// CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, as after a suspend.
			argv := append([]string{"env", "LOG_LEVEL=verbose", "unshare", "--time", "--boottime", "86400"}, refusing(t, kernel.lacks...)...)
			argv = append(argv, wgd(t))
			tun := newTunnel(t, tunnelOptions{a: argv, b: argv})
			a, b := tun.a, tun.b
			seen := a.sniff(linkDev)
			work := func() {
				t.Helper()
				a.ping(b.inner4, 2)
				b.ping(a.inner6, 2)
				a.transfer(b.host, b.inner4, 4<<20)
				b.transfer(a.host, a.inner6, 4<<20)
			}
			work()
			logged := func(e *end) (lines []string) {
				for line := range strings.Lines(e.stderr.String()) {
					if !strings.Contains(line, "handshake") { // those go on
						lines = append(lines, line)
					}
				}
				return lines
			}
			a.wg("set", "{if}", "peer", b.key.public, "endpoint", "["+outerB6+"]:"+port)
			work()
			before := [][]string{logged(a), logged(b)}
			a.wg("set", "{if}", "listen-port", "40000")
			work()
			for i, e := range []*end{a, b} {
				if now := logged(e); len(now) > len(before[i]) || len(now) > 8 {
					t.Errorf("%d lines logged, then %d:\n%s", len(before[i]), len(now), strings.Join(now, ""))
				}
			}
			if large := seen.all(func(p packet) bool { return len(p.payload) > 1500 }); len(large) > 0 {
				t.Errorf("%d packets are larger than the link takes, the first %d bytes", len(large), len(large[0].payload))
			}

			// The alarm: keepalives come, a second apart.
			seen.forget()
			a.wg("set", "{if}", "peer", b.key.public, "persistent-keepalive", "1")
			eventually(t, 10*time.Second, "three keepalives", func() bool {
				return len(seen.all(func(p packet) bool { return p.sent && len(p.payload) == 32 && p.messageType() == 4 })) >= 3
			})

			// Changes of the interface are seen.
			a.ip("link set " + a.ifname + " down")
			eventually(t, 10*time.Second, "no sockets", func() bool { return len(a.sockets()) == 0 })
			a.ip("link set "+a.ifname+" mtu 1300 up", "addr add "+a.inner6+"/64 dev "+a.ifname+" nodad")
			a.ping(b.inner4, 2)
			a.transfer(b.host, b.inner4, 1<<20)
			if got := a.wg("show"); !strings.Contains(got, "latest handshake:") {
				t.Errorf("wg show:\n%s", got)
			}
			a.ip("link del " + a.ifname)
			a.leavesNothing(a.ifname)
		})
	}
}

// up and down on an old kernel.
func TestOldKernelUpDown(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		loud.Skip(t, "the numbers of system calls are those of amd64")
	}
	for _, kernel := range oldKernels {
		t.Run(kernel.name, func(t *testing.T) {
			t.Parallel()
			h, ifname := newHost(t), unique("o")
			conf := filepath.Join(t.TempDir(), ifname+".conf")
			os.WriteFile(conf, []byte(fmt.Sprintf("[Interface]\nPrivateKey = %s\nAddress = 10.8.0.1/24, fd08::1/64\nMTU = 1380\n"+
				"[Peer]\nPublicKey = %s\nAllowedIPs = 10.9.0.0/16, fd09::/64\n", newKey().private, newKey().public)), 0o600)
			argv := append(refusing(t, kernel.lacks...), wgd(t))
			if out, err := exec.Command("ip", h.in(append(argv, "up", conf))[1:]...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("up: %v, output %q", err, out)
			}
			if got := h.run("ip", "route", "get", "10.9.0.9"); !strings.Contains(got, ifname) {
				t.Errorf("route: %s", got)
			}
			if got := h.run("ip", "link", "show", ifname); !strings.Contains(got, "mtu 1380") {
				t.Errorf("no mtu 1380: %s", got)
			}
			h.run(append(argv, "down", conf)...)
			h.leavesNothing(ifname)
		})
	}
}
