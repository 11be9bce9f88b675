// Field arithmetic of X25519 for amd64: field51.go.
//
// ISA:     x86-64, no extension.
// Reads:   words, any alignment.
// Spec:    RFC 7748 §5; the bounds are stated in field51.go.
// Time:    constant.
// Aliases: z may be x or y: it is written at the end.
//
// The compiler multiplies first and adds later, which spills most of 25 products.

//go:build !purego

#include "textflag.h"

#define Z	SI // at the end
#define X	SI
#define Y	CX
#define MASK	BX

// 19 times limb k of x.
#define F1	R8
#define F2	R9
#define F3	R10
#define F4	R11

#define LO	R12
#define HI	DI
#define C	R13

#define FIRST(a, b) \
	MOVQ a, AX; \
	MULQ b; \
	MOVQ AX, LO; \
	MOVQ DX, HI

#define NEXT(a, b) \
	MOVQ a, AX; \
	MULQ b; \
	ADDQ AX, LO; \
	ADCQ DX, HI

// The end of a column: it adds the carry C and leaves the next one. The carry comes
// last, for the columns to be summed side by side.
#define SPLIT(limb) \
	ADDQ C, LO; \
	ADCQ $0, HI; \
	MOVQ LO, limb; \
	SHLQ $13, LO, HI; \
	MOVQ HI, C; \
	ANDQ MASK, limb

// The carry of column 4 is worth 19 in column 0.
#define STORE(z0, z1, z2, z3, z4) \
	IMUL3Q $19, C, C; \
	ADDQ C, z0; \
	MOVQ z0, AX; \
	ANDQ MASK, z0; \
	SHRQ $51, AX; \
	ADDQ AX, z1; \
	MOVQ z0, 0(Z); \
	MOVQ z1, 8(Z); \
	MOVQ z2, 16(Z); \
	MOVQ z3, 24(Z); \
	MOVQ z4, 32(Z)

// func mul51(z, x, y *field51)
TEXT ·mul51(SB), NOSPLIT, $0-24
	MOVQ   x+8(FP), X
	MOVQ   y+16(FP), Y
	MOVQ   $((1<<51)-1), MASK
	XORL   C, C
	IMUL3Q $19, 8(X), F1
	IMUL3Q $19, 16(X), F2
	IMUL3Q $19, 24(X), F3
	IMUL3Q $19, 32(X), F4

	FIRST(0(X), 0(Y)); NEXT(F1, 32(Y)); NEXT(F2, 24(Y)); NEXT(F3, 16(Y)); NEXT(F4, 8(Y))
	SPLIT(R14)
	FIRST(0(X), 8(Y)); NEXT(8(X), 0(Y)); NEXT(F2, 32(Y)); NEXT(F3, 24(Y)); NEXT(F4, 16(Y))
	SPLIT(R15)
	FIRST(0(X), 16(Y)); NEXT(8(X), 8(Y)); NEXT(16(X), 0(Y)); NEXT(F3, 32(Y)); NEXT(F4, 24(Y))
	SPLIT(F1)
	FIRST(0(X), 24(Y)); NEXT(8(X), 16(Y)); NEXT(16(X), 8(Y)); NEXT(24(X), 0(Y)); NEXT(F4, 32(Y))
	SPLIT(F2)
	FIRST(0(X), 32(Y)); NEXT(8(X), 24(Y)); NEXT(16(X), 16(Y)); NEXT(24(X), 8(Y)); NEXT(32(X), 0(Y))
	SPLIT(F3)

	MOVQ z+0(FP), Z
	STORE(R14, R15, F1, F2, F3)
	RET

// func square51(z, x *field51)
#define D0	R8 // 2·x[0]
#define D1	R9
#define SF3	R10
#define SF4	R11
#define DF4	R14 // 2·19·x[4]
#define DF3	R15

TEXT ·square51(SB), NOSPLIT, $0-16
	MOVQ   x+8(FP), X
	MOVQ   $((1<<51)-1), MASK
	XORL   C, C
	MOVQ   0(X), D0
	MOVQ   8(X), D1
	ADDQ   D0, D0
	ADDQ   D1, D1
	IMUL3Q $19, 24(X), SF3
	IMUL3Q $19, 32(X), SF4
	LEAQ   (SF3)(SF3*1), DF3
	LEAQ   (SF4)(SF4*1), DF4

	FIRST(0(X), 0(X)); NEXT(DF4, 8(X)); NEXT(DF3, 16(X))
	SPLIT(DF3)
	FIRST(D0, 8(X)); NEXT(DF4, 16(X)); NEXT(SF3, 24(X))
	SPLIT(SF3)
	FIRST(D0, 16(X)); NEXT(8(X), 8(X)); NEXT(DF4, 24(X))
	SPLIT(DF4)
	FIRST(D0, 24(X)); NEXT(D1, 16(X)); NEXT(SF4, 32(X))
	SPLIT(SF4)
	FIRST(D0, 32(X)); NEXT(D1, 24(X)); NEXT(16(X), 16(X))
	SPLIT(D0)

	MOVQ z+0(FP), Z
	STORE(DF3, SF3, DF4, SF4, D0)
	RET
