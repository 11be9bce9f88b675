package chacha20poly1305

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"slices"
	"testing"
)

// A macForm is one form of Poly1305; its accumulator can be set, for the carries
// that no short message reaches.
type macForm interface {
	init(*[32]byte)
	add(p []byte, hibit uint32)
	sum(*[tagSize]byte)
	load(h *big.Int)
	top() uint64 // what h holds above 2¹²⁸
}

type (
	form32 struct{ poly1305x32 }
	form64 struct{ poly1305x64 }
	chosen struct{ poly1305 }
)

func (f *form32) add(p []byte, hibit uint32) { f.blocksGeneric(p, hibit) }
func (f *form64) add(p []byte, hibit uint32) { f.blocksGeneric(p, hibit) }
func (f *chosen) add(p []byte, hibit uint32) { f.blocks(p, hibit) }

func (m *poly1305x32) load(h *big.Int) {
	b := littleEndian(h, 20)
	for i := range m.h {
		m.h[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
}

func (m *poly1305x64) load(h *big.Int) {
	b := littleEndian(h, 24)
	for i := range m.h {
		m.h[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
}

func (m *poly1305x32) top() uint64 { return uint64(m.h[4]) }
func (m *poly1305x64) top() uint64 { return m.h[2] }

var macs = []struct {
	name string
	new  func() macForm
}{
	{"32-bit", func() macForm { return new(form32) }},
	{"64-bit", func() macForm { return new(form64) }},
	{"chosen", func() macForm { return new(chosen) }},
}

// mac is Poly1305 of a message of any length, RFC 8439 §2.5.1; the AEAD itself
// only has whole blocks.
func mac(m macForm, key *[32]byte, msg []byte) (tag [tagSize]byte) {
	m.init(key)
	whole := len(msg) &^ 15
	m.add(msg[:whole], 1)
	if tail := msg[whole:]; len(tail) > 0 {
		var b [16]byte
		b[copy(b[:], tail)] = 1
		m.add(b[:], 0)
	}
	m.sum(&tag)
	return tag
}

var (
	one = big.NewInt(1)
	p   = new(big.Int).Sub(pow2(130), big.NewInt(5))
)

func pow2(n uint) *big.Int { return new(big.Int).Lsh(one, n) }

func littleEndian(n *big.Int, size int) []byte {
	b := n.FillBytes(make([]byte, size))
	slices.Reverse(b)
	return b
}

func bigInt(le []byte) *big.Int {
	b := bytes.Clone(le)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// bigMAC is the definition, RFC 8439 §2.5, from accumulator h on.
func bigMAC(h *big.Int, key *[32]byte, msg []byte) []byte {
	rb := bytes.Clone(key[:16])
	for i := 3; i < 16; i += 4 {
		rb[i] &= 15
	}
	for i := 4; i < 16; i += 4 {
		rb[i] &= 252
	}
	r, s := bigInt(rb), bigInt(key[16:])
	h = new(big.Int).Set(h)
	for block := range slices.Chunk(msg, 16) {
		h.Add(h, bigInt(append(bytes.Clone(block), 1)))
		h.Mul(h, r)
		h.Mod(h, p)
	}
	h.Mod(h, p)
	h.Add(h, s)
	return littleEndian(h.Mod(h, pow2(128)), tagSize)
}

func TestPoly1305Carries(t *testing.T) { each(t, testPoly1305Carries) }

func testPoly1305Carries(t *testing.T) {
	ff := bytes.Repeat([]byte{0xff}, 16)
	words := func(w ...*big.Int) (list [][]byte) {
		for _, w := range w {
			list = append(list, littleEndian(new(big.Int).Mod(w, pow2(128)), 16))
		}
		return list
	}
	add := func(a *big.Int, n int64) *big.Int { return new(big.Int).Add(a, big.NewInt(n)) }

	// The accumulator may be anything below 5·2¹²⁸: see the bounds in blocksGeneric.
	limit := new(big.Int).Mul(big.NewInt(5), pow2(128))
	hs := []*big.Int{new(big.Int), one, add(limit, -1), add(p, -6), add(pow2(128), -1), add(pow2(129), -1), pow2(64), add(pow2(64), -1), pow2(32), pow2(96)}
	for n := int64(-2); n <= 6; n++ {
		hs = append(hs, add(p, n), add(pow2(128), n), add(pow2(130), n+3))
	}
	numbers := words(new(big.Int), one, big.NewInt(2), big.NewInt(4), add(p, -1), p, add(p, 1), add(pow2(128), -1), add(pow2(128), -2),
		pow2(31), pow2(32), add(pow2(32), -1), pow2(63), pow2(64), add(pow2(64), -1), pow2(95), pow2(96), pow2(127), add(pow2(127), -1))
	numbers = append(numbers, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 2), bytes.Repeat([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 2))
	ss := words(new(big.Int), one, add(pow2(128), -1), add(pow2(128), -5), add(pow2(64), -1))

	if testing.Short() {
		ss = ss[1:3]
	}

	for _, f := range macs {
		for _, h := range hs {
			for _, r := range numbers {
				for _, s := range ss {
					key := [32]byte(append(bytes.Clone(r), s...))
					for _, msg := range [][]byte{nil, ff, make([]byte, 16), numbers[4], numbers[5], numbers[6], append(bytes.Clone(ff), ff...)} {
						m := f.new()
						m.init(&key)
						m.load(h)
						m.add(msg, 1)
						if m.top() > 4 {
							t.Fatalf("%s: h %x key %x message %x: top word %d, want at most 4", f.name, h, key, msg, m.top())
						}
						var got [tagSize]byte
						m.sum(&got)
						if want := bigMAC(h, &key, msg); !bytes.Equal(got[:], want) {
							t.Fatalf("%s: h %x key %x message %x: got %x, want %x", f.name, h, key, msg, got, want)
						}
					}
				}
			}
		}
	}
}

// The tag of a whole message with each sum that its last steps can meet: h around p,
// 2¹³⁰ and the edges of words, and s that carries through.
func TestTagCarries(t *testing.T) { each(t, testTagCarries) }

func testTagCarries(t *testing.T) {
	const adLen, textLen = 3, 20
	message := append([]byte{1, 2, 3}, make([]byte, 13)...)
	message = append(message, random("text", textLen)...)
	message = append(message, make([]byte, 12)...)
	lengths := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, adLen), textLen)
	message = append(message, lengths...)

	sums := []*big.Int{pow2(128), pow2(129), new(big.Int).Sub(pow2(130), pow2(32)), new(big.Int).Sub(pow2(130), pow2(96))}
	for n := int64(-8); n <= 8; n++ {
		sums = append(sums, new(big.Int).Add(p, big.NewInt(n)))
	}
	// With r = 1 the accumulator is the sum of all blocks: start from what is missing.
	blocks := new(big.Int)
	for block := range slices.Chunk(message, 16) {
		blocks.Add(blocks, bigInt(append(bytes.Clone(block), 1)))
	}
	for _, sum := range sums {
		h := new(big.Int).Sub(sum, blocks)
		h.Mod(h, p)
		for _, s := range [][]byte{make([]byte, 16), bytes.Repeat([]byte{0xff}, 16), append(bytes.Repeat([]byte{0xff}, 15), 0x7f), random("s", 16)} {
			key := [32]byte(append(littleEndian(one, 16), s...))
			m := new(chosen)
			m.init(&key)
			m.load(h)
			var got [tagSize]byte
			m.aead(&got, message[:adLen], message[16:16+textLen])
			if want := bigMAC(h, &key, message); !bytes.Equal(got[:], want) {
				t.Errorf("sum %x, s %x: got %x, want %x", sum, s, got, want)
			}
		}
	}
}

func FuzzPoly1305(f *testing.F) {
	ff := bytes.Repeat([]byte{0xff}, 80)
	f.Add(make([]byte, 16), make([]byte, 32), []byte{}, byte(0))
	f.Add(ff[:16], ff[:32], ff, byte(4))
	f.Add(ff[:16], ff[:32], ff[:33], byte(3))
	f.Add(littleEndian(new(big.Int).Sub(p, one), 17)[:16], unhex(jabberKey), []byte(jabber), byte(3))
	for _, v := range macVectors {
		f.Add(make([]byte, 16), unhex(v.key), unhex(v.message), byte(0))
	}
	f.Fuzz(func(t *testing.T, low, keyBytes, msg []byte, top byte) {
		var key [32]byte
		copy(key[:], keyBytes)
		h := make([]byte, 17)
		copy(h[:16], low)
		h[16] = top % 5
		whole := msg[:len(msg)&^15]
		var zero [16]byte
		forms := macs
		before := active
		defer func() { active = before }()
		for _, id := range usable {
			forms = append(forms[:len(forms):len(forms)], struct {
				name string
				new  func() macForm
			}{implementations[id], func() macForm { active = id; return new(chosen) }})
		}
		for _, f := range forms {
			m := f.new()
			m.init(&key)
			m.load(bigInt(h))
			m.add(whole, 1)
			var got [tagSize]byte
			m.sum(&got)
			if want := bigMAC(bigInt(h), &key, whole); !bytes.Equal(got[:], want) {
				t.Errorf("%s: h %x key %x message %x: got %x, want %x", f.name, h, key, whole, got, want)
			}
			got = mac(f.new(), &key, msg)
			if want := bigMAC(bigInt(zero[:]), &key, msg); !bytes.Equal(got[:], want) {
				t.Errorf("%s: key %x message %x: got %x, want %x", f.name, key, msg, got, want)
			}
		}
	})
}
