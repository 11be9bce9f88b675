// Registers and arithmetic of Poly1305 on MIPS; see poly1305_mipsx.s.

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

// LOAD2 sets H to the block at P, on release 2. These macros differ between mips
// and mipsle.
#ifdef GOARCH_mips
#define LOAD2 \
	MOVW 0(P), H0; \
	MOVW 4(P), H1; \
	MOVW 8(P), H2; \
	MOVW 12(P), H3; \
	SWAP2(H0); \
	SWAP2(H1); \
	SWAP2(H2); \
	SWAP2(H3)
#define LOAD2_LEN	12
#define SWAP2(x)	WSBH x, x; ROTR $16, x
#define UNALIGNED_LOAD(i, p, x)		MOVWL (i)(p), x; MOVWR (i+3)(p), x
#define UNALIGNED_STORE(x, i, p)	MOVWL x, (i)(p); MOVWR x, (i+3)(p)
#else
#define LOAD2 \
	MOVW 0(P), H0; \
	MOVW 4(P), H1; \
	MOVW 8(P), H2; \
	MOVW 12(P), H3
#define LOAD2_LEN	4
#define SWAP2(x)
#define UNALIGNED_LOAD(i, p, x)		MOVWL (i+3)(p), x; MOVWR (i)(p), x
#define UNALIGNED_STORE(x, i, p)	MOVWL x, (i+3)(p); MOVWR x, (i)(p)
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

// START takes over m, at base; then CLAMP clamps r, unless that has been
// done, and MULTIPLES makes s of it.
#define START(base) \
	MOVW 0(base), D0; \
	MOVW 4(base), D1; \
	MOVW 8(base), D2; \
	MOVW 12(base), D3; \
	MOVW 16(base), TOP; \
	MOVW 20(base), r0; \
	MOVW 24(base), r1; \
	MOVW 28(base), r2; \
	MOVW 32(base), r3

#define CLAMP \
	MOVW $0x0ffffffc, CARRY; \
	OR   $3, CARRY, K; \
	AND  K, r0; \
	AND  CARRY, r1; \
	AND  CARRY, r2; \
	AND  CARRY, r3

#define MULTIPLES \
	MOVW R0, CARRY; \
	MOVW $1, ONE; \
	SRL  $2, r1, s1; \
	SRL  $2, r2, s2; \
	SRL  $2, r3, s3; \
	ADDU r1, s1; \
	ADDU r2, s2; \
	ADDU r3, s3

// END_BLOCKS reduces D, to H4 and D < 5·2¹²⁸.
#define END_BLOCKS \
	REDUCE; \
	ADD(TOP, D0, CARRY); \
	ADD(CARRY, D1, CARRY); \
	ADD(CARRY, D2, CARRY); \
	ADD(CARRY, D3, CARRY); \
	ADDU CARRY, H4

// SUM sets D to the tag, (D mod p) + s mod 2¹²⁸; the address of m is in K. D < 2p, so
// one conditional subtraction is enough: D >= p when D+5 reaches 2¹³⁰, and then
// D-p = D+5 - 2¹³⁰. H4 becomes that bit, CARRY 5 of it.
#define SUM \
	MOVW 36(K), r0; \
	MOVW 40(K), r1; \
	MOVW 44(K), r2; \
	MOVW 48(K), r3; \
	ADDU $5, D0, H0; \
	SGTU $5, H0, CARRY; \
	ADDU CARRY, D1, H1; \
	SGTU CARRY, H1, CARRY; \
	ADDU CARRY, D2, H2; \
	SGTU CARRY, H2, CARRY; \
	ADDU CARRY, D3, H3; \
	SGTU CARRY, H3, CARRY; \
	ADDU CARRY, H4; \
	SRL  $2, H4; \
	SLL  $2, H4, CARRY; \
	ADDU H4, CARRY; \
	ADD(CARRY, D0, CARRY); \
	ADD(CARRY, D1, CARRY); \
	ADD(CARRY, D2, CARRY); \
	ADDU CARRY, D3; \
	ADD(r0, D0, CARRY); \
	ADD_CARRY(r1, D1); \
	ADD_CARRY(r2, D2); \
	ADDU r3, D3; \
	ADDU CARRY, D3
