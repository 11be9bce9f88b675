package tun

// Headroom is the room in front of a packet in each buffer that is written: there
// was the header of the transport message (§5.4.6); a header for the kernel goes
// there. A packet that was read lies as far behind the start of its buffer, so that
// it is aligned to words behind the ten bytes of a vnet header.
const Headroom = 16

// MaxPadding is how far a packet from Next may be padded in place.
const MaxPadding = 15

const maxPacket = 65535 // bytes of an IP packet

// A Super is what one read from the interface gave: a packet, or a super-packet that
// Next cuts into packets in place.
type Super struct {
	buf  []byte // headroom, what was read, room for padding
	rest []byte // of buf: what Next has not given out
}

// NewSuper returns an empty one for Device.TryRead to fill.
func NewSuper() *Super { return &Super{buf: make([]byte, Headroom+maxPacket+MaxPadding)} }

// Set makes s one packet.
func (s *Super) Set(packet []byte) {
	n := copy(s.buf[Headroom:Headroom+maxPacket], packet)
	s.rest = s.buf[Headroom : Headroom+n]
}

// Next returns the next packet, or nil. The MaxPadding bytes behind it, which are
// within its capacity, may be changed until the next call.
func (s *Super) Next() []byte {
	p := s.rest
	s.rest = nil
	if len(p) == 0 {
		return nil
	}
	return p[: len(p) : len(p)+MaxPadding]
}
