package noise

import (
	"bytes"
	"encoding/binary"
	"time"
)

// A Timestamp is a TAI64N label: seconds, then nanoseconds, big-endian. §5.4.2, §5.1.
type Timestamp [12]byte

// After reports whether t is later than u.
func (t Timestamp) After(u Timestamp) bool { return bytes.Compare(t[:], u[:]) > 0 }

const (
	tai64Epoch = 1<<62 + 10 // the label of 1970-01-01 00:00:00 UTC: TAI was 10 s ahead
	coarseness = 1 << 24    // nanoseconds: what a timestamp says about our clock
)

// A TimestampClock makes the timestamps of the initiations to one peer. The zero
// value is ready. One for each peer: a shared one would run ahead of the wall when
// many peers start at once, and a restarted daemon would be refused for as long.
type TimestampClock struct{ last Timestamp }

// Next returns the timestamp for an initiation at wall: coarsened, and later than
// the one before also where the wall is not.
func (c *TimestampClock) Next(wall time.Time) Timestamp {
	var t Timestamp
	t.set(uint64(tai64Epoch+wall.Unix()), uint32(wall.Nanosecond())&^(coarseness-1))
	if !t.After(c.last) {
		seconds, nanos := c.last.get()
		if nanos += coarseness; nanos >= 1e9 {
			seconds, nanos = seconds+1, 0
		}
		t.set(seconds, nanos)
	}
	c.last = t
	return t
}

// Follow makes the timestamps of c later than those that o has made.
func (c *TimestampClock) Follow(o TimestampClock) {
	if o.last.After(c.last) {
		c.last = o.last
	}
}

func (t *Timestamp) set(seconds uint64, nanos uint32) {
	binary.BigEndian.PutUint64(t[:8], seconds)
	binary.BigEndian.PutUint32(t[8:], nanos)
}

func (t *Timestamp) get() (seconds uint64, nanos uint32) {
	return binary.BigEndian.Uint64(t[:8]), binary.BigEndian.Uint32(t[8:])
}
