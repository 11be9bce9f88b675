// Registers and rounds of ChaCha20 on MIPS; see chacha20_mipsx.s.

// The state, RFC 8439 §2.3.
#define X0	R1
#define X1	R2
#define X2	R3
#define X3	R4
#define X4	R5
#define X5	R6
#define X6	R7
#define X7	R8
#define X8	R9
#define X9	R10
#define X10	R11
#define X11	R12
#define X12	R13
#define X13	R14
#define X14	R15
#define X15	R16

#define DST	R17
#define SRC	R18
#define KEY	R20
#define COUNTER	R21	// of this block
#define ROUNDS	R22	// counts down; a temporary between blocks
#define T0	R22
#define OUT	R24	// where key stream goes
#define T1	R25

#define ROL2(n, x)	ROTR $(32-n), x

// The assembler fills the delay slot of a branch with a NOP. The slot of these
// does work: they branch to the instruction that n after the slot's, or n before.
#define JUMP(n)		WORD $(0x10000000 | (n))
#define LOOP(nrs, n)	WORD $(0x14000000 | (nrs)<<21 | (0x10000-(n)))
#define nROUNDS	22

// The quarter round, §2.1, from three parts.
#define MIX(ROL, a, d) \
	XOR a, d; \
	ROL(16, d)
#define REST(ROL, a, b, c, d) \
	ADDU d, c; XOR c, b; ROL(12, b); \
	ADDU b, a; XOR a, d; ROL(8, d); \
	ADDU d, c; XOR c, b; ROL(7, b)
#define QUARTER(ROL, a, b, c, d) \
	ADDU b, a; \
	MIX(ROL, a, d); \
	REST(ROL, a, b, c, d)

#define COLUMNS(ROL) \
	QUARTER(ROL, X0, X4, X8, X12); \
	QUARTER(ROL, X1, X5, X9, X13); \
	QUARTER(ROL, X2, X6, X10, X14); \
	QUARTER(ROL, X3, X7, X11, X15)

#define DIAGONALS(ROL) \
	QUARTER(ROL, X0, X5, X10, X15); \
	QUARTER(ROL, X1, X6, X11, X12); \
	QUARTER(ROL, X2, X7, X8, X13); \
	QUARTER(ROL, X3, X4, X9, X14)

// Instructions of a round.
#define ROUND2	48
#define ROUND1	80

// STORE puts word i of the key stream to OUT as a number.
#define STORE(i, x, add) \
	MOVW add, T0; \
	ADDU T0, x; \
	MOVW x, (4*i)(OUT)
