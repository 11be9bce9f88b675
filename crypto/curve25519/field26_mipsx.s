// Field arithmetic of X25519 for 32-bit MIPS, both endians: field26.go.
//
// ISA:     MIPS32r1.
// Reads:   words, 4-byte aligned.
// Spec:    RFC 7748 §5; the bounds are stated in field26_generic.go.
// Time:    constant, given a multiplier whose time is.
// Aliases: z may be x or y: limb k is stored after it is read for the last time.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc and 4Kc (make qemu-test).
//
// HI:LO is the sum of a column. After it, HI is the carry and LO 64 times the limb.
// They take 5 cycles to arrive, so the carry is added last to the next column, and
// a limb is stored in the midst of it.
//
// Go reserves R23 (assembler temporary: free here, as no large constant is used
// while it is live), R26, R27 (kernel), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego

#include "textflag.h"

// func mul26(z, x, y *field26)
//
// First come columns 9 to 18. Their lower words wait in H9 to H18, the last carry in
// H19, for columns 0 to 8. A limb that is not used again in this half gives its
// register to an H, except X0, X1, X2, Y0 and Y1, which stay; the others are loaded
// again, as x3 and the like.
#define X0	R1
#define X1	R2
#define X2	R3
#define X3	R4
#define X4	R5
#define X5	R6
#define X6	R7
#define X7	R8
#define X8	R9
#define X9	R10
#define Y0	R11
#define Y1	R12
#define Y2	R13
#define Y3	R14
#define Y4	R15
#define Y5	R16
#define Y6	R17
#define Y7	R18
#define Y8	R19
#define Y9	R20

#define K64	R21
#define C	R22

#define H9	R24
#define H10	R25
#define H11	R23
#define H12	R13
#define H13	R4
#define H14	R14
#define H15	R5
#define H16	R15
#define H17	R6
#define H18	R16
#define H19	R22

#define XP	R7
#define YP	R8
#define ZP	R9
#define T	R10
#define CC	R17
#define K	R18
#define y2	R19
#define x3	R20
#define y3	R25
#define x4	R23
#define y4	R13
#define x5	R4
#define y5	R14
#define x6	R5
#define y6	R15
#define x7	R6
#define x8	R7
#define y7	R8
#define y8	R16

TEXT ·mul26(SB), NOSPLIT, $0-12
	MOVW x+4(FP), R22
	MOVW y+8(FP), R21
	MOVW 0(R22), X0
	MOVW 4(R22), X1
	MOVW 8(R22), X2
	MOVW 12(R22), X3
	MOVW 16(R22), X4
	MOVW 20(R22), X5
	MOVW 24(R22), X6
	MOVW 28(R22), X7
	MOVW 32(R22), X8
	MOVW 36(R22), X9
	MOVW 0(R21), Y0
	MOVW 4(R21), Y1
	MOVW 8(R21), Y2
	MOVW 12(R21), Y3
	MOVW 16(R21), Y4
	MOVW 20(R21), Y5
	MOVW 24(R21), Y6
	MOVW 28(R21), Y7
	MOVW 32(R21), Y8
	MOVW 36(R21), Y9
	MOVW $64, K64

	MUL X0, Y9;   MADD X1, Y8;  MADD X2, Y7;  MADD X3, Y6;  MADD X4, Y5
	MADD X5, Y4;  MADD X6, Y3;  MADD X7, Y2;  MADD X8, Y1;  MADD X9, Y0
	MOVW LO, H9
	MOVW HI, C

	MUL X1, Y9;   MADD X2, Y8;  MADD X3, Y7;  MADD X4, Y6;  MADD X5, Y5
	MADD X6, Y4;  MADD X7, Y3;  MADD X8, Y2;  MADD X9, Y1;  MADD C, K64
	MOVW LO, H10
	MOVW HI, C

	MUL X2, Y9;   MADD X3, Y8;  MADD X4, Y7;  MADD X5, Y6;  MADD X6, Y5
	MADD X7, Y4;  MADD X8, Y3;  MADD X9, Y2;  MADD C, K64
	MOVW LO, H11
	MOVW HI, C

	MUL X3, Y9;   MADD X4, Y8;  MADD X5, Y7;  MADD X6, Y6;  MADD X7, Y5
	MADD X8, Y4;  MADD X9, Y3;  MADD C, K64
	MOVW LO, H12
	MOVW HI, C

	MUL X4, Y9;   MADD X5, Y8;  MADD X6, Y7;  MADD X7, Y6;  MADD X8, Y5
	MADD X9, Y4;  MADD C, K64
	MOVW LO, H13
	MOVW HI, C

	MUL X5, Y9;   MADD X6, Y8;  MADD X7, Y7;  MADD X8, Y6;  MADD X9, Y5
	MADD C, K64
	MOVW LO, H14
	MOVW HI, C

	MUL X6, Y9;   MADD X7, Y8;  MADD X8, Y7;  MADD X9, Y6;  MADD C, K64
	MOVW LO, H15
	MOVW HI, C

	MUL X7, Y9;   MADD X8, Y8;  MADD X9, Y7;  MADD C, K64
	MOVW LO, H16
	MOVW HI, C

	MUL X8, Y9;   MADD X9, Y8
	MOVW x+4(FP), XP
	MOVW y+8(FP), YP
	MADD C, K64
	MOVW LO, H17
	MOVW HI, C

	MUL X9, Y9
	MOVW z+0(FP), ZP
	MOVW $608, K
	MADD C, K64
	MOVW LO, H18
	MOVW HI, H19

	MULU H10, K
	MADD X0, Y0
	MOVW LO, T
	MOVW HI, CC

	MULU H11, K
	MADD X0, Y1;  MADD X1, Y0
	SRL  $3, T
	MOVW T, 0(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MULU H12, K
	MOVW 8(YP), y2
	MADD X1, Y1;  MADD X0, y2;  MADD X2, Y0
	SRL  $3, T
	MOVW T, 4(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MULU H13, K
	MOVW 12(XP), x3
	MOVW 12(YP), y3
	MADD X1, y2;  MADD X2, Y1;  MADD X0, y3;  MADD x3, Y0
	SRL  $3, T
	MOVW T, 8(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MULU H14, K
	MOVW 16(XP), x4
	MOVW 16(YP), y4
	MADD X1, y3;  MADD X2, y2;  MADD x3, Y1;  MADD X0, y4
	MADD x4, Y0
	SRL  $3, T
	MOVW T, 12(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MULU H15, K
	MOVW 20(XP), x5
	MOVW 20(YP), y5
	MADD X1, y4;  MADD X2, y3;  MADD x3, y2;  MADD x4, Y1
	MADD X0, y5;  MADD x5, Y0
	SRL  $3, T
	MOVW T, 16(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MULU H16, K
	MOVW 24(XP), x6
	MOVW 24(YP), y6
	MADD X1, y5;  MADD X2, y4;  MADD x3, y3;  MADD x4, y2
	MADD x5, Y1;  MADD X0, y6;  MADD x6, Y0
	SRL  $3, T
	MOVW T, 20(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MULU H17, K
	MOVW 28(XP), x7
	MOVW 32(XP), x8	// ends XP
	MOVW 28(YP), y7	// ends YP
	MADD X1, y6;  MADD X2, y5;  MADD x3, y4;  MADD x4, y3
	MADD x5, y2;  MADD x6, Y1;  MADD X0, y7;  MADD x7, Y0
	SRL  $3, T
	MOVW T, 24(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MULU H18, K
	MOVW y+8(FP), y8
	MADD X1, y7;  MADD X2, y6;  MADD x3, y5
	MOVW 32(y8), y8
	MADD x4, y4;  MADD x5, y3;  MADD x6, y2;  MADD x7, Y1
	MADD X0, y8;  MADD x8, Y0
	SRL  $3, T
	MOVW T, 28(ZP)
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MOVW H9, LO
	MOVW R0, HI
	MOVW $(64*608), K
	MADD H19, K
	SRL  $3, T
	MOVW T, 32(ZP)
	MOVW 0(ZP), y8
	MADD CC, K64
	MOVW LO, T
	MOVW HI, CC

	MOVW $(8*608), K
	MUL  K, CC, CC
	SRL  $3, T
	MOVW T, 36(ZP)
	ADDU CC, y8
	MOVW y8, 0(ZP)
	RET

// func square26(z, x *field26)
//
// As mul26, with Q for H. Ei is 2·Xi, di the same in the lower half. All limbs of
// x stay in their registers, z[0] waits in Z0.
#define E0	R11
#define E1	R12
#define E2	R13
#define E3	R14
#define E4	R15
#define E5	R11
#define E6	R12
#define E7	R13
#define E8	R14

#define S64	R16
#define SC	R17

#define Q9	R18
#define Q10	R19
#define Q11	R20
#define Q12	R21
#define Q13	R22
#define Q14	R23
#define Q15	R24
#define Q16	R25
#define Q17	R15
#define Q18	R11
#define Q19	R17

#define SZ	R12
#define ST	R10
#define CD	R14
#define SK	R13
#define Z0	R19
#define d0	R20
#define d1	R21
#define d2	R22
#define d3	R23

TEXT ·square26(SB), NOSPLIT, $0-8
	MOVW x+4(FP), R11
	MOVW 0(R11), X0
	MOVW 4(R11), X1
	MOVW 8(R11), X2
	MOVW 12(R11), X3
	MOVW 16(R11), X4
	MOVW 20(R11), X5
	MOVW 24(R11), X6
	MOVW 28(R11), X7
	MOVW 32(R11), X8
	MOVW 36(R11), X9
	MOVW $64, S64
	ADDU X0, X0, E0
	ADDU X1, X1, E1
	ADDU X2, X2, E2
	ADDU X3, X3, E3
	ADDU X4, X4, E4

	MUL E0, X9;   MADD E1, X8;  MADD E2, X7;  MADD E3, X6;  MADD E4, X5
	MOVW LO, Q9
	MOVW HI, SC

	MUL E1, X9;   MADD E2, X8;  MADD E3, X7;  MADD E4, X6;  MADD X5, X5
	MADD SC, S64
	MOVW LO, Q10
	MOVW HI, SC

	ADDU X5, X5, E5
	MUL E2, X9;   MADD E3, X8;  MADD E4, X7;  MADD E5, X6;  MADD SC, S64
	MOVW LO, Q11
	MOVW HI, SC

	MUL E3, X9;   MADD E4, X8;  MADD E5, X7;  MADD X6, X6;  MADD SC, S64
	MOVW LO, Q12
	MOVW HI, SC

	ADDU X6, X6, E6
	MUL E4, X9;   MADD E5, X8;  MADD E6, X7;  MADD SC, S64
	MOVW LO, Q13
	MOVW HI, SC

	MUL E5, X9;   MADD E6, X8;  MADD X7, X7;  MADD SC, S64
	MOVW LO, Q14
	MOVW HI, SC

	ADDU X7, X7, E7
	MUL E6, X9;   MADD E7, X8;  MADD SC, S64
	MOVW LO, Q15
	MOVW HI, SC

	MUL E7, X9;   MADD X8, X8
	MOVW z+0(FP), SZ
	MADD SC, S64
	MOVW LO, Q16
	MOVW HI, SC

	ADDU X8, X8, E8
	MUL E8, X9
	MOVW $608, SK
	MADD SC, S64
	MOVW LO, Q17
	MOVW HI, SC

	MUL X9, X9;   MADD SC, S64
	MOVW LO, Q18
	MOVW HI, Q19

	MULU Q10, SK
	MADD X0, X0
	MOVW LO, Z0
	MOVW HI, CD

	MULU Q11, SK
	ADDU X0, X0, d0
	MADD d0, X1
	SRL  $3, Z0
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MULU Q12, SK
	MADD d0, X2;  MADD X1, X1
	SRL  $3, ST
	MOVW ST, 4(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MULU Q13, SK
	ADDU X1, X1, d1
	MADD d0, X3;  MADD d1, X2
	SRL  $3, ST
	MOVW ST, 8(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MULU Q14, SK
	MADD d0, X4;  MADD d1, X3;  MADD X2, X2
	SRL  $3, ST
	MOVW ST, 12(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MULU Q15, SK
	ADDU X2, X2, d2
	MADD d0, X5;  MADD d1, X4;  MADD d2, X3
	SRL  $3, ST
	MOVW ST, 16(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MULU Q16, SK
	MADD d0, X6;  MADD d1, X5;  MADD d2, X4;  MADD X3, X3
	SRL  $3, ST
	MOVW ST, 20(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MULU Q17, SK
	ADDU X3, X3, d3
	MADD d0, X7;  MADD d1, X6;  MADD d2, X5;  MADD d3, X4
	SRL  $3, ST
	MOVW ST, 24(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MULU Q18, SK
	MADD d0, X8;  MADD d1, X7;  MADD d2, X6;  MADD d3, X5
	MADD X4, X4
	SRL  $3, ST
	MOVW ST, 28(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MOVW Q9, LO
	MOVW R0, HI
	MOVW $(64*608), SK
	MADD Q19, SK
	SRL  $3, ST
	MOVW ST, 32(SZ)
	MADD CD, S64
	MOVW LO, ST
	MOVW HI, CD

	MOVW $(8*608), SK
	MUL  SK, CD, CD
	SRL  $3, ST
	MOVW ST, 36(SZ)
	ADDU CD, Z0
	MOVW Z0, 0(SZ)
	RET

// func mulAdd26(z, x *field26, n int32, y *field26)
#define XQ	R1
#define YQ	R2
#define ZQ	R3
#define N	R4
#define K8	R5
#define M64	R6
#define MC	R7
#define A	R8
#define B	R9
#define M9	R10
#define MK	R11
#define S	R12

#define MULADD(k) \
	MOVW (4*k)(XQ), A; \
	MOVW (4*k)(YQ), B; \
	MUL  A, N; \
	MADD B, K8

#define LIMB(k) \
	SRL  $3, S; \
	MOVW S, (4*k)(ZQ)

TEXT ·mulAdd26(SB), NOSPLIT, $0-16
	MOVW z+0(FP), ZQ
	MOVW x+4(FP), XQ
	MOVW n+8(FP), N
	MOVW y+12(FP), YQ
	SLL  $3, N
	MOVW $8, K8
	MOVW $64, M64
	MOVW $(64*608), MK

	MULADD(9)
	MOVW LO, M9
	MOVW HI, MC

	MULADD(0); MADD MC, MK;  MOVW LO, S; MOVW HI, MC
	MULADD(1); LIMB(0); MADD MC, M64; MOVW LO, S; MOVW HI, MC
	MULADD(2); LIMB(1); MADD MC, M64; MOVW LO, S; MOVW HI, MC
	MULADD(3); LIMB(2); MADD MC, M64; MOVW LO, S; MOVW HI, MC
	MULADD(4); LIMB(3); MADD MC, M64; MOVW LO, S; MOVW HI, MC
	MULADD(5); LIMB(4); MADD MC, M64; MOVW LO, S; MOVW HI, MC
	MULADD(6); LIMB(5); MADD MC, M64; MOVW LO, S; MOVW HI, MC
	MULADD(7); LIMB(6); MADD MC, M64; MOVW LO, S; MOVW HI, MC
	MULADD(8); LIMB(7); MADD MC, M64; MOVW LO, S; MOVW HI, MC

	MOVW M9, LO
	MOVW R0, HI
	LIMB(8)
	MOVW 0(ZQ), A
	MADD MC, M64
	MOVW LO, S
	MOVW HI, MC

	// The carry from limb 9 is -1, 0 or 1.
	MOVW $(8*608), MK
	MUL  MK, MC, MC
	LIMB(9)
	ADDU MC, A
	MOVW A, 0(ZQ)
	RET

// func sumDiff26(z, diff, x, y *field26)
#define LZ	R1
#define LD	R2
#define LX	R3
#define LY	R4
#define P0	R5
#define P1	R6
#define U	R7
#define V	R8
#define W	R9

#define U2	R10
#define V2	R11
#define W2	R12

// Limbs k and k+1.
#define SUMDIFF(k, p) \
	MOVW (4*k)(LX), U; \
	MOVW (4*k)(LY), V; \
	MOVW (4*k+4)(LX), U2; \
	MOVW (4*k+4)(LY), V2; \
	ADDU V, U, W; \
	SUBU V, U; \
	ADDU V2, U2, W2; \
	SUBU V2, U2; \
	SUBU p, W; \
	SUBU P1, W2; \
	MOVW W, (4*k)(LZ); \
	MOVW W2, (4*k+4)(LZ); \
	MOVW U, (4*k)(LD); \
	MOVW U2, (4*k+4)(LD)

TEXT ·sumDiff26(SB), NOSPLIT, $0-16
	MOVW z+0(FP), LZ
	MOVW diff+4(FP), LD
	MOVW x+8(FP), LX
	MOVW y+12(FP), LY
	MOVW $(8*((1<<26)-608)), P0
	MOVW $(8*((1<<26)-1)), P1
	SUMDIFF(0, P0)
	SUMDIFF(2, P1)
	SUMDIFF(4, P1)
	SUMDIFF(6, P1)
	SUMDIFF(8, P1)
	RET

// func sub26(z, x, y *field26)
#define SUB(k) \
	MOVW (4*k)(LX), U; \
	MOVW (4*k)(LY), V; \
	MOVW (4*k+4)(LX), U2; \
	MOVW (4*k+4)(LY), V2; \
	SUBU V, U; \
	SUBU V2, U2; \
	MOVW U, (4*k)(LZ); \
	MOVW U2, (4*k+4)(LZ)

TEXT ·sub26(SB), NOSPLIT, $0-12
	MOVW z+0(FP), LZ
	MOVW x+4(FP), LX
	MOVW y+8(FP), LY
	SUB(0)
	SUB(2)
	SUB(4)
	SUB(6)
	SUB(8)
	RET

// func choose26(z, x *field26, bit uint32)
#define MASK	P0
#define CHOOSE(k) \
	MOVW (4*k)(LZ), U; \
	MOVW (4*k)(LX), V; \
	MOVW (4*k+4)(LZ), U2; \
	MOVW (4*k+4)(LX), V2; \
	XOR  U, V; \
	XOR  U2, V2; \
	AND  MASK, V; \
	AND  MASK, V2; \
	XOR  V, U; \
	XOR  V2, U2; \
	MOVW U, (4*k)(LZ); \
	MOVW U2, (4*k+4)(LZ)

TEXT ·choose26(SB), NOSPLIT, $0-12
	MOVW z+0(FP), LZ
	MOVW x+4(FP), LX
	MOVW bit+8(FP), MASK
	SUBU MASK, R0, MASK
	CHOOSE(0)
	CHOOSE(2)
	CHOOSE(4)
	CHOOSE(6)
	CHOOSE(8)
	RET
