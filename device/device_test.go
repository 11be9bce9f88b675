package device

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"wgd/noise"
)

func TestTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.node(1), w.node(2)
		a.knows(t, b, true)
		b.knows(t, a, false)
		a.tun.SetUp(true)
		b.tun.SetUp(true)
		synctest.Wait()

		ping := a.packet(b, 84)
		a.tun.Inject(ping)
		synctest.Wait()
		if got := b.got(); len(got) != 1 || !bytes.Equal(got[0], ping) {
			t.Fatalf("the first packet: b got %x, want %x", got, ping)
		}
		pong := b.packet(a, 1420)
		b.tun.Inject(pong)
		synctest.Wait()
		if got := a.got(); len(got) != 1 || !bytes.Equal(got[0], pong) {
			t.Fatalf("the reply: a got %d packets", len(got))
		}
		if n := len(w.sent(func(m sentMessage) bool { return m.typ == noise.TypeInitiation })); n != 1 {
			t.Errorf("%d initiations, want 1", n)
		}
		time.Sleep(11 * time.Second)
		if n := len(w.sent(sentMessage.keepalive)); n != 1 {
			t.Errorf("%d keepalives, want 1: a's, 10 s after b's packet", n)
		}
	})
}

// What is said once is, and the Logger does not remember without bound.
func TestLogOnce(t *testing.T) {
	var out strings.Builder
	l := NewLogger(&out, "wg0", LogError)
	for i := range 1000 {
		l.once(LogError, "%s: refused", "sendmmsg")
		l.once(LogVerbose, "quiet %d", i)
		(*Logger)(nil).once(LogError, "nobody hears")
	}
	if got := out.String(); got != "wg0: sendmmsg: refused\n" {
		t.Errorf("got %q", got)
	}
	for i := range 1000 {
		l.once(LogError, "%d", i)
	}
	if n := len(l.told); n != maxTold {
		t.Errorf("%d lines are remembered, want %d", n, maxTold)
	}
}
