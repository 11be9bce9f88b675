package noise

// A Handshake is one exchange of an initiation and a response, §5.4. A plain value,
// zero: none. It may be copied, so that Diffie-Hellman runs on a copy outside
// the lock of the original; wipe the copies that are not kept.
type Handshake struct {
	symmetric
	ephemeral       PrivateKey // initiator: ours, until the response
	remoteEphemeral PublicKey  // responder: theirs, until the response
	localIndex      uint32
	remoteIndex     uint32
	state           State
}

// symmetric is the part that every message mixes into.
type symmetric struct {
	chainKey [32]byte
	hash     [32]byte
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

func (h *Handshake) CreateInitiation(dst []byte, l *Local, r *Remote, ephemeral *PrivateKey, index uint32, ts Timestamp) ([]byte, error) {
	return dst, ErrState
}
func (h *Handshake) ConsumeInitiation(msg []byte, l *Local, find func(PublicKey) *Remote) (Timestamp, error) {
	return Timestamp{}, ErrState
}
func (h *Handshake) CreateResponse(dst []byte, l *Local, r *Remote, ephemeral *PrivateKey, index uint32) ([]byte, error) {
	return dst, ErrState
}
func (h *Handshake) ConsumeResponse(msg []byte, l *Local, r *Remote) error { return ErrState }
func (h *Handshake) Keypair(now Instant) (*Keypair, error)                 { return nil, ErrState }
