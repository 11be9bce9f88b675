// ChaCha20 for amd64 with SSSE3, four blocks at a time.
//
// ISA:     SSSE3 (PSHUFB); see impl_amd64.go.
// Reads:   dst, src any alignment; the same place or apart.
// Spec:    RFC 8439 §2.4.
// Time:    constant; branches and addresses depend on n alone.
// Stack:   the key stream is wiped before RET, from registers too; of the key one
//          word at most is stored, and wiped.
// Text:    2.1 kB.
// Tested:  by qemu-x86_64 -cpu Nehalem, and on CPUs with AVX2.
//
// A register has one word of four blocks. Words 8 and 10 take turns in X8, and X10
// is for what passes.

//go:build !purego

#include "textflag.h"

#define DST	DI
#define SRC	SI
#define LEN	CX
#define KEY	R8
#define IV	R9
#define BASE	BX	// of the scratch memory: 256 bytes of key stream, then words 8 and 10
#define CTR	R10
#define V8	256(BASE)
#define V10	272(BASE)

#define ROT16(v)	PSHUFB ·rotate16<>(SB), v
#define ROT8(v)	PSHUFB ·rotate8<>(SB), v
#define ROT(n, v) \
	MOVO  v, X10; \
	PSLLL $n, X10; \
	PSRLL $(32-n), v; \
	PXOR  X10, v

// Two quarter rounds.
#define QUARTERS(a0, b0, c0, d0, a1, b1, c1, d1) \
	PADDL b0, a0; \
	PADDL b1, a1; \
	PXOR  a0, d0; \
	PXOR  a1, d1; \
	ROT16(d0); \
	ROT16(d1); \
	PADDL d0, c0; \
	PADDL d1, c1; \
	PXOR  c0, b0; \
	PXOR  c1, b1; \
	ROT(12, b0); \
	ROT(12, b1); \
	PADDL b0, a0; \
	PADDL b1, a1; \
	PXOR  a0, d0; \
	PXOR  a1, d1; \
	ROT8(d0); \
	ROT8(d1); \
	PADDL d0, c0; \
	PADDL d1, c1; \
	PXOR  c0, b0; \
	PXOR  c1, b1; \
	ROT(7, b0); \
	ROT(7, b1)

#define SPREAD(p, v) \
	MOVSS  p, v; \
	PSHUFD $0, v, v
#define FEED(p, v) \
	SPREAD(p, X10); \
	PADDL X10, v

// TRANSPOSE turns four words of four blocks into 16 bytes of each, and stores them
// at off in the block.
#define TRANSPOSE(v0, v1, v2, v3, off) \
	MOVO       v0, X10; \
	PUNPCKLLQ  v1, X10; \
	PUNPCKHLQ  v1, v0; \
	MOVO       v2, v1; \
	PUNPCKLLQ  v3, v1; \
	PUNPCKHLQ  v3, v2; \
	MOVO       X10, v3; \
	PUNPCKLQDQ v1, v3; \
	PUNPCKHQDQ v1, X10; \
	MOVO       v0, v1; \
	PUNPCKLQDQ v2, v1; \
	PUNPCKHQDQ v2, v0; \
	MOVO       v3, (off)(BASE); \
	MOVO       X10, (64+off)(BASE); \
	MOVO       v1, (128+off)(BASE); \
	MOVO       v0, (192+off)(BASE)

DATA ·sigma<>+0(SB)/4, $0x61707865
DATA ·sigma<>+4(SB)/4, $0x3320646e
DATA ·sigma<>+8(SB)/4, $0x79622d32
DATA ·sigma<>+12(SB)/4, $0x6b206574
GLOBL ·sigma<>(SB), NOPTR|RODATA, $16

DATA ·rotate16<>+0(SB)/8, $0x0504070601000302
DATA ·rotate16<>+8(SB)/8, $0x0d0c0f0e09080b0a
GLOBL ·rotate16<>(SB), NOPTR|RODATA, $16

DATA ·rotate8<>+0(SB)/8, $0x0605040702010003
DATA ·rotate8<>+8(SB)/8, $0x0e0d0c0f0a09080b
GLOBL ·rotate8<>(SB), NOPTR|RODATA, $16

DATA ·four<>+0(SB)/8, $0x0000000100000000
DATA ·four<>+8(SB)/8, $0x0000000300000002
GLOBL ·four<>(SB), NOPTR|RODATA, $16

// func xorSSSE3(dst, src *byte, n int, key *[8]uint32, iv *[4]uint32)
TEXT ·xorSSSE3(SB), 0, $304-40
	MOVQ  dst+0(FP), DST
	MOVQ  src+8(FP), SRC
	MOVQ  n+16(FP), LEN
	MOVQ  key+24(FP), KEY
	MOVQ  iv+32(FP), IV
	LEAQ  15(SP), BASE
	ANDQ  $~15, BASE
	MOVL  (IV), CTR
	TESTQ LEN, LEN
	JZ    done

batch:
	SPREAD(24(KEY), X10)
	MOVO   X10, V10
	SPREAD(·sigma<>+0(SB), X0)
	SPREAD(·sigma<>+4(SB), X1)
	SPREAD(·sigma<>+8(SB), X2)
	SPREAD(·sigma<>+12(SB), X3)
	SPREAD(0(KEY), X4)
	SPREAD(4(KEY), X5)
	SPREAD(8(KEY), X6)
	SPREAD(12(KEY), X7)
	SPREAD(16(KEY), X8)
	SPREAD(20(KEY), X9)
	SPREAD(28(KEY), X11)
	MOVL   CTR, X12
	PSHUFD $0, X12, X12
	PADDL  ·four<>(SB), X12
	SPREAD(4(IV), X13)
	SPREAD(8(IV), X14)
	SPREAD(12(IV), X15)
	MOVL   $10, AX

rounds:
	QUARTERS(X0, X4, X8, X12, X1, X5, X9, X13)
	MOVO X8, V8
	MOVO V10, X8
	QUARTERS(X2, X6, X8, X14, X3, X7, X11, X15)
	QUARTERS(X0, X5, X8, X15, X1, X6, X11, X12)
	MOVO X8, V10
	MOVO V8, X8
	QUARTERS(X2, X7, X8, X13, X3, X4, X9, X14)
	DECL AX
	JNZ  rounds

	FEED(·sigma<>+0(SB), X0)
	FEED(·sigma<>+4(SB), X1)
	FEED(·sigma<>+8(SB), X2)
	FEED(·sigma<>+12(SB), X3)
	TRANSPOSE(X0, X1, X2, X3, 0)
	FEED(0(KEY), X4)
	FEED(4(KEY), X5)
	FEED(8(KEY), X6)
	FEED(12(KEY), X7)
	TRANSPOSE(X4, X5, X6, X7, 16)
	MOVO V10, X0
	FEED(16(KEY), X8)
	FEED(20(KEY), X9)
	FEED(24(KEY), X0)
	FEED(28(KEY), X11)
	TRANSPOSE(X8, X9, X0, X11, 32)
	MOVL   CTR, X10
	PSHUFD $0, X10, X10
	PADDL  X10, X12
	PADDL  ·four<>(SB), X12
	FEED(4(IV), X13)
	FEED(8(IV), X14)
	FEED(12(IV), X15)
	TRANSPOSE(X12, X13, X14, X15, 48)
	ADDL   $4, CTR

	// DX bytes of this batch.
	MOVL    $256, DX
	CMPQ    LEN, DX
	CMOVQLT LEN, DX
	SUBQ    DX, LEN
	MOVQ    BASE, AX
	SUBQ    $16, DX
	JCS     tail

xor16:
	MOVOU (SRC), X0
	PXOR  (AX), X0
	MOVOU X0, (DST)
	ADDQ  $16, AX
	ADDQ  $16, SRC
	ADDQ  $16, DST
	SUBQ  $16, DX
	JCC   xor16

	// DX is what is left less 16.
tail:
	TESTQ LEN, LEN
	JNZ   batch
	TESTQ $8, DX
	JZ    tail4
	MOVQ  (AX), R11
	XORQ  (SRC), R11
	MOVQ  R11, (DST)
	ADDQ  $8, AX
	ADDQ  $8, SRC
	ADDQ  $8, DST

tail4:
	TESTQ $4, DX
	JZ    tail2
	MOVL  (AX), R11
	XORL  (SRC), R11
	MOVL  R11, (DST)
	ADDQ  $4, AX
	ADDQ  $4, SRC
	ADDQ  $4, DST

tail2:
	TESTQ $2, DX
	JZ    tail1
	MOVW  (AX), R11
	XORW  (SRC), R11
	MOVW  R11, (DST)
	ADDQ  $2, AX
	ADDQ  $2, SRC
	ADDQ  $2, DST

tail1:
	TESTQ $1, DX
	JZ    wipe
	MOVB  (AX), R11
	XORB  (SRC), R11
	MOVB  R11, (DST)

wipe:
	PXOR X0, X0
	MOVL $18, AX

wipe16:
	MOVO X0, (BASE)
	ADDQ $16, BASE
	DECL AX
	JNZ  wipe16
	PXOR X1, X1
	PXOR X2, X2
	PXOR X3, X3
	PXOR X4, X4
	PXOR X5, X5
	PXOR X6, X6
	PXOR X7, X7
	PXOR X8, X8
	PXOR X9, X9
	PXOR X10, X10
	PXOR X11, X11
	PXOR X12, X12
	PXOR X13, X13
	PXOR X14, X14
	PXOR X15, X15

done:
	RET
