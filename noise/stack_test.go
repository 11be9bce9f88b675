package noise

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"wgd/crypto/chacha20poly1305"
)

// deadStack copies the stack below its caller's frame, lowest address first: what
// calls that have returned left there.
//
//go:noinline
func deadStack(out []byte) {
	var here byte
	end := unsafe.Pointer(&here)
	for i := range out {
		out[i] = *(*byte)(unsafe.Add(end, i-len(out)))
	}
}

// piecesOf counts 8-byte pieces of k's keys in b, as bytes and as words.
func piecesOf(k *Keypair, b []byte) (n int) {
	for _, c := range []*chacha20poly1305.Cipher{&k.send, &k.receive} {
		words := (*[8]uint32)(unsafe.Pointer(c))
		for i := 0; i < 8; i += 2 {
			piece := binary.LittleEndian.AppendUint32(nil, words[i])
			piece = binary.LittleEndian.AppendUint32(piece, words[i+1])
			n += bytes.Count(b, piece)
			piece = binary.NativeEndian.AppendUint32(piece[:0], words[i])
			piece = binary.NativeEndian.AppendUint32(piece, words[i+1])
			n += bytes.Count(b, piece)
		}
	}
	return n
}

// The session keys must not be found on the stack once handshake work is done and
// scrubbed.
func TestScrubStack(t *testing.T) {
	if unsafe.Sizeof(chacha20poly1305.Cipher{}) != 32 {
		t.Fatal("the cipher is not just its key any more")
	}
	out := make([]byte, scrubSize-1024) // deadStack's frame is in the way
	ki := new(Keypair)
	i, r := sides(testPSK)
	for _, scrub := range []bool{false, true} {
		ScrubStack() // deep enough for all that follows
		var hi, hr Handshake
		m1 := must(hi.CreateInitiation(nil, i.local, &i.remote, &i.ephemeral, i.index, testTime))
		must(hr.ConsumeInitiation(m1, r.local, r.find))
		m2 := must(hr.CreateResponse(nil, r.local, &r.remote, &r.ephemeral, r.index))
		must(0, hi.ConsumeResponse(m2, i.local, &i.remote))
		ki, _ = hi.Keypair(0)
		if scrub {
			ScrubStack()
		}
		deadStack(out)
		n := piecesOf(ki, out)
		t.Logf("scrubbed %v: %d pieces of a key on the dead stack", scrub, n)
		if scrub && n != 0 || !scrub && n == 0 { // without, to see that the test sees
			t.Errorf("scrubbed %v: %d pieces of a key on the dead stack", scrub, n)
		}
	}
}
