package noise

import (
	"crypto/subtle"
	"io"
	"runtime"

	"wgd/crypto/curve25519"
)

type (
	PrivateKey   [32]byte // a Curve25519 scalar
	PublicKey    [32]byte // a Curve25519 point
	PresharedKey [32]byte // all zero: none, §5.4
)

// NewPrivateKey reads a key from rand and clamps it.
func NewPrivateKey(rand io.Reader) (PrivateKey, error) {
	b := make([]byte, 32) // on the heap in any case, as rand may keep it
	defer wipe(b)
	if _, err := io.ReadFull(rand, b); err != nil {
		return PrivateKey{}, err
	}
	k := PrivateKey(b)
	k.Clamp()
	return k, nil
}

// Clamp makes k a valid scalar: RFC 7748 §5.
func (k *PrivateKey) Clamp() {
	k[0] &= 248
	k[31] = k[31]&127 | 64
}

// Public returns k's public key. It costs one scalar multiplication.
func (k *PrivateKey) Public() (p PublicKey) {
	curve25519.Public((*[32]byte)(&p), (*[32]byte)(k))
	return p
}

func (k *PrivateKey) Wipe()   { wipe(k[:]) }
func (k *PresharedKey) Wipe() { wipe(k[:]) }

func (k *PrivateKey) IsZero() bool   { return isZero((*[32]byte)(k)) }
func (k *PublicKey) IsZero() bool    { return isZero((*[32]byte)(k)) }
func (k *PresharedKey) IsZero() bool { return isZero((*[32]byte)(k)) }

func isZero(k *[32]byte) bool {
	var zero [32]byte
	return subtle.ConstantTimeCompare(k[:], zero[:]) == 1
}

// dh writes DH(k, point) to shared: §5.4. ErrLowOrder: the result would be all zero.
func dh(shared *[32]byte, k *PrivateKey, point *PublicKey) error {
	if curve25519.X25519(shared, (*[32]byte)(k), (*[32]byte)(point)) != nil {
		return ErrLowOrder
	}
	return nil
}

// A Local is our static identity. Immutable until Wipe.
type Local struct {
	private PrivateKey
	public  PublicKey
	usable  bool // not wiped
}

// NewLocal returns the identity of a private key. It costs one scalar
// multiplication. A Local that is dropped, as it may be while handshakes still use
// it, is wiped when it is collected.
func NewLocal(k *PrivateKey) *Local {
	l := &Local{private: *k, public: k.Public(), usable: true}
	runtime.SetFinalizer(l, (*Local).Wipe)
	return l
}

func (l *Local) Public() PublicKey { return l.public }

// Wipe forgets the private key: every handshake with l fails from now on.
func (l *Local) Wipe() {
	l.private.Wipe()
	l.public = PublicKey{}
	l.usable = false
}

// dh is dh with our static key.
func (l *Local) dh(shared *[32]byte, point *PublicKey) error {
	if !l.usable {
		return ErrState
	}
	return dh(shared, &l.private, point)
}

// A Remote is a peer's static identity and what we share with it. Copies may be
// used at the same time, one Remote may not.
type Remote struct {
	public       PublicKey
	psk          PresharedKey
	staticStatic [32]byte // if prepared is ready
	prepared     prepared
}

// prepared says what staticStatic holds.
type prepared uint8

const (
	unprepared prepared = iota
	ready
	lowOrder // the peer's public key is no good; remembered, for finding out is expensive
)

func NewRemote(public PublicKey, psk PresharedKey) Remote {
	return Remote{public: public, psk: psk}
}

func (r *Remote) Public() PublicKey              { return r.public }
func (r *Remote) PresharedKey() PresharedKey     { return r.psk }
func (r *Remote) SetPresharedKey(k PresharedKey) { r.psk = k }

// Prepare computes the static-static secret unless it is there: one scalar
// multiplication. ErrLowOrder: no handshake with this peer can succeed.
func (r *Remote) Prepare(l *Local) error {
	if r.prepared == unprepared {
		switch err := l.dh(&r.staticStatic, &r.public); err {
		case nil:
			r.prepared = ready
		case ErrLowOrder:
			r.prepared = lowOrder
		default:
			return err
		}
	}
	if r.prepared == lowOrder {
		return ErrLowOrder
	}
	return nil
}

// Forget drops the static-static secret, which belongs to one Local.
func (r *Remote) Forget() {
	wipe(r.staticStatic[:])
	r.prepared = unprepared
}

// Wipe forgets all secrets, the preshared key too.
func (r *Remote) Wipe() {
	r.Forget()
	r.psk.Wipe()
}
