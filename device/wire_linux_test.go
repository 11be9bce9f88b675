package device

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"wgd/conf"
	"wgd/noise"
	"wgd/tun"
)

// real makes a device on a host with a TUN and sockets of the kernel. Its inner
// address is on the interface, which is up.
func (h *host) real(t *testing.T, private noise.PrivateKey, inner string, off Offload) *Device {
	t.Helper()
	var k *tun.Kernel
	var err error
	h.do(func() { k, err = tun.Create("wg0", tun.Options{MTU: tun.DefaultMTU, Offload: off.Tun()}) })
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(Options{Tun: k, Offload: off, Log: NewLogger(t.Output(), inner, LogVerbose)})
	if d.clock, err = newBootClock(); err != nil {
		t.Fatal(err)
	}
	d.listen = func(port uint16, mark uint32, off Offload) (v4, v6 conn, actual uint16, err error) {
		h.do(func() {
			v4, v6, actual, err = listenUDP(port, mark, udpOptions{offload: off, log: d.log, budget: d.budget})
		})
		return
	}
	d.start()
	t.Cleanup(d.Close)
	key, port := conf.Key(private), uint16(worldPort)
	if err := d.Configure(&conf.Update{PrivateKey: &key, ListenPort: &port}); err != nil {
		t.Fatal(err)
	}
	h.ip("addr add " + inner + "/24 dev wg0")
	h.ip("link set wg0 up")
	return d
}

// realTunnel is of real interfaces and sockets:
//
//	we: app 10.0.0.1 — wg0 — w0 10.9.0.1 ——— 10.9.0.2 f0 — wg0 — 10.0.0.2 app :far
func realTunnel(t *testing.T, off Offload) (we, far *host, ours *Device) {
	t.Helper()
	we, far = twoHosts(t)
	x, y := noise.PrivateKey{1: 3}, noise.PrivateKey{1: 4}
	x.Clamp()
	y.Clamp()
	a, b := we.real(t, x, "10.0.0.1", off), far.real(t, y, "10.0.0.2", off)
	there := netip.MustParseAddrPort("10.9.0.2:51820")
	for _, of := range []struct {
		d *Device
		p conf.PeerUpdate
	}{
		{b, conf.PeerUpdate{PublicKey: conf.Key(x.Public()), AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("10.0.0.1/32")}}}},
		{a, conf.PeerUpdate{PublicKey: conf.Key(y.Public()), AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("10.0.0.2/32")}}, Endpoint: &there}},
	} {
		if err := of.d.Configure(&conf.Update{Peers: []conf.PeerUpdate{of.p}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []*Device{a, b} { // the hosts' threads are needed for that
		eventually(t, func() bool { return d.bind.Load() != nil })
	}
	return we, far, a
}

// A03: TCP through the tunnel, where the outer route has a small MTU and where not.
func TestUDPTunnelOverASmallMTU(t *testing.T) {
	we, far, a := realTunnel(t, OffloadAll)
	var l net.Listener
	var err error
	far.do(func() { l, err = net.Listen("tcp", "10.0.0.2:9000") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const size = 8 << 20
	transfer := func() time.Duration {
		t.Helper()
		begin := time.Now()
		sum := make(chan [sha256.Size]byte, 1)
		go func() {
			var got [sha256.Size]byte
			defer func() { sum <- got }()
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetReadDeadline(begin.Add(6 * patience))
			h := sha256.New()
			if n, err := io.Copy(h, c); n != size {
				t.Errorf("received %d bytes of %d: %v", n, size, err)
			}
			got = [sha256.Size]byte(h.Sum(nil))
		}()
		var c net.Conn
		we.do(func() { c, err = net.DialTimeout("tcp", "10.0.0.2:9000", patience) })
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, size)
		for i := 0; i < size; i += 8 {
			binary.LittleEndian.PutUint64(data[i:], uint64(i)*0x9e3779b97f4a7c15)
		}
		c.SetWriteDeadline(begin.Add(6 * patience))
		if _, err := c.Write(data); err != nil {
			t.Error(err)
		}
		c.Close()
		if got := <-sum; got != sha256.Sum256(data) {
			t.Error("something else arrived")
		}
		return time.Since(begin)
	}
	transfer() // the session, and the slow start
	wide := transfer()
	out := &a.bind.Load().v4.(*udpConn).out
	out.mu.Lock()
	if !out.paths.works {
		t.Error("segments do not go together")
	}
	out.mu.Unlock()
	we.ip("route add 10.9.0.2/32 dev w0 mtu 1280")
	narrow := transfer()
	t.Logf("%d bytes in %v, over an MTU of 1280 in %v", size, wide, narrow)
	// The route has been asked since: TCP is cut so that nothing is fragmented.
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		to := &endpoint{addr: netip.MustParseAddrPort("10.9.0.2:51820")}
		if n := a.bind.Load().v4.fits(to); n == 1280-28 {
			break
		} else if time.Since(begin) > patience {
			t.Fatalf("messages of %d bytes are believed to fit", n)
		}
	}
	before := we.fragments(t)
	t.Logf("then in %v", transfer())
	if n := we.fragments(t) - before; n > size/1400/20 {
		t.Errorf("%d fragments were sent", n)
	}
	// What is lost by going one by one: wireguard-go would take 20 minutes.
	if narrow > 10*wide+time.Second {
		t.Errorf("%d bytes in %v, over an MTU of 1280 in %v", size, wide, narrow)
	}
}

// fragments returns how many IPv4 fragments the host has made.
func (h *host) fragments(t *testing.T) (n int) {
	t.Helper()
	h.do(func() {
		b, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			t.Error(err)
			return
		}
		var names []string
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			switch {
			case f[0] != "Ip:":
			case names == nil:
				names = f
			default:
				n, err = strconv.Atoi(f[slices.Index(names, "FragCreates")])
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
	return n
}

// Packets that pass real interfaces and sockets allocate nothing.
func TestNoAllocationsOnTheWire(t *testing.T) {
	for _, off := range []Offload{0, OffloadAll} {
		noAllocationsOnTheWire(t, off)
	}
}

func noAllocationsOnTheWire(t *testing.T, off Offload) {
	we, far, a := realTunnel(t, off)
	app, echo := we.dial("10.0.0.1:9001", "10.0.0.2:9002"), far.dial("10.0.0.2:9002", "10.0.0.1:9001")
	go func() {
		buf := make([]byte, 2000)
		for {
			n, err := echo.Read(buf)
			if err != nil {
				return
			}
			echo.Write(buf[:n])
		}
	}()
	buf := make([]byte, 2000)
	round := func(packets, size int) {
		app.SetReadDeadline(time.Now().Add(patience))
		for range packets {
			if _, err := app.Write(buf[:size]); err != nil {
				t.Fatal(err)
			}
		}
		for range packets {
			if _, err := app.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 { // the session, and what is made only once
		round(16, 1000)
	}
	const rounds, packets = 150, 16
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range rounds {
		round(packets, 1+i*9) // up to 1,342 bytes
	}
	runtime.ReadMemStats(&after)
	n := after.Mallocs - before.Mallocs
	t.Logf("%d allocations while %d packets passed each way", n, rounds*packets)
	if n > rounds*packets/20 {
		t.Errorf("%d allocations while %d packets passed each way", n, rounds*packets)
	}
	if p := a.State().Peers[0]; p.RxBytes < rounds*packets*(32+28+600) {
		t.Errorf("only %d bytes received", p.RxBytes)
	}
}

// On one core both sockets may have more than they can do at the same time.
func TestBothSocketsGiveWay(t *testing.T) {
	we, _ := twoHosts(t)
	var k *tun.Kernel
	var err error
	we.do(func() { k, err = tun.Create("wg9", tun.Options{MTU: tun.DefaultMTU, Offload: OffloadAll.Tun()}) })
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(Options{Tun: k, Budget: testBudget})
	if d.clock, err = newBootClock(); err != nil {
		t.Fatal(err)
	}
	d.oneCore = true
	d.start()
	defer d.Close()
	var wg sync.WaitGroup
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			q := new(pressure)
			junk := []datagram{{data: make([]byte, 40)}}
			for range 200 {
				d.received(junk, true, q)
			}
		}()
	}
	wg.Wait()
}
