//go:build 386 || arm || mips || mipsle

package curve25519

type field = field26

var one = field26{8}
