package test

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"wgd/conf"
	"wgd/device"
	"wgd/tun"
)

// 10,000 idle peers in one transaction: little CPU to set, little memory to keep,
// no thread each, and nothing to do while idle. The idle minute is measured in full
// with WGD_SOAK set, else a quarter of it.
func TestIdlePeers(t *testing.T) {
	const (
		peers     = 10_000
		setBound  = 3 * time.Second
		idleBound = 10 * time.Millisecond // in 60 s
	)
	idle := 15 * time.Second
	if os.Getenv("WGD_SOAK") != "" {
		idle = 60 * time.Second
	}
	d := newHost(t).daemon(wgd(t))
	d.ip("link set " + d.ifname + " up")
	d.set("private_key=" + asHex(newKey().private) + "\n")
	rss, threads := d.rss(), d.status("Threads")
	var lines strings.Builder
	for i := range peers {
		fmt.Fprintf(&lines, "public_key=%s\nendpoint=192.0.2.9:%d\nallowed_ip=10.%d.%d.0/24\n", asHex(newKey().public), 1+i, i>>8, i&255)
	}
	before := d.cpu()
	d.set(lines.String())
	took := d.cpu() - before
	if got := len(d.get("public_key")); got != peers {
		t.Fatalf("got %d peers, want %d", got, peers)
	}
	if took > setBound {
		t.Errorf("one transaction of %d peers took %v of CPU, bound %v", peers, took, setBound)
	}
	if now := d.status("Threads"); now > threads+4 {
		t.Errorf("threads: %d without peers, %d with", threads, now)
	}
	// the collector's tail of the set is not idleness
	last := d.cpu()
	eventually(t, 60*time.Second, "the daemon comes to rest", func() bool {
		time.Sleep(time.Second)
		now := d.cpu()
		rest := now-last < 100*time.Microsecond
		last = now
		return rest
	})
	// What the machine takes for others while the daemon runs counts as its time, so
	// one disturbed interval of three is not the daemon's fault.
	var used time.Duration
	bound := idleBound * idle / time.Minute
	for range 3 {
		before = d.cpu()
		time.Sleep(idle)
		if used = d.cpu() - before; used <= bound {
			break
		}
	}
	if used > bound {
		t.Errorf("%v of CPU in %v of idleness, bound %v", used, idle, bound)
	}
	t.Logf("set: %v of CPU; idle: %v in %v; RSS %.1f -> %.1f MiB; threads %d -> %d", took, used, idle,
		float64(rss)/MiB, float64(d.rss())/MiB, threads, d.status("Threads"))
}

// The heap and the goroutines of the same peers, measured from within.
func TestIdlePeersHeap(t *testing.T) {
	const (
		peers = 10_000
		bound = 2048 // bytes of heap a peer
	)
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what finalizers and pools held
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	memory := tun.NewMemory("wgtest0", 1420)
	d, err := device.New(device.Options{Tun: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before, goroutines := heap(), runtime.NumGoroutine()
	var private conf.Key = [32]byte(newKey().secret.Bytes())
	update := &conf.Update{PrivateKey: &private}
	for i := range peers {
		endpoint := mustEndpoint(fmt.Sprintf("192.0.2.9:%d", 1+i))
		update.Peers = append(update.Peers, conf.PeerUpdate{
			PublicKey: [32]byte(newKey().secret.PublicKey().Bytes()), Endpoint: &endpoint,
			AllowedIPs: []conf.AllowedIP{{Prefix: netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255))}},
		})
	}
	if err := d.Configure(update); err != nil {
		t.Fatal(err)
	}
	update = nil
	each := (heap() - before) / peers
	if each > bound {
		t.Errorf("%d bytes of heap a peer, bound %d", each, bound)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("goroutines: %d without peers, %d with", goroutines, now)
	}
	t.Logf("%d bytes of heap a peer", each)
	runtime.KeepAlive(d)
}

// A file of 24,000 peers goes through stock wg, and all of them come out again
// in their order (B20).
func TestManyPeersFromFile(t *testing.T) {
	const peers = 24_000
	d := newHost(t).daemon(wgd(t))
	var keys []string
	var text strings.Builder
	fmt.Fprintf(&text, "[Interface]\nPrivateKey = %s\n", newKey().private)
	for i := range peers {
		keys = append(keys, newKey().public)
		fmt.Fprintf(&text, "[Peer]\nPublicKey = %s\nAllowedIPs = 10.%d.%d.0/24, fd00:%x::/32\n", keys[i], i>>8, i&255, i)
	}
	conf := file(t, "conf", text.String())
	before := d.cpu()
	d.wg("setconf", "{if}", conf)
	t.Logf("24,000 peers: %v of CPU", d.cpu()-before)
	if got := strings.Fields(d.wg("show", "{if}", "peers")); !slices.Equal(got, keys) {
		t.Errorf("%d peers came out, want %d in order", len(got), peers)
	}
	if got := len(strings.Fields(d.wg("show", "{if}", "allowed-ips"))) - peers; got != 2*peers {
		t.Errorf("%d allowed IPs, want %d", got, 2*peers)
	}
}
