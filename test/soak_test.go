package test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wgd/conf"
	"wgd/device"
	"wgd/tun"
)

// soakTime is how long a soak lasts: short, or with WGD_SOAK set half an hour, or as
// many minutes as WGD_SOAK_MINUTES says.
func soakTime(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	if os.Getenv("WGD_SOAK") == "" {
		return short
	}
	minutes := 30
	if s := os.Getenv("WGD_SOAK_MINUTES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("WGD_SOAK_MINUTES=%s: %v", s, err)
		}
		minutes = n
	}
	return time.Duration(minutes) * time.Minute
}

// fds is how many descriptors a process has open.
func fds(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A stream is a TCP connection over which bytes go that are checked, for as long as a
// test lasts.
type stream struct {
	arrived atomic.Int64 // bytes
	err     atomic.Pointer[error]
}

// stream sends rate bytes a second from h to addr on another host.
func (h *host) stream(to *host, addr string, rate int) *stream {
	h.t.Helper()
	s := new(stream)
	fail := func(what string, err error) {
		err = fmt.Errorf("%s after %d bytes: %w", what, s.arrived.Load(), err)
		s.err.CompareAndSwap(nil, &err)
	}
	var l net.Listener
	var c net.Conn
	var err error
	to.do(func() { l, err = net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr(addr), 0).String()) })
	if err != nil {
		h.t.Fatal(err)
	}
	h.do(func() { c, err = net.DialTimeout("tcp", l.Addr().String(), 20*time.Second) })
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := l.Accept()
	if err != nil {
		h.t.Fatal(err)
	}
	l.Close()
	var closing atomic.Bool
	h.t.Cleanup(func() {
		closing.Store(true)
		c.Close()
		r.Close()
	})
	const chunk = 16 << 10
	go func() {
		source, buf := rand.NewChaCha8([32]byte{2}), make([]byte, chunk)
		tick := time.NewTicker(time.Second * chunk / time.Duration(rate))
		defer tick.Stop()
		for range tick.C {
			source.Read(buf)
			if _, err := c.Write(buf); err != nil {
				if !closing.Load() {
					fail("write", err)
				}
				return
			}
		}
	}()
	go func() {
		source, buf, want := rand.NewChaCha8([32]byte{2}), make([]byte, chunk), make([]byte, chunk)
		for {
			if _, err := io.ReadFull(r, buf); err != nil {
				if !closing.Load() {
					fail("read", err)
				}
				return
			}
			if source.Read(want); !bytes.Equal(buf, want) {
				fail("content", fmt.Errorf("other bytes than were sent"))
				return
			}
			s.arrived.Add(chunk)
		}
	}()
	return s
}

// check waits until more has arrived.
func (s *stream) check(t *testing.T, what string) {
	t.Helper()
	before := s.arrived.Load()
	eventually(t, 60*time.Second, what+": TCP goes on", func() bool {
		if err := s.err.Load(); err != nil {
			t.Fatalf("%s: %v", what, *err)
		}
		return s.arrived.Load() > before+256<<10
	})
}

// A usage is what a daemon has of what must not grow.
type usage struct {
	rss          int64
	fds, threads int
}

func (d *daemon) usage() usage {
	d.t.Helper()
	return usage{d.rss(), fds(d.t, d.pid()), int(d.status("Threads"))}
}

// While peers come and go, links flap, MTUs and ports change and TCP runs, the daemons
// do not grow.
func TestSoak(t *testing.T) {
	const (
		rssBound = 12_000_000
		growth   = 1 * MiB // of the second half over the first
		rate     = 2_000_000
	)
	length := soakTime(t, 12*time.Second)
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	ends := []*end{tun.a, tun.b}
	tun.a.ping(tun.b.inner4, 2)
	there := tun.a.stream(tun.b.host, tun.b.inner4, rate)
	back := tun.b.stream(tun.a.host, tun.a.inner4, rate)
	random := rand.New(rand.NewPCG(5, 6))

	churn := map[*end][]string{} // peers that were added
	addPeers := func(e *end) {
		var lines strings.Builder
		for len(churn[e]) > 200 {
			fmt.Fprintf(&lines, "public_key=%s\nremove=true\n", churn[e][0])
			churn[e] = churn[e][1:]
		}
		for range 20 {
			key, n := asHex(newKey().public), random.Uint32()
			fmt.Fprintf(&lines, "public_key=%s\npreshared_key=%s\nendpoint=192.0.2.%d:%d\npersistent_keepalive_interval=%d\nallowed_ip=10.%d.%d.0/24\nallowed_ip=fd00:%x::/64\n",
				key, asHex(newPSK()), 3+n%200, 1+n%60000, n%3, 1+n>>8&127, n&255, n&0xffff)
			churn[e] = append(churn[e], key)
		}
		e.set(lines.String())
	}
	removePeers := func(e *end) {
		var lines strings.Builder
		for _, key := range churn[e] {
			fmt.Fprintf(&lines, "public_key=%s\nremove=true\n", key)
		}
		churn[e] = nil
		e.set(lines.String())
	}
	flap := func(e *end, device string) {
		e.ip("link set " + device + " down")
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		e.ip("link set " + device + " up")
	}
	ports := 0
	step := func(i int) {
		e := ends[random.IntN(2)]
		addPeers(e)
		switch {
		case i%32 == 5:
			flap(e, e.ifname)
		case i%16 == 9:
			flap(e, linkDev)
		case i%64 == 33:
			// a moves; b learns it
			ports++
			tun.a.set(fmt.Sprintf("listen_port=%d\n", 40000+ports%1000))
		case i%4 == 0:
			e.ip(fmt.Sprintf("link set %s mtu %d", e.ifname, 1280+random.IntN(141)))
		case i%4 == 2:
			e.wg("show", "{if}")
		}
	}
	// rest returns what the daemons have when nothing happens.
	rest := func() (at [2]usage) {
		for i, e := range ends {
			removePeers(e)
			there.check(t, "a to b")
			back.check(t, "b to a")
			at[i] = e.usage()
		}
		return at
	}

	var first, second [2]usage // the most of each half
	most := func(at *usage, u usage) {
		at.rss, at.fds, at.threads = max(at.rss, u.rss), max(at.fds, u.fds), max(at.threads, u.threads)
	}
	var warm [2]usage
	start, reported := time.Now(), 0
	for i := 0; time.Since(start) < length; i++ {
		step(i)
		elapsed := time.Since(start)
		if warm[0].rss == 0 && elapsed > length/8 {
			warm = rest()
		}
		for j, e := range ends {
			switch u := e.usage(); {
			case elapsed < length/8:
			case elapsed < length/2:
				most(&first[j], u)
			default:
				most(&second[j], u)
			}
		}
		if minutes := int(elapsed.Minutes()); minutes > reported {
			reported = minutes
			t.Logf("%d min, %d steps: a %+v, b %+v; %d and %d MB over TCP", minutes, i, tun.a.usage(), tun.b.usage(), there.arrived.Load()>>20, back.arrived.Load()>>20)
		}
		time.Sleep(50 * time.Millisecond) // a rate, not a wait
	}
	last := rest()
	for j, e := range ends {
		t.Logf("%s: first half %+v, second %+v; at rest %+v, then %+v", e.ifname, first[j], second[j], warm[j], last[j])
		if second[j].rss > first[j].rss+growth || second[j].rss > rssBound {
			t.Errorf("%s: RSS %d bytes in the first half, %d in the second; may grow by %d, to %d", e.ifname, first[j].rss, second[j].rss, growth, rssBound)
		}
		if last[j].fds > warm[j].fds {
			t.Errorf("%s: %d descriptors at rest, then %d", e.ifname, warm[j].fds, last[j].fds)
		}
		if last[j].threads > warm[j].threads+4 {
			t.Errorf("%s: %d threads, then %d", e.ifname, warm[j].threads, last[j].threads)
		}
		if n := strings.Count(e.stderr.String(), "\n"); n > 20 {
			t.Errorf("%s: %d lines logged", e.ifname, n)
		}
	}
}

// The same from within: goroutines, heap and descriptors of a device on loopback whose
// interface flaps, whose MTU, port and key change, and whose peers come and go.
func TestSoakInside(t *testing.T) {
	length := soakTime(t, 4*time.Second) / 4
	if c, err := net.ListenUDP("udp", nil); err == nil {
		c.Close() // the poller of Go stays
	}
	goroutines := runtime.NumGoroutine()
	descriptors := fds(t, os.Getpid())

	type node struct {
		tun *tun.Memory
		*device.Device
		key keypair
	}
	var nodes [2]*node
	for i := range nodes {
		n := &node{tun: tun.NewMemory(fmt.Sprintf("wgsoak%d", i), 1420), key: newKey()}
		var err error
		if n.Device, err = device.New(device.Options{Tun: n.tun, Offload: device.OffloadAll}); err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		nodes[i] = n
		go func() { // the system's side
			for {
				select {
				case <-n.tun.Captured():
				case <-n.Wait():
					return
				}
			}
		}()
		n.tun.SetUp(true)
		private := conf.Key(n.key.secret.Bytes())
		if err := n.Configure(&conf.Update{PrivateKey: &private}); err != nil {
			t.Fatal(err)
		}
	}
	public := func(n *node) conf.Key { return conf.Key(n.key.secret.PublicKey().Bytes()) }
	prefix := netip.MustParsePrefix("10.0.0.0/8")
	meet := func() {
		for i, n := range nodes {
			other := nodes[1-i]
			eventually(t, 10*time.Second, "a port", func() bool { return other.State().ListenPort != 0 })
			to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), other.State().ListenPort)
			if err := n.Configure(&conf.Update{Peers: []conf.PeerUpdate{{PublicKey: public(other), Endpoint: &to, AllowedIPs: []conf.AllowedIP{{Prefix: prefix}}}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	meet()
	random := rand.New(rand.NewPCG(7, 8))
	packet := make([]byte, 1000) // from and to 10.0.0.0
	packet[0], packet[2], packet[3], packet[12], packet[16] = 0x45, 1000>>8, 1000&255, 10, 10
	step := func(i int) {
		n := nodes[i%2]
		for range 20 {
			n.tun.Inject(packet)
		}
		u := &conf.Update{}
		for range 10 {
			to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 9)
			keepalive := uint16(i & 1)
			u.Peers = append(u.Peers, conf.PeerUpdate{PublicKey: conf.Key{byte(random.IntN(100)), 1}, Endpoint: &to, PersistentKeepalive: &keepalive,
				Remove: random.IntN(2) == 0, AllowedIPs: []conf.AllowedIP{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(random.IntN(9))}), 24)}}})
		}
		switch i % 8 {
		case 1:
			n.tun.SetUp(false)
			n.tun.SetUp(true)
		case 3:
			n.tun.SetMTU(1280 + random.IntN(141))
		case 5:
			u.ListenPort = new(uint16) // another that is free
		case 7:
			n.key = newKey()
			private := conf.Key(n.key.secret.Bytes())
			u.PrivateKey = &private
			u.ReplacePeers = true
		}
		if err := n.Configure(u); err != nil {
			t.Fatal(err)
		}
		if i%8 == 5 || i%8 == 7 {
			meet()
		}
	}
	received := func(n *node) (bytes uint64) {
		for _, p := range n.State().Peers {
			bytes += p.RxBytes
		}
		return bytes
	}
	// rest comes to where nothing happens, but that a tunnel works.
	rest := func() {
		for _, n := range nodes {
			if err := n.Configure(&conf.Update{ReplacePeers: true}); err != nil {
				t.Fatal(err)
			}
		}
		meet()
		for i, n := range nodes {
			before := received(nodes[1-i])
			// Flaps may still be on their way, and after each a handshake may wait 5 s.
			eventually(t, 60*time.Second, "packets arrive", func() bool {
				n.tun.Inject(packet)
				return received(nodes[1-i]) > before+10_000
			})
		}
	}
	type inside struct {
		heap                    int64
		goroutines, descriptors int
	}
	now := func() inside {
		runtime.GC()
		runtime.GC() // what finalizers and pools held
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return inside{int64(m.HeapAlloc), runtime.NumGoroutine(), fds(t, os.Getpid())}
	}
	run := func(d time.Duration) (steps int) {
		for start := time.Now(); time.Since(start) < d; steps++ {
			step(steps)
		}
		return steps
	}
	run(length / 4)
	rest()
	before := now()
	steps := run(length)
	rest()
	const growth = 256 << 10
	var after inside
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) { // packets may be on their way
		after = now()
		if after.heap <= before.heap+growth && after.goroutines <= before.goroutines && after.descriptors <= before.descriptors {
			break
		}
		if time.Now().After(end) {
			t.Errorf("more than before: a heap that may grow by %d, goroutines or descriptors", growth)
			break
		}
	}
	t.Logf("%d steps: %+v, then %+v", steps, before, after)
	for _, n := range nodes {
		n.Close()
	}
	eventually(t, 10*time.Second, "all goroutines and descriptors are gone", func() bool {
		return runtime.NumGoroutine() <= goroutines && fds(t, os.Getpid()) <= descriptors
	})
}
