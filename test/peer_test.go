package test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/flynn/noise"
	"golang.org/x/crypto/blake2s"
	"golang.org/x/sys/unix"
)

// A peer is a WireGuard node whose every message a test decides. Its handshake is
// flynn/noise's, so that it shares nothing with the daemon, and its session keys
// can be read.
type peer struct {
	t      testing.TB
	key    keypair
	remote [32]byte // the daemon's public key
	psk    [32]byte
	conn   *net.UDPConn
	to     netip.AddrPort

	index      uint32 // ours, the same for each session
	theirs     uint32
	counter    uint64
	send, recv *noise.CipherState
}

// peer opens a socket at addr in the host for a node that speaks to the daemon
// with that public key at to.
func (h *host) peer(addr string, key keypair, remote, to string) *peer {
	h.t.Helper()
	return &peer{t: h.t, key: key, remote: [32]byte(fromBase64(remote)), conn: h.udp(addr), to: mustEndpoint(to), index: 0x11223344}
}

// initiation is message 1 with a valid mac1: §5.4.2.
func (p *peer) initiation(at time.Time) ([]byte, *noise.HandshakeState) {
	p.t.Helper()
	hs, err := noise.NewHandshakeState(noise.Config{
		CipherSuite: noise.NewCipherSuite(noise.DH25519, noise.CipherChaChaPoly, noise.HashBLAKE2s),
		Random:      rand.Reader, Pattern: noise.HandshakeIK, Initiator: true,
		Prologue:     []byte("WireGuard v1 zx2c4 Jason@zx2c4.com"),
		PresharedKey: p.psk[:], PresharedKeyPlacement: 2,
		StaticKeypair: noise.DHKey{Private: p.key.secret.Bytes(), Public: p.key.secret.PublicKey().Bytes()},
		PeerStatic:    p.remote[:],
	})
	if err != nil {
		p.t.Fatal(err)
	}
	msg := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, p.index)
	msg, _, _, err = hs.WriteMessage(msg, tai64n(at))
	if err != nil {
		p.t.Fatal(err)
	}
	return append(msg, append(p.mac1(msg), make([]byte, 16)...)...), hs
}

// mac1 is that of a message to the daemon: §5.4.4.
func (p *peer) mac1(msg []byte) []byte {
	key := blake2s.Sum256(append([]byte("mac1----"), p.remote[:]...))
	mac, err := blake2s.New128(key[:])
	if err != nil {
		p.t.Fatal(err)
	}
	mac.Write(msg)
	return mac.Sum(nil)
}

func tai64n(at time.Time) []byte {
	b := binary.BigEndian.AppendUint64(nil, 1<<62+10+uint64(at.Unix()))
	return binary.BigEndian.AppendUint32(b, uint32(at.Nanosecond()))
}

// read returns the next datagram from the daemon.
func (p *peer) read(limit time.Duration) ([]byte, error) {
	buf := make([]byte, 1<<16)
	p.conn.SetReadDeadline(time.Now().Add(limit))
	n, _, err := p.conn.ReadFromUDPAddrPort(buf)
	return buf[:n], err
}

// handshake makes a session, as the initiator.
func (p *peer) handshake() {
	p.t.Helper()
	for range 5 {
		msg, hs := p.initiation(time.Now())
		p.conn.WriteToUDPAddrPort(msg, p.to)
		for {
			reply, err := p.read(2 * time.Second)
			if err != nil {
				break
			}
			if len(reply) != 92 || reply[0] != 2 || binary.LittleEndian.Uint32(reply[8:]) != p.index {
				continue
			}
			if _, p.send, p.recv, err = hs.ReadMessage(nil, reply[12:60]); err != nil {
				p.t.Fatalf("the daemon's response: %v", err)
			}
			p.theirs, p.counter = binary.LittleEndian.Uint32(reply[4:]), 0
			return
		}
	}
	p.t.Fatal("no response in five tries")
}

// seal is a transport message around an inner packet: §5.4.6.
func (p *peer) seal(inner []byte) []byte {
	msg := binary.LittleEndian.AppendUint32([]byte{4, 0, 0, 0}, p.theirs)
	msg = binary.LittleEndian.AppendUint64(msg, p.counter)
	padded := append(bytes.Clone(inner), make([]byte, -len(inner)&15)...)
	msg = p.send.Cipher().Encrypt(msg, p.counter, nil, padded)
	p.counter++
	return msg
}

// write sends an inner packet, the outer one with the TOS byte.
func (p *peer) write(inner []byte, tos int) {
	p.t.Helper()
	raw, err := p.conn.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		level, name := unix.IPPROTO_IP, unix.IP_TOS
		if p.to.Addr().Is6() {
			level, name = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		}
		err = unix.SetsockoptInt(int(fd), level, name, tos)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.conn.WriteToUDPAddrPort(p.seal(inner), p.to); err != nil {
		p.t.Fatal(err)
	}
}

// receive returns the next inner packet that is not a keepalive.
func (p *peer) receive(limit time.Duration) ([]byte, error) {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		msg, err := p.read(time.Until(end))
		if err != nil {
			return nil, err
		}
		if len(msg) < 32 || msg[0] != 4 || binary.LittleEndian.Uint32(msg[4:]) != p.index {
			continue
		}
		inner, err := p.recv.Cipher().Decrypt(nil, binary.LittleEndian.Uint64(msg[8:]), nil, msg[16:])
		if err != nil {
			return nil, err
		}
		if len(inner) > 0 {
			return inner, nil
		}
	}
	return nil, errors.New("nothing but keepalives")
}

// udpPacket is an inner UDP datagram without a checksum (IPv4) or with one (IPv6).
func udpPacket(src, dst netip.AddrPort, tos byte, data string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, src.Port())
	udp = binary.BigEndian.AppendUint16(udp, dst.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(data)))
	udp = append(append(udp, 0, 0), data...)
	if src.Addr().Is4() {
		ip := []byte{0x45, tos, 0, 0, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0}
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(udp)))
		ip = append(append(ip, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
		binary.BigEndian.PutUint16(ip[10:], checksum(ip))
		return append(ip, udp...)
	}
	ip := []byte{0x60 | tos>>4, tos << 4, 0, 0, 0, 0, unix.IPPROTO_UDP, 64}
	binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
	ip = append(append(ip, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
	pseudo := append(bytes.Clone(ip[8:40]), 0, 0, 0, 0, 0, 0, 0, unix.IPPROTO_UDP)
	binary.BigEndian.PutUint16(pseudo[34:], uint16(len(udp)))
	binary.BigEndian.PutUint16(udp[6:], checksum(append(pseudo, udp...)))
	return append(ip, udp...)
}

// checksum is the Internet checksum, RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// A daemon and, on the other host, a peer of it.
func daemonAndPeer(t testing.TB, outer6 bool) (*daemon, *peer) {
	t.Helper()
	ha, hb := newPair(t)
	d := ha.daemon(wgd(t))
	key, kp := newKey(), newKey()
	d.set("private_key=" + asHex(key.private) + "\nlisten_port=" + port + "\npublic_key=" + asHex(kp.public) + "\nallowed_ip=10.0.0.2/32\nallowed_ip=fd00::2/128\n")
	d.ip("addr add 10.0.0.1/24 dev "+d.ifname, "addr add fd00::1/64 dev "+d.ifname+" nodad", "link set "+d.ifname+" up")
	from, to := outerB+":4000", outerA+":"+port
	if outer6 {
		from, to = "["+outerB6+"]:4000", "["+outerA6+"]:"+port
	}
	p := hb.peer(from, kp, key.public, to)
	return d, p
}

// An independent peer gets through both ways, and what is replayed, altered, or
// from an address that is not allowed does not come in.
func TestIndependentPeer(t *testing.T) {
	t.Parallel()
	d, p := daemonAndPeer(t, false)
	arrived := d.sniff(d.ifname)
	has := func(data string) func(packet) bool {
		return func(q packet) bool { return !q.sent && string(q.payload) == data }
	}
	src, dst := mustEndpoint("10.0.0.2:7"), mustEndpoint("10.0.0.1:7")
	p.handshake()
	p.write(udpPacket(src, dst, 0, "first"), 0)
	arrived.find("the first packet", has("first"))

	genuine := p.seal(udpPacket(src, dst, 0, "twice"))
	altered := p.seal(udpPacket(src, dst, 0, "altered"))
	altered[20] ^= 1
	for _, msg := range [][]byte{genuine, genuine, altered,
		p.seal(udpPacket(mustEndpoint("10.0.0.3:7"), dst, 0, "not allowed")), p.seal([]byte{0x45}), p.seal([]byte("nonsense")), p.seal(nil)} {
		p.conn.WriteToUDPAddrPort(msg, p.to)
	}
	skipped := p.counter
	p.counter += 7000 // the window takes what is this late
	p.write(udpPacket(src, dst, 0, "ahead"), 0)
	ahead := p.counter
	p.counter = skipped
	p.write(udpPacket(src, dst, 0, "late"), 0)
	p.counter = ahead
	p.write(udpPacket(src, dst, 0, "last"), 0)
	arrived.find("the last packet", has("last"))
	for _, want := range []struct {
		data string
		n    int
	}{{"twice", 1}, {"altered", 0}, {"not allowed", 0}, {"ahead", 1}, {"late", 1}} {
		if n := len(arrived.all(has(want.data))); n != want.n {
			t.Errorf("%q came in %d times, want %d", want.data, n, want.n)
		}
	}

	c := d.udp("10.0.0.1:0")
	c.WriteToUDPAddrPort([]byte("back"), src)
	for { // ICMP errors about port 7 come first
		inner, err := p.receive(5 * time.Second)
		if err != nil {
			t.Fatalf("from the daemon: %v", err)
		}
		if q, ok := parsePacket(inner); ok && q.dst == src && bytes.HasPrefix(q.payload, []byte("back")) {
			break
		}
	}
}

// A CE mark on the outer packet goes to an inner packet that is ECN-capable; all
// others pass as they are (A13).
func TestCongestionMarkOnReceipt(t *testing.T) {
	t.Parallel()
	for _, outer6 := range []bool{false, true} {
		d, p := daemonAndPeer(t, outer6)
		p.handshake()
		arrived := d.sniff(d.ifname)
		for _, family := range []struct{ src, dst string }{{"10.0.0.2:7", "10.0.0.1:7"}, {"[fd00::2]:7", "[fd00::1]:7"}} {
			for _, ecn := range []struct{ outer, in, want byte }{
				{3, 0xb9, 0xbb}, {3, 0xba, 0xbb}, {3, 0xbb, 0xbb}, // CE on capable packets
				{3, 0xb8, 0xb8}, // not capable: not marked, not dropped
				{0, 0xb9, 0xb9}, {1, 0xba, 0xba}, {2, 0xb9, 0xb9}, {0, 0xbb, 0xbb}, {2, 0, 0},
			} {
				arrived.forget()
				p.write(udpPacket(mustEndpoint(family.src), mustEndpoint(family.dst), ecn.in, "marked?"), int(ecn.outer))
				got := arrived.find("the inner packet", func(q packet) bool { return !q.sent && string(q.payload) == "marked?" })
				if got.tos != ecn.want {
					t.Errorf("outer v6 %v, to %s: outer %#x, inner %#x came in as %#x, want %#x", outer6, family.dst, ecn.outer, ecn.in, got.tos, ecn.want)
				}
				if got.damaged {
					t.Errorf("the IPv4 header checksum is wrong after a mark")
				}
			}
		}
	}
}
