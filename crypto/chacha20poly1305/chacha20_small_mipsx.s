// ChaCha20 for 32-bit MIPS, both endians, in little text: one call makes the
// one-time key of Poly1305 and the key stream XOR of a whole message, tail
// included.
//
// ISA:     MIPS32r2 (ROTR, WSBH) or, if r1only, MIPS32 alone.
// Reads:   dst, src any alignment, by LWL/LWR and bytes; m, key, iv 4-byte aligned.
// Spec:    RFC 8439 §2.3, §2.4, §2.6.
// Time:    constant; no branch or address depends on data.
// Secrets: the frame holds key stream; it is wiped once used, since that of
//          HChaCha20 is a key.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 4Kc (make qemu-test).
//
// Go reserves R23 (assembler temporary: free where no constant or offset is
// large), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego && wgd_small

#include "textflag.h"
#include "chacha20_mipsx.h"

#define IV	R19
#define LEFT	R23	// bytes of src
#define STREAM	stream-64(SP)

// ROUND is a round for r1, one in a loop since two have no room. It moves what it
// makes: word i of row r becomes word r-i (mod 4) of it. Thereby columns are diagonals,
// and after the next round columns again. What cannot go to its place yet, because a
// later quarter round has to read there, waits in its own, or in A or B.
#define ROL1(n, x, out) \
	SLL $n, x, T1; \
	SRL $(32-n), x; \
	OR  T1, x, out
#define QUARTER1(a, b, c, d, outa, outb, outc, outd) \
	ADDU b, a; \
	XOR  a, d; \
	ROL1(16, d, d); \
	ADDU d, c; \
	XOR  c, b; \
	ROL1(12, b, b); \
	ADDU b, a, outa; \
	XOR  outa, d; \
	ROL1(8, d, outd); \
	ADDU outd, c, outc; \
	XOR  outc, b; \
	ROL1(7, b, outb)
#define A	IV
#define B	KEY
#define ROUND \
	QUARTER1(X0, X4, X8, X12, X0, A, X8, X12); \
	QUARTER1(X1, X5, X9, X13, X1, X4, X9, B); \
	MOVW A, X5; \
	MOVW X10, A; \
	MOVW X8, X10; \
	QUARTER1(X2, X6, A, X14, X2, A, X8, X13); \
	MOVW B, X14; \
	MOVW X15, B; \
	MOVW X12, X15; \
	QUARTER1(X3, X7, X11, B, X3, X6, X11, X12); \
	MOVW A, X7; \
	MOVW X1, A; \
	MOVW X3, X1; \
	MOVW A, X3
#define ROUND_LEN	90

// A word of the message: W = the word at OUT, as a string of bytes, XOR the one at
// SRC, goes to DST. These macros are the only lines that differ between mips and
// mipsle. LWL and LWR at these addresses load the halves of an aligned word crosswise.
#ifdef GOARCH_mips
#define ORDER_START \
	MOVBU r1only+24(FP), R1ONLY; \
	MOVW  $0x00ff00ff, MASK
#define GET_WORD \
	MOVWL 2(OUT), W; \
	MOVWR 1(OUT), W; \
	MOVWL 0(SRC), V; \
	MOVWR 3(SRC), V; \
	WORD  $0x10a00007; /* BEQ R1ONLY, R0, to WSBH */ \
	ADDU  $4, SRC; \
	SRL   $8, W, T1; \
	AND   MASK, W; \
	AND   MASK, T1; \
	SLL   $8, W; \
	JUMP(2); /* behind WSBH */ \
	OR    T1, W; \
	WSBH  W, W
#define PUT_WORD \
	MOVWL W, 0(DST); \
	MOVWR W, 3(DST)
#define WORD_LEN	19
#else
#define ORDER_START
#define GET_WORD \
	MOVW  0(OUT), W; \
	MOVWL 3(SRC), V; \
	MOVWR 0(SRC), V; \
	ADDU  $4, SRC
#define PUT_WORD \
	MOVWL W, 3(DST); \
	MOVWR W, 0(DST)
#define WORD_LEN	10
#endif

// func chacha20MIPS(m *poly1305x32, dst, src *byte, n int, key *[8]uint32, iv *[4]uint32, r1only bool)
TEXT ·chacha20MIPS(SB), NOSPLIT, $64-25
	MOVW dst+4(FP), DST
	MOVW src+8(FP), SRC
	MOVW n+12(FP), LEFT
	MOVW iv+20(FP), IV
	MOVW m+0(FP), OUT
	MOVW (IV), COUNTER
	BNE  OUT, R0, block

next:
	BEQ  LEFT, R0, done
	MOVW $stream-84(SP), OUT // 20 before STREAM, as with m
block:
	MOVW key+16(FP), KEY
	MOVW $0x61707865, X0
	MOVW $0x3320646e, X1
	MOVW $0x79622d32, X2
	MOVW $0x6b206574, X3
	MOVW 0(KEY), X4
	MOVW 4(KEY), X5
	MOVW 8(KEY), X6
	MOVW 12(KEY), X7
	MOVW 16(KEY), X8
	MOVW 20(KEY), X9
	MOVW 24(KEY), X10
	MOVW 28(KEY), X11
	MOVW COUNTER, X12
	MOVW 4(IV), X13
	MOVW 8(IV), X14
	MOVW 12(IV), X15
	MOVBU r1only+24(FP), T1
	MOVW $19, ROUNDS
	BNE  T1, R0, round1
	MOVW $9, ROUNDS
	COLUMNS(ROL2)
	DIAGONALS(ROL2)
	LOOP(nROUNDS, 2*ROUND2+1)
	ADDU $-1, ROUNDS // in the delay slot
made:
	STORE(5, X0, $0x61707865)
	STORE(6, X1, $0x3320646e)
	STORE(7, X2, $0x79622d32)
	STORE(8, X3, $0x6b206574)
	STORE(9, X4, 0(KEY))
	STORE(10, X5, 4(KEY))
	STORE(11, X6, 8(KEY))
	STORE(12, X7, 12(KEY))
	MOVW $STREAM, X1
	ADDU $20, OUT
	ADDU COUNTER, X12
	ADDU $1, COUNTER
	BNE  OUT, X1, next
	STORE(8, X8, 16(KEY))
	STORE(9, X9, 20(KEY))
	STORE(10, X10, 24(KEY))
	STORE(11, X11, 28(KEY))
	MOVW X12, 48(OUT)
	STORE(13, X13, 4(IV))
	STORE(14, X14, 8(IV))
	STORE(15, X15, 12(IV))

#define TAKE	X0
#define LIMIT	X1	// where the words of key stream for them end
#define W	X2
#define V	X3
#define R1ONLY	X4
#define MASK	X5	// 0x00ff00ff, for the byte order of r1
	ORDER_START
	MOVW  $64, TAKE
	SGTU  TAKE, LEFT, T1
	CMOVN T1, LEFT, TAKE
	SUBU  TAKE, LEFT
	AND   $0x7c, TAKE, LIMIT
	BEQ   LIMIT, R0, bytes
	ADDU  OUT, LIMIT
word:
	GET_WORD
	XOR  V, W
	PUT_WORD
	MOVW R0, (OUT)
	ADDU $4, OUT
	WORD $(0x17020000 | (0x10000-WORD_LEN)) // BNE OUT, LIMIT, word
	ADDU $4, DST // in the delay slot
bytes:
	AND  $3, TAKE
	BEQ  TAKE, R0, next
	MOVW (OUT), W
	MOVW R0, (OUT)
byte:
	MOVBU (SRC), V
	ADDU  $-1, TAKE
	XOR   W, V
	MOVB  V, (DST)
	SRL   $8, W
	ADDU  $1, SRC
	ADDU  $1, DST
	BNE   TAKE, R0, byte
	JMP   next

round1:
	ROUND
	LOOP(nROUNDS, ROUND_LEN+1)
	ADDU $-1, ROUNDS // in the delay slot
	MOVW iv+20(FP), IV
	MOVW key+16(FP), KEY
	JMP  made

done:
	RET
