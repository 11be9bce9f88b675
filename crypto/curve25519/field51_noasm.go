//go:build !amd64 || purego

package curve25519

func (z *field51) mul(x, y *field51) { z.mulGeneric(x, y) }
func (z *field51) square(x *field51) { z.squareGeneric(x) }
