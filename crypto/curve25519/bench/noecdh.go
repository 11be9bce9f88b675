//go:build !ecdh

package main

func reference(_, _, _ *[32]byte) func() { return nil }
