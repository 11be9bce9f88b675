package seccomp_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"wgd/internal/seccomp"
)

func TestRules(t *testing.T) {
	udpGRO := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1) }
	rcvbuf := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<16) }
	memfd := func(int) error { _, err := unix.MemfdCreate("", 0); return err }
	offload := func(bits int) func(int) error {
		// EBADFD is the answer of a /dev/net/tun without an interface.
		return func(int) error {
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, bits)
		}
	}
	ipv6 := func(int) error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
		unix.Close(fd)
		return err
	}
	write := func(int) error { _, err := unix.Write(-1, []byte("x")); return err }
	for _, c := range []struct {
		rules []seccomp.Rule
		name  string
		call  func(fd int) error
		want  error
	}{
		{[]seccomp.Rule{"memfd_create=ENOSYS"}, "the call", memfd, unix.ENOSYS},
		{[]seccomp.Rule{"memfd_create=ENOSYS"}, "another call", rcvbuf, nil},
		{[]seccomp.Rule{"setsockopt:17:104=ENOPROTOOPT"}, "its option", udpGRO, unix.ENOPROTOOPT},
		{[]seccomp.Rule{"setsockopt:17:104=ENOPROTOOPT"}, "another option", rcvbuf, nil},
		{[]seccomp.Rule{"setsockopt:17:103=ENOPROTOOPT"}, "another option of the level", udpGRO, nil},
		{[]seccomp.Rule{"setsockopt:17=EPERM"}, "its level", udpGRO, unix.EPERM},
		{[]seccomp.Rule{"setsockopt:*:104=EPERM"}, "any level", udpGRO, unix.EPERM},
		{[]seccomp.Rule{"setsockopt:*:104=EPERM"}, "any level, another option", rcvbuf, nil},
		{[]seccomp.Rule{"sendmmsg=ENOSYS", "setsockopt:17:104=EPERM", "memfd_create=EMFILE"}, "the second of three", udpGRO, unix.EPERM},
		{[]seccomp.Rule{"sendmmsg=ENOSYS", "setsockopt:17:104=EPERM", "memfd_create=EMFILE"}, "the last of three", memfd, unix.EMFILE},
		{[]seccomp.Rule{"ioctl:0x400454d0:&0x60=EINVAL"}, "one of the bits", offload(0x21), unix.EINVAL},
		{[]seccomp.Rule{"ioctl:0x400454d0:&0x60=EINVAL"}, "other bits", offload(0x11), unix.EBADFD},
		{[]seccomp.Rule{"setsockopt:17:104+=EDOM"}, "the least of its options", udpGRO, unix.EDOM},
		{[]seccomp.Rule{"setsockopt:17:105+=EDOM"}, "a smaller option", udpGRO, nil},
		{[]seccomp.Rule{seccomp.Rule(fmt.Sprintf("%d+=ENOSYS", unix.SYS_MEMFD_CREATE-1))}, "a greater call", memfd, unix.ENOSYS},
		{[]seccomp.Rule{seccomp.Rule(fmt.Sprintf("%d+=ENOSYS", unix.SYS_MEMFD_CREATE+1))}, "a smaller call", memfd, nil},
		{[]seccomp.Rule{"socket:10=EAFNOSUPPORT"}, "a family", ipv6, unix.EAFNOSUPPORT},
		{[]seccomp.Rule{"socket:2=EAFNOSUPPORT"}, "another family", ipv6, nil},
		{[]seccomp.Rule{seccomp.Rule(fmt.Sprintf("%d:0xffffffff=0", unix.SYS_WRITE))}, "a call by number that seems to succeed", write, nil},
	} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got error
		if err := seccomp.Do(c.rules, func() { got = c.call(fd) }); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%v: %s: got %v, want %v", c.rules, c.name, got, c.want)
		}
		unix.Close(fd)
	}
	if _, err := unix.MemfdCreate("", 0); err != nil {
		t.Errorf("a filter is left on another thread: %v", err)
	}
}

func TestBadRules(t *testing.T) {
	for _, r := range []seccomp.Rule{"", "sendmmsg", "sendmmsg=", "sendmmsg=EWHAT", "nosuchcall=ENOSYS", "ioctl:x=EINVAL", "ioctl:&=EINVAL", "ioctl:+=EINVAL", "ioctl:&1+=EINVAL", "+=ENOSYS", "socket:1:2:3:4:5:6:7=EINVAL"} {
		if err := seccomp.Do([]seccomp.Rule{r}, func() { t.Errorf("rule %q: f was called", r) }); err == nil {
			t.Errorf("rule %q: no error", r)
		}
	}
}

// What is executed lives under the rules, all of its threads.
func TestExec(t *testing.T) {
	const env = "SECCOMP_TEST"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{self, "-test.run=^TestExec$"}
	switch os.Getenv(env) {
	case "": // the test
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), env+"=exec")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	case "exec": // its child
		os.Setenv(env, "check")
		t.Fatal(seccomp.Exec([]seccomp.Rule{"memfd_create=EDOM"}, argv))
	case "check": // what that executes
		for range 4 {
			done := make(chan error)
			go func() {
				runtime.LockOSThread() // a thread of its own, that ends
				_, err := unix.MemfdCreate("", 0)
				done <- err
			}()
			if err := <-done; err != unix.EDOM {
				t.Fatalf("memfd_create: %v, want EDOM", err)
			}
		}
	}
}
