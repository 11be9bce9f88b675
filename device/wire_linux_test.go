package device

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"wgd/conf"
	"wgd/noise"
	"wgd/tun"
)

// real makes a device on a host with a TUN and sockets of the kernel. Its inner
// address is on the interface, which is up.
func (h *host) real(t *testing.T, private noise.PrivateKey, inner string) *Device {
	t.Helper()
	var k *tun.Kernel
	var err error
	h.do(func() { k, err = tun.Create("wg0", tun.Options{MTU: tun.DefaultMTU}) })
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(Options{Tun: k, Log: NewLogger(t.Output(), inner, LogVerbose)})
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

// Packets that pass real interfaces and sockets allocate nothing:
//
//	we: app 10.0.0.1 — wg0 — w0 10.9.0.1 ——— 10.9.0.2 f0 — wg0 — 10.0.0.2 app :far
func TestNoAllocationsOnTheWire(t *testing.T) {
	we, far := twoHosts(t)
	ours, theirs := noise.PrivateKey{1: 3}, noise.PrivateKey{1: 4}
	ours.Clamp()
	theirs.Clamp()
	a, b := we.real(t, ours, "10.0.0.1"), far.real(t, theirs, "10.0.0.2")
	there := netip.MustParseAddrPort("10.9.0.2:51820")
	for _, x := range []struct {
		d *Device
		p conf.PeerUpdate
	}{
		{b, conf.PeerUpdate{PublicKey: conf.Key(ours.Public()), AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("10.0.0.1/32")}}}},
		{a, conf.PeerUpdate{PublicKey: conf.Key(theirs.Public()), AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix("10.0.0.2/32")}}, Endpoint: &there}},
	} {
		if err := x.d.Configure(&conf.Update{Peers: []conf.PeerUpdate{x.p}}); err != nil {
			t.Fatal(err)
		}
	}
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
