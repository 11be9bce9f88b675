//go:build (mips || mipsle || arm) && !purego

package curve25519

//go:noescape
func mul26(z, x, y *field26)

//go:noescape
func square26(z, x *field26)

//go:noescape
func mulAdd26(z, x *field26, n int32, y *field26)

func (z *field26) mul(x, y *field26)                      { mul26(z, x, y) }
func (z *field26) square(x *field26)                      { square26(z, x) }
func (z *field26) mulAdd(x *field26, n int32, y *field26) { mulAdd26(z, x, n, y) }
