// ChaCha20 for 32-bit MIPS, both endians: one call makes the one-time key of
// Poly1305 and the key stream XOR of a whole message, tail included.
//
// ISA:     MIPS32r2 (ROTR, WSBH) or, if r1only, MIPS32 alone.
// Reads:   dst, src any alignment: whole blocks by LW and SW if both are 4-byte
//          aligned, all else by LWL/LWR and bytes; m, key, iv 4-byte aligned.
//          Unaligned costs 0.6 instructions a byte more, with r1only 3.5.
// Spec:    RFC 8439 §2.3, §2.4, §2.6.
// Time:    constant; no branch or address depends on data.
// Secrets: the frame holds a state from which the key follows: it is wiped. So is
//          key stream once used, since that of HChaCha20 is a key.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 74Kf, 4Kc (make qemu-test).
//
// Go reserves R23 (assembler temporary: free where no constant or offset is
// large), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego && !wgd_small

#include "textflag.h"
#include "chacha20_mipsx.h"

#define WHOLE	R19	// where the whole blocks of src end
#define MASK	R23	// 0x00ff00ff, for the byte order of r1

// The frame: the first state (without words 4, 8, 12), constants and nonce for the
// end of a block, and a block of key stream.
#define FIRST(i)	first-(160-4*i)(SP)
#define SIGMA(i)	sigma-(96-4*i)(SP)
#define NONCE(i)	nonce-(80-4*i)(SP)
#define STREAM		stream-64(SP)

#define ROL1(n, x)	SLL $n, x, T1; SRL $(32-n), x; OR T1, x

// OUT2, OUT1 (aligned) and ODD2 (not aligned) XOR word i of the block, x + add, with
// src to dst. x is a number, src a string of bytes, least significant first. These
// macros and those behind them are the only lines that differ between mips and
// mipsle.
#ifdef GOARCH_mips
#define OUT2(i, x, add) \
	MOVW (4*i)(SRC), T1; \
	ADDU add, x; \
	WSBH x, x; \
	ROTR $16, x; \
	XOR  T1, x; \
	MOVW x, (4*i)(DST)
#define ODD2(i, x, add) \
	MOVWL (4*i)(SRC), T1; \
	ADDU  add, x; \
	MOVWR (4*i+3)(SRC), T1; \
	WSBH  x, x; \
	ROTR  $16, x; \
	XOR   T1, x; \
	MOVWL x, (4*i)(DST); \
	MOVWR x, (4*i+3)(DST)
// LWL and LWR at these addresses load the halves of an aligned word crosswise.
#define OUT1(i, x, add) \
	MOVWL (4*i+2)(SRC), T1; \
	ADDU  add, x; \
	MOVWR (4*i+1)(SRC), T1; \
	SRL   $8, x, T0; \
	AND   MASK, x; \
	AND   MASK, T0; \
	SLL   $8, x; \
	OR    T0, x; \
	XOR   T1, x; \
	MOVWL x, (4*i+2)(DST); \
	MOVWR x, (4*i+1)(DST)
#define SWAP(x, t) \
	SRL $8, x, t; \
	AND MASK, x; \
	AND MASK, t; \
	SLL $8, x; \
	OR  t, x; \
	ROL1(16, x)
#define UNALIGNED_LOAD(p, x)	MOVWL 0(p), x; MOVWR 3(p), x
#define UNALIGNED_STORE(x, p)	MOVWL x, 0(p); MOVWR x, 3(p)
#else
#define OUT2(i, x, add) \
	MOVW (4*i)(SRC), T1; \
	ADDU add, x; \
	XOR  T1, x; \
	MOVW x, (4*i)(DST)
#define ODD2(i, x, add) \
	MOVWL (4*i+3)(SRC), T1; \
	ADDU  add, x; \
	MOVWR (4*i)(SRC), T1; \
	XOR   T1, x; \
	MOVWL x, (4*i+3)(DST); \
	MOVWR x, (4*i)(DST)
#define OUT1(i, x, add)	OUT2(i, x, add)
#define SWAP(x, t)
#define UNALIGNED_LOAD(p, x)	MOVWL 3(p), x; MOVWR 0(p), x
#define UNALIGNED_STORE(x, p)	MOVWL x, 3(p); MOVWR x, 0(p)
#endif

// Columns 1 to 3 of the first round do not depend on the counter: FIRST has them,
// done once a message. A block starts from there with what is left of column 0.
#define START(ROL) \
	MOVW FIRST(0), X0; \
	MOVW 16(KEY), X8; \
	MOVW 0(KEY), X4; \
	XOR  X0, COUNTER, X12; \
	ROL(16, X12); \
	MOVW FIRST(1), X1; \
	MOVW FIRST(2), X2; \
	MOVW FIRST(3), X3; \
	MOVW FIRST(5), X5; \
	MOVW FIRST(6), X6; \
	MOVW FIRST(7), X7; \
	MOVW FIRST(9), X9; \
	MOVW FIRST(10), X10; \
	MOVW FIRST(11), X11; \
	MOVW FIRST(13), X13; \
	MOVW FIRST(14), X14; \
	MOVW FIRST(15), X15; \
	REST(ROL, X0, X4, X8, X12)

#define FINISH(OUTx) \
	MOVW SIGMA(0), T0; OUTx(0, X0, T0); \
	MOVW SIGMA(1), T0; OUTx(1, X1, T0); \
	MOVW SIGMA(2), T0; OUTx(2, X2, T0); \
	MOVW SIGMA(3), T0; OUTx(3, X3, T0); \
	MOVW 0(KEY), T0; OUTx(4, X4, T0); \
	MOVW 4(KEY), T0; OUTx(5, X5, T0); \
	MOVW 8(KEY), T0; OUTx(6, X6, T0); \
	MOVW 12(KEY), T0; OUTx(7, X7, T0); \
	MOVW 16(KEY), T0; OUTx(8, X8, T0); \
	MOVW 20(KEY), T0; OUTx(9, X9, T0); \
	MOVW 24(KEY), T0; OUTx(10, X10, T0); \
	MOVW 28(KEY), T0; OUTx(11, X11, T0); \
	OUTx(12, X12, COUNTER); \
	MOVW NONCE(0), T0; OUTx(13, X13, T0); \
	MOVW NONCE(1), T0; OUTx(14, X14, T0); \
	MOVW NONCE(2), T0; OUTx(15, X15, T0); \
	ADDU $1, COUNTER; \
	ADDU $64, DST; \
	ADDU $64, SRC

// func chacha20MIPS(m *poly1305x32, dst, src *byte, n int, key *[8]uint32, iv *[4]uint32, r1only bool)
TEXT ·chacha20MIPS(SB), NOSPLIT, $160-25
	MOVW iv+20(FP), T1
	MOVW key+16(FP), KEY
	MOVW 0(T1), COUNTER
	MOVW 4(T1), X13
	MOVW 8(T1), X14
	MOVW 12(T1), X15
	MOVW X13, NONCE(0)
	MOVW X14, NONCE(1)
	MOVW X15, NONCE(2)
	MOVW $0x61707865, X0
	MOVW $0x3320646e, X1
	MOVW $0x79622d32, X2
	MOVW $0x6b206574, X3
	MOVW X0, SIGMA(0)
	MOVW X1, SIGMA(1)
	MOVW X2, SIGMA(2)
	MOVW X3, SIGMA(3)
	MOVW 0(KEY), X4
	ADDU X4, X0
	MOVW X0, FIRST(0)

#define A	X0
#define B	X1
#define C	X2
#define D	X3
#define COLUMN	X4
#define KEYS	X5
#define LAST	X6
	MOVW $first-160(SP), COLUMN
	MOVW KEY, KEYS
	ADDU $12, KEY, LAST
column:	// 1, 2, 3
	ADDU $4, KEYS
	ADDU $4, COLUMN
	MOVW 64(COLUMN), A
	MOVW 0(KEYS), B
	MOVW 16(KEYS), C
	MOVW 76(COLUMN), D
	QUARTER(ROL1, A, B, C, D)
	MOVW A, 0(COLUMN)
	MOVW B, 16(COLUMN)
	MOVW C, 32(COLUMN)
	MOVW D, 48(COLUMN)
	BNE  KEYS, LAST, column

	MOVW dst+4(FP), DST
	MOVW src+8(FP), SRC
	MOVW n+12(FP), T0
	SRL  $6, T0
	SLL  $6, T0
	ADDU SRC, T0, WHOLE
	MOVW m+0(FP), OUT
	BEQ  OUT, R0, next
	ADDU $20, OUT // m.r and m.s
	JMP  block

next:	// Where does the next block go?
	MOVW n+12(FP), T0
	MOVW src+8(FP), T1
	ADDU T1, T0
	BEQ  SRC, T0, done
	MOVW $STREAM, OUT
	BEQ  SRC, WHOLE, block
	OR   SRC, DST, T0
	AND  $3, T0
	SGTU T0, R0, OUT

block:
	MOVBU r1only+24(FP), T0
	BNE  T0, R0, block1

block2:
	START(ROL2)
	JUMP(ROUND2+1)
	MOVW $4, ROUNDS // in the delay slot
	COLUMNS(ROL2)
	DIAGONALS(ROL2)
	COLUMNS(ROL2)
	DIAGONALS(ROL2)
	LOOP(nROUNDS, 4*ROUND2+1)
	ADDU $-1, ROUNDS // in the delay slot
	BNE  OUT, R0, odd2
	FINISH(OUT2)
	BNE  SRC, WHOLE, block2
	JMP  next
odd2:
	ADDU $-1, OUT, T0
	BNE  T0, R0, store
	FINISH(ODD2)
	BNE  SRC, WHOLE, block2
	JMP  next

block1:
	ADDU $-1, OUT, T0
	MOVW $0x00ff00ff, MASK
	BNE  T0, R0, again1
	MOVW $STREAM, OUT
again1:
	START(ROL1)
	JUMP(ROUND1+1)
	MOVW $9, ROUNDS // in the delay slot
	COLUMNS(ROL1)
	DIAGONALS(ROL1)
	LOOP(nROUNDS, 2*ROUND1+1)
	ADDU $-1, ROUNDS // in the delay slot
	BNE  OUT, R0, store
	FINISH(OUT1)
	BNE  SRC, WHOLE, again1
	JMP  next

store:	// The block is one-time key, or a tail, or not aligned and for r1.
	STORE(0, X0, SIGMA(0))
	STORE(1, X1, SIGMA(1))
	STORE(2, X2, SIGMA(2))
	STORE(3, X3, SIGMA(3))
	STORE(4, X4, 0(KEY))
	STORE(5, X5, 4(KEY))
	STORE(6, X6, 8(KEY))
	STORE(7, X7, 12(KEY))
	MOVW m+0(FP), T1
	ADDU $-20, OUT, T0
	BNE  T0, T1, message
	ADDU $1, COUNTER
	JMP  next

message:
	STORE(8, X8, 16(KEY))
	STORE(9, X9, 20(KEY))
	STORE(10, X10, 24(KEY))
	STORE(11, X11, 28(KEY))
	ADDU COUNTER, X12
	MOVW X12, 48(OUT)
	STORE(13, X13, NONCE(0))
	STORE(14, X14, NONCE(1))
	STORE(15, X15, NONCE(2))
	ADDU $1, COUNTER
	MOVW $0x00ff00ff, MASK

#define LEFT	X0	// bytes of src
#define LIMIT	X1	// where the words of key stream for them end
#define W	X2
#define V	X3
	MOVW n+12(FP), LEFT
	MOVW src+8(FP), T0
	ADDU T0, LEFT
	SUBU SRC, LEFT
	ADDU $-64, LEFT, T0
	BLTZ T0, words
	MOVW $64, LEFT
words:
	SRL  $2, LEFT, LIMIT
	BEQ  LIMIT, R0, bytes
	SLL  $2, LIMIT
	ADDU OUT, LIMIT
word:
	MOVW (OUT), W
	UNALIGNED_LOAD(SRC, V)
	SWAP(W, T1)
	XOR  V, W
	UNALIGNED_STORE(W, DST)
	MOVW R0, (OUT)
	ADDU $4, SRC
	ADDU $4, DST
	ADDU $4, OUT
	BNE  OUT, LIMIT, word
bytes:
	AND  $3, LEFT
	BEQ  LEFT, R0, next
	MOVW (OUT), W
	MOVW R0, (OUT)
byte:
	MOVBU (SRC), V
	ADDU $-1, LEFT
	XOR  W, V
	MOVB V, (DST)
	SRL  $8, W
	ADDU $1, SRC
	ADDU $1, DST
	BNE  LEFT, R0, byte
	JMP  next

done:
	MOVW R0, FIRST(0)
	MOVW R0, FIRST(1)
	MOVW R0, FIRST(2)
	MOVW R0, FIRST(3)
	MOVW R0, FIRST(5)
	MOVW R0, FIRST(6)
	MOVW R0, FIRST(7)
	MOVW R0, FIRST(9)
	MOVW R0, FIRST(10)
	MOVW R0, FIRST(11)
	MOVW R0, FIRST(13)
	MOVW R0, FIRST(14)
	MOVW R0, FIRST(15)
	RET
