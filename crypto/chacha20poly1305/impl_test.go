package chacha20poly1305

import (
	"encoding/binary"
	"testing"

	xcrypto "golang.org/x/crypto/chacha20poly1305"
)

// each runs f once with each implementation that the CPU has.
func each(t *testing.T, f func(t *testing.T)) {
	before, _ := Implementation()
	defer Use(before)
	for _, name := range Implementations() {
		if err := Use(name); err != nil {
			t.Fatal(err)
		}
		t.Run(name, f)
	}
}

// The answer in SelfTest is x/crypto's.
func TestSelfTestAnswer(t *testing.T) {
	key, text := make([]byte, KeySize), make([]byte, selfTestLen)
	for i := range key {
		key[i] = byte(0xf0 - 7*i)
	}
	for i := range text {
		text[i] = byte(i * 0x9d >> 1)
	}
	ref := must(xcrypto.New(key))
	sum := make([]byte, tagSize)
	for i, n := range []int{0, 1, 64, 67, selfTestLen} {
		for range 2 {
			nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), uint64(i)<<32+0xfffffffe)
			sum = ref.Seal(nil, nonce, text[:n], sum[:min(n, tagSize)])[n:]
		}
	}
	if [tagSize]byte(sum) != selfTestAnswer {
		t.Errorf("selfTestAnswer is %#v, want %#v", selfTestAnswer, [tagSize]byte(sum))
	}
}

func TestImplementations(t *testing.T) {
	names := Implementations()
	if n := len(names); n == 0 || names[n-1] != "generic" {
		t.Fatalf("implementations %q: the last one is not generic", names)
	}
	if name, why := Implementation(); name != names[0] || why == "" {
		t.Errorf("in use is %q (%s) of %q: want the best", name, why, names)
	} else {
		t.Logf("in use is %q (%s) of %q", name, why, names)
	}
	each(t, func(t *testing.T) {
		if err := SelfTest(); err != nil {
			t.Error(err)
		}
	})
	before, _ := Implementation()
	if err := Use("nonesuch"); err == nil {
		t.Error("Use took an unknown name")
	}
	if after, _ := Implementation(); after != before {
		t.Errorf("a refused Use changed %s to %s", before, after)
	}
}

// The best is chosen; when it gives a wrong answer, the next.
func TestChoose(t *testing.T) {
	before, answer := active, selfTestAnswer
	defer func() { active, selfTestAnswer = before, answer }()
	active = generic
	if refused := Choose(); active != usable[0] || len(refused) != 0 {
		t.Errorf("in use is %s, refused %q", implementations[active], refused)
	}
	selfTestAnswer[0] ^= 1
	if refused := Choose(); active != generic || len(refused) != len(usable)-1 {
		t.Errorf("wrong answers: in use is %s, refused %q", implementations[active], refused)
	}
}
