package noise

import (
	"io"
	"net/netip"
	"time"
)

// CookieLifetime is how long a secret makes cookies, and how long a cookie is
// used after it came: §5.4.7, §5.4.4.
const CookieLifetime = 120 * time.Second

type CookieChecker struct {
	mac1Key   [32]byte
	cookieKey [32]byte
	secret    [32]byte
	born      Instant
	hasSecret bool
}

func (c *CookieChecker) Init(pub PublicKey)                                         {}
func (c *CookieChecker) CheckMAC1(msg []byte) bool                                  { return false }
func (c *CookieChecker) CheckMAC2(msg []byte, src netip.AddrPort, now Instant) bool { return false }
func (c *CookieChecker) Wipe()                                                      {}
func (c *CookieChecker) CreateReply(dst, msg []byte, src netip.AddrPort, now Instant, rand io.Reader) ([]byte, error) {
	return dst, ErrState
}

type CookieJar struct {
	mac1      [16]byte
	cookie    [16]byte
	received  Instant
	hasMAC1   bool
	hasCookie bool
}

func (j *CookieJar) AddMACs(msg []byte, peer PublicKey, now Instant)           {}
func (j *CookieJar) ConsumeReply(msg []byte, peer PublicKey, now Instant) bool { return false }
func (j *CookieJar) Wipe()                                                     {}
