package chacha20poly1305

import (
	"bytes"
	"errors"
)

// Binaries for one GOARCH run on CPUs that differ. impl_ARCH.go has
//
//	implementations   the names, by number; number 0 is the generic one
//	detect            the numbers that this CPU can run, best first, and how it knows
//	seal, open        a whole message; message_parts.go makes them of the next two
//	keyStream         one call for a message: one-time key, blocks and tail
//	poly1305.aead     one call for a message: additional data, text, lengths, tag
//	poly1305.blocks   whole blocks
//	xorBlocks         whole blocks, from which keyStreamByBlocks makes the rest
//
// and the functions among them start with a switch on active. That is a load and a
// compare a message; a table of functions would make their arguments escape to the
// heap. impl_none.go is the form without assembly.
//
// Generic code is in every build: it judges the others in the tests, and runs
// where a CPU or a tag (purego) leaves nothing else.
const generic = 0

// active is the number of the implementation in use.
var active uint8

var (
	usable []uint8 // what this CPU can run, best first, generic last
	reason string  // how the CPU was recognised
)

func init() {
	ids, why := detect()
	usable, reason = append(ids, generic), why
	active = usable[0]
}

// Choose takes the best implementation whose answers are right, and returns the
// names of those that are better but for a wrong answer. As Use, it is for the start
// of a program; without either the best is in use. An illegal instruction cannot be
// caught: detect leaves out what the CPU may not have, and the package runs nothing
// on its own, so that a person can still tell the program to Use another.
func Choose() (refused []string) {
	for _, id := range usable {
		if active = id; id == generic || SelfTest() == nil {
			break
		}
		refused = append(refused, implementations[id])
	}
	return refused
}

// Implementation returns the name of the implementation in use, and how the CPU
// was recognised, for a person to read.
func Implementation() (name, why string) { return implementations[active], reason }

// Implementations returns the names of those that this CPU can run, best first.
// The last one is "generic".
func Implementations() []string {
	names := make([]string, len(usable))
	for i, id := range usable {
		names[i] = implementations[id]
	}
	return names
}

// Use makes the named implementation the one in use, for all keys. It is for the
// start of a program: no other call of the package may run at the same time.
func Use(name string) error {
	for _, id := range usable {
		if implementations[id] == name {
			active = id
			return nil
		}
	}
	return errors.New(name + ": no such ChaCha20-Poly1305 implementation for this CPU")
}

var errSelfTest = errors.New("chacha20poly1305: wrong answer in the self-test")

// SelfTest tells whether the implementation in use gives known answers. It
// seals and opens messages and compares the tag of all that was sealed
// with the constant that x/crypto gives for the same, see TestSelfTestAnswer. The
// lengths and places reach every path of the assembly: whole blocks and tails,
// aligned and not, in place and apart, additional data.
func SelfTest() error {
	var key [KeySize]byte
	for i := range key {
		key[i] = byte(0xf0 - 7*i)
	}
	var c Cipher
	c.Init(&key)
	defer c.Wipe()

	var text [selfTestLen]byte
	for i := range text {
		text[i] = byte(i * 0x9d >> 1)
	}
	var sum [tagSize]byte
	var buf [selfTestLen + 3 + Overhead]byte
	for i, n := range [...]int{0, 1, 64, 67, selfTestLen} {
		for off := range 2 {
			// The tag of one message is the additional data of the next.
			counter := uint64(i)<<32 + 0xfffffffe
			src := text[:n]
			b := buf[3*off:][:n+Overhead]
			if off == 1 {
				copy(b, src)
				src = b[:n]
			}
			ad := sum[:min(n, tagSize)]
			c.Seal(b, counter, src, ad)
			next := [tagSize]byte(b[n:])
			if !c.Open(b, counter, b, ad) || !bytes.Equal(b[:n], text[:n]) {
				return errSelfTest
			}
			b[n] ^= 1
			if c.Open(b, counter, b, ad) {
				return errSelfTest
			}
			sum = next
		}
	}
	if sum != selfTestAnswer {
		return errSelfTest
	}
	return nil
}

const selfTestLen = 64*3 + 16 + 5

var selfTestAnswer = [tagSize]byte{
	0x91, 0xae, 0x84, 0x71, 0xc2, 0x1a, 0x91, 0x55, 0x9c, 0x8c, 0xdd, 0xae, 0x59, 0xd4, 0xfd, 0x2b,
}
