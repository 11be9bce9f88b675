package device

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"wgd/conf"
	"wgd/noise"
)

// Whatever happened before, a tunnel works again once its configuration is right and
// the network is there.
func TestTheTunnelRecovers(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { recovers(t, w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func recovers(t *testing.T, w *world, r *rand.Rand) {
	a, b := w.pair()
	w.setLatency(time.Duration(r.IntN(3)) * 15 * time.Millisecond)
	pick := func() (x, y *node) {
		if r.IntN(2) == 0 {
			return a, b
		}
		return b, a
	}
	psk := func(k byte) func(*conf.PeerUpdate) {
		return func(p *conf.PeerUpdate) { p.PresharedKey = &conf.Key{k} }
	}
	key := func(x *node) conf.Key { return conf.Key(x.private.Public()) }
	for range 150 {
		x, y := pick()
		switch r.IntN(14) {
		case 0:
			x.tun.SetUp(r.IntN(3) > 0)
		case 1:
			x.knows(t, y, r.IntN(2) == 0, psk(byte(r.IntN(2))))
		case 2:
			x.knows(t, y, true, keepaliveEvery(uint16(r.IntN(2)*20)))
		case 3:
			x.configure(t, conf.Update{Peers: []conf.PeerUpdate{{PublicKey: key(y), Remove: true}}})
		case 4:
			x.setKey(t, noise.PrivateKey{1: byte(r.IntN(2))})
		case 5:
			x.setKey(t, x.private)
		case 6:
			x.clock().suspend(time.Duration(r.IntN(300)) * s)
		case 7:
			loss := r.IntN(100)
			w.lose(func(m sentMessage) bool { return int(m.at)/1000%100 < loss || len(m.data)%100 < loss/2 })
		case 8:
			x.underLoad()
		case 9:
			port := uint16(worldPort + r.IntN(2))
			if err := x.Configure(&conf.Update{ListenPort: &port}); err != nil {
				t.Fatal(err)
			}
		case 10:
			if b := x.bind.Load(); b != nil {
				select {
				case b.v4.(*memConn).kill <- fmt.Errorf("no reason"):
				default:
				}
			}
		default:
			for range 1 + r.IntN(20) {
				x.tun.Inject(x.packet(y, 60+r.IntN(1300)))
			}
		}
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.Int64N(int64(40 * s))))
		}
	}

	w.lose(nil)
	port := uint16(worldPort)
	for _, x := range []*node{a, b} {
		x.setKey(t, x.private)
		x.configure(t, conf.Update{ListenPort: &port, ReplacePeers: r.IntN(2) == 0})
		x.setUp(true)
	}
	a.knows(t, b, true, psk(7))
	b.knows(t, a, true, psk(7))
	time.Sleep(40 * s) // a socket may have to be reopened
	a.got()
	b.got()
	p, q := a.sends(b, 100), b.sends(a, 100)
	time.Sleep(12 * s) // two lost initiations may have been on their way
	synctest.Wait()
	has := func(packets [][]byte, want []byte) bool {
		for _, p := range packets {
			if bytes.Equal(p, want) {
				return true
			}
		}
		return false
	}
	if !has(b.got(), p) || !has(a.got(), q) {
		t.Errorf("the tunnel is dead")
	}
	for _, x := range []*node{a, b} {
		if n := x.stagedBytes.Load(); n != maxStagedBytes {
			t.Errorf("%s: %d bytes are taken for staged packets", x.tun.Name(), maxStagedBytes-n)
		}
		if n := x.indices(); n > 4 {
			t.Errorf("%s: %d receiver indices", x.tun.Name(), n)
		}
	}
	time.Sleep(20 * time.Minute)
	for _, x := range []*node{a, b} {
		if n, m := x.indices(), x.armed(); x.peers[0].timers.interval == 0 && (n > 0 || m > 0) && a.peers[0].timers.interval+b.peers[0].timers.interval == 0 {
			t.Errorf("%s: %d receiver indices and %d timers are left after 20 idle minutes", x.tun.Name(), n, m)
		}
	}
}
