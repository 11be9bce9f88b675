// Field arithmetic of X25519 for 32-bit ARM: field26.go.
//
// ISA:     ARMv5.
// Reads:   words, 4-byte aligned.
// Spec:    RFC 7748 §5; the bounds are stated in field26_generic.go.
// Time:    constant, given a multiplier whose time is.
// Aliases: z may be x or y: it is written at the end.
// Tested:  qemu-arm -cpu arm926 and cortex-a7; no alignment but the stated is
//          assumed (bench/run counts misaligned accesses, which arm926 forgives).
//
// Go reserves R10 (g), R11 (assembler temporary: free here, as no constant needs
// it), R13 (SP), R15 (PC). R14 is saved by the frame. MULAL is SMLAL, MULALU is
// UMLAL, and the destination is (upper, lower).

//go:build arm && !purego

#include "textflag.h"

// The frame holds what HI:LO of a column leaves: the lower words of columns 9 to 18,
// and in place of column k the limb of z of column k-10 when that is done.
#define AT(k)	(4*(k)-32)(R13)

// A carry, the upper word of a column, is worth 64 in the next one.
#define CARRY(c, hi, lo) \
	MOVW c<<6, lo; \
	MOVW c->26, hi

#define ADDCARRY(c, hi, lo) \
	ADD.S c<<6, lo; \
	ADC   c->26, hi

// The limb of column k < 9.
#define LIMB(k, lo) \
	MOVW lo>>3, lo; \
	MOVW lo, AT(k+10)

// func mul26(z, x, y *field26)
//
// Three columns at a time, 9 to 18 first. An X is multiplied by three limbs of y, of
// which two are there from the X before.
#define L0	R0
#define H0	R1
#define L1	R2
#define H1	R3
#define L2	R4
#define H2	R5 // and the carry to the next three columns
#define X	R6
#define YA	R7
#define YB	R8
#define YC	R9
#define XP	R11
#define YP	R12

TEXT ·mul26(SB), NOSPLIT, $40-12
	MOVW x+4(FP), XP
	MOVW y+8(FP), YP

	// Columns 9, 10, 11.
	MOVW 0(XP), X; MOVW 36(YP), YA
	MULL  X, YA, (H0, L0)
	MOVW 4(XP), X; MOVW 32(YP), YC
	MULAL X, YC, (H0, L0); MULL  X, YA, (H1, L1)
	MOVW 8(XP), X; MOVW 28(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULL  X, YA, (H2, L2)
	MOVW 12(XP), X; MOVW 24(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 16(XP), X; MOVW 20(YP), YC
	MULAL X, YC, (H0, L0); MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 20(XP), X; MOVW 16(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULAL X, YA, (H2, L2)
	MOVW 24(XP), X; MOVW 12(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 28(XP), X; MOVW 8(YP), YC
	MULAL X, YC, (H0, L0); MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 32(XP), X; MOVW 4(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULAL X, YA, (H2, L2)
	MOVW 36(XP), X; MOVW 0(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW L0, AT(9)
	ADDCARRY(H0, H1, L1)
	MOVW L1, AT(10)
	ADDCARRY(H1, H2, L2)
	MOVW L2, AT(11)

	// Columns 12, 13, 14.
	CARRY(H2, H0, L0)
	MOVW 12(XP), X; MOVW 36(YP), YA
	MULAL X, YA, (H0, L0)
	MOVW 16(XP), X; MOVW 32(YP), YC
	MULAL X, YC, (H0, L0); MULL  X, YA, (H1, L1)
	MOVW 20(XP), X; MOVW 28(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULL  X, YA, (H2, L2)
	MOVW 24(XP), X; MOVW 24(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 28(XP), X; MOVW 20(YP), YC
	MULAL X, YC, (H0, L0); MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 32(XP), X; MOVW 16(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULAL X, YA, (H2, L2)
	MOVW 36(XP), X; MOVW 12(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW L0, AT(12)
	ADDCARRY(H0, H1, L1)
	MOVW L1, AT(13)
	ADDCARRY(H1, H2, L2)
	MOVW L2, AT(14)

	// Columns 15, 16, 17.
	CARRY(H2, H0, L0)
	MOVW 24(XP), X; MOVW 36(YP), YA
	MULAL X, YA, (H0, L0)
	MOVW 28(XP), X; MOVW 32(YP), YC
	MULAL X, YC, (H0, L0); MULL  X, YA, (H1, L1)
	MOVW 32(XP), X; MOVW 28(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULL  X, YA, (H2, L2)
	MOVW 36(XP), X; MOVW 24(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW L0, AT(15)
	ADDCARRY(H0, H1, L1)
	MOVW L1, AT(16)
	ADDCARRY(H1, H2, L2)
	MOVW L2, AT(17)

	// Column 18. Its carry waits in R14.
	CARRY(H2, H0, L0)
	MOVW 36(XP), X; MOVW 36(YP), YA
	MULAL X, YA, (H0, L0)
	MOVW L0, AT(18)
	MOVW H0, R14

	// Columns 0, 1, 2.
	MOVW AT(10), X; MOVW AT(11), YA; MOVW AT(12), YB; MOVW $608, YC
	MULLU X, YC, (H0, L0)
	MULLU YA, YC, (H1, L1)
	MULLU YB, YC, (H2, L2)
	MOVW 0(XP), X; MOVW 0(YP), YA; MOVW 4(YP), YB; MOVW 8(YP), YC
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 4(XP), X
	MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 8(XP), X
	MULAL X, YA, (H2, L2)
	LIMB(0, L0)
	ADDCARRY(H0, H1, L1)
	LIMB(1, L1)
	ADDCARRY(H1, H2, L2)
	LIMB(2, L2)

	// Columns 3, 4, 5.
	MOVW AT(13), X; MOVW AT(14), YA; MOVW AT(15), YB; MOVW $608, YC
	CARRY(H2, H0, L0); MULALU X, YC, (H0, L0)
	MULLU YA, YC, (H1, L1)
	MULLU YB, YC, (H2, L2)
	MOVW 0(XP), X; MOVW 12(YP), YA; MOVW 16(YP), YB; MOVW 20(YP), YC
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 4(XP), X; MOVW 8(YP), YC
	MULAL X, YC, (H0, L0); MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 8(XP), X; MOVW 4(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULAL X, YA, (H2, L2)
	MOVW 12(XP), X; MOVW 0(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 16(XP), X
	MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 20(XP), X
	MULAL X, YA, (H2, L2)
	LIMB(3, L0)
	ADDCARRY(H0, H1, L1)
	LIMB(4, L1)
	ADDCARRY(H1, H2, L2)
	LIMB(5, L2)

	// Columns 6, 7, 8.
	MOVW AT(16), X; MOVW AT(17), YA; MOVW AT(18), YB; MOVW $608, YC
	CARRY(H2, H0, L0); MULALU X, YC, (H0, L0)
	MULLU YA, YC, (H1, L1)
	MULLU YB, YC, (H2, L2)
	MOVW 0(XP), X; MOVW 24(YP), YA; MOVW 28(YP), YB; MOVW 32(YP), YC
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 4(XP), X; MOVW 20(YP), YC
	MULAL X, YC, (H0, L0); MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 8(XP), X; MOVW 16(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULAL X, YA, (H2, L2)
	MOVW 12(XP), X; MOVW 12(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 16(XP), X; MOVW 8(YP), YC
	MULAL X, YC, (H0, L0); MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 20(XP), X; MOVW 4(YP), YB
	MULAL X, YB, (H0, L0); MULAL X, YC, (H1, L1); MULAL X, YA, (H2, L2)
	MOVW 24(XP), X; MOVW 0(YP), YA
	MULAL X, YA, (H0, L0); MULAL X, YB, (H1, L1); MULAL X, YC, (H2, L2)
	MOVW 28(XP), X
	MULAL X, YA, (H1, L1); MULAL X, YB, (H2, L2)
	MOVW 32(XP), X
	MULAL X, YA, (H2, L2)
	LIMB(6, L0)
	ADDCARRY(H0, H1, L1)
	LIMB(7, L1)
	ADDCARRY(H1, H2, L2)
	LIMB(8, L2)

	// Column 9 again.
	CARRY(H2, H0, L0)
	MOVW  $(64*608), YA
	MULAL R14, YA, (H0, L0)
	MOVW  AT(9), YB
	ADD.S YB, L0
	ADC   $0, H0, R12
	MOVW  L0>>3, R9

	MOVW    $(8*608), R11
	ADD     $8, R13, R14 // AT(10)
	MOVM.IA (R14), [R0-R8]
	MULA    R11, R12, R0, R0
	MOVW    z+0(FP), R14
	MOVM.IA [R0-R9], (R14)
	RET

// func square26(z, x *field26)
//
// All of x stays in registers, as X0 to X9. The products of two different limbs
// are summed in MH:ML and doubled. SC is the carry; in columns 0 to 8 it is the
// upper word of the column, too, and X9, no longer used, the lower.
#define X0	R0
#define X1	R1
#define X2	R2
#define X3	R3
#define X4	R4
#define X5	R5
#define X6	R6
#define X7	R7
#define X8	R8
#define X9	R9
#define ML	R11
#define SC	R12
#define MH	R14
#define SL	R9

#define DOUBLE \
	ADD.S ML, ML; \
	ADC   MH, MH

// The end of columns 10 to 18.
#define HIGH(k) \
	ADD.S SC<<6, ML; \
	ADC   SC->26, MH, SC; \
	MOVW  ML, AT(k)

// The beginning of columns 1 to 8: the carry and 608 times column k+10.
#define FOLD(k) \
	MOVW   AT(k+10), ML; \
	MOVW   $608, MH; \
	CARRY(SC, SC, SL); \
	MULALU ML, MH, (SC, SL)

#define ADDDOUBLE \
	ADD.S ML<<1, SL; \
	ADC   MH<<1, SC; \
	ADD   ML>>31, SC

TEXT ·square26(SB), NOSPLIT, $44-8
	MOVW    x+4(FP), R14
	MOVM.IA (R14), [R0-R9]

	MULL  X0, X9, (MH, ML); MULAL X1, X8, (MH, ML); MULAL X2, X7, (MH, ML)
	MULAL X3, X6, (MH, ML); MULAL X4, X5, (MH, ML)
	DOUBLE
	MOVW MH, SC
	MOVW ML, AT(9)

	MULL  X1, X9, (MH, ML); MULAL X2, X8, (MH, ML); MULAL X3, X7, (MH, ML)
	MULAL X4, X6, (MH, ML)
	DOUBLE
	MULAL X5, X5, (MH, ML)
	HIGH(10)

	MULL  X2, X9, (MH, ML); MULAL X3, X8, (MH, ML); MULAL X4, X7, (MH, ML)
	MULAL X5, X6, (MH, ML)
	DOUBLE
	HIGH(11)

	MULL  X3, X9, (MH, ML); MULAL X4, X8, (MH, ML); MULAL X5, X7, (MH, ML)
	DOUBLE
	MULAL X6, X6, (MH, ML)
	HIGH(12)

	MULL  X4, X9, (MH, ML); MULAL X5, X8, (MH, ML); MULAL X6, X7, (MH, ML)
	DOUBLE
	HIGH(13)

	MULL  X5, X9, (MH, ML); MULAL X6, X8, (MH, ML)
	DOUBLE
	MULAL X7, X7, (MH, ML)
	HIGH(14)

	MULL  X6, X9, (MH, ML); MULAL X7, X8, (MH, ML)
	DOUBLE
	HIGH(15)

	MULL  X7, X9, (MH, ML)
	DOUBLE
	MULAL X8, X8, (MH, ML)
	HIGH(16)

	MULL  X8, X9, (MH, ML)
	DOUBLE
	HIGH(17)

	MULL  X9, X9, (MH, ML)
	HIGH(18)

	MOVW SC, AT(19)
	MOVW AT(10), ML; MOVW $608, MH
	MULLU ML, MH, (SC, SL)
	MULAL X0, X0, (SC, SL)
	LIMB(0, SL)

	FOLD(1)
	MULL  X0, X1, (MH, ML)
	ADDDOUBLE
	LIMB(1, SL)

	FOLD(2)
	MULL  X0, X2, (MH, ML)
	ADDDOUBLE
	MULAL X1, X1, (SC, SL)
	LIMB(2, SL)

	FOLD(3)
	MULL  X0, X3, (MH, ML); MULAL X1, X2, (MH, ML)
	ADDDOUBLE
	LIMB(3, SL)

	FOLD(4)
	MULL  X0, X4, (MH, ML); MULAL X1, X3, (MH, ML)
	ADDDOUBLE
	MULAL X2, X2, (SC, SL)
	LIMB(4, SL)

	FOLD(5)
	MULL  X0, X5, (MH, ML); MULAL X1, X4, (MH, ML); MULAL X2, X3, (MH, ML)
	ADDDOUBLE
	LIMB(5, SL)

	FOLD(6)
	MULL  X0, X6, (MH, ML); MULAL X1, X5, (MH, ML); MULAL X2, X4, (MH, ML)
	ADDDOUBLE
	MULAL X3, X3, (SC, SL)
	LIMB(6, SL)

	FOLD(7)
	MULL  X0, X7, (MH, ML); MULAL X1, X6, (MH, ML); MULAL X2, X5, (MH, ML)
	MULAL X3, X4, (MH, ML)
	ADDDOUBLE
	LIMB(7, SL)

	FOLD(8)
	MULL  X0, X8, (MH, ML); MULAL X1, X7, (MH, ML); MULAL X2, X6, (MH, ML)
	MULAL X3, X5, (MH, ML)
	ADDDOUBLE
	MULAL X4, X4, (SC, SL)
	LIMB(8, SL)

	// Column 9 again.
	MOVW  AT(19), ML
	MOVW  $(64*608), MH
	CARRY(SC, SC, SL)
	MULAL ML, MH, (SC, SL)
	MOVW  AT(9), ML
	ADD.S ML, SL
	ADC   $0, SC
	MOVW  SL>>3, R9

	MOVW    $(8*608), R11
	ADD     $8, R13, R14 // AT(10)
	MOVM.IA (R14), [R0-R8]
	MULA    R11, R12, R0, R0
	MOVW    z+0(FP), R14
	MOVM.IA [R0-R9], (R14)
	RET

// func mulAdd26(z, x *field26, n int32, y *field26)
#define MX	R0
#define MY	R1
#define MZ	R2
#define N	R3
#define A	R4
#define B	R5
#define LO	R6
#define HI	R7
#define LAST	R8
#define MK	R9

// A column: x[k]·8n + 8·y[k] more.
#define COLUMN(k) \
	MOVW  (4*k)(MX), A; \
	MOVW  (4*k)(MY), B; \
	MULAL A, N, (HI, LO); \
	ADD.S B<<3, LO; \
	ADC   B->29, HI

#define COLUMNLIMB(k) \
	COLUMN(k); \
	MOVW LO>>3, A; \
	MOVW A, (4*k)(MZ)

TEXT ·mulAdd26(SB), NOSPLIT, $0-16
	MOVW z+0(FP), MZ
	MOVW x+4(FP), MX
	MOVW n+8(FP), N
	MOVW y+12(FP), MY
	MOVW N<<3, N

	MOVW $0, LO
	MOVW $0, HI
	COLUMN(9)
	MOVW LO, LAST

	MOVW $(64*608), MK
	MOVW HI, A
	MULL A, MK, (HI, LO)
	COLUMNLIMB(0)
	CARRY(HI, HI, LO); COLUMNLIMB(1)
	CARRY(HI, HI, LO); COLUMNLIMB(2)
	CARRY(HI, HI, LO); COLUMNLIMB(3)
	CARRY(HI, HI, LO); COLUMNLIMB(4)
	CARRY(HI, HI, LO); COLUMNLIMB(5)
	CARRY(HI, HI, LO); COLUMNLIMB(6)
	CARRY(HI, HI, LO); COLUMNLIMB(7)
	CARRY(HI, HI, LO); COLUMNLIMB(8)

	CARRY(HI, HI, LO)
	ADD.S LAST, LO
	ADC   $0, HI
	MOVW  LO>>3, A
	MOVW  A, 36(MZ)

	// The carry from limb 9 is -1, 0 or 1.
	MOVW $(8*608), MK
	MOVW 0(MZ), A
	MULA MK, HI, A, A
	MOVW A, 0(MZ)
	RET

// func sumDiff26(z, diff, x, y *field26)
#define LZ	R0
#define LD	R1
#define LX	R2
#define LY	R3
#define P	R4

// Two limbs.
#define SUMDIFF(p0) \
	MOVM.IA.W (LX), [R5, R6]; \
	MOVM.IA.W (LY), [R7, R8]; \
	ADD R7, R5, R9; \
	ADD R8, R6, R12; \
	SUB p0, R9; \
	SUB P, R12; \
	SUB R7, R5; \
	SUB R8, R6; \
	MOVM.IA.W [R9, R12], (LZ); \
	MOVM.IA.W [R5, R6], (LD)

TEXT ·sumDiff26(SB), NOSPLIT, $0-16
	MOVW z+0(FP), LZ
	MOVW diff+4(FP), LD
	MOVW x+8(FP), LX
	MOVW y+12(FP), LY
	MOVW $(1<<29), P
	SUB  $(8*608), P, R11
	SUB  $8, P
	SUMDIFF(R11)
	SUMDIFF(P)
	SUMDIFF(P)
	SUMDIFF(P)
	SUMDIFF(P)
	RET

// func sub26(z, x, y *field26)
#define SUB5 \
	MOVM.IA.W (LX), [R4-R8]; \
	MOVM.IA.W (LY), [R1, R9, R11, R12, R14]; \
	SUB R1, R4; \
	SUB R9, R5; \
	SUB R11, R6; \
	SUB R12, R7; \
	SUB R14, R8; \
	MOVM.IA.W [R4-R8], (LZ)

TEXT ·sub26(SB), NOSPLIT, $4-12
	MOVW z+0(FP), LZ
	MOVW x+4(FP), LX
	MOVW y+8(FP), LY
	SUB5
	SUB5
	RET

// func choose26(z, x *field26, bit uint32)
#define MASK	R3
#define CHOOSE1(u, v) \
	EOR u, v; \
	AND MASK, v; \
	EOR v, u

#define CHOOSE5 \
	MOVM.IA   (LZ), [R4-R8]; \
	MOVM.IA.W (LX), [R1, R9, R11, R12, R14]; \
	CHOOSE1(R4, R1); \
	CHOOSE1(R5, R9); \
	CHOOSE1(R6, R11); \
	CHOOSE1(R7, R12); \
	CHOOSE1(R8, R14); \
	MOVM.IA.W [R4-R8], (LZ)

TEXT ·choose26(SB), NOSPLIT, $4-12
	MOVW z+0(FP), LZ
	MOVW x+4(FP), LX
	MOVW bit+8(FP), MASK
	RSB  $0, MASK
	CHOOSE5
	CHOOSE5
	RET
