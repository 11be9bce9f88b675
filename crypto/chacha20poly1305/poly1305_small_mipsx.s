// Poly1305 for 32-bit MIPS, both endians, in little text: one call makes the tag of an AEAD
// message, padding and lengths included.
//
// ISA:     MIPS32r2 (WSBH, ROTR).
// Reads:   ad, p and tag any alignment: whole blocks by LW if they are 4-byte
//          aligned, all else by LWL/LWR and bytes; m 4-byte aligned.
// Spec:    RFC 8439 §2.5, §2.8.
// Time:    constant; no branch or address depends on data.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 74Kf, 4Kc (make qemu-test).
//
// Go reserves R23 (assembler temporary: free where no constant or offset is
// large), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego && wgd_small

#include "textflag.h"
#include "poly1305_mipsx.h"

// The frame: a block put together, and what is being read: 2, additional data;
// 1, text; 0, lengths, or text without a tag.
#define BUFFER		block-20(SP)
#define SECTION		section-4(SP)

// func poly1305MIPS(m *poly1305x32, tag *[16]byte, ad *byte, adLen int, p *byte, n int, r1only bool)
TEXT ·poly1305MIPS(SB), NOSPLIT, $20-25
	MOVW m+0(FP), K
	START
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
#define TAKE	H0
#define TO	H1
#define LIMIT	H2
#define X	H3
	MOVW $BUFFER, P
	MOVW P, END
	MOVW P, TO
	MOVW R0, 0(P)
	MOVW R0, 4(P)
	MOVW R0, 8(P)
	MOVW R0, 12(P)
	MOVW $16, TAKE
	SUBU TAKE, LEFT
	BGEZ LEFT, take
	ADDU LEFT, TAKE
	MOVW R0, LEFT
take:
	SRL  $2, TAKE, LIMIT
	SLL  $2, LIMIT
	ADDU P, LIMIT
	BEQ  TO, LIMIT, bytes
word:
	UNALIGNED_LOAD(0, NEXT, X)
	ADDU $4, NEXT
	MOVW X, (TO)
	ADDU $4, TO
	BNE  TO, LIMIT, word
bytes:
	AND  $3, TAKE
	BEQ  TAKE, R0, run
byte:
	MOVBU (NEXT), X
	ADDU $-1, TAKE
	MOVB X, (TO)
	ADDU $1, NEXT
	ADDU $1, TO
	BNE  TAKE, R0, byte

run:
blocks2:
	LOAD2
lengths:
	BLOCK
	LOOP(LOAD2_LEN+BLOCK_LEN+1)
	ADDU $16, P // in the delay slot
	JMP  rest

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
	SWAP2(D0)
	SWAP2(D1)
	SWAP2(D2)
	SWAP2(D3)
	UNALIGNED_STORE(D0, 0, P)
	UNALIGNED_STORE(D1, 4, P)
	UNALIGNED_STORE(D2, 8, P)
	UNALIGNED_STORE(D3, 12, P)
	RET
