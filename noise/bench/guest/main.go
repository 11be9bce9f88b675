// Command guest makes handshakes, both sides of them and their MACs, for the
// instruction counter; see ../run.
//
//	guest N
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"wgd/noise"
)

//go:noinline
func markBegin() {}

//go:noinline
func markEnd() {}

func must[T any](v T, err error) T {
	check(err == nil)
	return v
}

func check(ok bool) {
	if !ok {
		println("the handshake failed")
		os.Exit(1)
	}
}

// numbers is a source of keys that are the same each time.
type numbers uint32

func (x *numbers) Read(b []byte) (int, error) {
	for i := range b {
		*x = *x*1664525 + 1013904223
		b[i] = byte(*x >> 24)
	}
	return len(b), nil
}

// A side is what one daemon has before the handshake.
type side struct {
	local   *noise.Local
	remote  noise.Remote
	checker noise.CookieChecker
	jar     noise.CookieJar
}

func main() {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	n := must(strconv.Atoi(os.Args[1]))
	var rand numbers
	var i, r side
	for _, s := range []*side{&i, &r} {
		key := must(noise.NewPrivateKey(&rand))
		s.local = noise.NewLocal(&key)
		s.checker.Init(s.local.Public())
	}
	i.remote = noise.NewRemote(r.local.Public(), noise.PresharedKey{})
	r.remote = noise.NewRemote(i.local.Public(), noise.PresharedKey{})
	check(i.remote.Prepare(i.local) == nil && r.remote.Prepare(r.local) == nil)

	for range n {
		markBegin()
		var hi, hr noise.Handshake
		ephemeral := must(noise.NewPrivateKey(&rand))
		m := must(hi.CreateInitiation(nil, i.local, &i.remote, &ephemeral, 1, noise.Timestamp{}))
		i.jar.AddMACs(m, i.remote.Public(), 0)

		check(r.checker.CheckMAC1(m))
		must(hr.ConsumeInitiation(m, r.local, func(noise.PublicKey) *noise.Remote { return &r.remote }))
		ephemeral = must(noise.NewPrivateKey(&rand))
		m = must(hr.CreateResponse(nil, r.local, &r.remote, &ephemeral, 2))
		r.jar.AddMACs(m, r.remote.Public(), 0)
		must(hr.Keypair(0))

		check(i.checker.CheckMAC1(m) && hi.ConsumeResponse(m, i.local, &i.remote) == nil)
		must(hi.Keypair(0))
		markEnd()
	}
}
