// Poly1305 for arm64: two words of 64 bits.
//
// ISA:     ARMv8.0 integer instructions.
// Reads:   p at any alignment.
// Spec:    RFC 8439 §2.5; the arithmetic is that of poly1305x64.blocksGeneric.
// Time:    constant; branches depend on the length alone.
// Tested:  qemu-aarch64 -cpu cortex-a53.
//
// Go reserves R18 (platform), R27 (assembler temporary), R28 (g), R29 (frame),
// R30 (link).

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

#define M	R0
#define MSG	R1
#define N	R2	// bytes left
#define HIBIT	R3
#define H0	R4
#define H1	R5
#define H2	R6
#define Q0	R7	// r[0] < 2⁶⁰
#define Q1	R8	// r[1] < 2⁶⁰
#define S1	R9	// r[1]·5/4 < 1.25·2⁶⁰
#define D0	R10
#define D1	R11
#define D2	R12
#define C	R13	// what a column carries to the next
#define LO	R14
#define HI	R15

// func blocksARM64(m *poly1305, p []byte, hibit uint32)
TEXT ·blocksARM64(SB), NOSPLIT, $0-36
	MOVD	m+0(FP), M
	MOVD	p_base+8(FP), MSG
	MOVD	p_len+16(FP), N
	MOVWU	hibit+32(FP), HIBIT
	LDP	(poly1305x64_h+0)(M), (H0, H1)
	MOVD	(poly1305x64_h+16)(M), H2
	LDP	poly1305x64_r(M), (Q0, Q1)
	ADD	Q1>>2, Q1, S1
	SUBS	$16, N
	BLT	done

loop:
	// h += block and the bit above it. h2 <= 4 + 1 + carry = 6.
	LDP.P	16(MSG), (LO, HI)
	ADDS	LO, H0
	ADCS	HI, H1
	ADC	HIBIT, H2

	// Column 1: h0·r0 + h1·s1 < 2.25·2¹²⁴.
	MUL	H0, Q0, D0
	UMULH	H0, Q0, C
	MUL	H1, S1, LO
	UMULH	H1, S1, HI
	ADDS	LO, D0
	ADC	HI, C		// < 2.25·2⁶⁰

	// Column 2⁶⁴: h0·r1 + h1·r0 + h2·s1 + C. h2·s1 < 7.5·2⁶⁰ joins C in its
	// word, and h2·r0 of column 2¹²⁸ (< 6·2⁶⁰) the high half of a product
	// (< 2⁶⁰): D2 ends below 8.1·2⁶⁰.
	MADD	H2, C, S1, C
	MUL	H0, Q1, D1
	UMULH	H0, Q1, D2
	MADD	H2, D2, Q0, D2
	MUL	H1, Q0, LO
	UMULH	H1, Q0, HI
	ADDS	C, D1
	ADC	ZR, D2
	ADDS	LO, D1
	ADC	HI, D2

	// Bring down what is above 2¹³⁰: with D2 = 4q + D2 mod 4, 2¹²⁸·4q = 5q.
	AND	$~3, D2, LO
	ADD	D2>>2, LO	// < 1.25·8.1·2⁶⁰
	AND	$3, D2, H2
	ADDS	LO, D0, H0
	ADCS	ZR, D1, H1
	ADC	ZR, H2		// <= 4
	SUBS	$16, N
	BGE	loop

	STP	(H0, H1), (poly1305x64_h+0)(M)
	MOVD	H2, (poly1305x64_h+16)(M)
done:
	RET
