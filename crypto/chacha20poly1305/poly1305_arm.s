// Poly1305 for 32-bit ARM: four words of 32 bits.
//
// ISA:     ARMv4 with long multiplications (M), so any that Go runs on.
// Reads:   m and p at multiples of 4.
// Spec:    RFC 8439 §2.5; the arithmetic is that of poly1305x32.blocksGeneric.
// Time:    constant but for early termination in multipliers of ARMv4 and v5,
//          which C has as well; branches depend on the length alone.
// Stack:   the frame holds r and s[i] = r[i]·5/4; wiped before return.
// Tested:  qemu-arm -cpu arm926, arm1176, cortex-a7.
//
// Go reserves R10 (g), R13 (SP), R15 (PC); R11 is the assembler's for constants
// and offsets too large for an instruction, of which there are none here.

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

#define H0	R0
#define H1	R1
#define H2	R2
#define H3	R3
#define H4	R4

// func blocksARM(m *poly1305, p *byte, n int)
TEXT ·blocksARM(SB), NOSPLIT, $36-12
	MOVW	m+0(FP), R12
	MOVW	p+4(FP), R11
	MOVW	n+8(FP), R14
	ADD	R11, R14
	MOVW	R14, 36(R13)	// the end of p
	MOVM.IA	(R12), [R0-R8]	// h, r
	MOVW	R5, 4(R13)	// r0
	ADD	R6>>2, R6, R9
	MOVW	R9, 8(R13)	// s1
	ADD	R7>>2, R7, R9
	MOVW	R9, 12(R13)	// s2
	ADD	R8>>2, R8, R9
	MOVW	R9, 16(R13)	// s3
	MOVW	R6, 20(R13)	// r1
	MOVW	R7, 24(R13)	// r2
	MOVW	R8, 28(R13)	// r3
	MOVW	R11, R12

loop:
	// h += block and the bit above it. h4 <= 4 + 1 + carry = 6.
	MOVM.IA.W (R12), [R5, R6, R7, R8]
	MOVW	R12, 32(R13)
	ADD.S	R5, H0
	ADC.S	R6, H1
	ADC.S	R7, H2
	ADC.S	R8, H3
	ADC	$1, H4

	// A column of h·r is < 4.75·2⁶⁰ and its high word < 4.75·2²⁸; h4·s[i] <
	// 7.5·2²⁸ joins that word without a carry.

	// Column 1: h0·r0 + h1·s3 + h2·s2 + h3·s1, low word R9.
	MOVM.IB	(R13), [R5, R6, R7, R8]	// r0, s1, s2, s3
	MULLU	R5, H0, (R11, R9)
	MULALU	R8, H1, (R11, R9)
	MULALU	R7, H2, (R11, R9)
	MULALU	R6, H3, (R11, R9)

	// Column 2³²: h0·r1 + h1·r0 + h2·s3 + h3·s2 + h4·s1, low word R11.
	MULA	R6, H4, R11, R11
	MOVW	20(R13), R6		// r1
	MOVW	$0, R12
	MULALU	R5, H1, (R12, R11)
	MULALU	R8, H2, (R12, R11)
	MULALU	R7, H3, (R12, R11)
	MULALU	R6, H0, (R12, R11)

	// Column 2⁶⁴: h0·r2 + h1·r1 + h2·r0 + h3·s3 + h4·s2, low word R12.
	MULA	R7, H4, R12, R12
	MOVW	24(R13), R7		// r2
	MOVW	$0, R14
	MULALU	R6, H1, (R14, R12)
	MULALU	R5, H2, (R14, R12)
	MULALU	R8, H3, (R14, R12)
	MULALU	R7, H0, (R14, R12)

	// Column 2⁹⁶: h0·r3 + h1·r2 + h2·r1 + h3·r0 + h4·s3, low word R14. Its high
	// word is added to column 2¹²⁸, h4·r0 < 6·2²⁸.
	MULA	R8, H4, R14, R14
	MOVW	28(R13), R8		// r3
	MUL	R5, H4, H4
	MULALU	R7, H1, (H4, R14)
	MULALU	R6, H2, (H4, R14)
	MULALU	R5, H3, (H4, R14)
	MULALU	R8, H0, (H4, R14)

	// Bring down what is above 2¹³⁰: with H4 = 4q + H4 mod 4, 2¹²⁸·4q = 5q.
	BIC	$3, H4, R5
	ADD	H4>>2, R5		// < 1.25·10.1·2²⁸
	AND	$3, H4
	ADD.S	R5, R9, H0
	ADC.S	$0, R11, H1
	ADC.S	$0, R12, H2
	ADC.S	$0, R14, H3
	ADC	$0, H4			// <= 4

	MOVW	32(R13), R12
	MOVW	36(R13), R14
	CMP	R14, R12
	BNE	loop

	MOVW	m+0(FP), R12
	MOVM.IA	[R0-R4], (R12)
	MOVW	$0, R0
	MOVW	$0, R1
	MOVW	$0, R2
	MOVW	$0, R3
	MOVM.IB	[R0-R3], (R13)
	MOVW	R0, 20(R13)
	MOVW	R0, 24(R13)
	MOVW	R0, 28(R13)
	RET
