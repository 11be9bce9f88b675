package netcfg

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
)

// inNamespace moves the rest of the test, and the commands it runs, to a new
// network namespace, which ends with the test's thread, and makes a TUN there.
func inNamespace(t *testing.T) (*Link, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal("unshare:", err)
	}
	name := fmt.Sprintf("n%d", os.Getpid())
	ip(t, "tuntap", "add", name, "mode", "tun")
	ip(t, "link", "set", name, "mtu", "1420")
	l, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, name
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func prefixes(list ...string) (p []netip.Prefix) {
	for _, s := range list {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

// addresses and routes say what ip sees on the interface, link-local left out.
func addresses(t *testing.T, name string) []string {
	t.Helper()
	var links []struct {
		AddrInfo []struct {
			Local     string
			Prefixlen int
			Scope     string
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(ip(t, "-j", "address", "show", "dev", name)), &links); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, l := range links {
		for _, a := range l.AddrInfo {
			if a.Scope == "global" {
				list = append(list, fmt.Sprintf("%s/%d", a.Local, a.Prefixlen))
			}
		}
	}
	slices.Sort(list)
	return list
}

func routes(t *testing.T, name string) []string {
	t.Helper()
	var list []string
	for _, family := range []string{"-4", "-6"} {
		var rs []struct{ Dst, Protocol, Gateway string }
		if err := json.Unmarshal([]byte(ip(t, "-j", family, "route", "show", "dev", name)), &rs); err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			if r.Gateway == "" && r.Protocol != "kernel" {
				list = append(list, r.Dst)
			}
		}
	}
	slices.Sort(list)
	return list
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s\n got %v\nwant %v", what, got, want)
	}
}

func TestApply(t *testing.T) {
	l, name := inNamespace(t)
	warnings, err := l.Apply(Config{
		Addresses: prefixes("10.7.0.1/24", "10.8.0.1/32", "fd07::1/64", "fd08::1/128"),
		Routes: prefixes("10.7.0.9/32", "10.7.0.0/16", "192.0.2.128/25", "192.0.2.0/24", "192.0.2.7/24",
			"fd07::2/128", "fd07::/48", "fd09::5/128", "fd09::/64"),
	})
	if err != nil || len(warnings) != 0 {
		t.Fatalf("%v, warnings %q", err, warnings)
	}
	same(t, "addresses", addresses(t, name), "10.7.0.1/24", "10.8.0.1/32", "fd07::1/64", "fd08::1/128")
	same(t, "routes", routes(t, name), "10.7.0.0/16", "192.0.2.0/24", "192.0.2.128/25", "fd07::/48", "fd09::/64", "fd09::5")
	if out := ip(t, "link", "show", name); !strings.Contains(out, ",UP") {
		t.Errorf("not up: %s", out)
	}
	// It must be what ip itself would have made.
	ip(t, "route", "add", "198.51.100.0/24", "dev", name)
	lines := ip(t, "route", "show", "dev", name)
	if want := strings.Replace(line(lines, "198.51.100.0/24"), "198.51.100.0/24", "192.0.2.0/24", 1); line(lines, "192.0.2.0/24") != want {
		t.Errorf("route\n got %s\nwant %s", line(lines, "192.0.2.0/24"), want)
	}

	if err := l.SetMTU(1380); err != nil {
		t.Error(err)
	}
	if err := l.SetUp(false); err != nil {
		t.Error(err)
	}
	if out := ip(t, "link", "show", name); !strings.Contains(out, "mtu 1380") || strings.Contains(out, ",UP") {
		t.Errorf("want down with MTU 1380: %s", out)
	}
	if err := l.Delete(); err != nil {
		t.Error(err)
	}
	if _, err := Open(name); !errors.Is(err, unix.ENODEV) {
		t.Errorf("Open after Delete: %v, want ENODEV", err)
	}
}

func line(lines, start string) string {
	for l := range strings.Lines(lines) {
		if strings.HasPrefix(l, start+" ") {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

func TestConflictsAndRepeats(t *testing.T) {
	l, name := inNamespace(t)
	c := Config{Addresses: prefixes("10.7.0.1/24")}
	for range 2 {
		if _, err := l.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	other := "o" + name[1:]
	ip(t, "tuntap", "add", other, "mode", "tun")
	ip(t, "link", "set", other, "up")
	ip(t, "route", "add", "192.0.2.0/24", "dev", other)
	if _, err := l.Apply(Config{Routes: prefixes("192.0.2.0/24")}); err == nil || !strings.Contains(err.Error(), "192.0.2.0/24: another route") {
		t.Errorf("a route that another interface has: %v", err)
	}
	warnings, err := l.Apply(Config{Routes: prefixes("0.0.0.0/0", "203.0.113.0/24")})
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "0.0.0.0/0") {
		t.Errorf("a default route: %v, warnings %q", err, warnings)
	}
	same(t, "routes", routes(t, name), "203.0.113.0/24")
}

// Without IPv6 the rest still works, with one warning.
func TestNoIPv6(t *testing.T) {
	for _, c := range []struct {
		name, want string
		take       func(t *testing.T, l *Link, name string)
	}{
		{"disabled by sysctl", "disabled", func(t *testing.T, l *Link, name string) {
			out, err := exec.Command("unshare", "-m", "sh", "-c", "mount -t proc proc /proc && echo 1 > /proc/sys/net/ipv6/conf/"+name+"/disable_ipv6").CombinedOutput()
			if err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}},
		{"MTU too small", "1280", func(t *testing.T, l *Link, name string) {
			if err := l.SetMTU(1279); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, name := inNamespace(t)
			c.take(t, l, name)
			warnings, err := l.Apply(Config{
				Addresses: prefixes("fd07::1/64", "10.7.0.1/24", "fd08::1/64"),
				Routes:    prefixes("fd09::/64", "192.0.2.0/24", "fd0a::/64"),
			})
			if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], c.want) {
				t.Errorf("%v, warnings %q", err, warnings)
			}
			same(t, "addresses", addresses(t, name), "10.7.0.1/24")
			same(t, "routes", routes(t, name), "192.0.2.0/24")
		})
	}
	// No kernel without IPv6 at hand: these are the errnos it answers with.
	for _, errno := range []unix.Errno{unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EACCES} {
		if !missing6(fmt.Errorf("x: %w", errno)) {
			t.Errorf("%v is not taken for a missing IPv6", errno)
		}
	}
	if missing6(unix.EPERM) {
		t.Error("EPERM is taken for a missing IPv6")
	}
}

func TestOpenUnknown(t *testing.T) {
	if _, err := Open("nosuchlink"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("got %v, want ENODEV", err)
	}
}
