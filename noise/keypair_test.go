package noise

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"wgd/crypto/chacha20poly1305"
)

func TestTransportMessages(t *testing.T) {
	ki, kr := run(testPSK)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 15, 16, 17, 63, 64, 65, 1280, 1420, 9000} {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(rng.Uint32())
		}
		for _, d := range []struct{ from, to *Keypair }{{ki, kr}, {kr, ki}} {
			apart, inPlace := make([]byte, n+40), make([]byte, n+40)
			copy(inPlace[HeaderSize:], text)
			counter := d.from.Sent()
			a, ok := d.from.Seal(apart, text)
			d.from.sent-- // the same message again
			b, ok2 := d.from.Seal(inPlace, inPlace[HeaderSize:HeaderSize+n])
			if !ok || !ok2 || a != n+HeaderSize+TagSize || a != b || !bytes.Equal(apart, inPlace) {
				t.Fatalf("%d bytes: %d, %v apart; %d, %v in place", n, a, ok, b, ok2)
			}
			if !bytes.Equal(apart[a:], make([]byte, 40-HeaderSize-TagSize)) {
				t.Errorf("%d bytes: written past the tag", n)
			}
			want := binary.LittleEndian.AppendUint64(header(TypeTransport, d.to.LocalIndex), counter)
			if !bytes.Equal(apart[:16], want) || MessageType(apart[:a]) != TypeTransport || ReceiverIndex(apart) != d.to.LocalIndex {
				t.Errorf("%d bytes: header %x, want %x", n, apart[:16], want)
			}
			got, ok := d.to.Open(apart[:a])
			if !ok || !bytes.Equal(got, text) {
				t.Fatalf("%d bytes: opened %v", n, ok)
			}
			if n > 0 && &got[0] != &apart[HeaderSize] {
				t.Error("not opened in place")
			}
			if _, ok := d.to.Open(inPlace[:a]); ok {
				t.Errorf("%d bytes: a replay is taken", n)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	ki, kr := run(PresharedKey{})
	msg := make([]byte, 16+20+16)
	ki.Seal(msg, make([]byte, 20))

	for n := range msg {
		bad := bytes.Clone(msg)
		bad[n] ^= 1 << (n % 8)
		switch {
		case n < 4:
			if MessageType(bad) == TypeTransport {
				t.Errorf("byte %d changed: still a transport message", n)
			}
		case n < 8:
			if ReceiverIndex(bad) == kr.LocalIndex {
				t.Errorf("byte %d changed: still ours", n)
			}
		default:
			if _, ok := kr.Open(bad); ok {
				t.Errorf("byte %d changed: opened", n)
			}
		}
	}
	for n := range msg {
		if _, ok := kr.Open(bytes.Clone(msg[:n])); ok {
			t.Errorf("cut to %d bytes: opened", n)
		}
	}
	if kr.window != (Window{}) {
		t.Error("a forgery moved the window")
	}
	if _, ok := ki.Open(bytes.Clone(msg)); ok {
		t.Error("opened by its sender")
	}
	if _, ok := kr.Open(msg); !ok {
		t.Error("the message itself is refused after its forgeries")
	}
}

func TestCounterLimit(t *testing.T) {
	ki, kr := run(PresharedKey{})
	const limit = uint64(RejectAfterMessages)
	ki.sent = limit - 1
	msg := make([]byte, 32)
	if _, ok := ki.Seal(msg, nil); !ok || ki.Sent() != limit {
		t.Errorf("the last message: %v, %d sent", ok, ki.Sent())
	}
	if _, ok := kr.Open(msg); !ok {
		t.Error("the last message is refused")
	}
	if _, ok := ki.Seal(msg, nil); ok || ki.Sent() != limit {
		t.Errorf("one more: %v, %d sent", ok, ki.Sent())
	}
	// A peer that goes on all the same.
	binary.LittleEndian.PutUint64(msg[8:], limit)
	ki.send.Seal(msg[16:], limit, nil, nil)
	if !kr.receive.Open(nil, limit, msg[16:], nil) {
		t.Fatal("the test's message does not authenticate")
	}
	if _, ok := kr.Open(msg); ok {
		t.Error("one more is opened")
	}
}

func TestWipedKeypair(t *testing.T) {
	ki, kr := run(PresharedKey{})
	msg := make([]byte, 32)
	ki.Seal(msg, nil)
	var none Keypair

	ki.WipeSend()
	if _, ok := ki.Seal(make([]byte, 32), nil); ok || ki.send != none.send {
		t.Error("the sending key is left")
	}
	if ki.receive == none.receive {
		t.Error("the receiving key is gone too")
	}
	kr.WipeReceive()
	if _, ok := kr.Open(msg); ok || kr.receive != none.receive {
		t.Error("the receiving key is left")
	}
	var zero chacha20poly1305.Cipher
	binary.LittleEndian.PutUint64(msg[8:], 1)
	zero.Seal(msg[16:], 1, nil, nil)
	if _, ok := kr.Open(msg); ok {
		t.Error("the zero key opens")
	}
	if n, ok := kr.Seal(msg, nil); !ok || n != 32 {
		t.Error("the sending key is gone too")
	} else if _, ok := ki.Open(msg); !ok {
		t.Error("the other direction is gone too")
	}
	if _, ok := none.Seal(msg, nil); ok {
		t.Error("the zero keypair seals")
	}
}

// The rotation of §5.4.5 and §5.4.6. Keypairs have names: i* were made as the
// initiator, r* as the responder. A state reads previous, current, next.
func TestRotation(t *testing.T) {
	type step struct {
		do      string // install X, confirm X, clear
		want    string // state
		retired string
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"an initiator sends at once", []step{
			{"install i1", "- i1 -", ""},
			{"install i2", "i1 i2 -", ""},
			{"install i3", "i2 i3 -", "i1"},
		}},
		{"a responder waits for the first message", []step{
			{"install r1", "- - r1", ""},
			{"confirm r1", "- r1 -", ""},
			{"confirm r1", "- r1 -", ""},
			{"install r2", "- r1 r2", ""},
			{"confirm r1", "- r1 r2", ""},
			{"confirm r2", "r1 r2 -", ""},
			{"confirm r1", "r1 r2 -", ""},
		}},
		{"a responder's new one replaces the unconfirmed one, and the previous when confirmed", []step{
			{"install i1", "- i1 -", ""},
			{"install i2", "i1 i2 -", ""},
			{"install r3", "i1 i2 r3", ""},
			{"install r4", "i1 i2 r4", "r3"},
			{"confirm r3", "i1 i2 r4", ""},
			{"confirm r4", "i2 r4 -", "i1"},
		}},
		{"an unconfirmed one is kept when we initiate", []step{
			{"install i1", "- i1 -", ""},
			{"install r2", "- i1 r2", ""},
			{"install i3", "r2 i3 -", "i1"},
			{"confirm r2", "r2 i3 -", ""},
			{"install i4", "i3 i4 -", "r2"},
		}},
		{"confirmation retires the previous", []step{
			{"install r1", "- - r1", ""},
			{"install i2", "r1 i2 -", ""},
			{"install r3", "r1 i2 r3", ""},
			{"confirm r3", "i2 r3 -", "r1"},
			{"install i4", "r3 i4 -", "i2"},
		}},
		{"clear returns all", []step{
			{"clear", "- - -", ""},
			{"install i1", "- i1 -", ""},
			{"install i2", "i1 i2 -", ""},
			{"clear", "- - -", "i1 i2"},
			{"install i1", "- i1 -", ""},
			{"install r2", "- i1 r2", ""},
			{"clear", "- - -", "i1 r2"},
			{"confirm r2", "- - -", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			byName, names := map[string]*Keypair{}, map[*Keypair]string{nil: "-"}
			var kps Keypairs
			for n, st := range tt.steps {
				verb, name, _ := strings.Cut(st.do, " ")
				kp := byName[name]
				if kp == nil && name != "" {
					kp = &Keypair{Initiator: name[0] == 'i'}
					byName[name], names[kp] = kp, name
				}
				before := kps.Current()
				var out []*Keypair
				switch verb {
				case "install":
					r := kps.Install(kp)
					out = r[:]
				case "confirm":
					rotated, r := kps.Confirm(kp)
					if rotated != (kps.Current() != before) {
						t.Errorf("step %d, %s: rotated is %v", n, st.do, rotated)
					}
					out = append(out, r)
				case "clear":
					r := kps.Clear()
					out = r[:]
				}
				var retired []string
				for _, kp := range out {
					if kp != nil {
						retired = append(retired, names[kp])
					}
				}
				got := fmt.Sprint(names[kps.Previous()], " ", names[kps.Current()], " ", names[kps.Next()])
				if got != st.want || !sameWords(retired, st.retired) {
					t.Errorf("step %d, %s: got %s, retired %v; want %s, retired %s", n, st.do, got, retired, st.want, st.retired)
				}
			}
		})
	}
	var kps Keypairs
	if rotated, _ := kps.Confirm(nil); rotated {
		t.Error("confirming nothing rotates")
	}
}

func sameWords(got []string, want string) bool {
	words := strings.Fields(want)
	for _, w := range got {
		i := slices.Index(words, w)
		if i < 0 {
			return false
		}
		words = append(words[:i], words[i+1:]...)
	}
	return len(words) == 0
}

// A peer that is idle costs a Remote, a Handshake, a CookieJar, a TimestampClock
// and Keypairs; one that is not, a keypair or two besides.
func TestSizes(t *testing.T) {
	idle := unsafe.Sizeof(Remote{}) + unsafe.Sizeof(Handshake{}) + unsafe.Sizeof(CookieJar{}) +
		unsafe.Sizeof(TimestampClock{}) + unsafe.Sizeof(Keypairs{})
	t.Logf("Remote %d, Handshake %d, CookieJar %d, TimestampClock %d, Keypairs %d: %d bytes; Keypair %d bytes",
		unsafe.Sizeof(Remote{}), unsafe.Sizeof(Handshake{}), unsafe.Sizeof(CookieJar{}),
		unsafe.Sizeof(TimestampClock{}), unsafe.Sizeof(Keypairs{}), idle, unsafe.Sizeof(Keypair{}))
	if idle > 400 {
		t.Errorf("an idle peer is %d bytes", idle)
	}
	if n := unsafe.Sizeof(Keypair{}); n > 1152 { // a size class of the allocator
		t.Errorf("a keypair is %d bytes", n)
	}
}

func TestNoAllocations(t *testing.T) {
	ki, kr := run(testPSK)
	buf := make([]byte, 2000)
	if n := testing.AllocsPerRun(100, func() {
		n, _ := ki.Seal(buf, buf[HeaderSize:HeaderSize+1420])
		if _, ok := kr.Open(buf[:n]); !ok {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("Seal and Open allocate %v times", n)
	}
}

func BenchmarkTransport(b *testing.B) {
	ki, kr := run(testPSK)
	buf := make([]byte, 2000)
	b.SetBytes(1420)
	for b.Loop() {
		n, _ := ki.Seal(buf, buf[HeaderSize:HeaderSize+1420])
		kr.Open(buf[:n])
	}
}
