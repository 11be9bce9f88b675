//go:build ecdh

package main

import (
	"crypto/ecdh"
	"os"
)

// reference is what Go's own package takes for the same product.
func reference(out, scalar, point *[32]byte) func() {
	k, err := ecdh.X25519().NewPrivateKey(scalar[:])
	if err != nil {
		os.Exit(1)
	}
	p, err := ecdh.X25519().NewPublicKey(point[:])
	if err != nil {
		os.Exit(1)
	}
	return func() {
		shared, err := k.ECDH(p)
		if err != nil || [32]byte(shared) != *out {
			os.Exit(1)
		}
	}
}
