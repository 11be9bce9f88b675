package main

// A mips24k is the pipeline of a MIPS 24K core with perfect caches: one
// instruction a cycle, in order, held back until its operands are there.
// Latencies are those of GCC's description of the core, gcc/config/mips/24k.md.
type mips24k struct {
	insns, cycles int
	ready         [hilo + 1]int  // the cycle in which a register can be read
	early         [hilo + 1]bool // an address made of it waits for one more
}

const hilo = 32

// Latencies in cycles: 1 unless named.
const (
	loadUse = 2
	mfUse   = 5 // MFHI, MFLO and three-operand MUL
	mtUse   = 2 // MTHI to MADD
)

func (m *mips24k) execute(w uint32) {
	m.insns++
	i := decode(w)
	at := m.cycles
	for _, r := range i.reads {
		at = max(at, m.ready[r])
	}
	if i.address != 0 {
		ready := m.ready[i.address]
		if m.early[i.address] {
			ready++
		}
		at = max(at, ready)
	}
	m.cycles = at + 1
	if i.writes != 0 {
		m.ready[i.writes] = at + i.latency
		m.early[i.writes] = i.writes != hilo
	}
}

type instruction struct {
	reads   []uint32
	address uint32 // the base register of a load or store
	writes  uint32 // 0: nothing, or the register that is always 0
	latency int
}

func decode(w uint32) instruction {
	op, rs, rt, rd, function := w>>26, w>>21&31, w>>16&31, w>>11&31, w&63
	switch op {
	case 0:
		switch function {
		case 0x00, 0x02, 0x03: // shifts by a constant
			return instruction{reads: []uint32{rt}, writes: rd, latency: 1}
		case 0x08, 0x09: // JR, JALR
			return instruction{reads: []uint32{rs}}
		case 0x10, 0x12: // MFHI, MFLO
			return instruction{reads: []uint32{hilo}, writes: rd, latency: mfUse}
		case 0x11, 0x13: // MTHI, MTLO
			return instruction{reads: []uint32{rs}, writes: hilo, latency: mtUse}
		case 0x18, 0x19: // MULT, MULTU
			return instruction{reads: []uint32{rs, rt}, writes: hilo, latency: 1}
		}
		return instruction{reads: []uint32{rs, rt}, writes: rd, latency: 1}
	case 0x1c:
		switch function {
		case 0x02: // MUL
			return instruction{reads: []uint32{rs, rt}, writes: rd, latency: mfUse}
		case 0x00, 0x01, 0x04, 0x05: // MADD, MADDU, MSUB, MSUBU
			return instruction{reads: []uint32{rs, rt, hilo}, writes: hilo, latency: 1}
		}
		return instruction{reads: []uint32{rs, rt}, writes: rd, latency: 1}
	case 0x1f: // WSBH and others of release 2
		if function == 0x20 {
			return instruction{reads: []uint32{rt}, writes: rd, latency: 1}
		}
		return instruction{reads: []uint32{rs, rt}, writes: rt, latency: 1}
	case 0x01, 0x06, 0x07:
		return instruction{reads: []uint32{rs}}
	case 0x04, 0x05:
		return instruction{reads: []uint32{rs, rt}}
	case 0x02, 0x03:
		return instruction{}
	case 0x20, 0x21, 0x23, 0x24, 0x25: // loads
		return instruction{address: rs, writes: rt, latency: loadUse}
	case 0x22, 0x26: // LWL, LWR
		return instruction{reads: []uint32{rt}, address: rs, writes: rt, latency: loadUse}
	case 0x28, 0x29, 0x2a, 0x2b, 0x2e: // stores
		return instruction{reads: []uint32{rt}, address: rs}
	case 0x0f: // LUI
		return instruction{writes: rt, latency: 1}
	}
	return instruction{reads: []uint32{rs}, writes: rt, latency: 1}
}
