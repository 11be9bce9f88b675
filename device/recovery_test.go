package device

import (
	"bytes"
	"crypto/rand"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"wgd/conf"
	"wgd/noise"
)

// A handshake that was under way when our private key changed leaves nothing of the
// old key behind: neither a session nor a static-static secret.
func TestPrivateKeyDuringAHandshake(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		var caught handshakeMessage
		w.lose(func(m sentMessage) bool {
			if m.typ == noise.TypeInitiation {
				caught.size = copy(caught.data[:], m.data)
			}
			return m.typ == noise.TypeInitiation
		})
		a.sends(b, 100)
		w.lose(nil)
		if caught.size == 0 {
			t.Fatal("a sent no initiation")
		}
		caught.from = endpoint{addr: a.at()}
		old := b.identity.Load()
		fresh, err := noise.NewPrivateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		b.setKey(t, fresh)
		b.receiveInitiation(&caught, old, b.clock().Now()) // it had loaded the old identity
		synctest.Wait()

		a.configure(t, conf.Update{ReplacePeers: true})
		b.private = fresh
		a.knows(t, b, true)
		b.got()
		a.sends(b, 100)
		time.Sleep(6 * time.Second)
		if len(b.got()) != 1 || a.current(b) == nil {
			t.Error("no session under the new key")
		}
	})
}

// Packets that wait for a handshake go before those that come when it is complete,
// also if the transmit loop is there before sendStaged.
func TestStagedPacketsAreNotOvertaken(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		w.setLatency(time.Second)
		for i := range 3 {
			a.tun.Inject(a.packet(b, 100+i)) // padded to 112
		}
		synctest.Wait()
		a.tx.mu.Lock()
		time.Sleep(2 * time.Second)
		for a.peerOf(b).keypairs.Current() == nil {
			runtime.Gosched() // the handshake goroutine waits for tx.mu after this
		}
		now := a.clock().Now()
		a.tx.in.Set(a.packet(b, 200))
		a.transmit(a.tx.in.Next(), now)
		a.flush(now)
		a.tx.mu.Unlock()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var sizes []int
		for _, m := range w.sent(func(m sentMessage) bool { return m.from == a.at() && m.typ == noise.TypeTransport }) {
			sizes = append(sizes, len(m.data)-noise.HeaderSize-noise.TagSize)
		}
		// A keepalive may follow: sendStaged comes late.
		if want := []int{112, 112, 112, 208}; len(sizes) < 4 || !slices.Equal(sizes[:4], want) {
			t.Errorf("a sent padded packets of %v bytes, want %v", sizes, want)
		}
	})
}

// Of two that initiate at once one lets go. If then the response is lost and the other
// end goes down, it must try again by itself.
func TestCrossingInitiationsThatAreLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x, y := w.node(1), w.node(2)
		if !less(x.private.Public(), y.private.Public()) {
			x, y = y, x // x is the one that lets go
		}
		x.knows(t, y, true)
		y.knows(t, x, true)
		x.setUp(true)
		y.setUp(true)
		w.lose(func(m sentMessage) bool { return m.from == x.at() })
		x.sends(y, 100)
		y.sends(x, 100)
		y.setUp(false)
		w.lose(nil)
		time.Sleep(3 * time.Second)
		y.setUp(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := y.got(); len(got) != 1 || !bytes.Equal(got[0], x.packet(y, 100)) {
			t.Errorf("y got %d packets, want the one that was staged", len(got))
		}
	})
}

// Who asks for an initiation while one is found to be impossible is not forgotten.
func TestAskedDuringAnInitiation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		var none conf.Key
		a.configure(t, conf.Update{PrivateKey: &none})
		p := a.peerOf(b)
		a.initiations.mu.Lock()
		p.asked = askedDoing // sendInitiation has seen no key, done comes next
		a.initiations.mu.Unlock()
		a.sends(b, 100)
		k := conf.Key(a.private)
		a.configure(t, conf.Update{PrivateKey: &k})
		a.initiations.done(p, false)
		synctest.Wait()
		if n := len(b.got()); n != 1 {
			t.Errorf("b got %d packets, want 1", n)
		}
	})
}

// A private key is clamped when it is set, so that all who show it show the same.
func TestPrivateKeyIsClamped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.node(1)
		k := conf.Key(bytes.Repeat([]byte{0xff}, 32))
		a.configure(t, conf.Update{PrivateKey: &k})
		want := noise.PrivateKey(k)
		want.Clamp()
		if got := a.State().PrivateKey; got != conf.Key(want) {
			t.Errorf("not clamped: first byte %#x, last byte %#x", got[0], got[31])
		}
	})
}

// Packets of other peers that wait for handshakes may take all the memory there is for
// that: handshakes, keepalives and data of sessions need none of it (C17).
func TestFullStagingHoldsUpNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.stagedBytes.Store(0)
		a.knows(t, b, true, keepaliveEvery(25))
		synctest.Wait()
		if a.current(b) == nil {
			t.Fatal("no handshake")
		}
		a.sends(b, 100)
		if n := len(b.got()); n != 1 {
			t.Errorf("b got %d packets, want 1", n)
		}
		w.forget()
		time.Sleep(60 * time.Second)
		if n := len(w.sent(sentMessage.keepalive)); n < 2 {
			t.Errorf("%d keepalives in 60 s", n)
		}
	})
}
