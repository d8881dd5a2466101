package gemm

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
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
		Inputs: inputs, Outputs: []Op{dst}, ISA: []string{"AVX512F", "AVX512BF16"},
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

// pairsAlong writes the conversion of a vector to pairs, from floats or from bfloat16
// as they are stored.
func pairsAlong() {
	kernel.All("pairsAlongBF16", "func(dst, src *float32, n int)",
		"pairsAlongBF16 is pairsAlongGo for an even n, which is not 0.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	const step = 32 // floats
	convert := func() {
		narrow(Z1, Z0, Z2) // element 2i+1 above element 2i
		VPROLD(Imm(16), Z2, Z2)
	}
	blocks(step, n, func() {
		VMOVUPS(Mem{Base: src}, Z0)
		VMOVUPS(Mem{Base: src, Disp: 64}, Z1)
		convert()
		VMOVUPS(Z2, Mem{Base: dst})
		ADDQ(Imm(4*step), src)
		ADDQ(Imm(2*step), dst)
	}, func() {
		low, high := mask(n, 0), mask(n, 16)
		SHRQ(Imm(1), n)
		half := mask(n, 0)
		VMOVUPS_Z(Mem{Base: src}, low, Z0)
		VMOVUPS_Z(Mem{Base: src, Disp: 64}, high, Z1)
		convert()
		VMOVUPS(Z2, half, Mem{Base: dst})
	})

	kernel.All("halvesAlongBF16", "func(dst *float32, src *byte, pairs int)",
		"halvesAlongBF16 is halvesAlongGo for that many pairs, at least one.")
	dst, src, n = Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("pairs"), GP64())
	blocks(16, n, func() {
		VMOVUPS(Mem{Base: src}, Z2)
		VPROLD(Imm(16), Z2, Z2)
		VMOVUPS(Z2, Mem{Base: dst})
		ADDQ(Imm(64), src)
		ADDQ(Imm(64), dst)
	}, func() {
		some := mask(n, 0)
		VMOVUPS_Z(Mem{Base: src}, some, Z2)
		VPROLD(Imm(16), Z2, Z2)
		VMOVUPS(Z2, some, Mem{Base: dst})
	})
}

// pairsAcross writes the conversion of two rows to a row of pairs.
func pairsAcross() {
	kernel.All("pairsAcrossBF16", "func(dst, first, second *float32, n int)",
		"pairsAcrossBF16 is pairsAcrossGo for n columns, which is not 0.")
	dst, first, second := Load(Param("dst"), GP64()), Load(Param("first"), GP64()), Load(Param("second"), GP64())
	n := Load(Param("n"), GP64())
	join := func() {
		VPSLLD(Imm(16), Z3, Z3)
		VPORD(Z2, Z3, Z2)
	}
	convert := func() {
		narrow(Z0, Z1, Z2) // all of the first row above all of the second
		VEXTRACTI64X4(Imm(1), Z2, Y3)
		VPMOVZXWD(Y2, Z2)
		VPMOVZXWD(Y3, Z3)
		join()
	}
	blocks(16, n, func() {
		VMOVUPS(Mem{Base: first}, Z0)
		VMOVUPS(Mem{Base: second}, Z1)
		convert()
		VMOVUPS(Z2, Mem{Base: dst})
		for _, p := range []Register{first, second, dst} {
			ADDQ(Imm(64), p)
		}
	}, func() {
		some := mask(n, 0)
		VMOVUPS_Z(Mem{Base: first}, some, Z0)
		VMOVUPS_Z(Mem{Base: second}, some, Z1)
		convert()
		VMOVUPS(Z2, some, Mem{Base: dst})
	})

	kernel.All("halvesAcrossBF16", "func(dst *float32, first, second *byte, n int)",
		"halvesAcrossBF16 is halvesAcrossGo for n columns, which is not 0.")
	dst, first, second = Load(Param("dst"), GP64()), Load(Param("first"), GP64()), Load(Param("second"), GP64())
	n = Load(Param("n"), GP64())
	blocks(16, n, func() {
		VPMOVZXWD(Mem{Base: first}, Z3)
		VPMOVZXWD(Mem{Base: second}, Z2)
		join()
		VMOVUPS(Z2, Mem{Base: dst})
		ADDQ(Imm(32), first)
		ADDQ(Imm(32), second)
		ADDQ(Imm(64), dst)
	}, func() {
		some := mask(n, 0)
		VPMOVZXWD_Z(Mem{Base: first}, some, Z3)
		VPMOVZXWD_Z(Mem{Base: second}, some, Z2)
		join()
		VMOVUPS(Z2, some, Mem{Base: dst})
	})
}

// blocks writes a loop over steps of n, and what does the rest, which n then is; and the
// end of the function.
func blocks(step uint64, n Register, whole, rest func()) {
	SUBQ(Imm(step), n)
	JLT(LabelRef("rest"))
	Label("block")
	whole()
	SUBQ(Imm(step), n)
	JGE(LabelRef("block"))
	Label("rest")
	ADDQ(Imm(step), n)
	JZ(LabelRef("done"))
	rest()
	Label("done")
	VZEROUPPER()
	RET()
}

// mask is that of elements from to from+15 of n, which is at most 32.
func mask(n Register, from uint64) OpmaskVirtual {
	one, all, k := GP64(), GP64(), K()
	MOVQ(U32(1), one)
	SHLXQ(n, one, all)
	DECQ(all)
	if from > 0 {
		SHRQ(Imm(from), all)
	}
	KMOVW(all.As32(), k)
	return k
}
