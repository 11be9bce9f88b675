// ChaCha20 key stream XOR for 32-bit ARM with NEON, four blocks at a time.
//
// ISA:     ARMv7 with NEON; unaligned LDR and STR, which Linux allows there.
// Reads:   dst, src at any alignment; m, key, iv at multiples of 4.
// Spec:    RFC 8439 §2.3, §2.4 and, for the one-time key, §2.5.1 and §2.6.
// Time:    constant; branches depend on lengths alone.
// Stack:   the frame holds words from which the key follows; wiped before return.
// Tested:  qemu-arm -cpu cortex-a7.
//
// Word i of four blocks is a register, so a quarter round needs no shuffle; the
// last one or two blocks are made by rows, which takes half of the work. 14
// words have a register and two one for what a rotation needs. Row c shares two:
// words 8 and 9, or 10 and 11, are in memory, as in chacha20_arm.s; and as there,
// the part of the first column round that is the same for all blocks is done once.
//
// Go reserves R10 (g), R13 (SP), R15 (PC); R11 is the assembler's for constants
// and offsets too large for an instruction, of which there are none here.

//go:build !purego

#include "go_asm.h"
#include "asm_arm.h"
#include "textflag.h"

#define MAC	R0
#define DST	R1
#define SRC	R2
#define N	R3	// bytes left
#define KEY	R4
#define NEXTSRC	R5	// SRC and DST behind the message's last blocks
#define LOW	R6
#define HIGH	R7
#define ROUNDS	R8
#define NEXTDST	R8
#define COUNTER	R9
#define SRC0	R11	// of the first of four blocks
#define DST0	R12

// Numbers of q registers.
#define A0	0
#define A1	1
#define A2	2
#define A3	3
#define B0	4
#define B1	5
#define B2	6
#define B3	7
#define C0	8	// word 8 or 10
#define C1	9	// word 9 or 11
#define D0	10
#define D1	11
#define D2	12
#define D3	13
#define T0	14
#define T1	15

// The frame. 0(R13) is the return address.
#define LOWS	4	// words 8 and 9 of four blocks
#define HIGHS	36	// words 10 and 11
#define COUNTERS 68	// word 12 of four blocks as it is first
#define NONCE	84	// last row of the first state without the counter
#define ONCE	100	// first state, or first column round: see below
#define ONCE_LEN 60
#define SCRATCH	160	// four blocks
#define FRAME	412

// lane numbers, and "expand 32-byte k"
DATA ·constantsNEON+0(SB)/4, $0
DATA ·constantsNEON+4(SB)/4, $1
DATA ·constantsNEON+8(SB)/4, $2
DATA ·constantsNEON+12(SB)/4, $3
DATA ·constantsNEON+16(SB)/4, $0x61707865
DATA ·constantsNEON+20(SB)/4, $0x3320646e
DATA ·constantsNEON+24(SB)/4, $0x79622d32
DATA ·constantsNEON+28(SB)/4, $0x6b206574
GLOBL ·constantsNEON(SB), NOPTR|RODATA, $32

#define XORROT(b, c, t, left, right) \
	VEOR(t, b, c)		\
	VSHL(b, t, left)	\
	VSRI(b, t, right)

// QUARTER is four quarter rounds of one kind, RFC 8439 §2.1; QUARTERS of two.
#define QUARTER(a, b, c, d, t) \
	VADD(a, a, b)		\
	VEOR(d, d, a)		\
	VREV32_16(d, d)		\
	VADD(c, c, d)		\
	XORROT(b, c, t, 12, 20)	\
	VADD(a, a, b)		\
	XORROT(d, a, t, 8, 24)	\
	VADD(c, c, d)		\
	XORROT(b, c, t, 7, 25)

#define XORROTS(b, c, f, g_, left, right) \
	VEOR(T0, b, c)		\
	VEOR(T1, f, g_)		\
	VSHL(b, T0, left)	\
	VSHL(f, T1, left)	\
	VSRI(b, T0, right)	\
	VSRI(f, T1, right)

#define QUARTERS(a, b, c, d, e, f, g_, h) \
	VADD(a, a, b)		\
	VADD(e, e, f)		\
	VEOR(d, d, a)		\
	VEOR(h, h, e)		\
	VREV32_16(d, d)		\
	VREV32_16(h, h)		\
	VADD(c, c, d)		\
	VADD(g_, g_, h)		\
	XORROTS(b, c, f, g_, 12, 20) \
	VADD(a, a, b)		\
	VADD(e, e, f)		\
	XORROTS(d, a, h, e, 8, 24) \
	VADD(c, c, d)		\
	VADD(g_, g_, h)		\
	XORROTS(b, c, f, g_, 7, 25)

// vstmia low, {c0, c1}; vldmia high, {c0, c1}; and back.
#define LOWOUT	WORD $(0xec860b08 | QD(C0))
#define LOWIN	WORD $(0xec960b08 | QD(C0))
#define HIGHOUT	WORD $(0xec870b08 | QD(C0))
#define HIGHIN	WORD $(0xec970b08 | QD(C0))

#define DIAGONALROUND \
	QUARTERS(A0, B1, C0, D3, A1, B2, C1, D0) \
	HIGHOUT			\
	LOWIN			\
	QUARTERS(A2, B3, C0, D1, A3, B0, C1, D2)

#define COLUMNROUND \
	QUARTERS(A0, B0, C0, D0, A1, B1, C1, D1) \
	LOWOUT			\
	HIGHIN			\
	QUARTERS(A2, B2, C0, D2, A3, B3, C1, D3)

// TRANSPOSE turns four words of four blocks into a row of each block.
#define TRANSPOSE(w0, w1, w2, w3) \
	VTRN(w0, w1)		\
	VTRN(w2, w3)		\
	VSWPHILO(w0, w2)	\
	VSWPHILO(w1, w3)

#define ADDROW(w0, w1, w2, w3, row) \
	VADD(w0, w0, row)	\
	VADD(w1, w1, row)	\
	VADD(w2, w2, row)	\
	VADD(w3, w3, row)

// TURNROWS turns the rows b, c, d of two blocks.
#define TURNROWS(b, c, d) \
	VTURN(1, b)		\
	VTURN(5, b)		\
	VTURN(2, c)		\
	VTURN(6, c)		\
	VTURN(3, d)		\
	VTURN(7, d)

// Half a block: 32 bytes of 64. The pointers move on by r14 = 64.
#define XORHALF(t, u, row0, row1) \
	VLD1_2R(t, 2, 14)	\
	VEOR(t, t, row0)	\
	VEOR(u, u, row1)	\
	VST1_2R(t, 1, 14)

// func keyStreamARMNEON(m *poly1305, dst, src *byte, n int, key *[8]uint32, iv *[4]uint32)
TEXT ·keyStreamARMNEON(SB), NOSPLIT, $FRAME-24
	// Quarter rounds 1, 2 and 3 of the first column round, in this order: words
	// 0, 4, 8 of the first state; 9; 13; 1, 2, 3, 5, 6, 7; 14, 15; 10, 11.
	MOVW	key+16(FP), R0
	MOVW	iv+20(FP), R9
	MOVW	$0x61707865, R1
	MOVW	R1, (ONCE+0)(R13)
	MOVW	0(R0), R1
	MOVW	R1, (ONCE+4)(R13)
	MOVW	16(R0), R1
	MOVW	R1, (ONCE+8)(R13)

	MOVW	$0x3320646e, R1
	MOVW	4(R0), R2
	MOVW	20(R0), R3
	MOVW	4(R9), R4
	MOVW	R4, (NONCE+4)(R13)
	FIRSTQUARTER(R1, R2, R3, R4)
	MOVW	R3, (ONCE+12)(R13)
	MOVW	R4@>24, R4
	MOVW	R4, (ONCE+16)(R13)
	MOVW	R1, (ONCE+20)(R13)
	MOVW	R2@>25, R2
	MOVW	R2, (ONCE+32)(R13)

	MOVW	$0x79622d32, R1
	MOVW	8(R0), R2
	MOVW	24(R0), R3
	MOVW	8(R9), R4
	MOVW	R4, (NONCE+8)(R13)
	FIRSTQUARTER(R1, R2, R3, R4)
	MOVW	R1, (ONCE+24)(R13)
	MOVW	R2@>25, R2
	MOVW	R2, (ONCE+36)(R13)
	MOVW	R4@>24, R4
	MOVW	R4, (ONCE+44)(R13)
	MOVW	R3, (ONCE+52)(R13)

	MOVW	$0x6b206574, R1
	MOVW	12(R0), R2
	MOVW	28(R0), R3
	MOVW	12(R9), R4
	MOVW	R4, (NONCE+12)(R13)
	FIRSTQUARTER(R1, R2, R3, R4)
	MOVW	R1, (ONCE+28)(R13)
	MOVW	R2@>25, R2
	MOVW	R2, (ONCE+40)(R13)
	MOVW	R4@>24, R4
	MOVW	R4, (ONCE+48)(R13)
	MOVW	R3, (ONCE+56)(R13)

	MOVW	R0, KEY
	MOVW	0(R9), COUNTER
	MOVW	m+0(FP), MAC
	MOVW	dst+4(FP), DST
	MOVW	src+8(FP), SRC
	MOVW	n+12(FP), N
	ADD	$LOWS, R13, LOW
	ADD	$HIGHS, R13, HIGH

	CMP	$0, MAC
	BEQ	lasttwo
	CMP	$64, N
	BLE	two
	B	zero
lasttwo:
	CMP	$128, N
	BLE	two

	// Blocks at the edges are made in SCRATCH: key stream XOR zeros.
zero:
	VEOR(0, 0, 0)
	VEOR(1, 1, 1)
	ADD	$SCRATCH, R13, R11
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	MOVW	$0, R12
	MOVW	R12, NONCE(R13)
	B	four

next:
	CMP	$128, N
	BLE	two
four:
	MOVW	$·constantsNEON(SB), R12
	ADD	$ONCE, R13, R11
	ADD	$COUNTERS, R13, R14
	VLD1_1(T0, 12)
	VDUP(D0, 9)
	VADD(D0, D0, T0)
	ADD	$4, COUNTER
	VST1_1(D0, 14)
	VLD1_DUP(A0, 11)
	VLD1_DUP(B0, 11)
	VLD1_DUP(C0, 11)
	QUARTER(A0, B0, C0, D0, T0)
	VLD1_DUP(C1, 11)
	VLD1_DUP(D1, 11)
	LOWOUT
	VLD1_DUP(A1, 11)
	VLD1_DUP(A2, 11)
	VLD1_DUP(A3, 11)
	VLD1_DUP(B1, 11)
	VLD1_DUP(B2, 11)
	VLD1_DUP(B3, 11)
	VLD1_DUP(D2, 11)
	VLD1_DUP(D3, 11)
	VLD1_DUP(C0, 11)
	VLD1_DUP(C1, 11)

	MOVW	$3, ROUNDS
rounds:
	DIAGONALROUND
	COLUMNROUND
	DIAGONALROUND
	COLUMNROUND
	DIAGONALROUND
	SUB.S	$1, ROUNDS	// WORDs down to BNE leave the flags alone
	COLUMNROUND
	BNE	rounds
	DIAGONALROUND

	// Add the first state. Words 10 and 11 are in HIGH.
	ADD	$16, R12
	VLD1_1(T0, 14)
	VADD(D0, D0, T0)
	VLD1_1(T0, 12)
	VLD1_1(T1, 4)
	TRANSPOSE(A0, A1, A2, A3)
	TRANSPOSE(B0, B1, B2, B3)
	ADDROW(A0, A1, A2, A3, T0)
	ADDROW(B0, B1, B2, B3, T1)

	// Where do the first block and the others go?
	MOVW	SRC, NEXTSRC
	MOVW	DST, NEXTDST
	CMP	$0, MAC
	BNE	first
	SUB.S	$256, N
	BLT	last
	MOVW	SRC, SRC0
	MOVW	DST, DST0
	ADD	$64, SRC
	ADD	$64, DST
	B	xor
first:
	SUB.S	$192, N
	ADD	$SCRATCH, R13, SRC0
	ADD	$SCRATCH, R13, DST0
	BGE	xor
	B	others
last:
	ADD	$SCRATCH, R13, SRC0
	ADD	$SCRATCH, R13, DST0
others:
	ADD	$64, SRC0, SRC
	ADD	$64, SRC0, DST

xor:
	MOVW	$64, R14
	VLD1_2P(T0, 11)
	VEOR(T0, T0, A0)
	VEOR(T1, T1, B0)
	VST1_2P(T0, 12)
	XORHALF(T0, T1, A1, B1)
	XORHALF(T0, T1, A2, B2)
	XORHALF(T0, T1, A3, B3)
	SUB	$160, SRC
	SUB	$160, DST

	// vldmia high, {t0, t1}: words 10 and 11. The second half of the key is q0,
	// the last row of the first state q1.
	WORD	$(0xec970b08 | QD(T0))
	ADD	$16, KEY, R14
	VLD1_1(0, 14)
	ADD	$NONCE, R13, R14
	VLD1_1(1, 14)
	TRANSPOSE(C0, C1, T0, T1)
	TRANSPOSE(D0, D1, D2, D3)
	ADDROW(C0, C1, T0, T1, 0)
	ADDROW(D0, D1, D2, D3, 1)
	MOVW	$64, R14
	VLD1_2(0, 11)
	VEOR(0, 0, C0)
	VEOR(1, 1, D0)
	VST1_2(0, 12)
	XORHALF(0, 1, C1, D1)
	XORHALF(0, 1, T0, D2)
	XORHALF(0, 1, T1, D3)
	SUB	$32, SRC
	SUB	$32, DST

	CMP	$0, MAC
	BNE	init
	CMP	$0, N
	BGT	next
	BEQ	done
	ADD	$SCRATCH, R13, R11
	ADD	$256, N
	B	tail

init:
	// Key MAC with the first half of the first block: h = 0, r clamped, s.
	ADD	$SCRATCH, R13, R11
	MOVM.IA.W (R11), [R4, R6, R7, R9]
	BIC	$0xf0000000, R4
	BIC	$0xf0000003, R6
	BIC	$0xf0000003, R7
	BIC	$0xf0000003, R9
	ADD	$poly1305x32_r, MAC, R12
	MOVM.IA.W [R4, R6, R7, R9], (R12)
	MOVM.IA	(R11), [R4, R6, R7, R9]
	MOVM.IA	[R4, R6, R7, R9], (R12)
	VEOR(0, 0, 0)
	VEOR(1, 1, 1)
	SUB	$16, R11
	VST1_1(0, 0)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	MOVW	$0, R12
	MOVW	R12, (poly1305x32_h+16)(MAC)
	MOVW	$0, MAC
	MOVW	key+16(FP), KEY
	MOVW	iv+20(FP), R9
	MOVW	0(R9), COUNTER
	ADD	$4, COUNTER
	ADD	$LOWS, R13, LOW
	ADD	$HIGHS, R13, HIGH
	CMP	$0, N
	BGT	next
	BEQ	done
	ADD	$192, N
	BEQ	done

	// R11 is the key stream of the last N < 256 bytes.
tail:
	SUB.S	$32, N
	BLT	tail16
tail32:
	VLD1_2P(0, 5)
	VLD1_2P(2, 11)
	VEOR(0, 0, 2)
	VEOR(1, 1, 3)
	VST1_2P(0, 8)
	SUB.S	$32, N
	BGE	tail32
tail16:
	TST	$16, N
	BEQ	tail12
	VLD1_1P(0, 5)
	VLD1_1P(2, 11)
	VEOR(0, 0, 2)
	VST1_1P(0, 8)
tail12:
	AND.S	$15, N
	SUB.S	$4, N
	BLT	tail3
tail4:
	MOVW.P	4(R5), R14
	MOVW.P	4(R11), R12
	EOR	R12, R14
	MOVW.P	R14, 4(R8)
	SUB.S	$4, N
	BGE	tail4
tail3:
	ADD.S	$4, N
	BEQ	done
tail1:
	MOVBU.P	1(R5), R14
	MOVBU.P	1(R11), R12
	EOR	R12, R14
	MOVB.P	R14, 1(R8)
	SUB.S	$1, N
	BNE	tail1

done:
	VEOR(0, 0, 0)
	VEOR(1, 1, 1)
	VMOV(9, 0)		// the key, which a signal would store
	VMOV(10, 0)
	ADD	$4, R13, R11
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_2P(0, 11)
	VST1_1P(0, 11)
	SUB	$4, R11		// the frame has 412 bytes
	VST1_1(0, 11)
	RET

	// Two blocks of rows, q0..q3 and q4..q7, are made in SCRATCH; N <= 128, or 64
	// if the first of them is for MAC. q8..q11 and q8..q10, q12 are the states.
two:
	MOVW	SRC, NEXTSRC
	MOVW	$·constantsNEON+16(SB), R12
	VLD1_1(8, 12)
	VLD1_2(9, 4)
	MOVW	iv+20(FP), R12
	VLD1_1(11, 12)
	VMOV(12, 11)
	VMOVLANE0(11, 9)
	ADD	$1, COUNTER
	VMOVLANE0(12, 9)
	VMOV(0, 8)
	VMOV(1, 9)
	VMOV(2, 10)
	VMOV(3, 11)
	VMOV(4, 8)
	VMOV(5, 9)
	VMOV(6, 10)
	VMOV(7, 12)
	MOVW	$10, ROUNDS
rounds2:
	QUARTERS(0, 1, 2, 3, 4, 5, 6, 7)
	TURNROWS(4, 8, 12)
	SUB.S	$1, ROUNDS	// WORDs down to BNE leave the flags alone
	QUARTERS(0, 1, 2, 3, 4, 5, 6, 7)
	TURNROWS(12, 8, 4)
	BNE	rounds2
	VADD(0, 0, 8)
	VADD(1, 1, 9)
	VADD(2, 2, 10)
	VADD(3, 3, 11)
	VADD(4, 4, 8)
	VADD(5, 5, 9)
	VADD(6, 6, 10)
	VADD(7, 7, 12)
	ADD	$SCRATCH, R13, R11
	VST1_2P(0, 11)
	VST1_2P(2, 11)
	VST1_2P(4, 11)
	VST1_2(6, 11)
	MOVW	DST, NEXTDST
	SUB	$96, R11
	CMP	$0, MAC
	BEQ	tail
	SUB	$192, N
	B	init

// func releaseNEON(dst, src *byte, ahead *[192]byte, n int, tag, want *[16]byte) (equal bool)
TEXT ·releaseNEON(SB), NOSPLIT, $0-25
	MOVW	tag+16(FP), R0
	MOVW	want+20(FP), R11
	MOVM.IA	(R0), [R0, R1, R2, R4]
	MOVW	0(R11), R5
	MOVW	4(R11), R6
	MOVW	8(R11), R7
	MOVW	12(R11), R8
	EOR	R5, R0
	EOR	R6, R1
	EOR	R7, R2
	EOR	R8, R4
	ORR	R1, R0
	ORR	R4, R2
	ORR.S	R2, R0
	MOVW	$0, R7
	MOVB	R7, equal+24(FP)
	BNE	done
	MOVW	$1, R0
	MOVB	R0, equal+24(FP)
	MOVW	dst+0(FP), R8
	MOVW	src+4(FP), R5
	MOVW	ahead+8(FP), R11
	MOVW	n+12(FP), N
	VEOR(4, 4, 4)
	VEOR(5, 5, 5)
	VMOV(6, 4)
	VMOV(7, 4)
	SUB.S	$64, N
	BLT	half
chunk:
	VLD1_2P(0, 5)
	VLD1_2P(2, 5)
	WORD	$(0xec9b0b10 | QD(8))	// vldmia r11, {q8-q11}
	WORD	$(0xecab0b10 | QD(4))	// vstmia r11!, {q4-q7}
	VEOR(0, 0, 8)
	VEOR(1, 1, 9)
	VEOR(2, 2, 10)
	VEOR(3, 3, 11)
	VST1_2P(0, 8)
	VST1_2P(2, 8)
	SUB.S	$64, N
	BGE	chunk
half:
	ADD.S	$32, N
	BLT	last
	VLD1_2P(0, 5)
	VLD1_2(2, 11)
	VST1_2P(4, 11)
	VEOR(0, 0, 2)
	VEOR(1, 1, 3)
	VST1_2P(0, 8)
	SUB	$32, N
last:
	ADD.S	$32, N
	BEQ	done
byte:
	MOVBU.P	1(R5), R9
	MOVBU	(R11), R12
	MOVB.P	R7, 1(R11)
	EOR	R12, R9
	MOVB.P	R9, 1(R8)
	SUB.S	$1, N
	BNE	byte
done:
	RET
