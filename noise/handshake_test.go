package noise

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"

	flynn "github.com/flynn/noise"
	"golang.org/x/crypto/blake2s"
	xchacha "golang.org/x/crypto/chacha20poly1305"
)

// named returns a private key that depends on the name only.
func named(name string) PrivateKey {
	k := PrivateKey(blake2s.Sum256([]byte(name)))
	k.Clamp()
	return k
}

// A side is one of the two in a test, ready for a handshake with the other.
type side struct {
	local     *Local
	remote    Remote
	ephemeral PrivateKey
	index     uint32
}

func sides(psk PresharedKey) (initiator, responder *side) {
	i, r := named("initiator"), named("responder")
	initiator = &side{NewLocal(&i), NewRemote(r.Public(), psk), named("initiator's ephemeral"), 0x11223344}
	responder = &side{NewLocal(&r), NewRemote(i.Public(), psk), named("responder's ephemeral"), 0xa1b2c3d4}
	return initiator, responder
}

func (s *side) find(p PublicKey) *Remote {
	if p == s.remote.public {
		return &s.remote
	}
	return nil
}

var (
	testPSK  = PresharedKey(named("preshared key"))
	testTime = Timestamp{0x40, 0, 0, 0, 0x65, 0xcb, 0x61, 0x80, 0x11, 0, 0, 0}
)

// must is for the steps that a test takes to come to its point.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// run does a whole handshake.
func run(psk PresharedKey) (initiator, responder *Keypair) {
	i, r := sides(psk)
	var hi, hr Handshake
	m1 := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	must(hr.ConsumeInitiation(m1, r.local, r.find))
	m2 := must(hr.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
	must(0, hi.ConsumeResponse(m2, i.local, &i.remote))
	return must(hi.Keypair(1)), must(hr.Keypair(2))
}

// independent is the other side as github.com/flynn/noise plays it.
func independent(static, ephemeral PrivateKey, peer PublicKey, psk PresharedKey, initiator bool) *flynn.HandshakeState {
	public := static.Public()
	config := flynn.Config{
		CipherSuite:           flynn.NewCipherSuite(flynn.DH25519, flynn.CipherChaChaPoly, flynn.HashBLAKE2s),
		Pattern:               flynn.HandshakeIK,
		Initiator:             initiator,
		Prologue:              []byte("WireGuard v1 zx2c4 Jason@zx2c4.com"),
		PresharedKey:          psk[:], // 32 zero bytes where there is none: always psk2
		PresharedKeyPlacement: 2,
		StaticKeypair:         flynn.DHKey{Private: static[:], Public: public[:]},
		Random:                bytes.NewReader(ephemeral[:]),
	}
	if initiator {
		config.PeerStatic = peer[:]
	}
	return must(flynn.NewHandshakeState(config))
}

func header(typ byte, indices ...uint32) []byte {
	b := []byte{typ, 0, 0, 0}
	for _, i := range indices {
		b = binary.LittleEndian.AppendUint32(b, i)
	}
	return b
}

func TestHandshakeWithIndependentImplementation(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	key := func() PrivateKey { return must(NewPrivateKey(rng)) }
	for _, psk := range []PresharedKey{{}, testPSK} {
		for _, weInitiate := range []bool{true, false} {
			t.Run(fmt.Sprintf("psk=%v/initiator=%v", !psk.IsZero(), weInitiate), func(t *testing.T) {
				ours, theirs := key(), key()
				our, their := key(), key()
				l, r := NewLocal(&ours), NewRemote(theirs.Public(), psk)
				other := independent(theirs, their, l.Public(), psk, !weInitiate)

				var h Handshake
				var toUs, toThem *flynn.CipherState
				if weInitiate {
					m1 := must(h.CreateInitiation(nil, l, &r, &our, 7, testTime))
					payload, _, _, err := other.ReadMessage(nil, m1[8:116])
					if err != nil || !bytes.Equal(payload, testTime[:]) {
						t.Fatalf("initiation read as %x, %v", payload, err)
					}
					m2, c1, c2, err := other.WriteMessage(header(TypeResponse, 9, 7), nil)
					if err != nil {
						t.Fatal(err)
					}
					if err := h.ConsumeResponse(append(m2, make([]byte, 32)...), l, &r); err != nil {
						t.Fatal(err)
					}
					toThem, toUs = c1, c2
				} else {
					m1, _, _, err := other.WriteMessage(header(TypeInitiation, 9), testTime[:])
					if err != nil {
						t.Fatal(err)
					}
					ts, err := h.ConsumeInitiation(append(m1, make([]byte, 32)...), l, func(p PublicKey) *Remote {
						if p != theirs.Public() {
							t.Errorf("static key %x, want %x", p, theirs.Public())
						}
						return &r
					})
					if err != nil || ts != testTime {
						t.Fatalf("got timestamp %x, %v", ts, err)
					}
					m2 := must(h.CreateResponse(nil, l, &r, &our, 7))
					payload, c1, c2, err := other.ReadMessage(nil, m2[12:60])
					if err != nil || len(payload) != 0 {
						t.Fatalf("response read as %x, %v", payload, err)
					}
					toUs, toThem = c1, c2
				}

				kp := must(h.Keypair(5))
				if kp.Initiator != weInitiate || kp.LocalIndex != 7 || kp.RemoteIndex != 9 || kp.Created != 5 {
					t.Errorf("keypair: initiator %v, indices %d, %d, created %d", kp.Initiator, kp.LocalIndex, kp.RemoteIndex, kp.Created)
				}
				for i := range 3 {
					text := []byte(strings.Repeat("packet", i))
					msg := make([]byte, 200)
					n, _ := kp.Seal(msg, text)
					if got, err := toThem.Decrypt(nil, nil, msg[16:n]); err != nil || !bytes.Equal(got, text) {
						t.Fatalf("message %d to them read as %q, %v", i, got, err)
					}
					msg = must(toUs.Encrypt(binary.LittleEndian.AppendUint64(header(TypeTransport, 7), uint64(i)), nil, text))
					if got, ok := kp.Open(msg); !ok || !bytes.Equal(got, text) {
						t.Fatalf("message %d to us read as %q, %v", i, got, ok)
					}
				}
			})
		}
	}
}

// The transcripts in testdata were made by the independent implementation (and by
// x/crypto for MACs and the cookie reply) from fixed keys:
//
//	go test ./noise -run Transcripts -update
var update = flag.Bool("update", false, "make the transcripts in testdata anew")

type transcript struct {
	psk                         PresharedKey
	initiation, reply, response []byte
	initiationWithCookie        []byte
	toResponder, toInitiator    [][]byte // transport messages: testTexts
	source                      netip.AddrPort
}

var testTexts = []string{"", "sixteen bytes ok", strings.Repeat("The packet. ", 50)}

// fields are the lines of a transcript file.
func (tr *transcript) fields(f func(name string, value *[]byte)) {
	psk := tr.psk[:]
	f("psk", &psk)
	copy(tr.psk[:], psk)
	f("initiation", &tr.initiation)
	f("cookie reply", &tr.reply)
	f("initiation with cookie", &tr.initiationWithCookie)
	f("response", &tr.response)
	for i := range testTexts {
		f(fmt.Sprint("to responder ", i), &tr.toResponder[i])
		f(fmt.Sprint("to initiator ", i), &tr.toInitiator[i])
	}
}

func newTranscript(source string) *transcript {
	n := len(testTexts)
	return &transcript{source: netip.MustParseAddrPort(source), toResponder: make([][]byte, n), toInitiator: make([][]byte, n)}
}

// make fills in the transcript without any code of this package but key types.
func (tr *transcript) make(psk PresharedKey) {
	is, ie, rs, re := named("initiator"), named("initiator's ephemeral"), named("responder"), named("responder's ephemeral")
	ip, rp := is.Public(), rs.Public()
	i := independent(is, ie, rp, psk, true)
	r := independent(rs, re, ip, psk, false)
	tr.psk = psk

	keyed := func(key []byte, parts ...[]byte) []byte {
		h := must(blake2s.New128(key))
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	macs := func(msg []byte, receiver PublicKey, cookie []byte) []byte {
		key := blake2s.Sum256(append([]byte("mac1----"), receiver[:]...))
		msg = append(msg, keyed(key[:], msg)...)
		if cookie == nil {
			return append(msg, make([]byte, 16)...)
		}
		return append(msg, keyed(cookie, msg)...)
	}

	m1, _, _, err := i.WriteMessage(header(TypeInitiation, 0x11223344), testTime[:])
	must(0, err)
	tr.initiation = macs(bytes.Clone(m1), rp, nil)

	secret, nonce := named("cookie secret"), blake2s.Sum256([]byte("nonce"))
	addr := tr.source.Addr().AsSlice()
	cookie := keyed(secret[:], addr, []byte{byte(tr.source.Port() >> 8), byte(tr.source.Port())})
	key := blake2s.Sum256(append([]byte("cookie--"), rp[:]...))
	tr.reply = append(header(TypeCookieReply, 0x11223344), nonce[:24]...)
	tr.reply = must(xchacha.NewX(key[:])).Seal(tr.reply, nonce[:24], cookie, tr.initiation[116:132])
	tr.initiationWithCookie = macs(bytes.Clone(m1), rp, cookie)

	_, _, _, err = r.ReadMessage(nil, m1[8:])
	must(0, err)
	m2, r1, r2, err := r.WriteMessage(header(TypeResponse, 0xa1b2c3d4, 0x11223344), nil)
	must(0, err)
	_, i1, i2, err := i.ReadMessage(nil, m2[12:])
	must(0, err)
	tr.response = macs(m2, ip, nil)
	for n, text := range testTexts {
		counter := uint64(n)
		tr.toResponder[n] = must(i1.Encrypt(binary.LittleEndian.AppendUint64(header(TypeTransport, 0xa1b2c3d4), counter), nil, []byte(text)))
		tr.toInitiator[n] = must(r2.Encrypt(binary.LittleEndian.AppendUint64(header(TypeTransport, 0x11223344), counter), nil, []byte(text)))
	}
	_, _ = r1, i2
}

func TestTranscripts(t *testing.T) {
	for _, tt := range []struct {
		file, source string
		psk          PresharedKey
	}{
		{"testdata/nopsk.txt", "192.0.2.7:51820", PresharedKey{}},
		{"testdata/psk.txt", "[2001:db8::7]:258", testPSK},
	} {
		t.Run(tt.file, func(t *testing.T) {
			want := newTranscript(tt.source)
			if *update {
				want.make(tt.psk)
				var b strings.Builder
				want.fields(func(name string, value *[]byte) { fmt.Fprintf(&b, "%s: %x\n", name, *value) })
				must(0, os.WriteFile(tt.file, []byte(b.String()), 0o644))
			}
			lines := strings.Split(string(must(os.ReadFile(tt.file))), "\n")
			want.fields(func(name string, value *[]byte) {
				rest, ok := strings.CutPrefix(lines[0], name+": ")
				if !ok {
					t.Fatalf("line %q, want %s", lines[0], name)
				}
				*value = must(hex.DecodeString(rest))
				lines = lines[1:]
			})
			want.play(t)
		})
	}
}

// play runs both sides and compares each message with the transcript.
func (tr *transcript) play(t *testing.T) {
	i, r := sides(tr.psk)
	secret, nonce := named("cookie secret"), blake2s.Sum256([]byte("nonce"))
	var checker CookieChecker
	var jar, responderJar CookieJar
	checker.Init(r.local.Public())

	compare := func(name string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
	}

	var hi, hr Handshake
	msg := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	jar.AddMACs(msg, i.remote.public, 0)
	compare("initiation", msg, tr.initiation)

	reply := must(checker.CreateReply(nil, msg, tr.source, 0, bytes.NewReader(append(secret[:], nonce[:]...))))
	compare("cookie reply", reply, tr.reply)
	if !jar.ConsumeReply(tr.reply, i.remote.public, 0) {
		t.Error("cookie reply refused")
	}
	jar.AddMACs(msg, i.remote.public, 0)
	compare("initiation with cookie", msg, tr.initiationWithCookie)
	if !checker.CheckMAC1(tr.initiationWithCookie) || !checker.CheckMAC2(tr.initiationWithCookie, tr.source, 0) {
		t.Error("MACs refused")
	}

	if ts, err := hr.ConsumeInitiation(tr.initiation, r.local, r.find); err != nil || ts != testTime {
		t.Fatalf("initiation read as %x, %v", ts, err)
	}
	msg = must(hr.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
	responderJar.AddMACs(msg, r.remote.public, 0)
	compare("response", msg, tr.response)
	if err := hi.ConsumeResponse(tr.response, i.local, &i.remote); err != nil {
		t.Fatal(err)
	}

	ki, kr := must(hi.Keypair(0)), must(hr.Keypair(0))
	for n, text := range testTexts {
		for _, d := range []struct {
			from, to *Keypair
			want     []byte
		}{{ki, kr, tr.toResponder[n]}, {kr, ki, tr.toInitiator[n]}} {
			msg := make([]byte, len(text)+HeaderSize+TagSize)
			d.from.Seal(msg, []byte(text))
			compare(fmt.Sprint("transport message ", n), msg, d.want)
			if got, ok := d.to.Open(msg); !ok || string(got) != text {
				t.Errorf("transport message %d read as %q, %v", n, got, ok)
			}
		}
	}
}

// Every byte is covered by something: the pattern, or mac1 (the sender's index),
// or our own choice of an index.
func TestTamperedHandshakeIsRefused(t *testing.T) {
	i, r := sides(testPSK)
	var hi, hr Handshake
	var jar CookieJar
	var checkI, checkR CookieChecker
	checkI.Init(i.local.Public())
	checkR.Init(r.local.Public())
	m1 := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	jar.AddMACs(m1, r.local.Public(), 0)

	each := func(msg []byte, f func(n int, msg []byte)) {
		for n := range msg {
			bad := bytes.Clone(msg)
			bad[n] ^= 1 << (n % 8)
			f(n, bad)
		}
	}
	unauthenticated := func(n int) bool { return n >= 4 && n < 8 } // the sender's index

	each(m1, func(n int, bad []byte) {
		if got, want := checkR.CheckMAC1(bad), n >= 132; got != want {
			t.Errorf("initiation, byte %d changed: mac1 right is %v", n, got)
		}
		hr := Handshake{localIndex: 99}
		_, err := hr.ConsumeInitiation(bad, r.local, r.find)
		if got, want := err == nil, unauthenticated(n) || n >= 116; got != want {
			t.Errorf("initiation, byte %d changed: %v", n, err)
		}
		if err != nil && hr != (Handshake{localIndex: 99}) {
			t.Errorf("initiation, byte %d changed: refused, but the handshake has changed", n)
		}
	})

	must(hr.ConsumeInitiation(m1, r.local, r.find))
	m2 := must(hr.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
	jar.AddMACs(m2, i.local.Public(), 0)
	each(m2, func(n int, bad []byte) {
		if got, want := checkI.CheckMAC1(bad), n >= 76; got != want {
			t.Errorf("response, byte %d changed: mac1 right is %v", n, got)
		}
		h := hi
		err := h.ConsumeResponse(bad, i.local, &i.remote)
		if got, want := err == nil, unauthenticated(n) || n >= 60; got != want {
			t.Errorf("response, byte %d changed: %v", n, err)
		}
		if err != nil && h != hi {
			t.Errorf("response, byte %d changed: refused, but the handshake has changed", n)
		}
	})
	if err := hi.ConsumeResponse(m2, i.local, &i.remote); err != nil {
		t.Errorf("response after its forgeries: %v", err)
	}
}

func TestHandshakeErrors(t *testing.T) {
	i, r := sides(testPSK)
	stranger := named("stranger")
	other := NewLocal(&stranger)
	otherPSK := NewRemote(r.local.Public(), PresharedKey{})

	var hi, hr Handshake
	m1 := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	must(hr.ConsumeInitiation(m1, r.local, r.find))
	consumed := hr
	m2 := must(hr.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
	done := hi
	must(0, done.ConsumeResponse(m2, i.local, &i.remote))
	short := m1[:len(m1)-1]

	nobody := func(PublicKey) *Remote { return nil }
	consumeInitiation := func(msg []byte, l *Local, find func(PublicKey) *Remote) func(*Handshake) error {
		return func(h *Handshake) error { _, err := h.ConsumeInitiation(msg, l, find); return err }
	}
	consumeResponse := func(msg []byte, l *Local, r *Remote) func(*Handshake) error {
		return func(h *Handshake) error { return h.ConsumeResponse(msg, l, r) }
	}
	createResponse := func(h *Handshake) error {
		dst, err := h.CreateResponse([]byte("x"), r.local, &r.remote, &r.ephemeral, 1)
		if len(dst) != 1 {
			t.Errorf("CreateResponse failed, but dst is %d bytes", len(dst))
		}
		return err
	}
	keypair := func(h *Handshake) error { _, err := h.Keypair(0); return err }

	for _, tt := range []struct {
		name string
		from Handshake
		step func(*Handshake) error
		want error
	}{
		{"an initiation from a key that is not a peer's", Handshake{}, consumeInitiation(m1, r.local, nobody), ErrUnknownPeer},
		{"an initiation to somebody else", Handshake{}, consumeInitiation(m1, other, r.find), ErrAuth},
		{"an initiation that is cut short", Handshake{}, consumeInitiation(short, r.local, r.find), ErrMalformed},
		{"an empty initiation", Handshake{}, consumeInitiation(nil, r.local, r.find), ErrMalformed},
		{"a response as an initiation", Handshake{}, consumeInitiation(m2, r.local, r.find), ErrMalformed},
		{"an initiation for a wiped identity", Handshake{}, consumeInitiation(m1, &Local{public: r.local.public}, r.find), ErrState},
		{"an initiation as a response", hi, consumeResponse(m1, i.local, &i.remote), ErrMalformed},
		{"a response to no initiation", Handshake{}, consumeResponse(m2, i.local, &i.remote), ErrState},
		{"a response once more", done, consumeResponse(m2, i.local, &i.remote), ErrState},
		{"a response at the responder", hr, consumeResponse(m2, r.local, &r.remote), ErrState},
		{"a response under another preshared key", hi, consumeResponse(m2, i.local, &otherPSK), ErrAuth},
		{"a response to another identity of ours", hi, consumeResponse(m2, other, &i.remote), ErrAuth},
		{"a response before any initiation", Handshake{}, createResponse, ErrState},
		{"a response to our own initiation", hi, createResponse, ErrState},
		{"a second response to one initiation", hr, createResponse, ErrState},
		{"a keypair of nothing", Handshake{}, keypair, ErrState},
		{"a keypair before the response came", hi, keypair, ErrState},
		{"a keypair before the response left", consumed, keypair, ErrState},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.from
			if err := tt.step(&h); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if h != tt.from {
				t.Error("the handshake has changed")
			}
		})
	}
}

// A peer who knows our public key but not the initiator's private key cannot play
// back the sealed static key with a timestamp of its own: {t} is under ss.
func TestTimestampIsUnderStaticStatic(t *testing.T) {
	i, r := sides(PresharedKey{})
	forger := i.remote
	must(0, forger.Prepare(i.local))
	forger.staticStatic[0] ^= 1
	var hi, hr Handshake
	m1 := must(hi.CreateInitiation(nil, i.local, &forger, &i.ephemeral, i.index, testTime))
	if _, err := hr.ConsumeInitiation(m1, r.local, r.find); err != ErrAuth {
		t.Errorf("got %v, want %v", err, ErrAuth)
	}
}

// The points of small order and their forms above the prime, as published at
// https://cr.yp.to/ecdh.html.
var lowOrderPoints = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func TestLowOrderPoints(t *testing.T) {
	for _, text := range lowOrderPoints {
		t.Run(text[:8], func(t *testing.T) {
			point := PublicKey(must(hex.DecodeString(text)))
			i, r := sides(PresharedKey{})

			bad := NewRemote(point, PresharedKey{})
			for range 2 { // found out, then remembered
				if err := bad.Prepare(i.local); err != ErrLowOrder {
					t.Errorf("as a static key: got %v", err)
				}
			}
			before := Handshake{localIndex: 99}
			h := before
			if dst, err := h.CreateInitiation([]byte("x"), i.local, &bad, &i.ephemeral, 1, testTime); err != ErrLowOrder || len(dst) != 1 || h != before {
				t.Errorf("initiation to it: got %v, %d bytes", err, len(dst))
			}

			var hi, hr Handshake
			m1 := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
			m2 := append(header(TypeResponse, 1, i.index), make([]byte, 80)...)
			copy(m2[12:], point[:])
			before = hi
			if err := hi.ConsumeResponse(m2, i.local, &i.remote); err != ErrLowOrder || hi != before {
				t.Errorf("as the ephemeral key of a response: got %v", err)
			}
			copy(m1[8:], point[:])
			if _, err := hr.ConsumeInitiation(m1, r.local, r.find); err != ErrLowOrder || hr != (Handshake{}) {
				t.Errorf("as the ephemeral key of an initiation: got %v", err)
			}
		})
	}
}

func TestCreateAppends(t *testing.T) {
	i, r := sides(testPSK)
	var hi, hr Handshake
	dst := make([]byte, 1, 1000)
	for n := range dst[:cap(dst)] {
		dst[:cap(dst)][n] = 0xff // must not show through in the MACs
	}
	m := must(hi.CreateInitiation(dst, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	if &m[0] != &dst[0] || len(m) != 1+InitiationSize || m[0] != 0xff || !bytes.Equal(m[117:], make([]byte, 32)) {
		t.Errorf("initiation: %x", m)
	}
	must(hr.ConsumeInitiation(m[1:], r.local, r.find))
	m = must(hr.CreateResponse(dst, r.local, &r.remote, &r.ephemeral, r.index))
	if &m[0] != &dst[0] || len(m) != 1+ResponseSize || !bytes.Equal(m[61:], make([]byte, 32)) {
		t.Errorf("response: %x", m)
	}
}

// Forward secrecy: who finds the handshake later must not find the session keys.
func TestKeypairWipesHandshake(t *testing.T) {
	i, r := sides(testPSK)
	var hi, hr Handshake
	m1 := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	must(hr.ConsumeInitiation(m1, r.local, r.find))
	m2 := must(hr.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
	must(0, hi.ConsumeResponse(m2, i.local, &i.remote))
	if !hi.ephemeral.IsZero() {
		t.Error("the ephemeral key outlives the response")
	}
	must(hi.Keypair(0))
	must(hr.Keypair(0))
	if hi != (Handshake{}) || hr != (Handshake{}) {
		t.Error("the handshake outlives its keypair")
	}
}

func TestRemoteForgets(t *testing.T) {
	i, _ := sides(testPSK)
	r := i.remote
	must(0, r.Prepare(i.local))
	if isZero(&r.staticStatic) {
		t.Fatal("nothing prepared")
	}
	first := r.staticStatic
	r.Forget()
	if !isZero(&r.staticStatic) || r.PresharedKey() != testPSK {
		t.Error("Forget")
	}
	other := named("stranger")
	must(0, r.Prepare(NewLocal(&other)))
	if r.staticStatic == first || isZero(&r.staticStatic) {
		t.Error("not prepared for the new identity")
	}
	r.Wipe()
	if !isZero(&r.staticStatic) || !r.psk.IsZero() || r.public != i.remote.public {
		t.Error("Wipe")
	}
}

func TestPrivateKeys(t *testing.T) {
	// RFC 7748 §6.1; the published private key is not clamped yet.
	alice := PrivateKey(must(hex.DecodeString("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")))
	for range 2 {
		p := alice.Public()
		if got, want := hex.EncodeToString(p[:]), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"; got != want {
			t.Errorf("public key %s, want %s", got, want)
		}
		alice.Clamp()
	}
	if _, err := NewPrivateKey(strings.NewReader("too short")); err == nil {
		t.Error("a key from too little randomness")
	}
	c := must(NewPrivateKey(bytes.NewReader(bytes.Repeat([]byte{0xff}, 32))))
	if c[0] != 0xf8 || c[31] != 0x7f {
		t.Errorf("clamped to %x", c)
	}
	c = must(NewPrivateKey(bytes.NewReader(make([]byte, 32))))
	if c[0] != 0 || c[31] != 0x40 {
		t.Errorf("clamped to %x", c)
	}
}

func TestHMAC(t *testing.T) {
	// Against the definition by way of a hash.Hash: every length of data.
	for n := range 34 {
		key, data := named("key"), bytes.Repeat([]byte{byte(n)}, n)
		pad := func(x byte, rest []byte) [32]byte {
			b := bytes.Repeat([]byte{x}, 64)
			for i := range key {
				b[i] ^= key[i]
			}
			h := must(blake2s.New256(nil))
			h.Write(b)
			h.Write(rest)
			return [32]byte(h.Sum(nil))
		}
		inner := pad(0x36, data)
		want := pad(0x5c, inner[:])
		var got [32]byte
		if hmac(&got, (*[32]byte)(&key), data); got != want {
			t.Errorf("%d bytes: got %x, want %x", n, got, want)
		}
	}
}

func TestMessageType(t *testing.T) {
	for typ := range 256 {
		for n := range 200 {
			msg := make([]byte, n)
			if n > 0 {
				msg[0] = byte(typ)
			}
			var want byte
			if typ == 1 && n == 148 || typ == 2 && n == 92 || typ == 3 && n == 64 || typ == 4 && n >= 32 {
				want = byte(typ)
			}
			if got := MessageType(msg); got != want {
				t.Fatalf("first byte %d, length %d: got %d, want %d", typ, n, got, want)
			}
			for i := 1; want != 0 && i < 4; i++ {
				msg[i] = 0x80
				if got := MessageType(msg); got != 0 {
					t.Fatalf("first byte %d, reserved byte %d not zero: got %d", typ, i, got)
				}
				msg[i] = 0
			}
		}
	}
}

func BenchmarkInitiation(b *testing.B) {
	i, r := sides(testPSK)
	must(0, i.remote.Prepare(i.local))
	must(0, r.remote.Prepare(r.local))
	var hi, hr Handshake
	var m1 []byte
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			m1 = must(hi.CreateInitiation(m1[:0], i.local, &i.remote, &i.ephemeral, i.index, testTime))
		}
	})
	b.Run("consume", func(b *testing.B) {
		for b.Loop() {
			must(hr.ConsumeInitiation(m1, r.local, r.find))
		}
	})
	b.Run("respond", func(b *testing.B) {
		for b.Loop() {
			h := hr
			must(h.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
		}
	})
}
