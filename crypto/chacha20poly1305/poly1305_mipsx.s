// Poly1305 for 32-bit MIPS, both endians: one call makes the tag of an AEAD
// message, padding and lengths included.
//
// ISA:     MIPS32r2 (WSBH, ROTR) or, if r1only, MIPS32 alone.
// Reads:   ad, p and tag any alignment: whole blocks by LW if they are 4-byte
//          aligned, all else by LWL/LWR and bytes; m 4-byte aligned. Unaligned costs
//          1.7 instructions a byte more on mips, 1.1 on mipsle.
// Spec:    RFC 8439 §2.5, §2.8.
// Time:    constant; no branch or address depends on data.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 74Kf, 4Kc (make qemu-test).
//
// Go reserves R23 (assembler temporary: free where no constant or offset is
// large), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego && !wgd_small

// What r1 does its own way, since it has no WSBH and ROTR: on mipsle nothing. (In
// front of the header: the assembler expands macros even in what #else skips.)
#ifdef GOARCH_mips
// LWL and LWR at these addresses load the halves of an aligned word crosswise.
#define LOAD1 \
	MOVWL 2(P), H0; \
	MOVWR 1(P), H0; \
	MOVWL 6(P), H1; \
	MOVWR 5(P), H1; \
	MOVWL 10(P), H2; \
	MOVWR 9(P), H2; \
	MOVWL 14(P), H3; \
	MOVWR 13(P), H3; \
	SWAP_BYTES(H0); \
	SWAP_BYTES(H1); \
	SWAP_BYTES(H2); \
	SWAP_BYTES(H3)
#define LOAD1_LEN	28
#define SWAP_BYTES(x) \
	SRL $8, x, K; \
	AND MASK, x; \
	AND MASK, K; \
	SLL $8, x; \
	OR  K, x
#define CHOOSE_FORM \
	MOVBU r1only+24(FP), K; \
	BNE  K, R0, run1
#define R1_FORM \
	run1: MOVW $0x00ff00ff, MASK; \
	blocks1: LOAD1; \
	BLOCK; \
	LOOP(LOAD1_LEN+BLOCK_LEN+1); \
	ADDU $16, P; \
	JMP  rest
#define PUT(i, x) \
	MOVB x, (i)(P); \
	SRL  $8, x, K; \
	MOVB K, (i+1)(P); \
	SRL  $16, x, K; \
	MOVB K, (i+2)(P); \
	SRL  $24, x, K; \
	MOVB K, (i+3)(P)
#define TAKE_BLOCK \
	MOVW H0, 0(P); \
	MOVW H1, 4(P); \
	MOVW H2, 8(P); \
	MOVW H3, 12(P); \
	JMP  run
#else
#define CHOOSE_FORM
#define R1_FORM
#define PUT(i, x)	UNALIGNED_STORE(x, i, P)
#define TAKE_BLOCK	JMP loaded
#endif

#include "textflag.h"
#include "poly1305_mipsx.h"

// The frame: a block put together, and what is being read: 2, additional data;
// 1, text; 0, lengths, or text without a tag.
#define BUFFER		block-20(SP)
#define SECTION		section-4(SP)

// func poly1305MIPS(m *poly1305x32, tag *[16]byte, ad *byte, adLen int, p *byte, n int, r1only bool)
TEXT ·poly1305MIPS(SB), NOSPLIT, $20-25
	MOVW m+0(FP), K
	START(K)
	CLAMP
	MULTIPLES
	MOVW tag+4(FP), K
	BEQ  K, R0, text
	MOVW $2, K
	MOVW ad+8(FP), NEXT
	MOVW adLen+12(FP), LEFT
	JMP  section
text:
	MOVW p+16(FP), NEXT
	MOVW n+20(FP), LEFT

section:
	MOVW K, SECTION
	AND  $3, NEXT, K
	BNE  K, R0, rest
	SRL  $4, LEFT, K
	BEQ  K, R0, rest
	SLL  $4, K
	MOVW NEXT, P
	ADDU K, NEXT
	AND  $15, LEFT
	ADDU $-16, NEXT, END
	JMP  run

// The rest of a section is put together block by block.
rest:
	BEQ  LEFT, R0, end
	MOVW $BUFFER, P
	MOVW P, END
	ADDU $-16, LEFT, K
	BLTZ K, short
	MOVW K, LEFT
	UNALIGNED_LOAD(0, NEXT, H0)
	UNALIGNED_LOAD(4, NEXT, H1)
	UNALIGNED_LOAD(8, NEXT, H2)
	UNALIGNED_LOAD(12, NEXT, H3)
	ADDU $16, NEXT
	TAKE_BLOCK

#define TO	H0
#define LIMIT	H1
#define X	H2
short:
	MOVW R0, 0(P)
	MOVW R0, 4(P)
	MOVW R0, 8(P)
	MOVW R0, 12(P)
	SRL  $2, LEFT, LIMIT
	SLL  $2, LIMIT
	ADDU P, LIMIT
	MOVW P, TO
	BEQ  TO, LIMIT, bytes
word:
	UNALIGNED_LOAD(0, NEXT, X)
	ADDU $4, NEXT
	MOVW X, (TO)
	ADDU $4, TO
	BNE  TO, LIMIT, word
bytes:
	AND  $3, LEFT
	BEQ  LEFT, R0, run
byte:
	MOVBU (NEXT), X
	ADDU $-1, LEFT
	MOVB X, (TO)
	ADDU $1, NEXT
	ADDU $1, TO
	BNE  LEFT, R0, byte

run:
	CHOOSE_FORM
blocks2:
	LOAD2
loaded:
	BLOCK
	LOOP(LOAD2_LEN+BLOCK_LEN+1)
	ADDU $16, P // in the delay slot
	JMP  rest

	R1_FORM

end:
	MOVW SECTION, K
	BEQ  K, R0, finish
	ADDU $-1, K
	BNE  K, R0, text
	MOVW K, SECTION
	MOVW adLen+12(FP), H0
	MOVW R0, H1
	MOVW n+20(FP), H2
	MOVW R0, H3
	MOVW END, P
	JMP  loaded

finish:
	END_BLOCKS
	MOVW tag+4(FP), P
	MOVW m+0(FP), K
	BNE  P, R0, sum
	MOVW D0, 0(K)
	MOVW D1, 4(K)
	MOVW D2, 8(K)
	MOVW D3, 12(K)
	MOVW H4, 16(K)
	RET

sum:
	SUM
	PUT(0, D0)
	PUT(4, D1)
	PUT(8, D2)
	PUT(12, D3)
	RET
