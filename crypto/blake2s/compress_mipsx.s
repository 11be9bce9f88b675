// The compression function of BLAKE2s for 32-bit MIPS, both endians: it has words
// alone, so they do not differ.
//
// ISA:     MIPS32.
// Reads:   h, m 4-byte aligned.
// Spec:    RFC 7693 §3.1, §3.2, with the constants of §2.6 and §2.7.
// Time:    constant; no branch or address depends on data.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 4Kc (make qemu-test).
//
// Go reserves R23 (assembler temporary), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego

#include "textflag.h"

// SIGMA, a round a line: which word of m, times 4.
DATA ·sigma+0(SB)/8, $"\x00\x04\x08\x0c\x10\x14\x18\x1c"
DATA ·sigma+8(SB)/8, $"\x20\x24\x28\x2c\x30\x34\x38\x3c"
DATA ·sigma+16(SB)/8, $"\x38\x28\x10\x20\x24\x3c\x34\x18"
DATA ·sigma+24(SB)/8, $"\x04\x30\x00\x08\x2c\x1c\x14\x0c"
DATA ·sigma+32(SB)/8, $"\x2c\x20\x30\x00\x14\x08\x3c\x34"
DATA ·sigma+40(SB)/8, $"\x28\x38\x0c\x18\x1c\x04\x24\x10"
DATA ·sigma+48(SB)/8, $"\x1c\x24\x0c\x04\x34\x30\x2c\x38"
DATA ·sigma+56(SB)/8, $"\x08\x18\x14\x28\x10\x00\x3c\x20"
DATA ·sigma+64(SB)/8, $"\x24\x00\x14\x1c\x08\x10\x28\x3c"
DATA ·sigma+72(SB)/8, $"\x38\x04\x2c\x30\x18\x20\x0c\x34"
DATA ·sigma+80(SB)/8, $"\x08\x30\x18\x28\x00\x2c\x20\x0c"
DATA ·sigma+88(SB)/8, $"\x10\x34\x1c\x14\x3c\x38\x04\x24"
DATA ·sigma+96(SB)/8, $"\x30\x14\x04\x3c\x38\x34\x10\x28"
DATA ·sigma+104(SB)/8, $"\x00\x1c\x18\x0c\x24\x08\x20\x2c"
DATA ·sigma+112(SB)/8, $"\x34\x2c\x1c\x38\x30\x04\x0c\x24"
DATA ·sigma+120(SB)/8, $"\x14\x00\x3c\x10\x20\x18\x08\x28"
DATA ·sigma+128(SB)/8, $"\x18\x3c\x38\x24\x2c\x0c\x00\x20"
DATA ·sigma+136(SB)/8, $"\x30\x08\x34\x1c\x04\x10\x28\x14"
DATA ·sigma+144(SB)/8, $"\x28\x08\x20\x10\x1c\x18\x04\x14"
DATA ·sigma+152(SB)/8, $"\x3c\x2c\x24\x38\x0c\x30\x34\x00"
GLOBL ·sigma(SB), NOPTR|RODATA, $160

// The state.
#define V0	R1
#define V1	R2
#define V2	R3
#define V3	R4
#define V4	R5
#define V5	R6
#define V6	R7
#define V7	R8
#define V8	R9
#define V9	R10
#define V10	R11
#define V11	R12
#define V12	R13
#define V13	R14
#define V14	R15
#define V15	R16

#define M	R17
#define SIGMA	R18
#define END	R19	// of SIGMA
#define H	R20
#define X	R21
#define Y	R22
#define T	R24

#define ROR(n, x) \
	SRL $n, x, T; \
	SLL $(32-n), x; \
	OR  T, x

// G mixes the words 2i and 2i+1 of the round into a column or a diagonal, §3.1.
#define G(i, a, b, c, d) \
	MOVBU (2*i)(SIGMA), X; \
	MOVBU (2*i+1)(SIGMA), Y; \
	ADDU b, a; \
	ADDU M, X; \
	MOVW (X), X; \
	ADDU M, Y; \
	MOVW (Y), Y; \
	ADDU X, a; \
	XOR  a, d; ROR(16, d); \
	ADDU d, c; \
	XOR  c, b; ROR(12, b); \
	ADDU b, a; \
	ADDU Y, a; \
	XOR  a, d; ROR(8, d); \
	ADDU d, c; \
	XOR  c, b; ROR(7, b)

// FEED sets word i of h to itself XOR v[i] XOR v[i+8].
#define FEED(i, v, w) \
	MOVW (4*i)(H), X; \
	XOR  v, w; \
	XOR  w, X; \
	MOVW X, (4*i)(H)

// func compress(h *[8]uint32, m *[16]uint32, t, last uint32)
TEXT ·compress(SB), NOSPLIT, $0-16
	MOVW h+0(FP), H
	MOVW m+4(FP), M
	MOVW t+8(FP), X
	MOVW last+12(FP), Y
	MOVW 0(H), V0
	MOVW 4(H), V1
	MOVW 8(H), V2
	MOVW 12(H), V3
	MOVW 16(H), V4
	MOVW 20(H), V5
	MOVW 24(H), V6
	MOVW 28(H), V7
	MOVW $0x6a09e667, V8
	MOVW $0xbb67ae85, V9
	MOVW $0x3c6ef372, V10
	MOVW $0xa54ff53a, V11
	MOVW $0x510e527f, V12
	MOVW $0x9b05688c, V13
	MOVW $0x1f83d9ab, V14
	MOVW $0x5be0cd19, V15
	XOR  X, V12
	XOR  Y, V14
	MOVW $·sigma(SB), SIGMA
	ADDU $160, SIGMA, END

round:
	G(0, V0, V4, V8, V12)
	G(1, V1, V5, V9, V13)
	G(2, V2, V6, V10, V14)
	G(3, V3, V7, V11, V15)
	G(4, V0, V5, V10, V15)
	G(5, V1, V6, V11, V12)
	G(6, V2, V7, V8, V13)
	G(7, V3, V4, V9, V14)
	ADDU $16, SIGMA
	BNE  SIGMA, END, round

	FEED(0, V0, V8)
	FEED(1, V1, V9)
	FEED(2, V2, V10)
	FEED(3, V3, V11)
	FEED(4, V4, V12)
	FEED(5, V5, V13)
	FEED(6, V6, V14)
	FEED(7, V7, V15)
	RET
