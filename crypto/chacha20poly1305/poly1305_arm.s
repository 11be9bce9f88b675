// Poly1305 for 32-bit ARM: four words of 32 bits.
//
// ISA:     ARMv4 with long multiplications (M), so any that Go runs on. With v6
//          true, UMAAL of ARMv6.
// Reads:   ad and p at any alignment, by words only at multiples of 4.
// Spec:    RFC 8439 §2.5 and §2.8; the arithmetic is that of
//          poly1305x32.blocksGeneric.
// Time:    branches depend on lengths alone. Multipliers before ARMv6 may end early
//          on small operands, for C and Go as for this.
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

// The frame. 0(R13) is the return address.
#define R_0	4(R13)
#define S_1	8(R13)
#define S_2	12(R13)
#define S_3	16(R13)
#define R_1	20(R13)
#define R_2	24(R13)
#define R_3	28(R13)
#define NEXT	32(R13)	// the next block
#define END	36(R13)	// behind the last block
#define REST	40(R13)	// bytes behind END that are no block
#define PHASE	44(R13)	// what the blocks are:
#define AD	0
#define AD_REST	1
#define TEXT_	2
#define LAST	3	// rest of the text, and the lengths
#define BUF	48

// umaal lo, hi, x, y: (hi, lo) = x·y + hi + lo, by number of register
#define UMAAL(hi, lo, x, y)	WORD $(0xe0400090 | (hi)<<16 | (lo)<<12 | (x)<<8 | (y))

// A column of h·r is < 4.75·2⁶⁰ and its high word < 4.75·2²⁸; h4·s[i] < 7.5·2²⁸
// joins that word without a carry. COLUMN starts one from lo, the high word of the
// column before: (s, lo) = lo + h4·s + x·h1. The numbers are those of s, lo and x.
#define COLUMN(s, lo, x, sn, lon, xn) \
	MULA	s, H4, lo, lo	\
	MOVW	$0, s		\
	MULALU	x, H1, (s, lo)
#define COLUMN_V6(s, lo, x, sn, lon, xn) \
	MUL	s, H4, s	\
	UMAAL(sn, lon, xn, 1)

// BLOCK adds the block R5, R6, R7, R8 and multiplies. The columns of h·r:
//
//	1:    h0·r0 + h1·s3 + h2·s2 + h3·s1		low word R9
//	2³²:  h0·r1 + h1·r0 + h2·s3 + h3·s2 + h4·s1	low word R11
//	2⁶⁴:  h0·r2 + h1·r1 + h2·r0 + h3·s3 + h4·s2	low word R6
//	2⁹⁶:  h0·r3 + h1·r2 + h2·r1 + h3·r0 + h4·s3	low word R7
//	2¹²⁸: h4·r0 < 6·2²⁸
//
// At the end, with H4 = 4q + H4 mod 4, 2¹²⁸·4q = 5q.
#define BLOCK(START) \
	ADD.S	R5, H0		/* h += block and the bit above it */ \
	ADC.S	R6, H1		\
	ADC.S	R7, H2		\
	ADC.S	R8, H3		\
	ADC	$1, H4		/* <= 4 + 1 + carry = 6 */ \
	MOVM.IB	(R13), [R5, R6, R7, R8, R12, R14] /* r0, s1, s2, s3, r1, r2 */ \
	MULLU	R5, H0, (R11, R9) \
	MULALU	R8, H1, (R11, R9) \
	MULALU	R7, H2, (R11, R9) \
	MULALU	R6, H3, (R11, R9) \
	START(R6, R11, R5, 6, 11, 5) \
	MULALU	R8, H2, (R6, R11) \
	MULALU	R7, H3, (R6, R11) \
	MULALU	R12, H0, (R6, R11) \
	START(R7, R6, R12, 7, 6, 12) \
	MULALU	R5, H2, (R7, R6) \
	MULALU	R8, H3, (R7, R6) \
	MULALU	R14, H0, (R7, R6) \
	MULA	R8, H4, R7, R7	\
	MOVW	R_3, R8		\
	MUL	R5, H4, H4	\
	MULALU	R14, H1, (H4, R7) \
	MULALU	R12, H2, (H4, R7) \
	MULALU	R5, H3, (H4, R7) \
	MULALU	R8, H0, (H4, R7) \
	BIC	$3, H4, R5	\
	ADD	H4>>2, R5	/* < 1.25·10.1·2²⁸ */ \
	AND	$3, H4		\
	ADD.S	R5, R9, H0	\
	ADC.S	$0, R11, H1	\
	ADC.S	$0, R6, H2	\
	ADC.S	$0, R7, H3	\
	ADC	$0, H4		/* <= 4 */

// NEXTBLOCK takes a block from R12.
#define NEXTBLOCK \
	MOVM.IA.W (R12), [R5, R6, R7, R8] \
	MOVW	R12, NEXT

// GETWORD takes a little-endian word from R12 by bytes.
#define GETWORD(w) \
	MOVBU.P	1(R12), w	\
	MOVBU.P	1(R12), R9	\
	ORR	R9<<8, w	\
	MOVBU.P	1(R12), R9	\
	ORR	R9<<16, w	\
	MOVBU.P	1(R12), R9	\
	ORR	R9<<24, w

// PUTWORD stores w at R12 by bytes.
#define PUTWORD(w) \
	MOVB.P	w, 1(R12)	\
	MOVW	w>>8, w		\
	MOVB.P	w, 1(R12)	\
	MOVW	w>>8, w		\
	MOVB.P	w, 1(R12)	\
	MOVW	w>>8, w		\
	MOVB.P	w, 1(R12)

// func poly1305ARM(m *poly1305, tag *[tagSize]byte, ad *byte, adLen int, p *byte, n int, v6 bool)
TEXT ·poly1305ARM(SB), NOSPLIT, $76-25
	MOVW	m+0(FP), R12
	MOVM.IA	(R12), [R0-R8]	// h, r
	MOVW	R5, R_0
	MOVW	R6, R_1
	MOVW	R7, R_2
	MOVW	R8, R_3
	ADD	R6>>2, R6
	ADD	R7>>2, R7
	ADD	R8>>2, R8
	MOVW	R6, S_1
	MOVW	R7, S_2
	MOVW	R8, S_3

	MOVW	$AD, R5
	MOVW	ad+8(FP), R12
	MOVW	adLen+12(FP), R14
	CMP	$0, R14
	BNE	wholes
text:
	MOVW	$TEXT_, R5
	MOVW	p+16(FP), R12
	MOVW	n+20(FP), R14
wholes:
	MOVW	R5, PHASE
	AND	$15, R14, R5
	MOVW	R5, REST
	BIC	$15, R14
	ADD	R12, R14
blocks:
	MOVW	R14, END
	CMP	R12, R14
	BEQ	phase
	TST	$3, R12
	BNE	bytes
	SUB	R12, R14
	TST	$16, R14
	BNE	word
	MOVBU	v6+24(FP), R5
	CMP	$0, R5
	BNE	pairs_v6

pairs:
	NEXTBLOCK
	BLOCK(COLUMN)
	MOVW	NEXT, R12
	NEXTBLOCK
	BLOCK(COLUMN)
	MOVW	NEXT, R12
	MOVW	END, R14
	CMP	R14, R12
	BNE	pairs
	B	phase

pairs_v6:
	NEXTBLOCK
	BLOCK(COLUMN_V6)
	MOVW	NEXT, R12
	NEXTBLOCK
	BLOCK(COLUMN_V6)
	MOVW	NEXT, R12
	MOVW	END, R14
	CMP	R14, R12
	BNE	pairs_v6
	B	phase

bytes:
	GETWORD(R5)
	GETWORD(R6)
	GETWORD(R7)
	GETWORD(R8)
	MOVW	R12, NEXT
	B	one
word:
	NEXTBLOCK
one:
	BLOCK(COLUMN)
	MOVW	NEXT, R12
	MOVW	END, R14
	B	blocks

	// All blocks of this phase are done; R12 is behind them.
phase:
	MOVW	PHASE, R5
	CMP	$AD_REST, R5
	BEQ	text
	CMP	$LAST, R5
	BEQ	finish

	// A block of the rest and zeros.
	MOVW	REST, R6
	ADD	$BUF, R13, R7
	CMP	$0, R6
	BEQ	padded
	MOVW	$0, R8
	MOVW	R8, (BUF+0)(R13)
	MOVW	R8, (BUF+4)(R13)
	MOVW	R8, (BUF+8)(R13)
	MOVW	R8, (BUF+12)(R13)
	TST	$3, R12
	BNE	rest1
	SUB.S	$4, R6
	BLT	rest3
rest4:
	MOVW.P	4(R12), R8
	MOVW.P	R8, 4(R7)
	SUB.S	$4, R6
	BGE	rest4
rest3:
	ADD.S	$4, R6
	BEQ	pad
rest1:
	MOVBU.P	1(R12), R8
	MOVB.P	R8, 1(R7)
	SUB.S	$1, R6
	BNE	rest1
pad:
	ADD	$(BUF+16), R13, R7
padded:
	ADD	$BUF, R13, R12
	CMP	$AD, R5
	BNE	lengths
	CMP	R7, R12
	BEQ	text
	MOVW	$AD_REST, R5
	MOVW	R5, PHASE
	MOVW	R7, R14
	B	blocks

lengths:
	MOVW	tag+4(FP), R8
	CMP	$0, R8
	BEQ	save
	MOVW	adLen+12(FP), R5
	MOVW	$0, R6
	MOVW	n+20(FP), R8
	MOVW	R5, 0(R7)
	MOVW	R6, 4(R7)
	MOVW	R8, 8(R7)
	MOVW	R6, 12(R7)
	MOVW	$LAST, R5
	MOVW	R5, PHASE
	ADD	$16, R7, R14
	B	blocks

	// The tag is (h mod 2¹³⁰-5) + s mod 2¹²⁸. h < 5·2¹²⁸ < 2p, so one subtraction is
	// enough: h >= p when h + 5 reaches 2¹³⁰, and then h - p = h + 5 - 2¹³⁰.
finish:
	ADD.S	$5, H0, R5
	ADC.S	$0, H1, R6
	ADC.S	$0, H2, R7
	ADC.S	$0, H3, R8
	ADC	$0, H4
	TST	$4, H4
	MOVW.NE	R5, H0
	MOVW.NE	R6, H1
	MOVW.NE	R7, H2
	MOVW.NE	R8, H3
	MOVW	m+0(FP), R12
	ADD	$poly1305x32_s, R12
	MOVM.IA	(R12), [R5, R6, R7, R8]
	ADD.S	R5, H0
	ADC.S	R6, H1
	ADC.S	R7, H2
	ADC	R8, H3
	MOVW	tag+4(FP), R12
	TST	$3, R12
	BNE	tagbytes
	MOVM.IA	[R0-R3], (R12)
	B	wipe
tagbytes:
	PUTWORD(H0)
	PUTWORD(H1)
	PUTWORD(H2)
	PUTWORD(H3)
	B	wipe

save:
	MOVW	m+0(FP), R12
	MOVM.IA	[R0-R4], (R12)
wipe:
	MOVW	$0, R0
	MOVW	$0, R1
	MOVW	$0, R2
	MOVW	$0, R3
	MOVM.IB	[R0-R3], (R13)
	MOVW	R0, R_1
	MOVW	R0, R_2
	MOVW	R0, R_3
	RET
