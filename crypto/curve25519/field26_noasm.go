//go:build !(mips || mipsle || arm) || purego

package curve25519

func (z *field26) mul(x, y *field26)                      { z.mulGeneric(x, y) }
func (z *field26) square(x *field26)                      { z.squareGeneric(x) }
func (z *field26) mulAdd(x *field26, n int32, y *field26) { z.mulAddGeneric(x, n, y) }
