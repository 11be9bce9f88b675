// Poly1305 for 32-bit MIPS, both endians: one call makes the tag of an AEAD
// message, padding and lengths included.
//
// ISA:     MIPS32r2 (WSBH, ROTR) or, if r1only, MIPS32 alone.
// Reads:   ad, p and tag any alignment: whole blocks by LW if they are 4-byte
//          aligned, all else by LWL/LWR and bytes; m 4-byte aligned.
// Spec:    RFC 8439 §2.5, §2.8.
// Time:    constant; no branch or address depends on data.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 74Kf, 4Kc (make qemu-test).
//
// Go reserves R23 (assembler temporary: free where no constant or offset is
// large), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego && !wgd_small

#include "textflag.h"

// Names are of registers; the numbers are for MADDU, which the assembler lacks.
#define H0	R1
#define H1	R2
#define H2	R3
#define H3	R4
#define H4	R5
#define r0	R6
#define r1	R7
#define r2	R8
#define r3	R9
#define s1	R10	// 5/4·r1, and so on
#define s2	R11
#define s3	R12
#define ONE	R13
#define CARRY	R14
#define D0	R15
#define D1	R16
#define D2	R17
#define D3	R18
#define TOP	R19	// D4 without the carry from D3
#define P	R20
#define END	R21	// the last block
#define NEXT	R22	// the rest of the section: address
#define LEFT	R24	//  and length
#define K	R25
#define MASK	R23	// 0x00ff00ff, for the byte order of r1

#define nH0	1
#define nH1	2
#define nH2	3
#define nH3	4
#define nH4	5
#define nr0	6
#define nr1	7
#define nr2	8
#define nr3	9
#define ns1	10
#define ns2	11
#define ns3	12
#define nONE	13
#define nCARRY	14

// HI:LO += rs·rt, unsigned; in MIPS32 since r1.
#define MADDU(rs, rt)	WORD $(0x70000001 | (rs)<<21 | (rt)<<16)

// The assembler fills the delay slot of a branch with a NOP. This one, BNE P, END,
// goes back to the instruction that is n before the slot's, which does work.
#define LOOP(n)	WORD $(0x16950000 | (0x10000-(n)))

// LOAD sets H to the block at P. These macros are the only lines that differ
// between mips and mipsle, where r1 does as well as r2.
#ifdef GOARCH_mips
#define LOAD2 \
	MOVW 0(P), H0; \
	MOVW 4(P), H1; \
	MOVW 8(P), H2; \
	MOVW 12(P), H3; \
	WSBH H0, H0; \
	WSBH H1, H1; \
	WSBH H2, H2; \
	WSBH H3, H3; \
	ROTR $16, H0; \
	ROTR $16, H1; \
	ROTR $16, H2; \
	ROTR $16, H3
#define LOAD2_LEN	12
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
#define SWAP_BYTES(x) \
	SRL $8, x, K; \
	AND MASK, x; \
	AND MASK, K; \
	SLL $8, x; \
	OR  K, x
#define UNALIGNED_LOAD(i, p, x)	MOVWL (i)(p), x; MOVWR (i+3)(p), x
#define CHOOSE	MOVBU r1only+24(FP), K; BNE K, R0, run1
#define R1_FORM \
	run1: MOVW $0x00ff00ff, MASK; \
	blocks1: LOAD1; \
	BLOCK; \
	LOOP(28+BLOCK_LEN+1); \
	ADDU $16, P; \
	JMP  rest
#else
#define LOAD2 \
	MOVW 0(P), H0; \
	MOVW 4(P), H1; \
	MOVW 8(P), H2; \
	MOVW 12(P), H3
#define LOAD2_LEN	4
#define UNALIGNED_LOAD(i, p, x)	MOVWL (i+3)(p), x; MOVWR (i)(p), x
#define CHOOSE
#define R1_FORM
#endif

// BLOCK takes D, the columns of the product before, and H, the block at P:
// H = D mod p + H + 2¹²⁸, then D = H·r.
//
// r[i] < 2²⁸ and s[i] < 1.25·2²⁸, since r[1], r[2], r[3] are multiples of 4.
//
// REDUCE: 2¹³⁰ = 5 (mod p), so with D4 = 4q + H4 the top comes back as 5q = 4q + q.
// D4 <= 10·2²⁸ + 2 (below), so 5q < 12.6·2²⁸ < 2³².
//
// Sum: three words and no carry, or two words and a carry of at most 2, leave a
// carry of at most 2. H4 <= 3 + 2 + 1, the bit above the block: 6.
//
// Columns: a product of words is < 1.25·2⁶⁰ and H4·s[i] < 7.5·2²⁸, so a column of
// four, H4's and the carry, a word, is < 5·2⁶⁰ + 2³³ < 2⁶³. The last one has
// products of r[i] alone but for H4's: its carry is <= 4·2²⁸ + 1, and with TOP =
// H4·r0 < 6·2²⁸, D4 <= 10·2²⁸ + 1.
//
// MFHI takes 5 cycles: the carry goes into the next column last, and the next
// block is loaded before D4 is made.
#define REDUCE \
	ADDU CARRY, TOP; \
	SRL  $2, TOP, K; \
	AND  $3, TOP, H4; \
	SUBU H4, TOP; \
	ADDU K, TOP

#define ADD(x, h, carry) \
	ADDU x, h; \
	SGTU x, h, carry
#define ADD_CARRY(x, h) \
	ADD(x, h, K); \
	ADD(CARRY, h, CARRY); \
	ADDU K, CARRY

#define BLOCK \
	REDUCE; \
	ADD(D0, H0, K); \
	ADD(TOP, H0, CARRY); \
	ADDU K, CARRY; \
	ADD_CARRY(D1, H1); \
	ADD_CARRY(D2, H2); \
	ADD_CARRY(D3, H3); \
	ADDU CARRY, H4; \
	ADDU $1, H4; \
	MUL  H4, r0, TOP; \
	MULU H0, r0; \
	MADDU(nH1, ns3); \
	MADDU(nH2, ns2); \
	MADDU(nH3, ns1); \
	MOVW LO, D0; \
	MOVW HI, CARRY; \
	MULU H0, r1; \
	MADDU(nH1, nr0); \
	MADDU(nH2, ns3); \
	MADDU(nH3, ns2); \
	MADDU(nH4, ns1); \
	MADDU(nCARRY, nONE); \
	MOVW LO, D1; \
	MOVW HI, CARRY; \
	MULU H0, r2; \
	MADDU(nH1, nr1); \
	MADDU(nH2, nr0); \
	MADDU(nH3, ns3); \
	MADDU(nH4, ns2); \
	MADDU(nCARRY, nONE); \
	MOVW LO, D2; \
	MOVW HI, CARRY; \
	MULU H0, r3; \
	MADDU(nH1, nr2); \
	MADDU(nH2, nr1); \
	MADDU(nH3, nr0); \
	MADDU(nH4, ns3); \
	MADDU(nCARRY, nONE); \
	MOVW LO, D3; \
	MOVW HI, CARRY
#define BLOCK_LEN	58

// The frame: a block put together, and what is being read: 2, additional data;
// 1, text; 0, lengths, or text without a tag.
#define BUFFER		block-20(SP)
#define SECTION		section-4(SP)

// func poly1305MIPS(m *poly1305x32, tag *[16]byte, ad *byte, adLen int, p *byte, n int, r1only bool)
TEXT ·poly1305MIPS(SB), NOSPLIT, $20-25
	MOVW m+0(FP), K
	MOVW 0(K), D0
	MOVW 4(K), D1
	MOVW 8(K), D2
	MOVW 12(K), D3
	MOVW 16(K), TOP
	MOVW 20(K), r0
	MOVW 24(K), r1
	MOVW 28(K), r2
	MOVW 32(K), r3
	MOVW $0x0ffffffc, CARRY
	OR   $3, CARRY, K
	AND  K, r0
	AND  CARRY, r1
	AND  CARRY, r2
	AND  CARRY, r3
	MOVW R0, CARRY
	MOVW $1, ONE
	SRL  $2, r1, s1
	SRL  $2, r2, s2
	SRL  $2, r3, s3
	ADDU r1, s1
	ADDU r2, s2
	ADDU r3, s3
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
	MOVW H0, 0(P)
	MOVW H1, 4(P)
	MOVW H2, 8(P)
	MOVW H3, 12(P)
	JMP  run

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
	CHOOSE
blocks2:
	LOAD2
lengths:
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
	JMP  lengths

finish:
	REDUCE
	ADD(TOP, D0, CARRY)
	ADD(CARRY, D1, CARRY)
	ADD(CARRY, D2, CARRY)
	ADD(CARRY, D3, CARRY)
	ADDU CARRY, H4 // <= 4
	MOVW tag+4(FP), P
	MOVW m+0(FP), K
	BNE  P, R0, sum
	MOVW D0, 0(K)
	MOVW D1, 4(K)
	MOVW D2, 8(K)
	MOVW D3, 12(K)
	MOVW H4, 16(K)
	RET

// H = D < 5·2¹²⁸ < 2p, so one conditional subtraction is enough: H >= p when H+5
// reaches 2¹³⁰, and then H-p = H+5 - 2¹³⁰.
sum:
	MOVW 36(K), r0
	MOVW 40(K), r1
	MOVW 44(K), r2
	MOVW 48(K), r3
	ADDU $5, D0, H0
	SGTU $5, H0, CARRY
	ADDU CARRY, D1, H1
	SGTU CARRY, H1, CARRY
	ADDU CARRY, D2, H2
	SGTU CARRY, H2, CARRY
	ADDU CARRY, D3, H3
	SGTU CARRY, H3, CARRY
	ADDU CARRY, H4
	SRL  $2, H4 // 0 or 1
	SLL  $2, H4, CARRY
	ADDU H4, CARRY // 0 or 5
	ADD(CARRY, D0, CARRY)
	ADD(CARRY, D1, CARRY)
	ADD(CARRY, D2, CARRY)
	ADDU CARRY, D3

	// + s mod 2¹²⁸
	ADD(r0, D0, CARRY)
	ADD_CARRY(r1, D1)
	ADD_CARRY(r2, D2)
	ADDU r3, D3
	ADDU CARRY, D3

#define PUT(i, x) \
	MOVB x, (i)(P); \
	SRL  $8, x, K; \
	MOVB K, (i+1)(P); \
	SRL  $16, x, K; \
	MOVB K, (i+2)(P); \
	SRL  $24, x, K; \
	MOVB K, (i+3)(P)
	PUT(0, D0)
	PUT(4, D1)
	PUT(8, D2)
	PUT(12, D3)
	RET
