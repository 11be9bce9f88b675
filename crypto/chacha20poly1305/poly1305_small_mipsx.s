// Poly1305 for 32-bit MIPS, both endians, in little text: whole blocks.
//
// ISA:     MIPS32r2 (WSBH, ROTR) or, if r1only, MIPS32 alone.
// Reads:   p at any alignment, by LWL and LWR; m 4-byte aligned.
// Spec:    RFC 8439 §2.5.
// Time:    constant; no branch or address depends on data.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 4Kc (make qemu-test).
//
// Go reserves R23 (assembler temporary: free where no constant or offset is
// large), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego && wgd_small

// BLOCK_START sets H to the block at P. The branches over the other release's form
// are numbers, so that their delay slots do work. (In front of the header: the
// assembler expands macros even in what #else skips.)
#ifdef GOARCH_mips
#define ORDER_START \
	MOVBU r1only+12(FP), R1ONLY; \
	MOVW $0x00ff00ff, MASK
#define SWAP1(x) \
	SRL $8, x, K; \
	AND MASK, x; \
	AND MASK, K; \
	SLL $8, x; \
	OR  K, x; \
	SRL $16, x, K; \
	SLL $16, x
#define BLOCK_START \
	UNALIGNED_LOAD(0, P, H0); \
	UNALIGNED_LOAD(4, P, H1); \
	UNALIGNED_LOAD(8, P, H2); \
	MOVWL 12(P), H3; \
	WORD $0x12c00022; /* BEQ R1ONLY, R0, to SWAP2 */ \
	MOVWR 15(P), H3; \
	SWAP1(H0); \
	OR K, H0; \
	SWAP1(H1); \
	OR K, H1; \
	SWAP1(H2); \
	OR K, H2; \
	SWAP1(H3); \
	WORD $0x10000009; /* behind SWAP2 */ \
	OR K, H3; \
	SWAP2(H0); \
	SWAP2(H1); \
	SWAP2(H2); \
	SWAP2(H3)
#define BLOCK_START_LEN	50
#else
#define ORDER_START
#define BLOCK_START \
	UNALIGNED_LOAD(0, P, H0); \
	UNALIGNED_LOAD(4, P, H1); \
	UNALIGNED_LOAD(8, P, H2); \
	UNALIGNED_LOAD(12, P, H3)
#define BLOCK_START_LEN	8
#endif

#include "textflag.h"
#include "poly1305_mipsx.h"

#define R1ONLY	R22
#define M	R24

// func poly1305MIPS(m *poly1305x32, p *byte, n int, r1only bool)
//
// r is clamped, n > 0 a multiple of 16.
TEXT ·poly1305MIPS(SB), NOSPLIT, $0-13
	MOVW m+0(FP), M
	START(M)
	MULTIPLES
	MOVW p+4(FP), P
	MOVW n+8(FP), END
	ADDU P, END
	ADDU $-16, END
	ORDER_START

blocks:
	BLOCK_START
	BLOCK
	LOOP(BLOCK_START_LEN+BLOCK_LEN+1)
	ADDU $16, P // in the delay slot

	END_BLOCKS
	MOVW D0, 0(M)
	MOVW D1, 4(M)
	MOVW D2, 8(M)
	MOVW D3, 12(M)
	MOVW H4, 16(M)
	RET
