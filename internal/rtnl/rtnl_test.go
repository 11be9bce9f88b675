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

// A nested attribute has the length of what is in it, and the others follow it.
func TestNest(t *testing.T) {
	r, outer := NewRequest(unix.GENL_ID_CTRL, 0, nil).Nest(1)
	r, inner := r.Nest(2)
	r = r.Attr(3, []byte{7}).End(inner).String(4, "x").End(outer).Uint32(5, 9)
	var want []byte
	header := func(length, typ uint16) { want = native.AppendUint16(native.AppendUint16(want, length), typ) }
	header(24, 1|unix.NLA_F_NESTED)
	header(12, 2|unix.NLA_F_NESTED)
	header(5, 3)
	want = append(want, 7, 0, 0, 0)
	header(6, 4)
	want = append(want, 'x', 0, 0, 0)
	header(8, 5)
	want = native.AppendUint32(want, 9)
	if got := []byte(r[headerSize:]); !bytes.Equal(got, want) || native.Uint32(r) != uint32(len(r)) {
		t.Errorf("length %d of %d:\n got %x\nwant %x", native.Uint32(r), len(r), got, want)
	}
}

// What ends a list may be an error, and an answer leaves nothing behind when it is wiped.
func TestGeneric(t *testing.T) {
	for code, want := range map[int32]error{0: nil, -int32(unix.ENODEV): unix.ENODEV} {
		r := NewRequest(unix.NLMSG_DONE, 0, native.AppendUint32(nil, uint32(code)))
		for m := range Messages(r) {
			if err := m.Err(); err != want {
				t.Errorf("%d: %v, want %v", code, err, want)
			}
		}
	}
	c, err := DialGeneric()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := uint16(0)
	r := NewRequest(unix.GENL_ID_CTRL, 0, []byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}).String(unix.CTRL_ATTR_FAMILY_NAME, "nlctrl")
	if err := c.Get(r, func(m Message) {
		for typ, v := range m.Attrs(unix.GENL_HDRLEN) {
			if typ == unix.CTRL_ATTR_FAMILY_ID {
				id = native.Uint16(v)
			}
		}
	}); err != nil || id != unix.GENL_ID_CTRL {
		t.Errorf("family nlctrl: %d, %v", id, err)
	}
	if c.Wipe(); c.buf != [BufferSize]byte{} {
		t.Error("the answer is still in the buffer")
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
