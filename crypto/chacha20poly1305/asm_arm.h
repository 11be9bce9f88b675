// What the ARM assembly shares: the first quarter round and, because Go's
// assembler knows no NEON, encodings of the NEON instructions in use.

// FIRSTQUARTER is a quarter round, RFC 8439 §2.1, on words that have no rotation
// to come; see chacha20_arm.s for what it leaves.
#define FIRSTQUARTER(a, b, c, d) \
	ADD	b, a, a		\
	EOR	a, d, d		\
	ADD	d@>16, c, c	\
	EOR	c, b, b		\
	ADD	b@>20, a, a	\
	EOR	d@>16, a, d	\
	ADD	d@>24, c, c	\
	EOR	b@>20, c, b

// Encodings: Arm Architecture Reference Manual ARMv7-A, A7.4 and A8.8. Arguments
// are the numbers of registers, the destination first: q0 to q15, r0 to r14.
// Register q(n) is the pair d(2n), d(2n+1); QD, QN and QM are its fields.
#define QD(q)	(((q)&7)<<13 | ((q)>>3)<<22)
#define QN(q)	(((q)&7)<<17 | ((q)>>3)<<7)
#define QM(q)	(((q)&7)<<1 | ((q)>>3)<<5)

// vadd.i32 qd, qn, qm
#define VADD(d, n, m)	WORD $(0xf2200840 | QD(d) | QN(n) | QM(m))
// veor qd, qn, qm
#define VEOR(d, n, m)	WORD $(0xf3000150 | QD(d) | QN(n) | QM(m))
// vrev32.16 qd, qm
#define VREV32_16(d, m)	WORD $(0xf3b400c0 | QD(d) | QM(m))
// vshl.i32 qd, qm, #bits
#define VSHL(d, m, bits)	WORD $(0xf2a00550 | (bits)<<16 | QD(d) | QM(m))
// vsri.32 qd, qm, #bits
#define VSRI(d, m, bits)	WORD $(0xf3800450 | (64-(bits))<<16 | QD(d) | QM(m))
// vtrn.32 qd, qm
#define VTRN(d, m)	WORD $(0xf3ba00c0 | QD(d) | QM(m))
// vswp d(2d+1), d(2m): the high half of qd and the low half of qm
#define VSWPHILO(d, m)	WORD $(0xf3b21000 | QD(d) | QM(m))
// vdup.32 qd, rt
#define VDUP(d, t)	WORD $(0xeea00b10 | ((d)&7)<<17 | ((d)>>3)<<7 | (t)<<12)
// vmov.32 d(2d)[0], rt
#define VMOVLANE0(d, t)	WORD $(0xee000b10 | ((d)&7)<<17 | ((d)>>3)<<7 | (t)<<12)
// vmov qd, qm
#define VMOV(d, m)	WORD $(0xf2200150 | QD(d) | QN(m) | QM(m))
// vext.8 qd, qd, qd, #bytes: qd turned by bytes towards lane 0
#define VTURN(d, bytes)	WORD $(0xf2b00040 | (bytes)<<8 | QD(d) | QN(d) | QM(d))
// vld1.8 {qd}, [rn]
#define VLD1_1(d, n)	WORD $(0xf4200a0f | QD(d) | (n)<<16)
// vst1.8 {qd}, [rn]
#define VST1_1(d, n)	WORD $(0xf4000a0f | QD(d) | (n)<<16)
// vld1.8 {qd}, [rn]!
#define VLD1_1P(d, n)	WORD $(0xf4200a0d | QD(d) | (n)<<16)
// vst1.8 {qd}, [rn]!
#define VST1_1P(d, n)	WORD $(0xf4000a0d | QD(d) | (n)<<16)
// vld1.8 {qd, qd+1}, [rn]
#define VLD1_2(d, n)	WORD $(0xf420020f | QD(d) | (n)<<16)
// vst1.8 {qd, qd+1}, [rn]
#define VST1_2(d, n)	WORD $(0xf400020f | QD(d) | (n)<<16)
// vld1.8 {qd, qd+1}, [rn]!
#define VLD1_2P(d, n)	WORD $(0xf420020d | QD(d) | (n)<<16)
// vst1.8 {qd, qd+1}, [rn]!
#define VST1_2P(d, n)	WORD $(0xf400020d | QD(d) | (n)<<16)
// vld1.8 {qd, qd+1}, [rn], rm
#define VLD1_2R(d, n, m)	WORD $(0xf4200200 | QD(d) | (n)<<16 | (m))
// vst1.8 {qd, qd+1}, [rn], rm
#define VST1_2R(d, n, m)	WORD $(0xf4000200 | QD(d) | (n)<<16 | (m))
// vld1.32 {d(2d)[], d(2d+1)[]}, [rn]!: one word to all lanes of qd
#define VLD1_DUP(d, n)	WORD $(0xf4a00cad | QD(d) | (n)<<16)
