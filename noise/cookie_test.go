package noise

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/iotest"
	"time"
)

const second = Instant(time.Second)

// underLoad is an initiator with its jar, and the responder's checker.
type underLoad struct {
	t       *testing.T
	msg     []byte
	jar     CookieJar
	peer    PublicKey
	checker CookieChecker
	rng     *rand.ChaCha8
}

func newUnderLoad(t *testing.T) *underLoad {
	i, r := sides(testPSK)
	var h Handshake
	u := &underLoad{t: t, peer: r.local.Public(), rng: rand.NewChaCha8([32]byte{2})}
	u.msg = must(h.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	u.checker.Init(u.peer)
	return u
}

// send is the initiation as it leaves at now. Each send differs.
func (u *underLoad) send(now Instant) []byte {
	u.rng.Read(u.msg[8:40])
	u.jar.AddMACs(u.msg, u.peer, now)
	if !u.checker.CheckMAC1(u.msg) {
		u.t.Errorf("at %v: mac1 is refused", time.Duration(now))
	}
	return bytes.Clone(u.msg)
}

func (u *underLoad) reply(msg []byte, src string, now Instant) []byte {
	return must(u.checker.CreateReply(nil, msg, netip.MustParseAddrPort(src), now, u.rng))
}

func TestCookies(t *testing.T) {
	const src = "192.0.2.7:51820"
	// The first reply is made and received at 0.
	for _, tt := range []struct {
		name string
		src  string
		sent Instant // second initiation
		got  Instant // and when it is checked
		want bool
	}{
		{"a cookie is right at once", src, 0, 0, true},
		{"a cookie is right after 120 s", src, 120 * second, 120 * second, true},
		{"a cookie is not sent after more", src, 120*second + 1, 0, false},
		{"a secret is not used after more", src, 120 * second, 120*second + 1, false},
		{"a cookie is for one port", "192.0.2.7:51821", 0, 0, false},
		{"both bytes of the port count", "192.0.2.7:51564", 0, 0, false},
		{"a cookie is for one address", "192.0.2.8:51820", 0, 0, false},
		{"a cookie is for one family", "[c000:207::]:51820", 0, 0, false},
		{"a mapped address is its IPv4 address", "[::ffff:192.0.2.7]:51820", 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newUnderLoad(t)
			first := u.send(0)
			if !bytes.Equal(first[132:], make([]byte, 16)) {
				t.Errorf("mac2 without a cookie: %x", first[132:])
			}
			if !u.jar.ConsumeReply(u.reply(first, src, 0), u.peer, 0) {
				t.Fatal("reply refused")
			}
			msg := u.send(tt.sent)
			if got := u.checker.CheckMAC2(msg, netip.MustParseAddrPort(tt.src), tt.got); got != tt.want {
				t.Errorf("mac2 right: got %v, want %v", got, tt.want)
			}
			if none := bytes.Equal(msg[132:], make([]byte, 16)); none != (tt.sent > 120*second) {
				t.Errorf("mac2 is zero: %v", none)
			}
		})
	}
}

func TestMAC2NeedsACookie(t *testing.T) {
	u := newUnderLoad(t)
	src := netip.MustParseAddrPort("192.0.2.7:1")
	// Before there is a secret, a MAC under the zero secret must not do.
	msg := u.send(0)
	cookie := u.checker.cookie(src)
	sum := mac(cookie[:], msg[:132])
	copy(msg[132:], sum[:])
	if u.checker.CheckMAC2(msg, src, 0) {
		t.Error("right without a secret")
	}
	u.reply(msg, src.String(), 0)
	if u.checker.CheckMAC2(msg, src, 0) {
		t.Error("right under another secret")
	}
	cookie = u.checker.cookie(src)
	sum = mac(cookie[:], msg[:132])
	copy(msg[132:], sum[:])
	if !u.checker.CheckMAC2(msg, src, 0) {
		t.Error("refused under the secret")
	}
	for n := range msg {
		bad := bytes.Clone(msg)
		bad[n] ^= 1 << (n % 8)
		if u.checker.CheckMAC2(bad, src, 0) {
			t.Errorf("right with byte %d changed", n)
		}
	}
	u.checker.Init(u.peer)
	if u.checker.CheckMAC2(msg, src, 0) {
		t.Error("right after Init")
	}
}

func TestCookieReplies(t *testing.T) {
	const src = "[2001:db8::1]:7"
	t.Run("a reply counts once", func(t *testing.T) {
		u := newUnderLoad(t)
		reply := u.reply(u.send(0), src, 0)
		if !u.jar.ConsumeReply(reply, u.peer, 0) || u.jar.ConsumeReply(reply, u.peer, 100*second) {
			t.Error("want taken, then refused")
		}
		if u.send(100 * second); bytes.Equal(u.msg[132:], make([]byte, 16)) {
			t.Error("no mac2 in time")
		}
		if u.send(121 * second); !bytes.Equal(u.msg[132:], make([]byte, 16)) {
			t.Error("the replay made the cookie young again")
		}
	})
	t.Run("a reply to a message before the last is refused", func(t *testing.T) {
		u := newUnderLoad(t)
		reply := u.reply(u.send(0), src, 0)
		u.send(1)
		if u.jar.ConsumeReply(reply, u.peer, 1) {
			t.Error("taken")
		}
	})
	t.Run("a reply to nothing is refused", func(t *testing.T) {
		u := newUnderLoad(t)
		zero := make([]byte, InitiationSize) // mac1 as an empty jar has it
		if u.jar.ConsumeReply(u.reply(zero, src, 0), u.peer, 0) {
			t.Error("taken")
		}
	})
	t.Run("a reply of another peer is refused", func(t *testing.T) {
		u := newUnderLoad(t)
		reply := u.reply(u.send(0), src, 0)
		other := named("stranger")
		if u.jar.ConsumeReply(reply, other.Public(), 0) {
			t.Error("taken")
		}
		if !u.jar.ConsumeReply(reply, u.peer, 0) {
			t.Error("the right one is refused afterwards")
		}
	})
	t.Run("a changed reply is refused", func(t *testing.T) {
		u := newUnderLoad(t)
		reply := u.reply(u.send(0), src, 0)
		for n := range reply {
			bad := bytes.Clone(reply)
			bad[n] ^= 1 << (n % 8)
			jar := u.jar
			// The index is the device's to check, before it gets here.
			if got, want := jar.ConsumeReply(bad, u.peer, 0), n >= 4 && n < 8; got != want {
				t.Errorf("byte %d changed: taken is %v", n, got)
			}
		}
		if u.jar.ConsumeReply(reply[:63], u.peer, 0) || !u.jar.ConsumeReply(reply, u.peer, 0) {
			t.Error("want the short one refused, the right one taken")
		}
	})
	t.Run("a response can be answered too", func(t *testing.T) {
		u := newUnderLoad(t)
		u.msg = append(header(TypeResponse, 0x01020304, 5), make([]byte, 80)...)
		reply := u.reply(u.send(0), src, 0)
		if got := ReceiverIndex(reply); got != 0x01020304 {
			t.Errorf("receiver index %08x", got)
		}
		if !u.jar.ConsumeReply(reply, u.peer, 0) || !u.checker.CheckMAC2(u.send(1), netip.MustParseAddrPort(src), 1) {
			t.Error("refused")
		}
	})
	t.Run("replies share a secret for 120 s", func(t *testing.T) {
		u := newUnderLoad(t)
		u.reply(u.send(0), src, 0)
		first := u.checker.secret
		u.reply(u.send(0), src, 120*second)
		if u.checker.secret != first {
			t.Error("changed early")
		}
		u.reply(u.send(0), src, 120*second+1)
		if u.checker.secret == first || u.checker.born != 120*second+1 {
			t.Error("not changed")
		}
	})
	t.Run("nonces differ", func(t *testing.T) {
		u := newUnderLoad(t)
		msg := u.send(0)
		a, b := u.reply(msg, src, 0), u.reply(msg, src, 0)
		if bytes.Equal(a[8:32], b[8:32]) {
			t.Error("one nonce twice")
		}
	})
	t.Run("no randomness, no reply", func(t *testing.T) {
		u := newUnderLoad(t)
		msg := u.send(0)
		for n := range 32 + 24 {
			rng := iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(make([]byte, n))))
			if dst, err := u.checker.CreateReply(nil, msg, netip.MustParseAddrPort(src), 0, rng); err == nil || len(dst) != 0 {
				t.Fatalf("%d bytes: got a reply of %d bytes, error %v", n, len(dst), err)
			}
			if n < 32 && u.checker.fresh(0) {
				t.Fatalf("%d bytes make a secret", n)
			}
			u.checker.hasSecret = false
		}
	})
}

func TestWipedJarAndChecker(t *testing.T) {
	u := newUnderLoad(t)
	u.jar.ConsumeReply(u.reply(u.send(0), "192.0.2.7:1", 0), u.peer, 0)
	u.jar.Wipe()
	u.checker.Wipe()
	if u.jar != (CookieJar{}) || u.checker != (CookieChecker{}) {
		t.Error("something is left")
	}
}

var someSource = netip.MustParseAddrPort("192.0.2.7:51820")
