package device

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"wgd/noise"
)

// The timers of §6 from end to end: what is on the wire, and when.

const s = time.Second // in the tests

// exchange is a handshake of node 1 with node 2, at an age of the world.
func exchange(age string) []string {
	return []string{age + " 1>2 initiation", age + " 2>1 response"}
}

func all(lists ...[]string) (l []string) {
	for _, x := range lists {
		l = append(l, x...)
	}
	return l
}

func isInitiation(m sentMessage) bool { return m.typ == noise.TypeInitiation }

// every calls f n times, with pauses between them.
func every(d time.Duration, n int, f func(i int)) {
	for i := range n {
		if i > 0 {
			time.Sleep(d)
		}
		f(i)
	}
	synctest.Wait()
}

func TestPassiveKeepalive(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.sleepUntil(4 * s)
		a.sends(b, 100)
		w.sleepUntil(20 * s)
		b.sends(a, 100)
		w.sleepUntil(25 * s)
		a.sends(b, 100)
		w.sleepUntil(28 * s)
		b.sends(a, 100)
		w.sleepUntil(time.Hour)
		w.expect(t,
			"0s 1>2 initiation", "0s 2>1 response", "0s 1>2 data",
			"4s 1>2 data",
			"10s 2>1 keepalive", // 10 s after the first
			"20s 2>1 data",
			"25s 1>2 data", // a reply: no keepalive
			"28s 2>1 data", // the same the other way
			"38s 1>2 keepalive",
			// and a keepalive is not answered: C23
		)
	})
}

func TestUnansweredData(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.sleepUntil(20 * s)
		w.forget()

		w.lose(func(m sentMessage) bool { return m.from == b.at() })
		a.sends(b, 100)
		w.sleepUntil(30*s - 1)
		a.sends(b, 100)
		w.sleepUntil(36 * s)
		w.lose(nil)
		w.sleepUntil(10 * time.Minute)
		w.expect(t, all(
			[]string{"20s 1>2 data", "29.999999999s 1>2 data", "30s 2>1 keepalive"},
			exchange("35s"), // 15 s after the first
			exchange("40s"), // and again 5 s later
			[]string{"40s 1>2 keepalive"},
		)...)
	})
}

func TestNoAnswerToInitiations(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		b.setUp(false)
		a.sends(b, 100)
		w.sleepUntil(90*s - 1)
		if n := a.stagedOf(b); n != 1 {
			t.Fatalf("%d packets staged before giving up, want 1", n)
		}
		w.sleepUntil(90 * s)
		if n := a.stagedOf(b); n != 0 {
			t.Fatalf("%d packets staged after giving up, want 0", n)
		}
		if n := a.stagedBytes.Load(); n != maxStagedBytes {
			t.Errorf("%d bytes of %d for staged packets are left", n, maxStagedBytes)
		}
		var want []string
		for at := time.Duration(0); at < 90*s; at += 5 * s {
			want = append(want, at.String()+" 1>2 initiation")
		}
		w.sleepUntil(630*s - 1)
		w.expect(t, want...)
		if a.indices() != 1 || a.initiation(b) == (noise.Handshake{}) {
			t.Errorf("the handshake is gone early")
		}
		w.sleepUntil(630 * s)
		if a.indices() != 0 || a.initiation(b) != (noise.Handshake{}) {
			t.Errorf("the handshake is left 540 s after giving up")
		}

		// New traffic starts it again.
		b.setUp(true)
		w.sleepUntil(700 * s)
		p := a.sends(b, 120)
		w.expect(t, append(exchange("11m40s"), "11m40s 1>2 data")...)
		if got := b.got(); len(got) != 1 || !bytes.Equal(got[0], p) {
			t.Errorf("b got %d packets, want the new one", len(got))
		}
	})
}

func TestTrafficGoesOnTrying(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		b.setUp(false)
		every(10*s, 20, func(int) { a.sends(b, 100) })
		if n := a.stagedOf(b); n != 20 {
			t.Errorf("%d packets staged, want 20: each new one puts giving up off", n)
		}
		b.setUp(true)
		w.sleepUntil(200 * s)
		if n := len(b.got()); n != 20 {
			t.Errorf("b got %d packets, want 20", n)
		}
	})
}

func TestRekeyOnSending(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.sleepUntil(120*s - 1)
		a.sends(b, 100)
		b.sends(a, 100)
		w.forget()
		w.sleepUntil(120 * s)
		b.sends(a, 100) // the responder does not
		a.sends(b, 100) // the initiator does
		a.sends(b, 100)
		w.expect(t,
			"2m0s 2>1 data",
			"2m0s 1>2 data", "2m0s 1>2 initiation", "2m0s 2>1 response", "2m0s 1>2 keepalive",
			"2m0s 1>2 data",
		)
		if n, m := len(b.got()), len(a.got()); n != 4 || m != 2 {
			t.Errorf("b got %d packets, a %d; want 4 and 2", n, m)
		}
	})
}

func TestRekeyHasNoGap(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		w.setLatency(20 * time.Millisecond)
		a.sends(b, 100)
		time.Sleep(s / 2)
		b.got()
		const n = 1000
		every(s/2, n, func(int) {
			a.tun.Inject(a.packet(b, 100))
			b.tun.Inject(b.packet(a, 100))
		})
		time.Sleep(s)
		if x, y := len(b.got()), len(a.got()); x != n || y != n {
			t.Errorf("b got %d packets, a %d; want %d", x, y, n)
		}
		// A session is 40 ms younger than its initiation; packets come every 500 ms.
		var got []string
		for _, m := range w.sent(isInitiation) {
			got = append(got, m.String())
		}
		want := []string{"0s 1>2 initiation", "2m0.5s 1>2 initiation", "4m1s 1>2 initiation", "6m1.5s 1>2 initiation", "8m2s 1>2 initiation"}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestRekeyOnReceiving(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.sleepUntil(156 * s)
		w.forget()
		// a owes an answer from 156 s to 166 s, and sends nothing.
		b.sends(a, 100)
		w.sleepUntil(165*s - 1)
		b.sends(a, 100)
		w.expect(t, "2m36s 2>1 data", "2m44.999999999s 2>1 data")
		w.sleepUntil(165 * s)
		b.sends(a, 100)
		b.sends(a, 100)
		w.expect(t, "2m45s 2>1 data", "2m45s 1>2 initiation", "2m45s 2>1 response", "2m45s 1>2 keepalive", "2m45s 2>1 data")
		w.sleepUntil(175 * s)
		w.expect(t, "2m55s 1>2 keepalive")
	})
}

func TestTheResponderDoesNotRekey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.forget()
		w.lose(func(m sentMessage) bool { return m.from == a.at() && m.typ != noise.TypeTransport })
		every(s, 179, func(int) {
			a.sends(b, 100)
			b.sends(a, 100)
		})
		for _, m := range w.sent(isInitiation) {
			if m.from == b.at() {
				t.Errorf("%v", m)
			}
		}
		// The session is too old now: whoever sends next starts anew.
		w.sleepUntil(180*s - 1)
		b.sends(a, 100)
		w.forget()
		w.lose(nil)
		w.sleepUntil(181 * s)
		b.sends(a, 100)
		w.expect(t, "3m0s 1>2 initiation", "3m0s 2>1 response", "3m0s 1>2 keepalive", "3m1s 2>1 data")
	})
}

func TestAnOldSessionIsNotUsed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.lose(isInitiation)
		w.setLatency(2)
		w.sleepUntil(180*s - 3)
		w.forget()
		b.sends(a, 100)
		time.Sleep(1)
		b.sends(a, 100)
		w.sleepUntil(180*s - 1)
		if n := len(a.got()); n != 1 {
			t.Fatalf("a got %d packets just before 180 s, want 1", n)
		}
		w.sleepUntil(181 * s)
		if n := len(a.got()); n != 0 {
			t.Errorf("a packet under a session of 180 s is received")
		}
		w.lose(nil)
		w.setLatency(0)
		w.expect(t, "2m59.999999997s 2>1 data", "2m59.999999998s 2>1 data", "2m59.999999999s 1>2 initiation")
		p := b.sends(a, 100)
		w.expect(t, "3m1s 2>1 initiation", "3m1s 1>2 response", "3m1s 2>1 data")
		if got := a.got(); len(got) != 1 || !bytes.Equal(got[0], p) {
			t.Errorf("a got %d packets, want the one that waited", len(got))
		}
	})
}

// wiped reports whether the ciphers of a keypair of x hold no key.
func wiped(x *node, kp *noise.Keypair) (send, receive bool) {
	x.rx.mu.Lock()
	defer x.rx.mu.Unlock()
	x.tx.mu.Lock()
	defer x.tx.mu.Unlock()
	v := reflect.ValueOf(kp).Elem()
	return v.FieldByName("send").IsZero(), v.FieldByName("receive").IsZero()
}

func TestKeysAreWiped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		w.sleepUntil(130 * s)
		a.sends(b, 100) // rekey
		current, previous := a.current(b), a.previous(b)
		if current == nil || previous == nil || current == previous {
			t.Fatal("no two sessions")
		}
		w.sleepUntil(130*s + ZeroKeysAfterTime - 1)
		for _, kp := range []*noise.Keypair{current, previous} {
			if send, receive := wiped(a, kp); send || receive {
				t.Fatalf("keys are wiped early")
			}
		}
		w.sleepUntil(130*s + ZeroKeysAfterTime)
		for _, kp := range []*noise.Keypair{current, previous} {
			if send, receive := wiped(a, kp); !send || !receive {
				t.Errorf("wiped: send %v, receive %v", send, receive)
			}
		}
		if a.current(b) != nil || a.previous(b) != nil {
			t.Errorf("keypairs are left")
		}
		for _, x := range []*node{a, b} {
			if x.indices() != 0 {
				t.Errorf("%s: %d receiver indices are left", x.tun.Name(), x.indices())
			}
			if x.armed() != 0 {
				t.Errorf("%s: timers are armed", x.tun.Name())
			}
		}
	})
}

// A keypair that drops out is wiped at once, not when it is old.
func TestRetiredKeysAreWiped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		first := make(map[*node]*noise.Keypair)
		every(121*s, 3, func(i int) {
			a.sends(b, 100)
			if i == 0 {
				first[a], first[b] = a.current(b), b.current(a)
			}
		})
		for x, kp := range first {
			if send, receive := wiped(x, kp); !send || !receive {
				t.Errorf("%s's first keypair is left two sessions later", x.tun.Name())
			}
		}
		if a.indices() != 2 || b.indices() != 2 {
			t.Errorf("%d and %d receiver indices, want current and previous", a.indices(), b.indices())
		}
	})
}

func TestPersistentKeepalive(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.node(1), w.node(2)
		b.knows(t, a, false)
		b.setUp(true)
		a.knows(t, b, true, keepaliveEvery(25))
		w.expect(t)
		a.setUp(true)
		w.sleepUntil(60 * s)
		b.sends(a, 100)
		w.sleepUntil(65 * s)
		a.sends(b, 100)
		w.sleepUntil(141 * s)
		w.expect(t, all(
			exchange("0s"), []string{"0s 1>2 keepalive", "25s 1>2 keepalive", "50s 1>2 keepalive"},
			[]string{"1m0s 2>1 data", "1m5s 1>2 data", "1m15s 2>1 keepalive"}, // traffic both ways puts it off
			[]string{"1m40s 1>2 keepalive", "2m5s 1>2 keepalive"},
			exchange("2m5s"), []string{"2m5s 1>2 keepalive"},
		)...)

		// Set again it changes nothing; off, it ends.
		a.knows(t, b, false, keepaliveEvery(25))
		w.sleepUntil(151 * s)
		w.expect(t, "2m30s 1>2 keepalive")
		a.knows(t, b, false, keepaliveEvery(0))
		w.sleepUntil(time.Hour)
		w.expect(t)
		a.knows(t, b, false, keepaliveEvery(10))
		w.expect(t, append(exchange("1h0m0s"), "1h0m0s 1>2 keepalive")...)
	})
}

// A persistent keepalive looks for its peer also when the peer, its endpoint or our
// key come later.
func TestPersistentKeepaliveComesLate(t *testing.T) {
	session := func(age string) []string { return append(exchange(age), age+" 1>2 keepalive") }
	t.Run("endpoint", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.node(1), w.node(2)
			b.knows(t, a, false)
			a.setUp(true)
			b.setUp(true)
			a.knows(t, b, false, keepaliveEvery(25))
			w.sleepUntil(10 * s)
			w.expect(t)
			a.knows(t, b, true)
			w.expect(t, session("10s")...)
		})
	})
	t.Run("private key", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.node(1), w.node(2)
			b.knows(t, a, false)
			b.setUp(true)
			a.setKey(t, noise.PrivateKey{})
			a.setUp(true)
			a.knows(t, b, true, keepaliveEvery(25))
			w.sleepUntil(10 * s)
			w.expect(t)
			a.setKey(t, a.private)
			w.expect(t, session("10s")...)
		})
	})
	t.Run("another private key", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.pair()
			a.knows(t, b, true, keepaliveEvery(25))
			w.sleepUntil(10 * s)
			a.private = noise.PrivateKey{3: 1}
			a.private.Clamp()
			b.knows(t, a, false)
			w.forget()
			a.setKey(t, a.private)
			w.expect(t, session("10s")...)
		})
	})
	t.Run("peer", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.node(1), w.node(2)
			b.knows(t, a, false)
			a.setUp(true)
			a.knows(t, b, true, keepaliveEvery(25))
			w.sleepUntil(299 * s)
			w.forget()
			b.setUp(true)
			w.sleepUntil(310 * s)
			if n := len(w.sent(sentMessage.keepalive)); n != 1 {
				t.Errorf("%d keepalives, want 1: the peer is found 5 s after it is there", n)
			}
		})
	})
}

// C22: both sides with a persistent keepalive, for an hour.
func TestAnHourOfKeepalives(t *testing.T) {
	for _, latency := range []time.Duration{0, 30 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.setLatency(latency)
				a, b := w.node(1), w.node(2)
				a.knows(t, b, true, keepaliveEvery(25))
				b.knows(t, a, true, keepaliveEvery(25))
				a.setUp(true)
				b.setUp(true)
				time.Sleep(s)
				packets := 0
				every(10*s, 360, func(i int) {
					if i%30 > 15 { // five minutes of ten with traffic
						packets++
						a.sends(b, 100)
						b.sends(a, 200)
					}
				})
				time.Sleep(s)
				if n, m := len(a.got()), len(b.got()); n != packets || m != packets {
					t.Errorf("%d and %d of %d packets came through", n, m, packets)
				}
				// When a session has run out and both send at once, both initiate.
				crossings := 0
				last := sentMessage{at: -time.Hour}
				list := w.sent(isInitiation)
				for _, m := range list {
					switch gap := m.at - last.at; {
					case gap <= latency && m.from != last.from:
						crossings++
					case gap < 119*s:
						t.Errorf("%v after %v", m, last)
					}
					last = m
				}
				if n := len(list) - crossings; n < 20 || n > 31 {
					t.Errorf("%d initiations, want 20 to 30: every 120 to 180 s", n)
				}
			})
		})
	}
}

// C20: a suspend counts for sessions and timers.
func TestSuspend(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair()
		a.sends(b, 100)
		kp := a.current(b)
		w.sleepUntil(20 * s)
		w.forget()
		a.clock().suspend(4 * time.Minute)
		p := a.sends(b, 100)
		w.expect(t, append(exchange("20s"), "20s 1>2 data")...)
		if got := b.got(); len(got) != 2 || !bytes.Equal(got[1], p) {
			t.Errorf("b got %d packets, want 2", len(got))
		}
		w.sleepUntil(40 * s) // no answer is owed
		a.clock().suspend(10 * time.Minute)
		b.clock().suspend(10 * time.Minute)
		synctest.Wait()
		if send, receive := wiped(a, kp); !send || !receive {
			t.Errorf("keys of before the suspend are left")
		}
		if a.indices()+b.indices() != 0 {
			t.Errorf("%d sessions are left", a.indices()+b.indices())
		}
		w.forget()
		b.sends(a, 100)
		w.expect(t, "40s 2>1 initiation", "40s 1>2 response", "40s 2>1 data")
	})
}

// C15: initiations that nobody answers leave nothing behind.
func TestFailedHandshakesLeaveNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.node(1), w.node(2)
		a.knows(t, b, true, keepaliveEvery(25))
		a.setUp(true)
		w.sleepUntil(1000 * 110 / 18 * s) // 18 in 90 s, then the next keepalive's turn
		if n := len(w.sent(isInitiation)); n < 950 {
			t.Fatalf("%d initiations", n)
		}
		if a.indices() != 1 || len(*a.index.slots.Load()) > minIndexSlots {
			t.Errorf("%d receiver indices, want that of the last initiation", a.indices())
		}
		// handshakes, timers, interface twice, socket; b has none
		if n := goroutines(); n != 9 {
			t.Errorf("%d goroutines, want 9", n)
		}
	})
}

// goroutines returns how many run tasks of devices.
func goroutines() int { return strings.Count(stacks(), "device.(*Device).run.func1(") }
