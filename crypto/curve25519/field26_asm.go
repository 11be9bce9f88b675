//go:build (mips || mipsle || arm) && !purego

package curve25519

//go:noescape
func mul26(z, x, y *field26)

//go:noescape
func square26(z, x *field26)

//go:noescape
func mulAdd26(z, x *field26, n int32, y *field26)

//go:noescape
func sumDiff26(z, diff, x, y *field26)

//go:noescape
func sub26(z, x, y *field26)

//go:noescape
func choose26(z, x *field26, bit uint32)

func (z *field26) mul(x, y *field26)                      { mul26(z, x, y) }
func (z *field26) square(x *field26)                      { square26(z, x) }
func (z *field26) mulAdd(x *field26, n int32, y *field26) { mulAdd26(z, x, n, y) }
func (z *field26) sumDiff(diff, x, y *field26)            { sumDiff26(z, diff, x, y) }
func (z *field26) sub(x, y *field26)                      { sub26(z, x, y) }
func (z *field26) choose(x *field26, bit uint32)          { choose26(z, x, bit) }
