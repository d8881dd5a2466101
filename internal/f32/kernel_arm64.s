//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// The micro-kernel for NEON: tiles of up to 6 rows of 16 columns, row i in
// V(4i) to V(4i+3). Each step of k loads a row of B into V24 to V27 and
// broadcasts a column of A, element by element, into V28 or V29.
//
// The assembler knows no multiplication or addition of vectors, only the fused
// VFMLA. x*y is -0 + x*y and x+y is x + 1*y, with the same rounding and signs.

// SETUP loads what does not change from tile to tile, strides in bytes, and has
// denormals count as 0 (FPCR.FZ) if they are to. Then FPSR.UFC says whether a result became
// 0 that way.
#define SETUP \
	MOVD call+0(FP), R0            \
	MOVD call_k(R0), R1            \
	MOVD call_tiles(R0), R2        \
	MOVD call_a(R0), R3            \
	MOVD call_aRow(R0), R4         \
	MOVD call_aStep(R0), R5        \
	MOVD call_aTile(R0), R6        \
	MOVD call_b(R0), R7            \
	MOVD call_bStep(R0), R8        \
	MOVD call_packed(R0), R9       \
	MOVD call_next(R0), R10        \
	MOVD call_nextStep(R0), R11    \
	MOVD call_c(R0), R12           \
	MOVD call_cRow(R0), R13        \
	MOVBU call_add(R0), R14        \
	LSL  $2, R4                    \
	LSL  $2, R5                    \
	LSL  $2, R6                    \
	LSL  $2, R8                    \
	LSL  $2, R11                   \
	LSL  $2, R13                   \
	MOVBU call_flush(R0), R16      \
	CBZ  R16, tile                 \
	MRS  FPCR, R26                 \
	ORR  $(1<<24), R26, R16        \
	MSR  R16, FPCR                 \
	MSR  ZR, FPSR

// FINISH sets back what SETUP has set, tells whether there was an underflow, and returns.
#define FINISH \
	MOVBU call_flush(R0), R16 \
	CBZ   R16, return         \
	MRS   FPSR, R16           \
	LSR   $3, R16             \
	AND   $1, R16             \
	MOVB  R16, call_tiny(R0)  \
	MSR   R26, FPCR           \
return:                       \
	RET

// START begins a tile: b and k from the beginning.
#define START \
	MOVD R7, R25 \
	MOVD R1, R15

// B loads a row of B and asks for one of the next panel.
#define LOADB \
	PRFM (R10), PLDL2KEEP                          \
	ADD  R11, R10                                  \
	VLD1 (R25), [V24.S4, V25.S4, V26.S4, V27.S4]   \
	ADD  R8, R25

// KEEP packs the row of B.
#define KEEP \
	VST1.P [V24.S4, V25.S4, V26.S4, V27.S4], 64(R9)

// PACKED has the tiles after the first read B where that one packed it, and ask
// for no more of the next panel.
#define PACKED \
	MOVD call_packed(R0), R7 \
	MOVD $64, R8             \
	MOVD ZR, R9              \
	MOVD ZR, R11

#define ZERO(a, b, c, d) \
	VEOR a.B16, a.B16, a.B16 \
	VEOR b.B16, b.B16, b.B16 \
	VEOR c.B16, c.B16, c.B16 \
	VEOR d.B16, d.B16, d.B16

// MADD adds one element of A, at p, times the row of B to a row of the tile.
#define MADD(p, s, a, b, c, d) \
	VLD1R.P (p)(R5), [s.S4]        \
	VFMLA   V24.S4, s.S4, a.S4     \
	VFMLA   V25.S4, s.S4, b.S4     \
	VFMLA   V26.S4, s.S4, c.S4     \
	VFMLA   V27.S4, s.S4, d.S4

// CONSTANTS puts alpha into V24, -0 into V25 and 1 into V26.
#define CONSTANTS \
	MOVWU call_alpha(R0), R15 \
	VDUP  R15, V24.S4         \
	MOVD  $0x80000000, R15    \
	VDUP  R15, V25.S4         \
	MOVD  $0x3f800000, R15    \
	VDUP  R15, V26.S4

#define TIMES(a) \
	VMOV  V25.B16, V27.B16        \
	VFMLA V24.S4, a.S4, V27.S4    \
	VMOV  V27.B16, a.B16

#define SCALE(a, b, c, d) \
	TIMES(a) \
	TIMES(b) \
	TIMES(c) \
	TIMES(d)

#define STORE(a, b, c, d) \
	VST1 [a.S4, b.S4, c.S4, d.S4], (R12) \
	ADD  R13, R12

// ADDTO adds a row of the tile to C.
#define ADDTO(a, b, c, d) \
	VLD1  (R12), [V28.S4, V29.S4, V30.S4, V31.S4] \
	VFMLA V26.S4, a.S4, V28.S4                    \
	VFMLA V26.S4, b.S4, V29.S4                    \
	VFMLA V26.S4, c.S4, V30.S4                    \
	VFMLA V26.S4, d.S4, V31.S4                    \
	VST1  [V28.S4, V29.S4, V30.S4, V31.S4], (R12) \
	ADD   R13, R12

// func neon16x6(call *int)
TEXT ·neon16x6(SB), NOSPLIT, $0-8
	SETUP

tile:
	START
	MOVD R3, R19
	ADD  R4, R19, R20
	ADD  R4, R20, R21
	ADD  R4, R21, R22
	ADD  R4, R22, R23
	ADD  R4, R23, R24
	ZERO(V0, V1, V2, V3)
	ZERO(V4, V5, V6, V7)
	ZERO(V8, V9, V10, V11)
	ZERO(V12, V13, V14, V15)
	ZERO(V16, V17, V18, V19)
	ZERO(V20, V21, V22, V23)
	CBZ  R9, loop

first:
	LOADB
	KEEP
	MADD(R19, V28, V0, V1, V2, V3)
	MADD(R20, V29, V4, V5, V6, V7)
	MADD(R21, V28, V8, V9, V10, V11)
	MADD(R22, V29, V12, V13, V14, V15)
	MADD(R23, V28, V16, V17, V18, V19)
	MADD(R24, V29, V20, V21, V22, V23)
	SUBS $1, R15
	BNE  first
	PACKED
	B    scale

loop:
	LOADB
	MADD(R19, V28, V0, V1, V2, V3)
	MADD(R20, V29, V4, V5, V6, V7)
	MADD(R21, V28, V8, V9, V10, V11)
	MADD(R22, V29, V12, V13, V14, V15)
	MADD(R23, V28, V16, V17, V18, V19)
	MADD(R24, V29, V20, V21, V22, V23)
	SUBS $1, R15
	BNE  loop

scale:
	CONSTANTS
	SCALE(V0, V1, V2, V3)
	SCALE(V4, V5, V6, V7)
	SCALE(V8, V9, V10, V11)
	SCALE(V12, V13, V14, V15)
	SCALE(V16, V17, V18, V19)
	SCALE(V20, V21, V22, V23)
	CBNZ R14, add
	STORE(V0, V1, V2, V3)
	STORE(V4, V5, V6, V7)
	STORE(V8, V9, V10, V11)
	STORE(V12, V13, V14, V15)
	STORE(V16, V17, V18, V19)
	STORE(V20, V21, V22, V23)
	B    done

add:
	ADDTO(V0, V1, V2, V3)
	ADDTO(V4, V5, V6, V7)
	ADDTO(V8, V9, V10, V11)
	ADDTO(V12, V13, V14, V15)
	ADDTO(V16, V17, V18, V19)
	ADDTO(V20, V21, V22, V23)

done:
	ADD  R6, R3
	SUBS $1, R2
	BNE  tile
	FINISH

// func neon16x4(call *int)
TEXT ·neon16x4(SB), NOSPLIT, $0-8
	SETUP

tile:
	START
	MOVD R3, R19
	ADD  R4, R19, R20
	ADD  R4, R20, R21
	ADD  R4, R21, R22
	ZERO(V0, V1, V2, V3)
	ZERO(V4, V5, V6, V7)
	ZERO(V8, V9, V10, V11)
	ZERO(V12, V13, V14, V15)
	CBZ  R9, loop

first:
	LOADB
	KEEP
	MADD(R19, V28, V0, V1, V2, V3)
	MADD(R20, V29, V4, V5, V6, V7)
	MADD(R21, V28, V8, V9, V10, V11)
	MADD(R22, V29, V12, V13, V14, V15)
	SUBS $1, R15
	BNE  first
	PACKED
	B    scale

loop:
	LOADB
	MADD(R19, V28, V0, V1, V2, V3)
	MADD(R20, V29, V4, V5, V6, V7)
	MADD(R21, V28, V8, V9, V10, V11)
	MADD(R22, V29, V12, V13, V14, V15)
	SUBS $1, R15
	BNE  loop

scale:
	CONSTANTS
	SCALE(V0, V1, V2, V3)
	SCALE(V4, V5, V6, V7)
	SCALE(V8, V9, V10, V11)
	SCALE(V12, V13, V14, V15)
	CBNZ R14, add
	STORE(V0, V1, V2, V3)
	STORE(V4, V5, V6, V7)
	STORE(V8, V9, V10, V11)
	STORE(V12, V13, V14, V15)
	B    done

add:
	ADDTO(V0, V1, V2, V3)
	ADDTO(V4, V5, V6, V7)
	ADDTO(V8, V9, V10, V11)
	ADDTO(V12, V13, V14, V15)

done:
	ADD  R6, R3
	SUBS $1, R2
	BNE  tile
	FINISH

// func neon16x2(call *int)
TEXT ·neon16x2(SB), NOSPLIT, $0-8
	SETUP

tile:
	START
	MOVD R3, R19
	ADD  R4, R19, R20
	ZERO(V0, V1, V2, V3)
	ZERO(V4, V5, V6, V7)
	CBZ  R9, loop

first:
	LOADB
	KEEP
	MADD(R19, V28, V0, V1, V2, V3)
	MADD(R20, V29, V4, V5, V6, V7)
	SUBS $1, R15
	BNE  first
	PACKED
	B    scale

loop:
	LOADB
	MADD(R19, V28, V0, V1, V2, V3)
	MADD(R20, V29, V4, V5, V6, V7)
	SUBS $1, R15
	BNE  loop

scale:
	CONSTANTS
	SCALE(V0, V1, V2, V3)
	SCALE(V4, V5, V6, V7)
	CBNZ R14, add
	STORE(V0, V1, V2, V3)
	STORE(V4, V5, V6, V7)
	B    done

add:
	ADDTO(V0, V1, V2, V3)
	ADDTO(V4, V5, V6, V7)

done:
	ADD  R6, R3
	SUBS $1, R2
	BNE  tile
	FINISH

// func neon16x1(call *int)
TEXT ·neon16x1(SB), NOSPLIT, $0-8
	SETUP

tile:
	START
	MOVD R3, R19
	ZERO(V0, V1, V2, V3)
	CBZ  R9, loop

first:
	LOADB
	KEEP
	MADD(R19, V28, V0, V1, V2, V3)
	SUBS $1, R15
	BNE  first
	PACKED
	B    scale

loop:
	LOADB
	MADD(R19, V28, V0, V1, V2, V3)
	SUBS $1, R15
	BNE  loop

scale:
	CONSTANTS
	SCALE(V0, V1, V2, V3)
	CBNZ R14, add
	STORE(V0, V1, V2, V3)
	B    done

add:
	ADDTO(V0, V1, V2, V3)

done:
	ADD  R6, R3
	SUBS $1, R2
	BNE  tile
	FINISH
