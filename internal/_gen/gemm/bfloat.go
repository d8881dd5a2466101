package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Instructions of AVX512_BF16, which neither avo nor Go's assembler knows: they are
// written in bytes, and so their registers have to be known.

var zmm = []Register{
	Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
}

// Mandatory prefixes, as EVEX has them.
const (
	prefixF3 = 2
	prefixF2 = 3
)

// evex writes an instruction of map 0F38 with 512 bits and no mask: EVEX, the opcode,
// and three registers in the order of the manual.
func evex(prefix, opcode int, dst, src1, src2 Register, inputs ...Op) {
	r, v, m := number(dst), number(src1), number(src2)
	not := func(x, bit int) uint32 { return uint32(^x >> bit & 1) }
	p0 := not(r, 3)<<7 | not(m, 4)<<6 | not(m, 3)<<5 | not(r, 4)<<4 | 2
	p1 := uint32(^v&15)<<3 | 1<<2 | uint32(prefix)
	p2 := uint32(2)<<5 | not(v, 4)<<3
	Instruction(&ir.Instruction{
		Opcode: "LONG", Operands: []Op{U32(0x62 | p0<<8 | p1<<16 | p2<<24)},
		Inputs: inputs, Outputs: []Op{dst},
	})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(uint16(opcode | (0xc0|(r&7)<<3|m&7)<<8))}})
}

func number(x Register) int {
	for i, z := range zmm {
		if z == x {
			return i
		}
	}
	panic("no register of 512 bits whose number is known: " + x.Asm())
}

// dot is VDPBF16PS: of each lane, the product of the upper halves and then that of the
// lower ones is added to acc.
func dot(b, a, acc Register) { evex(prefixF3, 0x52, acc, a, b, acc, a, b) }

// narrow is VCVTNE2PS2BF16: low to the lower 16 halves of dst, high to the upper ones.
func narrow(high, low, dst Register) { evex(prefixF2, 0x72, dst, high, low, high, low) }

// pairsAlong writes the conversion of a vector to pairs.
func pairsAlong() {
	TEXT("pairsAlongBF16", NOSPLIT, "func(dst, src *float32, n int)")
	Doc("pairsAlongBF16 is pairsAlongGo for an even n, which is not 0.")
	Pragma("noescape")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	convert := func() {
		narrow(Z1, Z0, Z2) // element 2i+1 above element 2i
		VPROLD(Imm(16), Z2, Z2)
	}
	SUBQ(Imm(32), n)
	JLT(LabelRef("rest"))
	Label("block")
	VMOVUPS(Mem{Base: src}, Z0)
	VMOVUPS(Mem{Base: src, Disp: 64}, Z1)
	convert()
	VMOVUPS(Z2, Mem{Base: dst})
	ADDQ(Imm(128), src)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(32), n)
	JGE(LabelRef("block"))
	Label("rest")
	ADDQ(Imm(32), n)
	JZ(LabelRef("done"))
	// Masks of n floats, in two vectors, and of n/2 pairs.
	all, low, high, half := GP64(), K(), K(), K()
	ones(n, all)
	KMOVW(all.As32(), low)
	SHRQ(Imm(16), all)
	KMOVW(all.As32(), high)
	SHRQ(Imm(1), n)
	ones(n, all)
	KMOVW(all.As32(), half)
	VMOVUPS_Z(Mem{Base: src}, low, Z0)
	VMOVUPS_Z(Mem{Base: src, Disp: 64}, high, Z1)
	convert()
	VMOVUPS(Z2, half, Mem{Base: dst})
	Label("done")
	VZEROUPPER()
	RET()
}

// pairsAcross writes the conversion of two rows to a row of pairs.
func pairsAcross() {
	TEXT("pairsAcrossBF16", NOSPLIT, "func(dst, first, second *float32, n int)")
	Doc("pairsAcrossBF16 is pairsAcrossGo for n columns, which is not 0.")
	Pragma("noescape")
	dst, first, second := Load(Param("dst"), GP64()), Load(Param("first"), GP64()), Load(Param("second"), GP64())
	n := Load(Param("n"), GP64())
	convert := func() {
		narrow(Z0, Z1, Z2) // all of the first row above all of the second
		VEXTRACTI64X4(Imm(1), Z2, Y3)
		VPMOVZXWD(Y2, Z2)
		VPMOVZXWD(Y3, Z3)
		VPSLLD(Imm(16), Z3, Z3)
		VPORD(Z2, Z3, Z2)
	}
	SUBQ(Imm(16), n)
	JLT(LabelRef("rest"))
	Label("block")
	VMOVUPS(Mem{Base: first}, Z0)
	VMOVUPS(Mem{Base: second}, Z1)
	convert()
	VMOVUPS(Z2, Mem{Base: dst})
	ADDQ(Imm(64), first)
	ADDQ(Imm(64), second)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(16), n)
	JGE(LabelRef("block"))
	Label("rest")
	ADDQ(Imm(16), n)
	JZ(LabelRef("done"))
	all, mask := GP64(), K()
	ones(n, all)
	KMOVW(all.As32(), mask)
	VMOVUPS_Z(Mem{Base: first}, mask, Z0)
	VMOVUPS_Z(Mem{Base: second}, mask, Z1)
	convert()
	VMOVUPS(Z2, mask, Mem{Base: dst})
	Label("done")
	VZEROUPPER()
	RET()
}

// ones sets the n lowest bits of x.
func ones(n, x Register) {
	one := GP64()
	MOVQ(U32(1), one)
	SHLXQ(n, one, x)
	DECQ(x)
}
