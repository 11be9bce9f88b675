//go:build !purego

package curve25519

//go:noescape
func mul51(z, x, y *field51)

//go:noescape
func square51(z, x *field51)

func (z *field51) mul(x, y *field51) { mul51(z, x, y) }
func (z *field51) square(x *field51) { square51(z, x) }
