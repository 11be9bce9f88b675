package main

import (
	stdecdh "crypto/ecdh"
	"os"
)

// ecdh returns the same product by crypto/ecdh, which has to be want.
func ecdh(want, scalar, point *[32]byte) func() {
	k, err := stdecdh.X25519().NewPrivateKey(scalar[:])
	if err != nil {
		os.Exit(1)
	}
	p, err := stdecdh.X25519().NewPublicKey(point[:])
	if err != nil {
		os.Exit(1)
	}
	return func() {
		shared, err := k.ECDH(p)
		if err != nil || [32]byte(shared) != *want {
			os.Exit(1)
		}
	}
}
