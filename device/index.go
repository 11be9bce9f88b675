package device

import (
	"io"

	"wgd/noise"
)

// An indexEntry says what a receiver index stands for. It is immutable.
type indexEntry struct {
	index   uint32
	peer    *Peer
	keypair *noise.Keypair // nil: a handshake under way
}

// The zero value is empty and ready.
type indexTable struct{}

func (t *indexTable) lookup(index uint32) *indexEntry { return nil }
func (t *indexTable) add(peer *Peer, keypair *noise.Keypair, rand io.Reader) (uint32, error) {
	return 0, nil
}

// attach gives the handshake at index its keypair; false if the index is gone.
func (t *indexTable) attach(index uint32, keypair *noise.Keypair) bool { return false }
func (t *indexTable) remove(index uint32)                              {}
