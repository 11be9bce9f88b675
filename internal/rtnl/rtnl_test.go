package rtnl

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// What is built is parsed back, several messages to a datagram.
func TestBuildThenParse(t *testing.T) {
	var b []byte
	for i := range 3 {
		r := LinkRequest(unix.RTM_NEWLINK, 0, 7+i).String(unix.IFLA_IFNAME, "wg0").Uint32(unix.IFLA_MTU, 1380)
		native.PutUint32(r[headerSize+8:], unix.IFF_UP)
		b = append(b, r...)
	}
	i := 0
	for m := range Messages(b) {
		l, ok := m.Link()
		if want := (Link{7 + i, "wg0", 1380, unix.IFF_UP}); !ok || l != want || m.Type != unix.RTM_NEWLINK {
			t.Errorf("message %d: got %+v %v, want %+v", i, l, ok, want)
		}
		i++
	}
	if i != 3 {
		t.Errorf("%d messages, want 3", i)
	}
}

func TestLoopback(t *testing.T) {
	c, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got Link
	if err := c.Get(LinkRequest(unix.RTM_GETLINK, 0, 1), func(m Message) { got, _ = m.Link() }); err != nil || got.Name != "lo" || got.MTU == 0 {
		t.Errorf("link 1: %+v, %v", got, err)
	}
	if err := c.Do(LinkRequest(unix.RTM_GETLINK, 0, 0).String(unix.IFLA_IFNAME, "nosuchlink")); err != unix.ENODEV {
		t.Errorf("an unknown link: %v, want ENODEV", err)
	}
	var conf Netconf
	known := false
	if err := c.Get(NetconfRequest(unix.AF_INET, 1), func(m Message) { conf, known = m.Netconf() }); err != nil || !known || conf.Index != 1 || conf.Family != unix.AF_INET {
		t.Errorf("settings of link 1: %+v %v, %v", conf, known, err)
	}
	n := 0
	if err := c.Dump(LinkRequest(unix.RTM_GETLINK, 0, 0), func(m Message) {
		if l, ok := m.Link(); ok && l.Name == "lo" {
			n++
		}
	}); err != nil || n != 1 {
		t.Errorf("the dump has lo %d times, %v", n, err)
	}
}

// Whatever arrives, bodies and attributes lie inside it, and parsing ends.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(LinkRequest(unix.RTM_NEWLINK, 0, 7).String(unix.IFLA_IFNAME, "wg0")))
	f.Add(bytes.Repeat([]byte{16, 0, 0, 0}, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		for m := range Messages(b) {
			total += headerSize + len(m.Body)
			m.Link()
			m.Netconf()
			attrs := 0
			for _, v := range m.Attrs(LinkSize) {
				attrs += attrHeaderSize + len(v)
			}
			if attrs > len(m.Body) {
				t.Errorf("%d bytes of attributes in a body of %d", attrs, len(m.Body))
			}
		}
		if total > len(b) {
			t.Errorf("%d bytes of messages in %d", total, len(b))
		}
	})
}
