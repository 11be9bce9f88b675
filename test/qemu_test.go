package test

import "testing"

// The emulated daemons: MIPS 24Kc without an FPU, both endians, and 4Kc, which is
// MIPS32 release 1, on a real TUN, against native peers. Emulation turns an unaligned
// load into a crash.
func TestMIPS(t *testing.T) {
	t.Parallel()
	// qemu-user hands the control messages UDP_SEGMENT and UDP_GRO on in the wrong order:
	// the kernel refuses the first, and the second says nothing to a big-endian daemon.
	// `make bench-24k-be` is big-endian with all of it.
	const big, little = "WGD_OFFLOAD=vnet,tso,uso,mmsg", "WGD_OFFLOAD=all"
	for _, cpu := range []struct {
		name     string
		qemu     string
		cpu      string
		program  *program
		offloads string
	}{
		{"mips", "qemu-mips-static", "24Kc", mipsProgram, big},
		{"mipsle", "qemu-mipsel-static", "24Kc", mipsleProgram, little},
		{"mips release 1", "qemu-mips-static", "4Kc", mipsProgram, big},
	} {
		emulated := []string{cpu.offloads, "timeout", "300", cpu.qemu, "-cpu", cpu.cpu, cpu.program.build(t)}
		for _, native := range []side{{"wgd", []string{wgd(t)}}, {"wireguard-go", []string{wireguardGo(t)}}} {
			for _, psk := range []bool{false, true} {
				for _, o := range []struct {
					name string
					tunnelOptions
				}{
					{cpu.name + " to native " + native.name, tunnelOptions{a: emulated, b: native.argv, psk: psk}},
					{"native " + native.name + " to " + cpu.name, tunnelOptions{a: native.argv, b: emulated, psk: psk, outer6: true}},
				} {
					name := o.name
					if psk {
						name += " with PSK"
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						newTunnel(t, o.tunnelOptions).works(2 << 20)
					})
				}
			}
		}
	}
}
