package noise

import (
	"encoding/binary"
	"slices"
)

// A Handshake is one exchange of an initiation and a response, §5.4. A plain value,
// zero: none. It may be copied, so that Diffie-Hellman runs on a copy outside
// the lock of the original; wipe the copies that are not kept.
//
// A method that fails leaves it as it was. None looks at the MACs.
type Handshake struct {
	symmetric
	ephemeral       PrivateKey // initiator: ours, until the response
	remoteEphemeral PublicKey  // responder: theirs, until the response
	localIndex      uint32
	remoteIndex     uint32
	state           State
}

// A State is the last step that a handshake has taken.
type State uint8

const (
	StateNone State = iota
	StateInitiationCreated
	StateInitiationConsumed
	StateResponseCreated
	StateResponseConsumed
)

func (h *Handshake) State() State        { return h.state }
func (h *Handshake) LocalIndex() uint32  { return h.localIndex }
func (h *Handshake) RemoteIndex() uint32 { return h.remoteIndex }

// Wipe forgets the handshake.
//
//go:noinline
func (h *Handshake) Wipe() { *h = Handshake{} }

// Where the fields of the two messages are, §5.4.2 and §5.4.3:
//
//	0      4        8                40              88              116    132    148
//	| type | sender | ephemeral      | sealed static | sealed time   | mac1 | mac2 |
//
//	0      4        8          12               44             60     76     92
//	| type | sender | receiver | ephemeral      | sealed empty | mac1 | mac2 |
const (
	initiationEphemeral = 8
	initiationStatic    = initiationEphemeral + 32
	initiationTimestamp = initiationStatic + 32 + TagSize
	initiationMAC1      = initiationTimestamp + 12 + TagSize

	responseEphemeral = 12
	responseEmpty     = responseEphemeral + 32
	responseMAC1      = responseEmpty + TagSize
)

// CreateInitiation appends message 1, initiator to responder, to dst: §5.4.2,
// pattern tokens e, es, s, ss, {t}. index is how the response shall find us. The
// caller adds the MACs, here zero.
func (h *Handshake) CreateInitiation(dst []byte, l *Local, r *Remote, ephemeral *PrivateKey, index uint32, ts Timestamp) ([]byte, error) {
	if err := r.Prepare(l); err != nil {
		return dst, err
	}
	next := Handshake{ephemeral: *ephemeral, localIndex: index, state: StateInitiationCreated}
	defer next.Wipe()
	var shared, key [32]byte
	defer wipe(shared[:])
	next.init(&r.public)
	public := ephemeral.Public()

	// es, before e touches dst: it can fail
	if err := dh(&shared, ephemeral, &r.public); err != nil {
		return dst, err
	}
	dst, msg := extend(dst, InitiationSize)
	putType(msg, TypeInitiation)
	binary.LittleEndian.PutUint32(msg[4:], index)

	// e
	copy(msg[initiationEphemeral:], public[:])
	next.mixHash(public[:])
	next.mixKey(public[:])

	// es
	next.mixKeyInto(&key, shared[:])

	// s
	next.seal(msg[initiationStatic:initiationTimestamp], &key, l.public[:])

	// ss
	next.mixKeyInto(&key, r.staticStatic[:])

	// {t}
	next.seal(msg[initiationTimestamp:initiationMAC1], &key, ts[:])

	*h = next
	return dst, nil
}

// ConsumeInitiation reads message 1 as the responder. find returns the peer with a
// static public key, nil if there is none. The caller accepts only a Timestamp that
// is after the greatest it has from this peer, §5.1.
func (h *Handshake) ConsumeInitiation(msg []byte, l *Local, find func(PublicKey) *Remote) (Timestamp, error) {
	if MessageType(msg) != TypeInitiation {
		return Timestamp{}, ErrMalformed
	}
	next := Handshake{remoteIndex: SenderIndex(msg), state: StateInitiationConsumed}
	defer next.Wipe()
	var shared, key [32]byte
	defer wipe(shared[:])
	next.init(&l.public)

	// e
	copy(next.remoteEphemeral[:], msg[initiationEphemeral:])
	next.mixHash(next.remoteEphemeral[:])
	next.mixKey(next.remoteEphemeral[:])

	// es
	if err := l.dh(&shared, &next.remoteEphemeral); err != nil {
		return Timestamp{}, err
	}
	next.mixKeyInto(&key, shared[:])

	// s
	var static PublicKey
	if !next.open(static[:], &key, msg[initiationStatic:initiationTimestamp]) {
		return Timestamp{}, ErrAuth
	}
	r := find(static)
	if r == nil {
		return Timestamp{}, ErrUnknownPeer
	}

	// ss
	if err := r.Prepare(l); err != nil {
		return Timestamp{}, err
	}
	next.mixKeyInto(&key, r.staticStatic[:])

	// {t}
	var ts Timestamp
	if !next.open(ts[:], &key, msg[initiationTimestamp:initiationMAC1]) {
		return Timestamp{}, ErrAuth
	}

	*h = next
	return ts, nil
}

// CreateResponse appends message 2, responder to initiator, to dst: §5.4.3, pattern
// tokens e, ee, se, psk, {}. r is the peer that ConsumeInitiation found. The caller
// adds the MACs, here zero.
func (h *Handshake) CreateResponse(dst []byte, l *Local, r *Remote, ephemeral *PrivateKey, index uint32) ([]byte, error) {
	if h.state != StateInitiationConsumed {
		return dst, ErrState
	}
	next := *h
	defer next.Wipe()
	next.localIndex, next.state = index, StateResponseCreated
	var ee, se, key [32]byte
	defer wipe(ee[:])
	defer wipe(se[:])
	public := ephemeral.Public()

	// ee and se, before e touches dst: they can fail
	if err := dh(&ee, ephemeral, &next.remoteEphemeral); err != nil {
		return dst, err
	}
	if err := dh(&se, ephemeral, &r.public); err != nil {
		return dst, err
	}
	dst, msg := extend(dst, ResponseSize)
	putType(msg, TypeResponse)
	binary.LittleEndian.PutUint32(msg[4:], index)
	binary.LittleEndian.PutUint32(msg[8:], next.remoteIndex)

	// e
	copy(msg[responseEphemeral:], public[:])
	next.mixHash(public[:])
	next.mixKey(public[:])

	// ee
	next.mixKey(ee[:])

	// se
	next.mixKey(se[:])

	// psk
	next.mixPSK(&key, &r.psk)

	// {}
	next.seal(msg[responseEmpty:responseMAC1], &key, nil)

	*h = next
	return dst, nil
}

// ConsumeResponse reads message 2 as the initiator. r is the peer that the
// initiation was made for.
func (h *Handshake) ConsumeResponse(msg []byte, l *Local, r *Remote) error {
	if MessageType(msg) != TypeResponse {
		return ErrMalformed
	}
	if h.state != StateInitiationCreated || ReceiverIndex(msg) != h.localIndex {
		return ErrState
	}
	next := *h
	defer next.Wipe()
	next.remoteIndex, next.state = SenderIndex(msg), StateResponseConsumed
	var shared, key [32]byte
	defer wipe(shared[:])

	// e
	copy(next.remoteEphemeral[:], msg[responseEphemeral:])
	next.mixHash(next.remoteEphemeral[:])
	next.mixKey(next.remoteEphemeral[:])

	// ee
	if err := dh(&shared, &next.ephemeral, &next.remoteEphemeral); err != nil {
		return err
	}
	next.mixKey(shared[:])

	// se
	if err := l.dh(&shared, &next.remoteEphemeral); err != nil {
		return err
	}
	next.mixKey(shared[:])

	// psk
	next.mixPSK(&key, &r.psk)

	// {}
	if !next.open(nil, &key, msg[responseEmpty:responseMAC1]) {
		return ErrAuth
	}

	next.ephemeral.Wipe()
	*h = next
	return nil
}

// Keypair derives the session keys, §5.4.5, and wipes the handshake: its chaining
// key would give them away.
func (h *Handshake) Keypair(now Instant) (*Keypair, error) {
	if h.state != StateResponseCreated && h.state != StateResponseConsumed {
		return nil, ErrState
	}
	kp := &Keypair{
		Created:     now,
		Initiator:   h.state == StateResponseConsumed,
		LocalIndex:  h.localIndex,
		RemoteIndex: h.remoteIndex,
		canSend:     true,
		canReceive:  true,
	}
	var toResponder, toInitiator [32]byte
	kdf(&h.chainKey, nil, &toResponder, &toInitiator)
	if kp.Initiator {
		kp.send.Init(&toResponder)
		kp.receive.Init(&toInitiator)
	} else {
		kp.send.Init(&toInitiator)
		kp.receive.Init(&toResponder)
	}
	wipe(toResponder[:])
	wipe(toInitiator[:])
	h.Wipe()
	return kp, nil
}

// extend appends n zero bytes to dst; msg is these.
func extend(dst []byte, n int) (longer, msg []byte) {
	start := len(dst)
	longer = slices.Grow(dst, n)[:start+n]
	msg = longer[start:]
	clear(msg)
	return longer, msg
}
