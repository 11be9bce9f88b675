// ChaCha20 key stream XOR for arm64, four blocks at a time.
//
// ISA:     ARMv8.0 with Advanced SIMD.
// Reads:   dst, src at any alignment.
// Spec:    RFC 8439 §2.3, §2.4 and, for the one-time key, §2.5.1 and §2.6.
// Time:    constant; branches depend on lengths alone.
// Stack:   none: the key stays in registers.
// Tested:  qemu-aarch64 -cpu cortex-a53.
//
// Four blocks lie across the lanes: word i of all of them is V(i), so a quarter
// round needs no shuffle. Afterwards words are turned into blocks. The last one or
// two blocks have a row of the state in a register, and shuffles between column
// and diagonal rounds: a little more than half of the work for four.
//
// Go reserves R18 (platform), R27 (assembler temporary), R28 (g), R29 (frame),
// R30 (link).

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

#define MAC	R0
#define DST	R1
#define SRC	R2
#define N	R3	// bytes left
#define KEY	R4
#define IV	R5
#define COUNTER	R6
#define SIGMA	R7
#define ROUNDS	R8
#define KEY4	R9	// the second half of the key
#define X	R10
#define Y	R11
#define T	R12

#define ROTL8	V31	// byte indices for VTBL
#define LANES	V30	// 0, 1, 2, 3

// "expand 32-byte k"
DATA ·sigmaARM64+0(SB)/8, $0x3320646e61707865
DATA ·sigmaARM64+8(SB)/8, $0x6b20657479622d32
// lane numbers
DATA ·sigmaARM64+16(SB)/8, $0x0000000100000000
DATA ·sigmaARM64+24(SB)/8, $0x0000000300000002
// bytes of a vector whose words are rotated left by 8 bits
DATA ·sigmaARM64+32(SB)/8, $0x0605040702010003
DATA ·sigmaARM64+40(SB)/8, $0x0e0d0c0f0a09080b
GLOBL ·sigmaARM64(SB), NOPTR|RODATA, $48

// One step of a quarter round, RFC 8439 §2.1, of four at once, so that no
// instruction waits for the one before: a += b; d = (d ^ a) <<< 16, and so on.
#define ADD4(a0, a1, a2, a3, b0, b1, b2, b3) \
	VADD	b0.S4, a0.S4, a0.S4 \
	VADD	b1.S4, a1.S4, a1.S4 \
	VADD	b2.S4, a2.S4, a2.S4 \
	VADD	b3.S4, a3.S4, a3.S4

#define XOR4(d0, d1, d2, d3, a0, a1, a2, a3) \
	VEOR	a0.B16, d0.B16, d0.B16 \
	VEOR	a1.B16, d1.B16, d1.B16 \
	VEOR	a2.B16, d2.B16, d2.B16 \
	VEOR	a3.B16, d3.B16, d3.B16

#define XORROT4(b0, b1, b2, b3, c0, c1, c2, c3, left, right) \
	VEOR	c0.B16, b0.B16, V16.B16 \
	VEOR	c1.B16, b1.B16, V17.B16 \
	VEOR	c2.B16, b2.B16, V18.B16 \
	VEOR	c3.B16, b3.B16, V19.B16 \
	VSHL	$left, V16.S4, b0.S4 \
	VSHL	$left, V17.S4, b1.S4 \
	VSHL	$left, V18.S4, b2.S4 \
	VSHL	$left, V19.S4, b3.S4 \
	VSRI	$right, V16.S4, b0.S4 \
	VSRI	$right, V17.S4, b1.S4 \
	VSRI	$right, V18.S4, b2.S4 \
	VSRI	$right, V19.S4, b3.S4

#define ROUND(a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3) \
	ADD4(a0, a1, a2, a3, b0, b1, b2, b3) \
	XOR4(d0, d1, d2, d3, a0, a1, a2, a3) \
	VREV32	d0.H8, d0.H8 \
	VREV32	d1.H8, d1.H8 \
	VREV32	d2.H8, d2.H8 \
	VREV32	d3.H8, d3.H8 \
	ADD4(c0, c1, c2, c3, d0, d1, d2, d3) \
	XORROT4(b0, b1, b2, b3, c0, c1, c2, c3, 12, 20) \
	ADD4(a0, a1, a2, a3, b0, b1, b2, b3) \
	XOR4(d0, d1, d2, d3, a0, a1, a2, a3) \
	VTBL	ROTL8.B16, [d0.B16], d0.B16 \
	VTBL	ROTL8.B16, [d1.B16], d1.B16 \
	VTBL	ROTL8.B16, [d2.B16], d2.B16 \
	VTBL	ROTL8.B16, [d3.B16], d3.B16 \
	ADD4(c0, c1, c2, c3, d0, d1, d2, d3) \
	XORROT4(b0, b1, b2, b3, c0, c1, c2, c3, 7, 25)

// LOADROW spreads four words of the state over the lanes of a register each.
#define LOADROW(row, r0, r1, r2, r3) \
	VLD4R	(row), [r0.S4, r1.S4, r2.S4, r3.S4]

// FEED adds a row of the first state.
#define FEED(r0, r1, r2, r3) \
	ADD4(r0, r1, r2, r3, V16, V17, V18, V19)

// TRANSPOSE turns four words of the four blocks, w0..w3, into a row of each
// block, b0..b3. b3 may be w0; V28 and V29 are used.
#define TRANSPOSE(w0, w1, w2, w3, b0, b1, b2, b3) \
	VZIP1	w1.S4, w0.S4, V28.S4 \
	VZIP1	w3.S4, w2.S4, V29.S4 \
	VZIP1	V29.D2, V28.D2, b0.D2 \
	VZIP2	V29.D2, V28.D2, b1.D2 \
	VZIP2	w1.S4, w0.S4, V28.S4 \
	VZIP2	w3.S4, w2.S4, V29.S4 \
	VZIP1	V29.D2, V28.D2, b2.D2 \
	VZIP2	V29.D2, V28.D2, b3.D2

// XORBLOCK uses V4..V7.
#define XORBLOCK(r0, r1, r2, r3) \
	VLD1.P	64(SRC), [V4.B16, V5.B16, V6.B16, V7.B16] \
	XOR4(V4, V5, V6, V7, r0, r1, r2, r3) \
	VST1.P	[V4.B16, V5.B16, V6.B16, V7.B16], 64(DST)

// ROUND2 is half a double round of two blocks by rows, V16..V19 and V20..V23; V4
// and V5 are used.
#define ROUND2 \
	ADD2(V16, V20, V17, V21) \
	XOR2(V19, V23, V16, V20) \
	VREV32	V19.H8, V19.H8 \
	VREV32	V23.H8, V23.H8 \
	ADD2(V18, V22, V19, V23) \
	XORROT2(V17, V21, V18, V22, 12, 20) \
	ADD2(V16, V20, V17, V21) \
	XOR2(V19, V23, V16, V20) \
	VTBL	ROTL8.B16, [V19.B16], V19.B16 \
	VTBL	ROTL8.B16, [V23.B16], V23.B16 \
	ADD2(V18, V22, V19, V23) \
	XORROT2(V17, V21, V18, V22, 7, 25)

#define ADD2(a, e, b, f) \
	VADD	b.S4, a.S4, a.S4 \
	VADD	f.S4, e.S4, e.S4

#define XOR2(d, h, a, e) \
	VEOR	a.B16, d.B16, d.B16 \
	VEOR	e.B16, h.B16, h.B16

#define XORROT2(b, f, c, g_, left, right) \
	VEOR	c.B16, b.B16, V4.B16 \
	VEOR	g_.B16, f.B16, V5.B16 \
	VSHL	$left, V4.S4, b.S4 \
	VSHL	$left, V5.S4, f.S4 \
	VSRI	$right, V4.S4, b.S4 \
	VSRI	$right, V5.S4, f.S4

// SHIFTROWS turns rows b, c, d left by the given bytes.
#define SHIFTROWS(b, c, d) \
	VEXT	$b, V17.B16, V17.B16, V17.B16 \
	VEXT	$b, V21.B16, V21.B16, V21.B16 \
	VEXT	$c, V18.B16, V18.B16, V18.B16 \
	VEXT	$c, V22.B16, V22.B16, V22.B16 \
	VEXT	$d, V19.B16, V19.B16, V19.B16 \
	VEXT	$d, V23.B16, V23.B16, V23.B16

// INITMAC keys MAC with the first half of block V16..V19: h = 0, r clamped, s.
#define INITMAC \
	VMOV	V16.D[0], X \
	VMOV	V16.D[1], Y \
	AND	$0x0ffffffc0fffffff, X \
	AND	$0x0ffffffc0ffffffc, Y \
	STP	(X, Y), poly1305x64_r(MAC) \
	VMOV	V17.D[0], X \
	VMOV	V17.D[1], Y \
	STP	(X, Y), poly1305x64_s(MAC) \
	STP	(ZR, ZR), (poly1305x64_h+0)(MAC) \
	MOVD	ZR, (poly1305x64_h+16)(MAC)

// func keyStreamNEON(m *poly1305, dst, src []byte, key *[8]uint32, iv *[4]uint32)
TEXT ·keyStreamNEON(SB), NOSPLIT, $0-72
	MOVD	m+0(FP), MAC
	MOVD	dst_base+8(FP), DST
	MOVD	src_base+32(FP), SRC
	MOVD	src_len+40(FP), N
	MOVD	key+56(FP), KEY
	MOVD	iv+64(FP), IV
	MOVD	$·sigmaARM64(SB), SIGMA
	ADD	$16, KEY, KEY4
	ADD	$16, SIGMA, X
	VLD1	(X), [LANES.B16, ROTL8.B16]
	MOVWU	(IV), COUNTER

	CBZ	MAC, next
	CMP	$64, N
	BLS	two
	B	four

next:
	CMP	$128, N
	BLS	two
four:
	LOADROW(SIGMA, V0, V1, V2, V3)
	LOADROW(KEY, V4, V5, V6, V7)
	LOADROW(KEY4, V8, V9, V10, V11)
	LOADROW(IV, V12, V13, V14, V15)
	VDUP	COUNTER, V12.S4
	VADD	LANES.S4, V12.S4, V12.S4
	MOVD	$10, ROUNDS
rounds:
	ROUND(V0, V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11, V12, V13, V14, V15)
	ROUND(V0, V1, V2, V3, V5, V6, V7, V4, V10, V11, V8, V9, V15, V12, V13, V14)
	SUB	$1, ROUNDS
	CBNZ	ROUNDS, rounds

	LOADROW(SIGMA, V16, V17, V18, V19)
	FEED(V0, V1, V2, V3)
	LOADROW(KEY, V16, V17, V18, V19)
	FEED(V4, V5, V6, V7)
	LOADROW(KEY4, V16, V17, V18, V19)
	FEED(V8, V9, V10, V11)
	LOADROW(IV, V16, V17, V18, V19)
	VDUP	COUNTER, V16.S4
	VADD	LANES.S4, V16.S4, V16.S4
	FEED(V12, V13, V14, V15)
	ADDW	$4, COUNTER

	TRANSPOSE(V0, V1, V2, V3, V16, V20, V24, V0)
	TRANSPOSE(V4, V5, V6, V7, V17, V21, V25, V1)
	TRANSPOSE(V8, V9, V10, V11, V18, V22, V26, V2)
	TRANSPOSE(V12, V13, V14, V15, V19, V23, V27, V3)

emit:
	CBZ	MAC, block0
	INITMAC
	MOVD	ZR, MAC
	B	block1
block0:
	SUBS	$64, N
	BLT	tail
	XORBLOCK(V16, V17, V18, V19)
block1:
	SUBS	$64, N
	BLT	tail1
	XORBLOCK(V20, V21, V22, V23)
	SUBS	$64, N
	BLT	tail2
	XORBLOCK(V24, V25, V26, V27)
	SUBS	$64, N
	BLT	tail3
	XORBLOCK(V0, V1, V2, V3)
	CBNZ	N, next
	RET

tail1:
	VMOV	V20.B16, V16.B16
	VMOV	V21.B16, V17.B16
	VMOV	V22.B16, V18.B16
	VMOV	V23.B16, V19.B16
	B	tail
tail2:
	VMOV	V24.B16, V16.B16
	VMOV	V25.B16, V17.B16
	VMOV	V26.B16, V18.B16
	VMOV	V27.B16, V19.B16
	B	tail
tail3:
	VMOV	V0.B16, V16.B16
	VMOV	V1.B16, V17.B16
	VMOV	V2.B16, V18.B16
	VMOV	V3.B16, V19.B16
	// V16..V19 is the block for the last bytes, N - 64 < 0 now in N: the low
	// six bits are their number.
tail:
	TBZ	$5, N, tail16
	VLD1.P	32(SRC), [V4.B16, V5.B16]
	VEOR	V16.B16, V4.B16, V4.B16
	VEOR	V17.B16, V5.B16, V5.B16
	VST1.P	[V4.B16, V5.B16], 32(DST)
	VMOV	V18.B16, V16.B16
	VMOV	V19.B16, V17.B16
tail16:
	TBZ	$4, N, tail8
	VLD1.P	16(SRC), [V4.B16]
	VEOR	V16.B16, V4.B16, V4.B16
	VST1.P	[V4.B16], 16(DST)
	VMOV	V17.B16, V16.B16
tail8:
	VMOV	V16.D[0], X
	TBZ	$3, N, tail4
	MOVD.P	8(SRC), T
	EOR	X, T
	MOVD.P	T, 8(DST)
	VMOV	V16.D[1], X
tail4:
	TBZ	$2, N, tail2bytes
	MOVWU.P	4(SRC), T
	EOR	X, T
	MOVW.P	T, 4(DST)
	LSR	$32, X
tail2bytes:
	TBZ	$1, N, tail1byte
	MOVHU.P	2(SRC), T
	EOR	X, T
	MOVH.P	T, 2(DST)
	LSR	$16, X
tail1byte:
	TBZ	$0, N, done
	MOVBU	(SRC), T
	EOR	X, T
	MOVB	T, (DST)
done:
	VEOR	V9.B16, V9.B16, V9.B16	// the key, which a signal would store
	VEOR	V10.B16, V10.B16, V10.B16
	RET

two:
	VLD1	(SIGMA), [V8.S4]
	VLD1	(KEY), [V9.S4, V10.S4]
	VLD1	(IV), [V11.S4]
	VMOV	COUNTER, V11.S[0]
	ADDW	$1, COUNTER
	VMOV	V11.B16, V12.B16
	VMOV	COUNTER, V12.S[0]
	VMOV	V8.B16, V16.B16
	VMOV	V9.B16, V17.B16
	VMOV	V10.B16, V18.B16
	VMOV	V11.B16, V19.B16
	VMOV	V8.B16, V20.B16
	VMOV	V9.B16, V21.B16
	VMOV	V10.B16, V22.B16
	VMOV	V12.B16, V23.B16
	MOVD	$10, ROUNDS
rounds2:
	ROUND2
	SHIFTROWS(4, 8, 12)
	ROUND2
	SHIFTROWS(12, 8, 4)
	SUB	$1, ROUNDS
	CBNZ	ROUNDS, rounds2

	ADD4(V16, V17, V18, V19, V8, V9, V10, V11)
	ADD4(V20, V21, V22, V23, V8, V9, V10, V12)
	B	emit
