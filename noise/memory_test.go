package noise

import (
	"bufio"
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"wgd/crypto/chacha20poly1305"
	"wgd/internal/loud"
)

const pieceSize = 16

// A piece is 16 bytes of a secret, inverted so as not to be found itself.
type piece struct {
	of       string
	inverted [pieceSize]byte
}

// pieces returns both halves of a secret.
func pieces(of string, secret []byte) (out []piece) {
	for ; len(secret) >= pieceSize; secret = secret[pieceSize:] {
		p := piece{of: of}
		for i := range p.inverted {
			p.inverted[i] = ^secret[i]
		}
		out = append(out, p)
	}
	return out
}

// memory calls f with this process's writable memory, a chunk at a time, inverted:
// the search must not put the secrets into registers, which a signal may store.
func memory(t *testing.T, f func(b []byte)) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		loud.Skip(t, err)
	}
	defer maps.Close()
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		loud.Skip(t, err)
	}
	defer mem.Close()
	ones := bytes.Repeat([]byte{0xff}, 1<<20)
	chunk := make([]byte, 1<<20) // part of the memory too: cleared after each use
	for s := bufio.NewScanner(maps); s.Scan(); {
		var from, to uint64
		var mode string
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x %s", &from, &to, &mode); n != 3 || !strings.HasPrefix(mode, "rw") {
			continue
		}
		for at := from; at < to; {
			n, err := mem.ReadAt(chunk[:min(uint64(len(chunk)), to-at)], int64(at))
			if n == 0 || err != nil {
				break
			}
			subtle.XORBytes(chunk[:n], chunk[:n], ones)
			f(chunk[:n])
			clear(chunk)
			at += uint64(n)
		}
	}
}

// handshakeAndForget does what a device does with one handshake, and returns the
// secrets that there were.
//
//go:noinline
func handshakeAndForget(data []byte, name string) (all []piece) {
	is, rs, ie, re := named("i"+name), named("r"+name), named("ie"+name), named("re"+name)
	l, k := NewLocal(&is), NewLocal(&rs)
	r := NewRemote(k.Public(), testPSK)
	i := NewRemote(l.Public(), testPSK)
	var hi, hr Handshake
	m1 := must(hi.CreateInitiation(nil, l, &r, &ie, 1, testTime))
	must(hr.ConsumeInitiation(m1, k, func(PublicKey) *Remote { return &i }))
	all = append(all, pieces("chaining key after message 1", hi.chainKey[:])...)
	m2 := must(hr.CreateResponse(nil, k, &i, &re, 2))
	must(0, hi.ConsumeResponse(m2, l, &r))
	all = append(all, pieces("chaining key after message 2", hi.chainKey[:])...)
	all = append(all, pieces("static-static", r.staticStatic[:])...)
	ki, kr := must(hi.Keypair(0)), must(hr.Keypair(0))
	for _, c := range []*chacha20poly1305.Cipher{&ki.send, &ki.receive} {
		words := (*[32]byte)(unsafe.Pointer(c))
		all = append(all, pieces("session key as words", words[:])...)
		var key [32]byte
		for i, w := range (*[8]uint32)(unsafe.Pointer(c)) {
			binary.LittleEndian.PutUint32(key[4*i:], w)
		}
		all = append(all, pieces("session key", key[:])...)
		wipe(key[:])
	}

	n, _ := ki.Seal(data, data[HeaderSize:1000])
	kr.Open(data[:n])
	n, _ = kr.Seal(data, data[HeaderSize:1000])
	ki.Open(data[:n])

	for _, kp := range []*Keypair{ki, kr} {
		kp.WipeSend()
		kp.WipeReceive()
	}
	for _, r := range []*Remote{&i, &r} {
		r.Wipe()
	}
	for of, k := range map[string]*PrivateKey{
		"initiator's static key": &is, "responder's static key": &rs,
		"initiator's ephemeral key": &ie, "responder's ephemeral key": &re,
	} {
		all = append(all, pieces(of, k[:])...)
		k.Wipe()
	}
	l.Wipe() // and k is dropped
	return all
}

// collect returns when the finalizers of what is garbage now have run: all run in
// one goroutine, so those of an earlier collection before those of a later one.
func collect() {
	runtime.GC()
	done := make(chan struct{})
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(done) })
	runtime.GC()
	<-done
}

// Keys and what they come from are gone from all memory once wiped: stacks,
// heap and its garbage.
func TestNoSecretStaysInMemory(t *testing.T) {
	const text = "a mark, to see that it sees marks"
	mark := bytes.Repeat([]byte(text), 2)
	defer runtime.KeepAlive(mark)
	data := make([]byte, 2000)
	// A signal in the midst of the work stores registers where nobody can clear them.
	// That is rare; three times in a row it is something else.
	for attempt := range 3 {
		ScrubStack()
		secrets := handshakeAndForget(data, fmt.Sprint(attempt))
		ScrubStack()
		collect()

		marks, left := 0, map[string]int{}
		known := pieces("mark", []byte(text))
		memory(t, func(b []byte) {
			marks += bytes.Count(b, known[0].inverted[:])
			for _, p := range secrets {
				if n := bytes.Count(b, p.inverted[:]); n > 0 {
					left[p.of] += n
				}
			}
		})
		if marks == 0 {
			t.Fatal("the mark is not found")
		}
		if len(left) == 0 {
			return
		}
		t.Log("left in memory:", left)
	}
	t.Error("secrets are left in memory")
}
