package noise

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// naiveWindow is what Window must be, from the definition.
type naiveWindow struct {
	seen    map[uint64]bool
	highest uint64
}

func (w *naiveWindow) Update(counter uint64) bool {
	if w.seen == nil {
		w.seen = map[uint64]bool{}
	}
	tooOld := len(w.seen) > 0 && w.highest >= WindowSize && counter <= w.highest-WindowSize
	if counter >= RejectAfterMessages || tooOld || w.seen[counter] {
		return false
	}
	w.seen[counter] = true
	w.highest = max(w.highest, counter)
	return true
}

func TestWindow(t *testing.T) {
	const (
		size  = uint64(WindowSize)
		limit = uint64(RejectAfterMessages)
	)
	type step struct {
		counter uint64
		want    bool
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"a counter counts once", []step{{0, true}, {0, false}, {1, true}, {1, false}, {0, false}}},
		{"it may start anywhere", []step{{12345, true}, {12345, false}, {12344, true}}},
		{"order does not matter", []step{{9, true}, {5, true}, {7, true}, {6, true}, {8, true}, {7, false}, {9, false}}},
		{"at least 8000 are told apart", []step{{8000, true}, {1, true}, {1, false}}},
		{"the oldest that is told apart", []step{{size, true}, {1, true}, {1, false}, {0, false}}},
		{"the one that is too old", []step{{size - 1, true}, {0, true}, {size, true}, {0, false}}},
		{"the oldest, from the end of a word", []step{{size + 31, true}, {32, true}, {31, false}}},
		{"a jump by a round forgets all", []step{{5, true}, {8192 + 5, true}, {5, false}, {8192 + 4, true}, {8192 - 1, true}}},
		{"a jump by many rounds", []step{{5, true}, {1 << 40, true}, {1<<40 - size + 1, true}, {1<<40 - size, false}, {1<<40 + 1, true}}},
		{"a jump to the next word keeps the old one", []step{{31, true}, {32, true}, {31, false}, {30, true}}},
		{"from the limit on all are refused", []step{{limit, false}, {1<<64 - 1, false}, {0, true}, {limit - 1, true}, {limit - 1, false}, {limit, false}, {0, false}, {limit - 2, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w Window
			for n, st := range tt.steps {
				if got := w.Update(st.counter); got != st.want {
					t.Fatalf("step %d, counter %d: got %v, want %v", n, st.counter, got, st.want)
				}
			}
		})
	}
}

// Random walks: mostly forward, some reordering, some jumps of about a window.
func TestWindowAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		var w Window
		var model naiveWindow
		next := rng.Uint64N(100)
		for n := range 3000 {
			counter := next
			switch rng.IntN(8) {
			case 0:
				counter -= min(counter, rng.Uint64N(64))
			case 1:
				counter -= min(counter, WindowSize-4+rng.Uint64N(8))
			case 2:
				counter += rng.Uint64N(40)
			case 3:
				if rng.IntN(40) == 0 {
					counter += rng.Uint64N(3 * 8192)
				}
			}
			next = max(next, counter+1)
			if got, want := w.Update(counter), model.Update(counter); got != want {
				t.Fatalf("step %d, counter %d, highest %d: got %v, want %v", n, counter, model.highest, got, want)
			}
		}
	}
}

// FuzzWindow reads steps of three bytes: a signed distance from the highest counter.
func FuzzWindow(f *testing.F) {
	f.Add(uint64(0), []byte{0, 0, 1, 0, 0, 1, 0, 0, 0})
	f.Add(uint64(8192), []byte{0, 0x20, 0, 0xff, 0xe0, 0x20, 0xff, 0xe0, 0x1f, 0xff, 0xff, 0xff})
	f.Add(uint64(RejectAfterMessages-2), []byte{0, 0, 1, 0, 0, 1, 0xff, 0xff, 0xfe})
	f.Fuzz(func(t *testing.T, first uint64, steps []byte) {
		var w Window
		var model naiveWindow
		counter := first
		for {
			if got, want := w.Update(counter), model.Update(counter); got != want {
				t.Fatalf("counter %d, highest %d: got %v, want %v", counter, model.highest, got, want)
			}
			if len(steps) < 3 {
				return
			}
			distance := int32(binary.BigEndian.Uint32([]byte{steps[0], steps[1], steps[2], 0})) >> 8
			counter = model.highest + uint64(int64(distance))
			steps = steps[3:]
		}
	})
}
