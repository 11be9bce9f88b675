package noise

import (
	"crypto/subtle"
	"encoding/binary"
	"io"
	"net/netip"
	"time"

	"wgd/crypto/blake2s"
	"wgd/crypto/chacha20poly1305"
)

// CookieLifetime is how long a secret makes cookies, and how long a cookie is
// used after it came: §5.4.7, §5.4.4.
const CookieLifetime = 120 * time.Second

// Where the fields of a cookie reply are, §5.4.7:
//
//	0      4          8                 32              64
//	| type | receiver | nonce           | sealed cookie |
const (
	replyNonce  = 8
	replyCookie = replyNonce + chacha20poly1305.NonceSizeX
)

const macSize = 16 // mac1 and mac2 end every handshake message, in this order

// splitMACs returns the parts of a handshake message: what mac1 is over, mac1, what
// mac2 is over, mac2. §5.4.4.
func splitMACs(msg []byte) (alpha, mac1, beta, mac2 []byte) {
	a, b := len(msg)-2*macSize, len(msg)-macSize
	return msg[:a], msg[a:b], msg[:b], msg[b:]
}

// mac is keyed BLAKE2s with 16 bytes of output: MAC of §5.4.
func mac(key []byte, parts ...[]byte) [macSize]byte { return blake2s.MAC128(key, parts...) }

// mac1Key and cookieKey are public: anyone who knows the receiver's public key has
// them, and nobody else may be answered, §5.3.
func mac1Key(receiver *PublicKey) [32]byte   { return labelled("mac1----", receiver) }
func cookieKey(receiver *PublicKey) [32]byte { return labelled("cookie--", receiver) }

func labelled(label string, receiver *PublicKey) [32]byte {
	var b [8 + 32]byte
	copy(b[:], label)
	copy(b[8:], receiver[:])
	return blake2s.Sum256(b[:])
}

// A CookieChecker checks the MACs of messages to us and makes cookies for senders
// who shall first prove that they have their address. CreateReply and Init write,
// the others read.
type CookieChecker struct {
	mac1Key   [32]byte
	cookieKey [32]byte
	secret    [32]byte // R of §5.4.7; changed by CreateReply only
	born      Instant  // when secret was made
	hasSecret bool
}

// Init makes c the checker of messages to this public key. Cookies made before are
// void.
func (c *CookieChecker) Init(public PublicKey) {
	c.Wipe()
	c.mac1Key, c.cookieKey = mac1Key(&public), cookieKey(&public)
}

// Wipe forgets the secret and the keys.
//
//go:noinline
func (c *CookieChecker) Wipe() { *c = CookieChecker{} }

// CheckMAC1 reports whether a handshake message is from somebody who knows our
// public key: an initiation or a response as MessageType has seen it.
func (c *CookieChecker) CheckMAC1(msg []byte) bool {
	alpha, mac1, _, _ := splitMACs(msg)
	sum := mac(c.mac1Key[:], alpha)
	return subtle.ConstantTimeCompare(sum[:], mac1) == 1
}

// CheckMAC2 reports whether a handshake message carries a cookie that we gave to
// src at most CookieLifetime ago.
func (c *CookieChecker) CheckMAC2(msg []byte, src netip.AddrPort, now Instant) bool {
	if !c.fresh(now) {
		return false
	}
	_, _, beta, mac2 := splitMACs(msg)
	cookie := c.cookie(src)
	sum := mac(cookie[:], beta)
	return subtle.ConstantTimeCompare(sum[:], mac2) == 1
}

// CreateReply appends a cookie reply to dst, the answer to a handshake message from
// src that has a right mac1. rand gives the nonce, and a new secret when the last is
// older than CookieLifetime.
func (c *CookieChecker) CreateReply(dst, msg []byte, src netip.AddrPort, now Instant, rand io.Reader) ([]byte, error) {
	if !c.fresh(now) {
		if _, err := io.ReadFull(rand, c.secret[:]); err != nil {
			return dst, err
		}
		c.born, c.hasSecret = now, true
	}
	var nonce [chacha20poly1305.NonceSizeX]byte
	if _, err := io.ReadFull(rand, nonce[:]); err != nil {
		return dst, err
	}
	aead, err := chacha20poly1305.NewX(c.cookieKey[:])
	if err != nil {
		return dst, err
	}
	_, mac1, _, _ := splitMACs(msg)
	cookie := c.cookie(src)
	dst, reply := extend(dst, CookieReplySize)
	putType(reply, TypeCookieReply)
	binary.LittleEndian.PutUint32(reply[4:], SenderIndex(msg))
	copy(reply[replyNonce:], nonce[:])
	aead.Seal(reply[:replyCookie], nonce[:], cookie[:], mac1)
	return dst, nil
}

func (c *CookieChecker) fresh(now Instant) bool {
	return c.hasSecret && now-c.born <= Instant(CookieLifetime)
}

// cookie is the MAC of a source under the secret: 4 or 16 bytes of address, then the
// port, big-endian. An IPv4-mapped address is its IPv4 address; zones are not in it.
func (c *CookieChecker) cookie(src netip.AddrPort) [macSize]byte {
	var b [16 + 2]byte
	n := copy(b[:], src.Addr().Unmap().AsSlice())
	binary.BigEndian.PutUint16(b[n:], src.Port())
	return mac(c.secret[:], b[:n+2])
}

// A CookieJar makes the MACs of messages to one peer and keeps the cookie that it
// gave us. The zero value is empty.
type CookieJar struct {
	received  Instant // when cookie came
	cookie    [macSize]byte
	mac1      [macSize]byte // of the last message sent: a reply must prove that it saw it
	hasCookie bool
	hasMAC1   bool
}

// AddMACs fills in mac1 of a handshake message to peer, and mac2 if we hold a cookie
// not older than CookieLifetime, §5.4.4.
func (j *CookieJar) AddMACs(msg []byte, peer PublicKey, now Instant) {
	alpha, mac1, beta, mac2 := splitMACs(msg)
	key := mac1Key(&peer)
	j.mac1, j.hasMAC1 = mac(key[:], alpha), true
	copy(mac1, j.mac1[:])
	if j.hasCookie && now-j.received <= Instant(CookieLifetime) {
		sum := mac(j.cookie[:], beta)
		copy(mac2, sum[:])
	} else {
		clear(mac2)
	}
}

// ConsumeReply takes the cookie out of a cookie reply from peer. False: it does not
// answer the last message sent, or that has been answered already.
func (j *CookieJar) ConsumeReply(msg []byte, peer PublicKey, now Instant) bool {
	if MessageType(msg) != TypeCookieReply || !j.hasMAC1 {
		return false
	}
	key := cookieKey(&peer)
	aead, err := chacha20poly1305.NewX(key[:])
	if err != nil {
		return false
	}
	var cookie [macSize]byte
	if _, err := aead.Open(cookie[:0], msg[replyNonce:replyCookie], msg[replyCookie:], j.mac1[:]); err != nil {
		return false
	}
	j.cookie, j.received, j.hasCookie = cookie, now, true
	j.hasMAC1 = false // a replay must not make an old cookie young again
	return true
}

// Wipe empties the jar.
//
//go:noinline
func (j *CookieJar) Wipe() { *j = CookieJar{} }
