// ChaCha20-Poly1305 for amd64 with AVX2, one call for a message.
//
// ISA:     AVX2, BMI2 (MULX); see impl_amd64.go. No AVX-512.
// Reads:   dst, src, ad any alignment; dst and src the same place or apart.
// Spec:    RFC 8439 §2.8, key stream §2.4, one-time key §2.6, MAC §2.5.
// Time:    constant; branches and addresses depend on lengths alone, and on the
//          verdict over the tag.
// Stack:   the key stream, r and s are wiped before RET; of the key one word at most
//          is stored, and wiped.
// Text:    8.0 kB.
// Tested:  on the CPU and by qemu-x86_64 -cpu Haswell.
//
// Two forms of the rounds. "Rows" has a row of the state in a register, two blocks
// beside each other: as many blocks as a short message needs, nearly at the latency
// of one. "Wide" has one word of eight blocks in a register: fewest instructions a
// byte. In both, the first block of the message is the one-time key.
//
// Later batches hash while they run: sealing, the ciphertext of the batch before;
// opening, what comes next, up to 40 blocks of 16 in a batch. An opened batch is
// written when the next one is done, so that in place nothing is lost unhashed, and
// the last two not before the tag is right.
//
//	        batch 1          batch 2                   batch 3
//	seal    key, 448 bytes   512 bytes, hash 448       rest, hash 512      hash rest
//	open    key, 448 bytes   512 bytes, hash 640       rest, hash rest

//go:build !purego

#include "textflag.h"

// General registers. R14 (g) is restored by the caller's ABI wrapper.
#define H0	R8	// accumulator
#define H1	R9
#define H2	R10
#define D0	R11	// product: upper words, and places for pointers between
#define D0H	R12
#define D1	R13
#define D1H	AX
#define T0	R14
#define T1	R15	// and DX, which MULX reads
#define BASE	BX	// of the scratch memory below, 64-byte aligned
#define HASH	SI	// what is hashed next
#define CARRY	DI	// to be added to H0

// Scratch memory. 0 to 511 is the key stream of a batch.
#define V8	512(BASE)	// words 8 and 10 take turns in Y8
#define V10	544(BASE)
#define PR0	576(BASE)	// r, clamped
#define PR1	584(BASE)
#define PS1	592(BASE)	// r1·5/4
#define PK0	600(BASE)	// s
#define PK1	608(BASE)
#define TAG0	616(BASE)	// open: the tag received
#define TAG1	624(BASE)
#define END	632(BASE)	// end of what is to hash
#define LEN	640(BASE)	// bytes of text in all
#define CTR	648(BASE)	// counter of the batch's first block
#define FUSED	656(BASE)	// double rounds that hash
#define OUT	664(BASE)	// where the batch leaves its key stream: 0 or OTHER
#define STREAM	672(BASE)	// the key stream of the text at src
#define PENDING	680(BASE)	// open: bytes before those of the last batch that wait for the tag
#define OTHER	704		// a second place for key stream

// Poly1305 in 64-bit words, by the method of blocksGeneric. To shorten the way from
// one block to the next, the sum of a product's upper words is cut at 2¹³⁰ before the
// last carry goes in, and what comes down from there waits in CARRY while the next
// block is added:
//
//	h = H0 + H1·2⁶⁴ + H2·2¹²⁸ + CARRY
//
// H2 <= 4 and CARRY < 2⁶⁴ between blocks. POLY_ADD makes H2 <= 4 + 1 + two carries = 7.
#define POLY_ADD(lo, hi) \
	ADDQ lo, H0; \
	ADCQ hi, H1; \
	ADCQ $1, H2; \
	ADDQ CARRY, H0; \
	ADCQ $0, H1; \
	ADCQ $0, H2

// r0, r1 < 2⁶⁰ and s1 = r1·5/4 < 1.25·2⁶⁰, so
//
//	1:     h0·r0 + h1·s1               < 2.25·2¹²⁴
//	2⁶⁴:   h0·r1 + h1·r0               < 2·2¹²⁴
//	       h2·s1                       < 8.75·2⁶⁰, added to the upper word below: < 2⁶⁴
//	2¹²⁸:  h2·r0                       < 7·2⁶⁰, with the upper word above: < 9·2⁶⁰ + 1
#define POLY_HALF1 \
	POLY_ADD(0(HASH), 8(HASH)); \
	POLY_PRODUCTS1; \
	ADDQ $16, HASH

#define POLY_PRODUCTS1 \
	MOVQ  H0, DX; \
	MULXQ PR1, D1, D1H; \
	MULXQ PR0, H0, D0H; \
	MOVQ  H1, DX; \
	MULXQ PR0, H1, T1; \
	ADDQ  D1, H1; \
	ADCQ  T1, D1H; \
	MULXQ PS1, T0, T1

// With d2 = 4q + d2 mod 4, what comes down is 5q < 5/4·(9·2⁶⁰ + 1).
#define POLY_HALF2 \
	MOVQ  H2, DX; \
	IMULQ PS1, DX; \
	IMULQ PR0, H2; \
	ADDQ  DX, D0H; \
	ADDQ  T0, H0; \
	ADCQ  T1, D0H; \
	ADDQ  D1H, H2; \
	MOVQ  H2, CARRY; \
	ANDQ  $3, H2; \
	SHRQ  $2, CARRY; \
	LEAQ  (CARRY)(CARRY*4), CARRY; \
	ADDQ  D0H, H1; \
	ADCQ  $0, H2

// HASH_BLOCKS adds CX > 0 blocks of 16 bytes.
#define HASH_BLOCKS(loop) \
loop: \
	POLY_HALF1; \
	POLY_HALF2; \
	DECQ CX; \
	JNZ  loop

// HASH_TAIL adds 0 < CX < 16 bytes and zeros up to 16. The piece of CX mod 8 bytes
// at DX is gathered from its end, then the whole 8 bytes before it, if any.
#define HASH_TAIL(even, pairs, quads, short) \
	MOVQ    CX, DX; \
	ANDQ    $8, DX; \
	ADDQ    HASH, DX; \
	MOVQ    CX, D1; \
	ANDQ    $7, D1; \
	XORL    T1, T1; \
	TESTQ   $1, CX; \
	JZ      even; \
	MOVBLZX -1(DX)(D1*1), T1; \
even: \
	ANDQ    $4, D1; \
	TESTQ   $2, CX; \
	JZ      pairs; \
	MOVWLZX (DX)(D1*1), D0; \
	SHLQ    $16, T1; \
	ORQ     D0, T1; \
pairs: \
	TESTQ   $4, CX; \
	JZ      quads; \
	MOVL    (DX), D0; \
	SHLQ    $32, T1; \
	ORQ     D0, T1; \
quads: \
	MOVQ    T1, T0; \
	XORL    T1, T1; \
	TESTQ   $8, CX; \
	JZ      short; \
	MOVQ    T0, T1; \
	MOVQ    (HASH), T0; \
short: \
	POLY_ADD(T0, T1); \
	POLY_PRODUCTS1; \
	POLY_HALF2

// ROTATE_LEFT by 16 and 8 is a shuffle of bytes.
#define ROT16(v)	VPSHUFB ·rotate16<>(SB), v, v
#define ROT8(v)	VPSHUFB ·rotate8<>(SB), v, v
#define ROT(n, v, t) \
	VPSLLD $n, v, t; \
	VPSRLD $(32-n), v, v; \
	VPXOR  t, v, v

// Half a quarter round on two quadruples: a += b, d ^= a, d <<<= 16,
// c += d, b ^= c, b <<<= 12; then the same with 8 and 7.
#define HALF1(a0, b0, c0, d0, a1, b1, c1, d1) \
	VPADDD b0, a0, a0; \
	VPADDD b1, a1, a1; \
	VPXOR  a0, d0, d0; \
	VPXOR  a1, d1, d1; \
	ROT16(d0); \
	ROT16(d1); \
	VPADDD d0, c0, c0; \
	VPADDD d1, c1, c1; \
	VPXOR  c0, b0, b0; \
	VPXOR  c1, b1, b1; \
	ROT(12, b0, Y10); \
	ROT(12, b1, Y10)

#define HALF2(a0, b0, c0, d0, a1, b1, c1, d1) \
	VPADDD b0, a0, a0; \
	VPADDD b1, a1, a1; \
	VPXOR  a0, d0, d0; \
	VPXOR  a1, d1, d1; \
	ROT8(d0); \
	ROT8(d1); \
	VPADDD d0, c0, c0; \
	VPADDD d1, c1, c1; \
	VPXOR  c0, b0, b0; \
	VPXOR  c1, b1, b1; \
	ROT(7, b0, Y10); \
	ROT(7, b1, Y10)

#define SWAP8_10 \
	VMOVDQA Y8, V8; \
	VMOVDQA V10, Y8
#define SWAP10_8 \
	VMOVDQA Y8, V10; \
	VMOVDQA V8, Y8

// FEED adds what the rounds started from, a word at p.
#define FEED(p, v) \
	VPBROADCASTD p, Y10; \
	VPADDD       Y10, v, v

// TRANSPOSE turns words v0 to v7 of eight blocks into 32 bytes of each block, and
// stores them at off in the block, from AX on.
#define TRANSPOSE(v0, v1, v2, v3, v4, v5, v6, v7, t, off) \
	VPUNPCKLDQ  v1, v0, t; \
	VPUNPCKHDQ  v1, v0, v1; \
	VPUNPCKLDQ  v3, v2, v0; \
	VPUNPCKHDQ  v3, v2, v3; \
	VPUNPCKLDQ  v5, v4, v2; \
	VPUNPCKHDQ  v5, v4, v5; \
	VPUNPCKLDQ  v7, v6, v4; \
	VPUNPCKHDQ  v7, v6, v7; \
	VPUNPCKLQDQ v0, t, v6; \
	VPUNPCKHQDQ v0, t, t; \
	VPUNPCKLQDQ v3, v1, v0; \
	VPUNPCKHQDQ v3, v1, v1; \
	VPUNPCKLQDQ v4, v2, v3; \
	VPUNPCKHQDQ v4, v2, v2; \
	VPUNPCKLQDQ v7, v5, v4; \
	VPUNPCKHQDQ v7, v5, v5; \
	STORE2(v6, v3, v7, 0, off); \
	STORE2(t, v2, v7, 1, off); \
	STORE2(v0, v4, v7, 2, off); \
	STORE2(v1, v5, v7, 3, off)

#define STORE2(lo, hi, t, block, off) \
	VPERM2I128 $0x20, hi, lo, t; \
	VMOVDQA    t, (64*block+off)(AX); \
	VPERM2I128 $0x31, hi, lo, t; \
	VMOVDQA    t, (64*(block+4)+off)(AX)

// A round on rows. Lane i of b stays: the diagonals are made by moving a, c and d,
// which are ready before b is.
#define ROW(a, b, c, d, t) \
	VPADDD b, a, a; \
	VPXOR  a, d, d; \
	ROT16(d); \
	VPADDD d, c, c; \
	VPXOR  c, b, b; \
	ROT(12, b, t); \
	VPADDD b, a, a; \
	VPXOR  a, d, d; \
	ROT8(d); \
	VPADDD d, c, c; \
	VPXOR  c, b, b; \
	ROT(7, b, t)

#define DIAGONAL(a, c, d) \
	VPSHUFD $0x93, a, a; \
	VPSHUFD $0x39, c, c; \
	VPSHUFD $0x4e, d, d
#define COLUMN(a, c, d) \
	VPSHUFD $0x39, a, a; \
	VPSHUFD $0x93, c, c; \
	VPSHUFD $0x4e, d, d

// ROWS_ADD adds what the rounds started from, Y12 to Y15 and the counters.
#define ROWS_ADD(a, b, c, d, pair) \
	VPADDD Y12, a, a; \
	VPADDD Y13, b, b; \
	VPADDD Y14, c, c; \
	VPADDD Y15, d, d; \
	VPADDD ·pair<>+(32*pair)(SB), d, d

// ROWS_OUT stores two blocks of key stream, from AX on.
#define ROWS_OUT(a, b, c, d, pair) \
	VPERM2I128 $0x20, b, a, Y12; \
	VPERM2I128 $0x20, d, c, Y13; \
	VPERM2I128 $0x31, b, a, Y14; \
	VPERM2I128 $0x31, d, c, Y15; \
	VMOVDQA    Y12, (128*pair)(AX); \
	VMOVDQA    Y13, (128*pair+32)(AX); \
	VMOVDQA    Y14, (128*pair+64)(AX); \
	VMOVDQA    Y15, (128*pair+96)(AX)

// ROWS_LOAD sets Y12 to Y15 to the rows that all blocks start from. The nonce is read
// word by word, as the caller has just written it: wider loads would wait until those
// stores have reached the cache, 15 ns. Its place for the counter stays 0.
#define ROWS_LOAD \
	MOVQ           key+40(FP), CX; \
	MOVQ           iv+48(FP), DX; \
	VMOVD          4(DX), X14; \
	VPINSRD        $1, 8(DX), X14, X14; \
	VPINSRD        $2, 12(DX), X14, X14; \
	VPSLLDQ        $4, X14, X15; \
	VINSERTI128    $1, X15, Y15, Y15; \
	VBROADCASTI128 ·sigma<>(SB), Y12; \
	VBROADCASTI128 (CX), Y13; \
	VBROADCASTI128 16(CX), Y14

#define ROWS_START(a, b, c, d, pair) \
	VMOVDQA Y12, a; \
	VMOVDQA Y13, b; \
	VMOVDQA Y14, c; \
	VPADDD  ·pair<>+(32*pair)(SB), Y15, d

DATA ·sigma<>+0(SB)/4, $0x61707865
DATA ·sigma<>+4(SB)/4, $0x3320646e
DATA ·sigma<>+8(SB)/4, $0x79622d32
DATA ·sigma<>+12(SB)/4, $0x6b206574
GLOBL ·sigma<>(SB), NOPTR|RODATA, $16

DATA ·rotate16<>+0(SB)/8, $0x0504070601000302
DATA ·rotate16<>+8(SB)/8, $0x0d0c0f0e09080b0a
DATA ·rotate16<>+16(SB)/8, $0x0504070601000302
DATA ·rotate16<>+24(SB)/8, $0x0d0c0f0e09080b0a
GLOBL ·rotate16<>(SB), NOPTR|RODATA, $32

DATA ·rotate8<>+0(SB)/8, $0x0605040702010003
DATA ·rotate8<>+8(SB)/8, $0x0e0d0c0f0a09080b
DATA ·rotate8<>+16(SB)/8, $0x0605040702010003
DATA ·rotate8<>+24(SB)/8, $0x0e0d0c0f0a09080b
GLOBL ·rotate8<>(SB), NOPTR|RODATA, $32

// Block counters of a batch: one word of eight blocks, and the last rows of pairs.
DATA ·eight<>+0(SB)/8, $0x0000000100000000
DATA ·eight<>+8(SB)/8, $0x0000000300000002
DATA ·eight<>+16(SB)/8, $0x0000000500000004
DATA ·eight<>+24(SB)/8, $0x0000000700000006
GLOBL ·eight<>(SB), NOPTR|RODATA, $32

DATA ·pair<>+0(SB)/8, $0
DATA ·pair<>+8(SB)/8, $0
DATA ·pair<>+16(SB)/8, $1
DATA ·pair<>+24(SB)/8, $0
DATA ·pair<>+32(SB)/8, $2
DATA ·pair<>+40(SB)/8, $0
DATA ·pair<>+48(SB)/8, $3
DATA ·pair<>+56(SB)/8, $0
DATA ·pair<>+64(SB)/8, $4
DATA ·pair<>+72(SB)/8, $0
DATA ·pair<>+80(SB)/8, $5
DATA ·pair<>+88(SB)/8, $0
GLOBL ·pair<>(SB), NOPTR|RODATA, $96

// func aeadAVX2(dst, src *byte, n int, ad *byte, adLen int, key *[8]uint32, iv *[4]uint32, open int) (differ uint64)
TEXT ·aeadAVX2(SB), 0, $1272-72
	LEAQ 63(SP), BASE
	ANDQ $~63, BASE
	MOVQ n+16(FP), CX
	MOVQ CX, LEN
	MOVL $0, CTR
	MOVQ $0, PENDING
	MOVQ $0, FUSED
	MOVQ BASE, OUT
	MOVQ BASE, AX
	CMPQ open+56(FP), $0
	JEQ  start
	MOVQ src+8(FP), SI
	MOVQ (SI)(CX*1), DX
	MOVQ DX, TAG0
	MOVQ 8(SI)(CX*1), DX
	MOVQ DX, TAG1

start:
	CMPQ CX, $64
	JBE  rows2
	CMPQ CX, $192
	JBE  rows4
	CMPQ CX, $320
	JBE  rows6
	JMP  wide

rows2:
	ROWS_LOAD
	ROWS_START(Y0, Y1, Y2, Y3, 0)
	MOVL $10, CX

rounds2:
	ROW(Y0, Y1, Y2, Y3, Y11)
	DIAGONAL(Y0, Y2, Y3)
	ROW(Y0, Y1, Y2, Y3, Y11)
	COLUMN(Y0, Y2, Y3)
	DECQ CX
	JNZ  rounds2
	ROWS_ADD(Y0, Y1, Y2, Y3, 0)
	ROWS_OUT(Y0, Y1, Y2, Y3, 0)
	JMP  key

	// As a later batch, this goes on from CTR and hashes three blocks in a double
	// round: more would take longer than the rounds of two pairs.
rows4:
	ROWS_LOAD
	VMOVD        CTR, X11
	VINSERTI128  $1, X11, Y11, Y11
	VPADDD       Y11, Y15, Y15
	ROWS_START(Y0, Y1, Y2, Y3, 0)
	ROWS_START(Y4, Y5, Y6, Y7, 1)
	MOVL         $10, CX
	SUBQ         FUSED, CX
	JZ           fused4

plain4:
	ROW(Y0, Y1, Y2, Y3, Y11)
	DIAGONAL(Y0, Y2, Y3)
	ROW(Y4, Y5, Y6, Y7, Y11)
	DIAGONAL(Y4, Y6, Y7)
	ROW(Y0, Y1, Y2, Y3, Y11)
	COLUMN(Y0, Y2, Y3)
	ROW(Y4, Y5, Y6, Y7, Y11)
	COLUMN(Y4, Y6, Y7)
	DECQ CX
	JNZ  plain4
	MOVQ FUSED, CX
	TESTQ CX, CX
	JZ   out4
	JMP  mixed4

fused4:
	MOVL $10, CX

mixed4:
	ROW(Y0, Y1, Y2, Y3, Y11)
	POLY_HALF1
	DIAGONAL(Y0, Y2, Y3)
	ROW(Y4, Y5, Y6, Y7, Y11)
	POLY_HALF2
	DIAGONAL(Y4, Y6, Y7)
	POLY_HALF1
	ROW(Y0, Y1, Y2, Y3, Y11)
	POLY_HALF2
	COLUMN(Y0, Y2, Y3)
	POLY_HALF1
	ROW(Y4, Y5, Y6, Y7, Y11)
	COLUMN(Y4, Y6, Y7)
	POLY_HALF2
	DECQ CX
	JNZ  mixed4

out4:
	MOVQ OUT, AX
	ROWS_ADD(Y0, Y1, Y2, Y3, 0)
	ROWS_ADD(Y4, Y5, Y6, Y7, 1)
	ROWS_OUT(Y0, Y1, Y2, Y3, 0)
	ROWS_OUT(Y4, Y5, Y6, Y7, 1)
	CMPL CTR, $0
	JEQ  key
	JMP  later

rows6:
	ROWS_LOAD
	ROWS_START(Y0, Y1, Y2, Y3, 0)
	ROWS_START(Y4, Y5, Y6, Y7, 1)
	ROWS_START(Y8, Y9, Y10, Y11, 2)
	MOVL $10, CX

rounds6:
	ROW(Y0, Y1, Y2, Y3, Y12)
	DIAGONAL(Y0, Y2, Y3)
	ROW(Y4, Y5, Y6, Y7, Y13)
	DIAGONAL(Y4, Y6, Y7)
	ROW(Y8, Y9, Y10, Y11, Y14)
	DIAGONAL(Y8, Y10, Y11)
	ROW(Y0, Y1, Y2, Y3, Y12)
	COLUMN(Y0, Y2, Y3)
	ROW(Y4, Y5, Y6, Y7, Y13)
	COLUMN(Y4, Y6, Y7)
	ROW(Y8, Y9, Y10, Y11, Y14)
	COLUMN(Y8, Y10, Y11)
	DECQ CX
	JNZ  rounds6
	ROWS_LOAD
	ROWS_ADD(Y0, Y1, Y2, Y3, 0)
	ROWS_ADD(Y4, Y5, Y6, Y7, 1)
	ROWS_ADD(Y8, Y9, Y10, Y11, 2)
	ROWS_OUT(Y0, Y1, Y2, Y3, 0)
	ROWS_OUT(Y4, Y5, Y6, Y7, 1)
	ROWS_OUT(Y8, Y9, Y10, Y11, 2)
	JMP  key

wide:
	MOVQ         key+40(FP), CX
	MOVQ         iv+48(FP), DX
	VPBROADCASTD 24(CX), Y10
	VPBROADCASTD ·sigma<>+0(SB), Y0
	VPBROADCASTD ·sigma<>+4(SB), Y1
	VPBROADCASTD ·sigma<>+8(SB), Y2
	VPBROADCASTD ·sigma<>+12(SB), Y3
	VPBROADCASTD 0(CX), Y4
	VPBROADCASTD 4(CX), Y5
	VPBROADCASTD 8(CX), Y6
	VPBROADCASTD 12(CX), Y7
	VPBROADCASTD 16(CX), Y8
	VPBROADCASTD 20(CX), Y9
	VPBROADCASTD 28(CX), Y11
	VPBROADCASTD CTR, Y12
	VPBROADCASTD 4(DX), Y13
	VPBROADCASTD 8(DX), Y14
	VPBROADCASTD 12(DX), Y15
	VMOVDQA      Y10, V10
	VPADDD       ·eight<>(SB), Y12, Y12
	MOVL         $10, CX
	SUBQ         FUSED, CX
	JZ           fused

plain:
	HALF1(Y0, Y4, Y8, Y12, Y1, Y5, Y9, Y13)
	HALF2(Y0, Y4, Y8, Y12, Y1, Y5, Y9, Y13)
	SWAP8_10
	HALF1(Y2, Y6, Y8, Y14, Y3, Y7, Y11, Y15)
	HALF2(Y2, Y6, Y8, Y14, Y3, Y7, Y11, Y15)
	HALF1(Y0, Y5, Y8, Y15, Y1, Y6, Y11, Y12)
	HALF2(Y0, Y5, Y8, Y15, Y1, Y6, Y11, Y12)
	SWAP10_8
	HALF1(Y2, Y7, Y8, Y13, Y3, Y4, Y9, Y14)
	HALF2(Y2, Y7, Y8, Y13, Y3, Y4, Y9, Y14)
	DECQ CX
	JNZ  plain
	MOVQ FUSED, CX
	TESTQ CX, CX
	JZ   out
	JMP  mixed

fused:
	MOVL $10, CX

mixed:
	HALF1(Y0, Y4, Y8, Y12, Y1, Y5, Y9, Y13)
	POLY_HALF1
	HALF2(Y0, Y4, Y8, Y12, Y1, Y5, Y9, Y13)
	POLY_HALF2
	SWAP8_10
	HALF1(Y2, Y6, Y8, Y14, Y3, Y7, Y11, Y15)
	POLY_HALF1
	HALF2(Y2, Y6, Y8, Y14, Y3, Y7, Y11, Y15)
	POLY_HALF2
	HALF1(Y0, Y5, Y8, Y15, Y1, Y6, Y11, Y12)
	POLY_HALF1
	HALF2(Y0, Y5, Y8, Y15, Y1, Y6, Y11, Y12)
	POLY_HALF2
	SWAP10_8
	HALF1(Y2, Y7, Y8, Y13, Y3, Y4, Y9, Y14)
	POLY_HALF1
	HALF2(Y2, Y7, Y8, Y13, Y3, Y4, Y9, Y14)
	POLY_HALF2
	DECQ CX
	JNZ  mixed

out:
	MOVQ key+40(FP), CX
	MOVQ iv+48(FP), DX
	MOVQ OUT, AX
	FEED(·sigma<>+0(SB), Y0)
	FEED(·sigma<>+4(SB), Y1)
	FEED(·sigma<>+8(SB), Y2)
	FEED(·sigma<>+12(SB), Y3)
	FEED(0(CX), Y4)
	FEED(4(CX), Y5)
	FEED(8(CX), Y6)
	FEED(12(CX), Y7)
	TRANSPOSE(Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y10, 0)
	VMOVDQA V10, Y0
	FEED(16(CX), Y8)
	FEED(20(CX), Y9)
	FEED(24(CX), Y0)
	FEED(28(CX), Y11)
	FEED(CTR, Y12)
	VPADDD ·eight<>(SB), Y12, Y12
	FEED(4(DX), Y13)
	FEED(8(DX), Y14)
	FEED(12(DX), Y15)
	TRANSPOSE(Y8, Y9, Y0, Y11, Y12, Y13, Y14, Y15, Y10, 32)
	CMPL CTR, $0
	JEQ  key

	// A later batch: all of it is for the text.
later:
	CMPQ open+56(FP), $0
	JNE  laterOpen
	MOVQ AX, STREAM
	MOVL $512, CX
	CMPQ n+16(FP), CX
	JBE  last
	JMP  whole

	// The batch before can be written, unless this is the last.
laterOpen:
	MOVQ n+16(FP), DX
	SUBQ PENDING, DX
	MOVQ PENDING, CX
	CMPQ DX, $512
	JA   whole
	JMP  last

	// The first block is the one-time key.
key:
	MOVQ 0(BASE), AX
	MOVQ $0x0ffffffc0fffffff, DX
	ANDQ DX, AX
	MOVQ AX, PR0
	MOVQ 8(BASE), AX
	MOVQ $0x0ffffffc0ffffffc, DX
	ANDQ DX, AX
	MOVQ AX, PR1
	MOVQ AX, DX
	SHRQ $2, DX
	ADDQ DX, AX
	MOVQ AX, PS1
	MOVQ 16(BASE), AX
	MOVQ AX, PK0
	MOVQ 24(BASE), AX
	MOVQ AX, PK1
	XORL H0, H0
	XORL H1, H1
	XORL H2, H2
	XORL CARRY, CARRY

	MOVQ ad+24(FP), HASH
	MOVQ adLen+32(FP), CX
	SHRQ $4, CX
	JZ   adTail
	HASH_BLOCKS(adLoop)

adTail:
	MOVQ adLen+32(FP), CX
	ANDQ $15, CX
	JZ   text
	HASH_TAIL(ad1, ad2, ad4, ad8)

text:
	MOVQ    n+16(FP), DX
	MOVQ    dst+0(FP), HASH
	CMPQ    open+56(FP), $0
	CMOVQNE src+8(FP), HASH
	LEAQ    (HASH)(DX*1), CX
	MOVQ    CX, END
	LEAQ    64(BASE), AX
	MOVQ    AX, STREAM
	CMPQ    DX, $448
	JBE     last
	MOVL    $448, CX
	CMPQ    open+56(FP), $0
	JEQ     whole
	MOVQ    CX, PENDING
	JMP     next

	// CX bytes of text, and more to come.
whole:
	MOVQ STREAM, AX
	MOVQ src+8(FP), D0
	MOVQ dst+0(FP), D1
	MOVQ CX, DX

whole64:
	VMOVDQA (AX), Y0
	VMOVDQA 32(AX), Y1
	VPXOR   (D0), Y0, Y0
	VPXOR   32(D0), Y1, Y1
	VMOVDQU Y0, (D1)
	VMOVDQU Y1, 32(D1)
	ADDQ    $64, AX
	ADDQ    $64, D0
	ADDQ    $64, D1
	SUBQ    $64, DX
	JNZ     whole64
	MOVQ    D0, src+8(FP)
	MOVQ    D1, dst+0(FP)
	MOVQ    n+16(FP), DX
	SUBQ    CX, DX
	MOVQ    DX, n+16(FP)

	CMPQ open+56(FP), $0
	JEQ  nextSeal
	MOVQ OUT, AX
	MOVQ AX, STREAM
	CMPQ DX, $512
	JBE  xor
	MOVQ $512, PENDING

	// Opening, the next batch goes to the other place and hashes what there is.
next:
	LEAQ OTHER(BASE)(BASE*1), AX
	SUBQ OUT, AX
	MOVQ AX, OUT
	MOVQ END, CX
	SUBQ HASH, CX
	SUBQ PENDING, DX

	// CX bytes are there to hash and DX bytes of text are left. A wide batch hashes four
	// blocks in a double round. CX/16/3 = 171·(CX/16) >> 9 for CX/16 < 512.
nextSeal:
	ADDL    $8, CTR
	MOVL    $10, AX
	CMPQ    DX, $256
	JBE     next4
	SHRQ    $6, CX
	CMPQ    CX, AX
	CMOVQHI AX, CX
	MOVQ    CX, FUSED
	JMP     wide

next4:
	SHRQ    $4, CX
	IMUL3Q  $171, CX, CX
	SHRQ    $9, CX
	CMPQ    CX, AX
	CMOVQHI AX, CX
	MOVQ    CX, FUSED
	JMP     rows4

	// No more batches. PENDING bytes from STREAM, the rest from OUT.
last:
	CMPQ open+56(FP), $0
	JNE  hash

xor:
	MOVQ  STREAM, AX
	MOVQ  n+16(FP), CX
	MOVQ  src+8(FP), D0
	MOVQ  dst+0(FP), D1
	MOVQ  CX, DX
	SHRQ  $5, DX
	JZ    xor16

xor32:
	VMOVDQA (AX), Y0
	VPXOR   (D0), Y0, Y0
	VMOVDQU Y0, (D1)
	ADDQ    $32, AX
	ADDQ    $32, D0
	ADDQ    $32, D1
	DECQ    DX
	JNZ     xor32

xor16:
	TESTQ   $16, CX
	JZ      xor8
	VMOVDQA (AX), X0
	VPXOR   (D0), X0, X0
	VMOVDQU X0, (D1)
	ADDQ    $16, AX
	ADDQ    $16, D0
	ADDQ    $16, D1

xor8:
	TESTQ $15, CX
	JZ    xorDone
	TESTQ $8, CX
	JZ    xor4
	MOVQ  (AX), T0
	XORQ  (D0), T0
	MOVQ  T0, (D1)
	ADDQ  $8, AX
	ADDQ  $8, D0
	ADDQ  $8, D1

xor4:
	TESTQ $4, CX
	JZ    xor2
	MOVL  (AX), T0
	XORL  (D0), T0
	MOVL  T0, (D1)
	ADDQ  $4, AX
	ADDQ  $4, D0
	ADDQ  $4, D1

xor2:
	TESTQ $2, CX
	JZ    xor1
	MOVW  (AX), T0
	XORW  (D0), T0
	MOVW  T0, (D1)
	ADDQ  $2, AX
	ADDQ  $2, D0
	ADDQ  $2, D1

xor1:
	TESTQ $1, CX
	JZ    xorDone
	MOVB  (AX), T0
	XORB  (D0), T0
	MOVB  T0, (D1)

xorDone:
	CMPQ open+56(FP), $0
	JNE  done

hash:
	MOVQ END, CX
	SUBQ HASH, CX
	SHRQ $4, CX
	JZ   hashTail
	HASH_BLOCKS(hashLoop)

hashTail:
	MOVQ LEN, CX
	ANDQ $15, CX
	JZ   lengths
	HASH_TAIL(text1, text2, text4, text8)

lengths:
	POLY_ADD(adLen+32(FP), LEN)
	POLY_PRODUCTS1
	POLY_HALF2
	ADDQ CARRY, H0
	ADCQ $0, H1
	ADCQ $0, H2

	// h < 6·2¹²⁸ < 2p, and h >= p when h+5 reaches 2¹³⁰: then h-p = h+5 - 2¹³⁰.
	MOVQ    H0, D0
	MOVQ    H1, D1
	ADDQ    $5, D0
	ADCQ    $0, D1
	ADCQ    $0, H2
	TESTQ   $4, H2
	CMOVQNE D0, H0
	CMOVQNE D1, H1
	ADDQ    PK0, H0
	ADCQ    PK1, H1
	CMPQ    open+56(FP), $0
	JNE     verify
	MOVQ    END, DX
	MOVQ    H0, 0(DX)
	MOVQ    H1, 8(DX)
	JMP     done

verify:
	XORQ TAG0, H0
	XORQ TAG1, H1
	ORQ  H1, H0
	MOVQ H0, differ+64(FP)
	JNZ  done
	MOVQ PENDING, CX
	TESTQ CX, CX
	JNZ  whole
	JMP  xor

done:
	VPXOR   Y0, Y0, Y0
	CMPQ    LEN, $192
	JBE     wipe
	VMOVDQA Y0, 256(BASE)
	VMOVDQA Y0, 288(BASE)
	VMOVDQA Y0, 320(BASE)
	VMOVDQA Y0, 352(BASE)
	VMOVDQA Y0, 384(BASE)
	VMOVDQA Y0, 416(BASE)
	VMOVDQA Y0, 448(BASE)
	VMOVDQA Y0, 480(BASE)
	VMOVDQA Y0, V8
	VMOVDQA Y0, V10
	CMPQ    PENDING, $0
	JEQ     wipe
	VMOVDQA Y0, (OTHER+0)(BASE)
	VMOVDQA Y0, (OTHER+32)(BASE)
	VMOVDQA Y0, (OTHER+64)(BASE)
	VMOVDQA Y0, (OTHER+96)(BASE)
	VMOVDQA Y0, (OTHER+128)(BASE)
	VMOVDQA Y0, (OTHER+160)(BASE)
	VMOVDQA Y0, (OTHER+192)(BASE)
	VMOVDQA Y0, (OTHER+224)(BASE)
	VMOVDQA Y0, (OTHER+256)(BASE)
	VMOVDQA Y0, (OTHER+288)(BASE)
	VMOVDQA Y0, (OTHER+320)(BASE)
	VMOVDQA Y0, (OTHER+352)(BASE)
	VMOVDQA Y0, (OTHER+384)(BASE)
	VMOVDQA Y0, (OTHER+416)(BASE)
	VMOVDQA Y0, (OTHER+448)(BASE)
	VMOVDQA Y0, (OTHER+480)(BASE)

wipe:
	VMOVDQA Y0, 0(BASE)
	VMOVDQA Y0, 32(BASE)
	VMOVDQA Y0, 64(BASE)
	VMOVDQA Y0, 96(BASE)
	VMOVDQA Y0, 128(BASE)
	VMOVDQA Y0, 160(BASE)
	VMOVDQA Y0, 192(BASE)
	VMOVDQA Y0, 224(BASE)
	VMOVDQA Y0, PR0
	VMOVDQA Y0, PK1
	VZEROALL // not VZEROUPPER: a signal after RET would save key stream to the stack; 2 ns
	RET

// func blocksBMI2(m *poly1305, p *byte, n int)
TEXT ·blocksBMI2(SB), NOSPLIT, $24-24
	LEAQ -576(SP), BASE // PR0 is 0(SP)
	MOVQ m+0(FP), DI
	MOVQ p+8(FP), HASH
	MOVQ n+16(FP), CX
	MOVQ 0(DI), H0
	MOVQ 8(DI), H1
	MOVQ 16(DI), H2
	MOVQ 24(DI), AX
	MOVQ AX, PR0
	MOVQ 32(DI), AX
	MOVQ AX, PR1
	MOVQ AX, DX
	SHRQ $2, DX
	ADDQ DX, AX
	MOVQ AX, PS1
	XORL CARRY, CARRY
	HASH_BLOCKS(blocks)
	ADDQ CARRY, H0
	ADCQ $0, H1
	ADCQ $0, H2

	// h2 <= 5; blocksGeneric wants 4.
	MOVQ H2, AX
	SHRQ $2, AX
	ANDQ $3, H2
	LEAQ (AX)(AX*4), AX
	ADDQ AX, H0
	ADCQ $0, H1
	ADCQ $0, H2
	MOVQ m+0(FP), DI
	MOVQ H0, 0(DI)
	MOVQ H1, 8(DI)
	MOVQ H2, 16(DI)
	XORL AX, AX
	MOVQ AX, PR0
	MOVQ AX, PR1
	MOVQ AX, PS1
	RET
