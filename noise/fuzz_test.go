package noise

import (
	"bytes"
	"testing"
)

// FuzzMessages hands any bytes to each side. What it takes must be, in all bytes
// that the cryptography covers, the one message that the other side made; what it
// refuses must leave no trace.
func FuzzMessages(f *testing.F) {
	i, r := sides(testPSK)
	var hi, hr Handshake
	var jar CookieJar
	var checker CookieChecker
	checker.Init(r.local.Public())
	m1 := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
	jar.AddMACs(m1, r.local.Public(), 0)
	reply := must(checker.CreateReply(nil, m1, someSource, 0, bytes.NewReader(make([]byte, 100))))
	must(hr.ConsumeInitiation(m1, r.local, r.find))
	m2 := must(hr.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
	done := hi
	must(0, done.ConsumeResponse(m2, i.local, &i.remote))
	ki, kr := must(done.Keypair(0)), must(hr.Keypair(0))
	data := make([]byte, 16+5+16)
	ki.Seal(data, []byte("hello"))

	for _, m := range [][]byte{m1, reply, m2, data} {
		f.Add(m)
		f.Add(m[:len(m)-1])
		bad := bytes.Clone(m)
		bad[len(m)/2] ^= 4
		f.Add(bad)
	}
	f.Add([]byte{})
	f.Add([]byte{4, 0, 0})

	same := func(a, b []byte, from, to int) bool { return bytes.Equal(a[from:to], b[from:to]) }
	f.Fuzz(func(t *testing.T, msg []byte) {
		typ := MessageType(msg)
		in, msg := msg, bytes.Clone(msg) // Open works in place: spare the seeds

		var h Handshake
		_, err := h.ConsumeInitiation(msg, r.local, r.find)
		if taken := typ == TypeInitiation && same(msg, m1, 8, 116); taken != (err == nil) {
			t.Errorf("initiation: %v", err)
		}
		if err != nil && h != (Handshake{}) {
			t.Error("initiation refused, but the handshake has changed")
		}
		if typ == TypeInitiation && checker.CheckMAC1(msg) && !same(msg, m1, 0, 132) {
			t.Error("mac1 of another initiation is right")
		}

		h = hi
		err = h.ConsumeResponse(msg, i.local, &i.remote)
		if taken := typ == TypeResponse && same(msg, m2, 8, 60); taken != (err == nil) {
			t.Errorf("response: %v", err)
		}
		if err != nil && h != hi {
			t.Error("response refused, but the handshake has changed")
		}

		j := jar
		took := j.ConsumeReply(msg, r.local.Public(), 0)
		if taken := typ == TypeCookieReply && same(msg, reply, 8, 64); taken != took {
			t.Errorf("cookie reply taken: %v", took)
		}
		if !took && j != jar {
			t.Error("cookie reply refused, but the jar has changed")
		}
		if !bytes.Equal(msg, in) {
			t.Error("the message was changed by a handshake function")
		}

		kr.window = Window{}
		text, opened := kr.Open(msg)
		if taken := len(in) == len(data) && same(in, data, 8, len(data)); taken != opened {
			t.Errorf("transport message opened: %v", opened)
		}
		if opened && string(text) != "hello" {
			t.Errorf("opened as %q", text)
		}
		if !opened && (kr.window != (Window{}) || !bytes.Equal(msg, in)) {
			t.Error("transport message refused, but the window or the message has changed")
		}
	})
}
