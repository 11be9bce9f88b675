//go:build !(386 || arm || mips || mipsle)

package curve25519

type field = field51

var one = field51{1}
