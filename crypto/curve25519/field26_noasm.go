//go:build !(mips || mipsle || arm) || purego

package curve25519

func (z *field26) mul(x, y *field26)                      { z.mulGeneric(x, y) }
func (z *field26) square(x *field26)                      { z.squareGeneric(x) }
func (z *field26) mulAdd(x *field26, n int32, y *field26) { z.mulAddGeneric(x, n, y) }
func (z *field26) sumDiff(diff, x, y *field26)            { z.sumDiffGeneric(diff, x, y) }
func (z *field26) sub(x, y *field26)                      { z.subGeneric(x, y) }
func (z *field26) choose(x *field26, bit uint32)          { z.chooseGeneric(x, bit) }
