package vec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func reductions() {
	begin("dot", "(s *[16]float64, a, b []float32)", "a", 16)
	a, b := base("a"), base("b")
	sixteens(length("a"), func(i Register, acc []VecVirtual) {
		for j, s := range acc {
			u, v := YMM(), YMM()
			VCVTPS2PD(Mem{Base: a, Index: i, Scale: 4, Disp: 16 * j}, u)
			VCVTPS2PD(Mem{Base: b, Index: i, Scale: 4, Disp: 16 * j}, v)
			VFMADD231PD(u, v, s)
		}
	})
	end()

	begin("sum", "(s *[16]float64, x []float32, mask uint32)", "x", 16)
	x := base("x")
	mask := number("mask")
	sixteens(length("x"), func(i Register, acc []VecVirtual) {
		for j, s := range acc {
			u, v := XMM(), YMM()
			VANDPS(Mem{Base: x, Index: i, Scale: 4, Disp: 16 * j}, mask.AsX(), u)
			VCVTPS2PD(u, v)
			VADDPD(v, s, s)
		}
	})
	end()

	largest("maxBits", "x []float32", magnitude, VPMAXUD, 8)
	largest("maxBytes", "b []byte", magnitude, VPMAXUD, 32)
	largest("maxHalf", "b []byte", 0x7fff7fff, VPMAXUW, 32,
		"maxHalfAVX2 is maxHalfGo: the larger of the two halves of the result.")
}

// largest writes a maximum over the bits in mask.
func largest(name, parameter string, mask uint32, maximum func(...Op), group int, doc ...string) {
	begin(name, "("+parameter+") (most uint32)", parameter[:1], group, doc...)
	x, n := base(parameter[:1]), length(parameter[:1])
	if parameter[:1] == "b" {
		SHRQ(Imm(2), n)
	}
	bits := constant(mask)
	var acc [4]VecVirtual
	for j := range acc {
		acc[j] = zero()
	}
	each(n, 4, func(at place) {
		v := YMM()
		VPAND(at.of(x, 4), bits, v)
		maximum(v, acc[at.u], acc[at.u])
	})
	maximum(acc[1], acc[0], acc[0])
	maximum(acc[3], acc[2], acc[2])
	maximum(acc[2], acc[0], acc[0])
	m, t := acc[0].AsX(), XMM()
	VEXTRACTI128(Imm(1), acc[0], t)
	maximum(t, m, m)
	VPSHUFD(Imm(0x4e), m, t)
	maximum(t, m, m)
	VPSHUFD(Imm(0xb1), m, t)
	maximum(t, m, m)
	r := GP32()
	VMOVD(m, r)
	Store(r, ReturnIndex(0))
	end()
}

// sixteens runs body for every sixteen of n elements, with the sixteen sums at
// parameter s in four registers.
func sixteens(n Register, body func(i Register, acc []VecVirtual)) {
	s := Load(Param("s"), GP64())
	acc := make([]VecVirtual, 4)
	for j := range acc {
		acc[j] = YMM()
		VMOVUPD(Mem{Base: s, Disp: 32 * j}, acc[j])
	}
	i := GP64()
	XORQ(i, i)
	Label("loop")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	body(i, acc)
	ADDQ(Imm(16), i)
	JMP(LabelRef("loop"))
	Label("done")
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: s, Disp: 32 * j})
	}
}
