// ChaCha20 key stream XOR for 32-bit ARM, one block at a time.
//
// ISA:     ARMv5 (and ARMv4); no LDRD, no REV, no unaligned access.
// Reads:   dst, src, key, iv at multiples of 4.
// Spec:    RFC 8439 §2.3, §2.4.
// Time:    constant; branches depend on lengths alone.
// Stack:   the frame holds words from which the key follows; wiped before return.
// Tested:  qemu-arm -cpu arm926, arm1176, cortex-a7.
//
// An operand may be rotated on its way into an ADD or EOR, so words b and d of a
// quarter round are kept as they are before their last rotation: b stands for
// b <<< 7 and d for d <<< 8, and no instruction only rotates.
//
// 13 registers are free for 16 words. Three are in memory at any time; rows c and
// d share registers so that each half round moves three words out and three in:
//
//	column   0,4,8,12   1,5,9,13     C0 = 8,  C1 = 9,  D1 = 13
//	         2,6,10,14  3,7,11,15    C0 = 10, C1 = 11, D1 = 15
//	diagonal 0,5,10,15  1,6,11,12    the same
//	         2,7,8,13   3,4,9,14     C0 = 8,  C1 = 9,  D1 = 13
//
// FIRSTQUARTER leaves this form. Of the first column round only the quarter with the block counter differs from
// block to block; the other three are computed once.
//
// Go reserves R10 (g), R13 (SP), R15 (PC); R11 is the assembler's for constants
// and offsets too large for an instruction, of which there are none here.

//go:build !purego

#include "asm_arm.h"
#include "textflag.h"

#define A0	R0
#define A1	R1
#define A2	R2
#define A3	R3
#define B0	R4
#define B1	R5
#define B2	R6
#define B3	R7
#define D0	R8	// word 12
#define D2	R9	// word 14
#define C0	R11	// word 8 or 10
#define C1	R12	// word 9 or 11
#define D1	R14	// word 13 or 15

// The frame. 0(R13) is the return address.
#define LOW	4(R13)	// words 8, 9, 13
#define LOW_8	4(R13)
#define LOW_9	8(R13)
#define LOW_13	12(R13)
#define HIGH_10	16(R13)	// words 10, 11, 15
#define HIGH_11	20(R13)
#define HIGH_15	24(R13)
#define ROUNDS	28(R13)
#define COUNTER	32(R13)
#define DST	36(R13)
#define SRC	40(R13)
#define BLOCKS	44(R13)
#define SEGMENT	48(R13)
#define SEGMENTS 52(R13)	// left
#define ONCE	56	// words 1, 2, 3, 5, 6, 7, 14, 10, 11, 15 of the first column round
#define ONCE_9	96(R13)
#define ONCE_13	100(R13)

// QUARTERS is two quarter rounds, RFC 8439 §2.1.
#define QUARTERS(a, b, c, d, e, f, g_, h) \
	ADD	b@>25, a, a	\
	ADD	f@>25, e, e	\
	EOR	d@>24, a, d	\
	EOR	h@>24, e, h	\
	ADD	d@>16, c, c	\
	ADD	h@>16, g_, g_	\
	EOR	b@>25, c, b	\
	EOR	f@>25, g_, f	\
	ADD	b@>20, a, a	\
	ADD	f@>20, e, e	\
	EOR	d@>16, a, d	\
	EOR	h@>16, e, h	\
	ADD	d@>24, c, c	\
	ADD	h@>24, g_, g_	\
	EOR	b@>20, c, b	\
	EOR	f@>20, g_, f

#define COLUMNS1 QUARTERS(A0, B0, C0, D0, A1, B1, C1, D1)
#define COLUMNS2 QUARTERS(A2, B2, C0, D2, A3, B3, C1, D1)
#define DIAGONALS1 QUARTERS(A0, B1, C0, D1, A1, B2, C1, D0)
#define DIAGONALS2 QUARTERS(A2, B3, C0, D1, A3, B0, C1, D2)

#define LOWOUT	MOVM.IB	[R11, R12, R14], (R13)
#define LOWIN	MOVM.IB	(R13), [R11, R12, R14]
#define HIGHIN \
	MOVW	HIGH_15, D1	\
	MOVW	HIGH_10, C0	\
	MOVW	HIGH_11, C1
#define HIGHOUT \
	MOVW	C0, HIGH_10	\
	MOVW	D1, HIGH_15	\
	MOVW	C1, HIGH_11

#define DIAGONALROUND \
	DIAGONALS1	\
	HIGHOUT		\
	LOWIN		\
	DIAGONALS2

#define DOUBLEROUND \
	DIAGONALROUND	\
	COLUMNS1	\
	LOWOUT		\
	HIGHIN		\
	COLUMNS2

// func xorSegments(s *[3]segment, key *[8]uint32, iv *[4]uint32)
TEXT ·xorSegments(SB), NOSPLIT, $104-12
	// Quarter rounds 1, 2 and 3 of the first column round.
	MOVW	key+4(FP), R0
	MOVW	iv+8(FP), R12
	MOVW	(R12), R1
	MOVW	R1, COUNTER
	MOVW	4(R0), R4
	MOVW	20(R0), R5
	MOVW	4(R12), R6
	MOVW	$0x3320646e, R3
	FIRSTQUARTER(R3, R4, R5, R6)
	MOVW	R3, (ONCE+0)(R13)
	MOVW	R4, (ONCE+12)(R13)
	MOVW	R5, ONCE_9
	MOVW	R6, ONCE_13
	MOVW	8(R0), R4
	MOVW	24(R0), R5
	MOVW	8(R12), R6
	MOVW	$0x79622d32, R3
	FIRSTQUARTER(R3, R4, R5, R6)
	MOVW	R3, (ONCE+4)(R13)
	MOVW	R4, (ONCE+16)(R13)
	MOVW	R6, (ONCE+24)(R13)
	MOVW	R5, (ONCE+28)(R13)
	MOVW	12(R0), R4
	MOVW	28(R0), R5
	MOVW	12(R12), R6
	MOVW	$0x6b206574, R3
	FIRSTQUARTER(R3, R4, R5, R6)
	MOVW	R3, (ONCE+8)(R13)
	MOVW	R4, (ONCE+20)(R13)
	MOVW	R5, (ONCE+32)(R13)
	MOVW	R6, (ONCE+36)(R13)

	MOVW	s+0(FP), R0
	MOVW	$3, R4
segment:
	MOVM.IA.W (R0), [R1, R2, R3]
	SUB.S	$1, R4
	BLT	done
	CMP	$0, R3
	BEQ	segment
	MOVW	R0, SEGMENT
	MOVW	R4, SEGMENTS
	MOVW	R1, DST
	MOVW	R2, SRC
	MOVW	R3, BLOCKS

block:
	MOVW	key+4(FP), R1
	MOVW	COUNTER, D0
	MOVW	0(R1), B0
	MOVW	16(R1), C0
	MOVW	$0x61707865, A0
	MOVW	ONCE_9, C1
	MOVW	ONCE_13, D1
	FIRSTQUARTER(A0, B0, C0, D0)
	LOWOUT
	MOVW	$3, R1
	MOVW	R1, ROUNDS
	ADD	$ONCE, R13, R1
	MOVM.IA	(R1), [R1, R2, R3, R5, R6, R7, R9, R11, R12, R14]
rounds:
	DOUBLEROUND
	DOUBLEROUND
	DIAGONALROUND
	COLUMNS1
	LOWOUT
	MOVW	ROUNDS, C0
	SUB.S	$1, C0		// no instruction down to BNE changes the flags
	MOVW	C0, ROUNDS
	HIGHIN
	COLUMNS2
	BNE	rounds
	DIAGONALROUND

	// Add the first state and XOR. Words 10, 11, 15 are in memory already.
	LOWOUT
	MOVW	SRC, R11
	MOVW	$0x61707865, R12
	MOVW	$0x3320646e, R14
	ADD	R12, R0
	ADD	R14, R1
	MOVW	$0x79622d32, R12
	MOVW	$0x6b206574, R14
	ADD	R12, R2
	ADD	R14, R3
	MOVM.IA.W (R11), [R12, R14]
	EOR	R12, R0
	EOR	R14, R1
	MOVM.IA.W (R11), [R12, R14]
	EOR	R12, R2
	EOR	R14, R3
	MOVW	DST, R12
	MOVW	key+4(FP), R14
	MOVM.IA.W [R0, R1, R2, R3], (R12)

	MOVM.IA.W (R14), [R0, R1, R2, R3]
	ADD	B0@>25, R0, R4
	ADD	B1@>25, R1, R5
	ADD	B2@>25, R2, R6
	ADD	B3@>25, R3, R7
	MOVM.IA.W (R11), [R0, R1, R2, R3]
	EOR	R0, R4
	EOR	R1, R5
	EOR	R2, R6
	EOR	R3, R7
	MOVM.IA.W [R4, R5, R6, R7], (R12)

	MOVM.IA	(R14), [R0, R1, R2, R3]
	MOVW	LOW_8, R4
	MOVW	LOW_9, R5
	MOVW	HIGH_10, R6
	MOVW	HIGH_11, R7
	ADD	R0, R4
	ADD	R1, R5
	ADD	R2, R6
	ADD	R3, R7
	MOVM.IA.W (R11), [R0, R1, R2, R3]
	EOR	R0, R4
	EOR	R1, R5
	EOR	R2, R6
	EOR	R3, R7
	MOVM.IA.W [R4, R5, R6, R7], (R12)

	MOVW	iv+8(FP), R14
	MOVW	LOW_13, R5
	MOVW	HIGH_15, R7
	MOVM.IB	(R14), [R1, R2, R3]
	MOVW	COUNTER, R0
	ADD	D0@>24, R0, R4
	ADD	R5@>24, R1, R5
	ADD	D2@>24, R2, R6
	ADD	R7@>24, R3, R7
	ADD	$1, R0, R8
	MOVW	R8, COUNTER
	MOVM.IA.W (R11), [R0, R1, R2, R3]
	EOR	R0, R4
	EOR	R1, R5
	EOR	R2, R6
	EOR	R3, R7
	MOVM.IA.W [R4, R5, R6, R7], (R12)

	MOVW	BLOCKS, R0
	MOVW	R11, SRC
	MOVW	R12, DST
	SUB.S	$1, R0
	MOVW	R0, BLOCKS
	BNE	block
	MOVW	SEGMENT, R0
	MOVW	SEGMENTS, R4
	B	segment

done:
	MOVW	$0, R0
	MOVW	$0, R1
	MOVW	$0, R2
	MOVW	$0, R3
	MOVW	$0, R4
	MOVW	$0, R5
	MOVM.IB	[R0-R5], (R13)
	ADD	$ONCE, R13, R11
	MOVM.IA.W [R0-R5], (R11)
	MOVM.IA	[R0-R5], (R11)
	RET
