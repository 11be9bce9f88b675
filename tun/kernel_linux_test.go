package tun

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
)

// inNamespace moves the rest of the test, and the commands it runs, to a new
// network namespace, which ends with the test's thread.
func inNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal("unshare:", err)
	}
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func uniqueName(prefix string) string { return fmt.Sprintf("%s%d", prefix, os.Getpid()) }

func create(t *testing.T) *Kernel { return createWith(t, Vnet|TSO|USO) }

func createWith(t *testing.T, off Offload) *Kernel {
	t.Helper()
	k, err := Create(uniqueName("t"), Options{MTU: DefaultMTU, Offload: off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// patience bounds what takes a moment; the kernel takes its time to end a namespace.
const patience = 30 * time.Second

// watch returns a function that waits for a state, and the end of Watch.
func watch(t *testing.T, d Device) (await func(what string, ok func(State) bool), ended <-chan error) {
	t.Helper()
	states, end := make(chan State, 100), make(chan error, 1)
	go func() { end <- d.Watch(func(s State) { states <- s }) }()
	return func(what string, ok func(State) bool) {
		t.Helper()
		var last State
		for deadline := time.After(patience); ; {
			select {
			case last = <-states:
				if ok(last) {
					return
				}
			case err := <-end:
				t.Fatalf("waiting for %s: Watch ended: %v", what, err)
			case <-deadline:
				t.Fatalf("waiting for %s: last state %+v", what, last)
			}
		}
	}, end
}

// The main goroutine starts on the process's first thread, and here stays there until
// TestMain.
func init() { runtime.LockOSThread() }

const envNamespace = "WGD_TEST_NAMESPACE" // opens sockets in it from the first thread

func TestMain(m *testing.M) {
	path := os.Getenv(envNamespace)
	if path == "" {
		runtime.UnlockOSThread()
		os.Exit(m.Run())
	}
	ns, err := os.Open(path)
	if err != nil || unix.Gettid() != os.Getpid() {
		fmt.Println(err, "or not on the first thread")
		os.Exit(1)
	}
	// What a goroutine starts goes on, while it waits, on the same thread.
	runtime.UnlockOSThread()
	for range 5 {
		if _, err := socketIn(int(ns.Fd())); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("done")
	io.Copy(io.Discard, os.Stdin)
}

// No thread stays in a namespace in which a socket was opened: it would not end.
func TestNoThreadStaysInAnotherNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		loud.Skip(t, "needs root")
	}
	holder := exec.Command("unshare", "-n", "cat")
	hold, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer hold.Close()
	other := otherNamespace(t, holder.Process.Pid)

	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fmt.Sprintf("%s=/proc/%d/ns/net", envNamespace, holder.Process.Pid))
	in, err1 := child.StdinPipe()
	out, err2 := child.StdoutPipe()
	if err := errors.Join(err1, err2, child.Start()); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "done\n" {
		t.Fatal(line, err)
	}
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		there := 0
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", child.Process.Pid))
		if err != nil || len(threads) == 0 {
			t.Fatal("threads:", threads, err)
		}
		for _, link := range threads {
			if name, err := os.Readlink(link); err == nil && name == other {
				there++
			}
		}
		if there == 0 {
			break
		}
		if time.Since(start) > patience {
			t.Fatalf("%d threads are in the other namespace", there)
		}
	}
}

// otherNamespace waits until a process is in another namespace, and returns its name.
func otherNamespace(t *testing.T, pid int) string {
	t.Helper()
	own, _ := os.Readlink("/proc/self/task/" + fmt.Sprint(unix.Gettid()) + "/ns/net")
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil && name != own {
			return name
		}
		if time.Since(start) > patience {
			t.Fatal("no second namespace")
		}
	}
}

func awaitEnd(t *testing.T, what string, c <-chan error, want error) {
	t.Helper()
	select {
	case err := <-c:
		if err != want {
			t.Fatalf("%s: got %v, want %v", what, err, want)
		}
	case <-time.After(patience):
		t.Fatalf("%s: still waiting after %v", what, patience)
	}
}

func TestWatchFollowsTheInterface(t *testing.T) {
	inNamespace(t)
	k := create(t)
	name := k.Name()
	await, end := watch(t, k)
	await("the first state", func(s State) bool { return s.Name == name && s.Index > 0 && s.MTU == DefaultMTU && !s.Up })
	ip(t, "link", "set", name, "up")
	await("up", func(s State) bool { return s.Up })
	// Up is what the administrator said; the carrier does not matter.
	ip(t, "link", "set", name, "carrier", "off")
	ip(t, "link", "set", name, "mtu", "1380")
	await("MTU 1380", func(s State) bool { return s.MTU == 1380 && s.Up })
	ip(t, "link", "set", name, "carrier", "on")
	if k.MTU() != 1380 {
		t.Errorf("MTU() = %d, want 1380", k.MTU())
	}
	ip(t, "link", "set", name, "down")
	await("down", func(s State) bool { return !s.Up })
	renamed := uniqueName("r")
	ip(t, "link", "set", name, "name", renamed)
	await("the new name", func(s State) bool { return s.Name == renamed })
	if k.Name() != renamed {
		t.Errorf("Name() = %q, want %q", k.Name(), renamed)
	}
	// Another interface with the old name is none of our business.
	ip(t, "link", "add", name, "type", "veth")
	ip(t, "link", "set", name, "up", "mtu", "1234")
	ip(t, "link", "del", name)
	ip(t, "link", "set", renamed, "mtu", "1400", "up")
	await("events of ours alone", func(s State) bool {
		if s.MTU == 1234 {
			t.Fatal("followed another interface")
		}
		return s.MTU == 1400 && s.Up
	})
	ip(t, "link", "del", renamed)
	awaitEnd(t, "Watch after ip link del", end, ErrRemoved)
}

func TestRemovalEndsAParkedDrain(t *testing.T) {
	inNamespace(t)
	k := create(t)
	ip(t, "link", "set", k.Name(), "up")
	end := make(chan error, 1)
	s := NewSuper()
	go func() {
		end <- k.Drain(func() bool {
			for {
				ok, err := k.TryRead(s)
				if !ok || err != nil {
					return err == nil
				}
			}
		})
	}()
	watchEnd := make(chan error, 1)
	go func() { watchEnd <- k.Watch(func(State) {}) }()
	time.Sleep(20 * time.Millisecond) // most of the time it is parked by now; it must work either way
	ip(t, "link", "del", k.Name())
	awaitEnd(t, "Watch", watchEnd, ErrRemoved)
	awaitEnd(t, "Drain", end, ErrRemoved)
	if _, err := k.file.Write([]byte{0x45}); err == nil {
		t.Error("write to a removed interface succeeded")
	}
}

func TestCloseEndsDrainAndWatch(t *testing.T) {
	inNamespace(t)
	k := create(t)
	name := k.Name()
	await, watchEnd := watch(t, k)
	await("the first state", func(State) bool { return true })
	drainEnd := make(chan error, 1)
	go func() {
		s := NewSuper()
		drainEnd <- k.Drain(func() bool { _, err := k.TryRead(s); return err == nil })
	}()
	time.Sleep(20 * time.Millisecond)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, "Watch", watchEnd, nil)
	awaitEnd(t, "Drain", drainEnd, nil)
	if out, err := exec.Command("ip", "link", "show", name).CombinedOutput(); err == nil {
		t.Errorf("the interface survived Close: %s", out)
	}
	if err := k.Drain(func() bool { t.Error("f called after Close"); return false }); err != nil {
		t.Errorf("Drain after Close: %v", err)
	}
	if err := k.Watch(func(State) { t.Error("f called after Close") }); err != nil {
		t.Errorf("Watch after Close: %v", err)
	}
}

// More events than the socket holds: those that are lost do not matter, for the
// state is asked for anew.
func TestWatchSurvivesLostEvents(t *testing.T) {
	inNamespace(t)
	k := create(t)
	var batch strings.Builder
	for i := range 600 {
		fmt.Fprintf(&batch, "link set %s mtu %d\n", k.Name(), 1300+i%2)
	}
	fmt.Fprintf(&batch, "link set %s mtu 1350 up\n", k.Name())
	flood := exec.Command("ip", "-batch", "-")
	flood.Stdin = strings.NewReader(batch.String())
	if out, err := flood.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	await, _ := watch(t, k)
	await("the last state", func(s State) bool { return s.MTU == 1350 && s.Up })
}

// An interface that moves to another namespace, as a container's does, is
// followed there.
func TestWatchFollowsToAnotherNamespace(t *testing.T) {
	inNamespace(t)
	k := create(t)
	name := k.Name()
	await, end := watch(t, k)
	await("the first state", func(s State) bool { return s.Name == name })

	holder := exec.Command("unshare", "-n", "cat")
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer in.Close()
	otherNamespace(t, holder.Process.Pid)
	pid := fmt.Sprint(holder.Process.Pid)
	there := func(args ...string) {
		t.Helper()
		args = append([]string{"-t", pid, "-n", "ip"}, args...)
		if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
			t.Fatalf("nsenter %v: %v\n%s", args, err, out)
		}
	}
	ip(t, "link", "set", name, "netns", pid)
	there("link", "set", name, "mtu", "1333")
	await("the MTU set there", func(s State) bool { return s.MTU == 1333 })
	there("link", "set", name, "up")
	await("up there", func(s State) bool { return s.Up })
	there("link", "set", name, "down")
	await("down there", func(s State) bool { return !s.Up })
	// The namespace ends with its last process, and the interface with it.
	in.Close()
	holder.Wait()
	// The kernel ends namespaces one after the other, in its own time.
	select {
	case err := <-end:
		if err != ErrRemoved {
			t.Errorf("Watch after the end of the namespace: %v, want %v", err, ErrRemoved)
		}
	case <-time.After(5 * patience):
		t.Error("Watch goes on after the end of the namespace")
	}
}

// packet4 returns an IPv4 UDP packet without checksums beyond the header's.
func packet4(src, dst [4]byte, payload []byte) []byte {
	p := make([]byte, 28, 28+len(payload))
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(p[2:], uint16(28+len(payload)))
	copy(p[12:], src[:])
	copy(p[16:], dst[:])
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(p[20:], 9)
	binary.BigEndian.PutUint16(p[22:], 9000)
	binary.BigEndian.PutUint16(p[24:], uint16(8+len(payload)))
	return append(p, payload...)
}

// withSocket brings the interface up with an address and returns a UDP socket
// on it, bound to port 9000.
// withHeadroom returns a packet as Write takes it.
func withHeadroom(packet []byte) []byte { return append(make([]byte, Headroom), packet...) }

func withSocket(t *testing.T, k *Kernel) *net.UDPConn {
	t.Helper()
	ip(t, "link", "set", "lo", "up")
	ip(t, "address", "add", "10.1.0.1/24", "dev", k.Name())
	ip(t, "link", "set", k.Name(), "up")
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 9000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestPacketsPassBothWays(t *testing.T) {
	for _, off := range []Offload{0, Vnet, Vnet | TSO | USO} {
		t.Run(fmt.Sprintf("offloads %b", off), func(t *testing.T) { testPacketsPassBothWays(t, off) })
	}
}

func testPacketsPassBothWays(t *testing.T, off Offload) {
	inNamespace(t)
	k := createWith(t, off)
	c := withSocket(t, k)

	if err := k.Write(withHeadroom(packet4([4]byte{10, 1, 0, 2}, [4]byte{10, 1, 0, 1}, []byte("in")))); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2000)
	c.SetReadDeadline(time.Now().Add(patience))
	n, from, err := c.ReadFromUDP(buf)
	if err != nil || string(buf[:n]) != "in" || from.String() != "10.1.0.2:9" {
		t.Fatalf("the socket got %q from %v, %v", buf[:n], from, err)
	}

	// Three packets wait; a batch of one at a time must see all of them without
	// another wakeup.
	s := NewSuper()
	for i := range 3 {
		if _, err := c.WriteToUDP([]byte{'o', byte('0' + i)}, &net.UDPAddr{IP: net.IPv4(10, 1, 0, 2), Port: 9}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	end := make(chan error, 1)
	go func() {
		end <- k.Drain(func() bool {
			ok, err := k.TryRead(s)
			if !ok || err != nil {
				return err == nil
			}
			if p := s.Next(); len(p) > 28 && p[0]>>4 == 4 && p[9] == unix.IPPROTO_UDP {
				got = append(got, string(p[28:]))
			}
			return len(got) < 3
		})
	}()
	awaitEnd(t, "Drain", end, nil)
	if fmt.Sprint(got) != "[o0 o1 o2]" {
		t.Errorf("read %q", got)
	}

	ip(t, "link", "set", k.Name(), "down")
	if err := k.Write(withHeadroom(packet4([4]byte{10, 1, 0, 2}, [4]byte{10, 1, 0, 1}, nil))); !errors.Is(err, syscall.EIO) {
		t.Errorf("write while down: %v, want EIO", err)
	}
}

func TestReadAndWriteDoNotAllocate(t *testing.T) {
	for _, off := range []Offload{0, Vnet | TSO | USO | UGRO} {
		t.Run(fmt.Sprintf("offloads %b", off), func(t *testing.T) { testReadAndWriteDoNotAllocate(t, off) })
	}
}

func testReadAndWriteDoNotAllocate(t *testing.T, off Offload) {
	inNamespace(t)
	k := createWith(t, off)
	c := withSocket(t, k)
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	out, to := []byte("out"), &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 1, 0, 2}}
	in := withHeadroom(packet4([4]byte{10, 1, 0, 2}, [4]byte{10, 1, 0, 1}, []byte("in")))
	in2 := slices.Clone(in)
	s := NewSuper()

	sendOne := func() {
		raw.Control(func(fd uintptr) {
			if err := unix.Sendto(int(fd), out, 0, to); err != nil {
				t.Error(err)
			}
		})
	}
	base := testing.AllocsPerRun(200, sendOne)
	read := 0
	f := func() bool {
		for {
			ok, err := k.TryRead(s)
			if !ok || err != nil {
				return false
			}
			read++
		}
	}
	if err := k.Drain(f); err != nil || read == 0 {
		t.Fatalf("%d packets read, %v", read, err)
	}
	read = 0
	got := testing.AllocsPerRun(200, func() {
		sendOne()
		f()
		if err := k.Write(in); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(k.Gather(in), k.Gather(in2), k.Flush()); err != nil {
			t.Fatal(err)
		}
	})
	if got != base || read < 200 {
		t.Errorf("%v allocations for a read and a write, %d packets read", got-base, read)
	}
}

func TestCreateRefuses(t *testing.T) {
	for _, name := range []string{"", "sixteen-bytes-xx", "a/b", "a b", "a:b", "wg%d", ".", "..", "a\x00b", "a\nb"} {
		if k, err := Create(name, Options{MTU: DefaultMTU}); err == nil {
			k.Close()
			t.Errorf("name %q was accepted", name)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("name %q: the error has several lines: %v", name, err)
		}
	}
	inNamespace(t)
	k := create(t)
	if _, err := Create(k.Name(), Options{MTU: DefaultMTU}); err == nil || !strings.Contains(err.Error(), "name in use") {
		t.Errorf("an interface in use: %v", err)
	}
	dummy := uniqueName("d")
	ip(t, "link", "add", dummy, "type", "veth")
	if _, err := Create(dummy, Options{MTU: DefaultMTU}); err == nil || !strings.Contains(err.Error(), "name in use") {
		t.Errorf("an interface of another type: %v", err)
	}
	if _, err := Create(uniqueName("m"), Options{MTU: 1 << 30}); err == nil || !strings.Contains(err.Error(), "MTU") {
		t.Errorf("an impossible MTU: %v", err)
	}
	if out := ip(t, "link"); strings.Contains(out, uniqueName("m")) {
		t.Errorf("left behind: %s", out)
	}
}

func TestAttachToAPersistentInterface(t *testing.T) {
	inNamespace(t)
	name := uniqueName("p")
	ip(t, "tuntap", "add", name, "mode", "tun", "vnet_hdr")
	before := ip(t, "-br", "link", "show", name)
	k, err := Create(name, Options{MTU: 1380})
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
	if out := ip(t, "link", "show", name); !strings.Contains(out, "mtu 1380") || strings.Split(before, " ")[0] != name {
		t.Errorf("after Close: %s", out)
	}
}

func TestFromFD(t *testing.T) {
	inNamespace(t)
	k := create(t)
	ip(t, "link", "set", k.Name(), "mtu", "1300")
	fd, err := unix.Dup(int(k.File().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	k2, err := FromFD(fd, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer k2.Close()
	if k2.Name() != k.Name() || k2.MTU() != 1300 {
		t.Errorf("got %s with MTU %d", k2.Name(), k2.MTU())
	}
	// Events of other interfaces may come before our own state.
	ip(t, "link", "add", uniqueName("w"), "type", "veth", "peer", "name", uniqueName("x"))
	await, _ := watch(t, k2)
	await("the first state", func(s State) bool {
		if s.Name != k.Name() {
			t.Fatalf("the first state is of %s", s.Name)
		}
		return s.MTU == 1300
	})
	null, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FromFD(null, 0); err == nil {
		t.Error("/dev/null passed for a TUN")
	}
}
