package noise

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"time"
)

func TestTimestampClock(t *testing.T) {
	type step struct {
		wall time.Time
		want string // label: 8 bytes of seconds, 4 of nanoseconds
	}
	at := time.Unix
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"the label of 1970 is 2^62 + 10 s", []step{{at(0, 0), "400000000000000a" + "00000000"}}},
		{"before 1970 too", []step{{at(-11, 0), "3fffffffffffffff" + "00000000"}}},
		{"the zone does not matter", []step{{at(1, 0).In(time.FixedZone("", 3600)), "400000000000000b" + "00000000"}}},
		{"nanoseconds are cut to 2^24", []step{{at(0, 999_999_999), "400000000000000a" + "3b000000"}}},
		{"the same tick twice moves on by one", []step{
			{at(5, 1<<24), "400000000000000f" + "01000000"},
			{at(5, 1<<24+9), "400000000000000f" + "02000000"},
			{at(5, 3<<24), "400000000000000f" + "03000000"},
		}},
		{"a wall that goes back does not matter", []step{
			{at(100, 0), "400000000000006e" + "00000000"},
			{at(2, 0), "400000000000006e" + "01000000"},
			{at(100, 1<<24), "400000000000006e" + "02000000"},
			{at(101, 0), "400000000000006f" + "00000000"},
		}},
		{"past the last tick of a second comes the next", []step{
			{at(5, 999_999_999), "400000000000000f" + "3b000000"},
			{at(5, 999_999_999), "4000000000000010" + "00000000"},
			{at(5, 999_999_999), "4000000000000010" + "01000000"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c TimestampClock
			for n, st := range tt.steps {
				ts := c.Next(st.wall)
				if got := hex.EncodeToString(ts[:]); got != st.want {
					t.Errorf("step %d: got %s, want %s", n, got, st.want)
				}
			}
		})
	}
}

func TestTimestampsOnlyGrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c TimestampClock
	var last Timestamp
	wall := time.Unix(1<<31, 0)
	for n := range 10000 {
		wall = wall.Add(time.Duration(rng.Int64N(int64(50*time.Millisecond))) - 20*time.Millisecond)
		ts := c.Next(wall)
		if !ts.After(last) || last.After(ts) || ts.After(ts) {
			t.Fatalf("step %d: %x, then %x", n, last, ts)
		}
		if _, nanos := ts.get(); nanos%(1<<24) != 0 || nanos >= 1e9 {
			t.Fatalf("step %d: %d ns", n, nanos)
		}
		last = ts
	}
}
