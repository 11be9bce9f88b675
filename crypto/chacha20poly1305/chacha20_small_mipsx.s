// ChaCha20 for 32-bit MIPS, both endians, in little text: one call makes the
// one-time key of Poly1305 and the key stream XOR of a whole message, tail
// included.
//
// ISA:     MIPS32r2 (ROTR, WSBH).
// Reads:   dst, src any alignment, by LWL/LWR and bytes; m, key, iv 4-byte aligned.
// Spec:    RFC 8439 §2.3, §2.4, §2.6.
// Time:    constant; no branch or address depends on data.
// Secrets: the frame holds key stream; it is wiped once used, since that of
//          HChaCha20 is a key.
// Tested:  qemu-mips and qemu-mipsel -cpu 24Kc, 74Kf (make qemu-test).
//
// Go reserves R23 (assembler temporary: free where no constant or offset is
// large), R28 (SB), R29 (SP), R30 (g), R31 (LR).

//go:build (mips || mipsle) && !purego && wgd_small

#include "textflag.h"
#include "chacha20_mipsx.h"

#define IV	R19
#define LEFT	R23	// bytes of src
#define STREAM	stream-64(SP)

// These macros are the only lines that differ between mips and mipsle.
#ifdef GOARCH_mips
#define SWAP2(x)	WSBH x, x; ROTR $16, x
#define UNALIGNED_LOAD(p, x)	MOVWL 0(p), x; MOVWR 3(p), x
#define UNALIGNED_STORE(x, p)	MOVWL x, 0(p); MOVWR x, 3(p)
#else
#define SWAP2(x)
#define UNALIGNED_LOAD(p, x)	MOVWL 3(p), x; MOVWR 0(p), x
#define UNALIGNED_STORE(x, p)	MOVWL x, 3(p); MOVWR x, 0(p)
#endif

// func chacha20MIPS(m *poly1305x32, dst, src *byte, n int, key *[8]uint32, iv *[4]uint32, r1only bool)
TEXT ·chacha20MIPS(SB), NOSPLIT, $64-25
	MOVW dst+4(FP), DST
	MOVW src+8(FP), SRC
	MOVW n+12(FP), LEFT
	MOVW key+16(FP), KEY
	MOVW iv+20(FP), IV
	MOVW m+0(FP), OUT
	MOVW (IV), COUNTER
	BEQ  OUT, R0, next
	ADDU $20, OUT // m.r and m.s
	JMP  block

next:
	BEQ  LEFT, R0, done
	MOVW $STREAM, OUT
block:
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
	MOVW $9, ROUNDS
	COLUMNS(ROL2)
	DIAGONALS(ROL2)
	LOOP(nROUNDS, 2*ROUND2+1)
	ADDU $-1, ROUNDS // in the delay slot
	STORE(0, X0, $0x61707865)
	STORE(1, X1, $0x3320646e)
	STORE(2, X2, $0x79622d32)
	STORE(3, X3, $0x6b206574)
	STORE(4, X4, 0(KEY))
	STORE(5, X5, 4(KEY))
	STORE(6, X6, 8(KEY))
	STORE(7, X7, 12(KEY))
	MOVW $STREAM, X1
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
	MOVW $64, TAKE
	SUBU TAKE, LEFT
	BGEZ LEFT, words
	ADDU LEFT, TAKE
	MOVW R0, LEFT
words:
	SRL  $2, TAKE, LIMIT
	BEQ  LIMIT, R0, bytes
	SLL  $2, LIMIT
	ADDU OUT, LIMIT
word:
	MOVW (OUT), W
	UNALIGNED_LOAD(SRC, V)
	SWAP2(W)
	XOR  V, W
	UNALIGNED_STORE(W, DST)
	MOVW R0, (OUT)
	ADDU $4, SRC
	ADDU $4, DST
	ADDU $4, OUT
	BNE  OUT, LIMIT, word
bytes:
	AND  $3, TAKE
	BEQ  TAKE, R0, next
	MOVW (OUT), W
	MOVW R0, (OUT)
byte:
	MOVBU (SRC), V
	ADDU $-1, TAKE
	XOR  W, V
	MOVB V, (DST)
	SRL  $8, W
	ADDU $1, SRC
	ADDU $1, DST
	BNE  TAKE, R0, byte
	JMP  next

done:
	RET
