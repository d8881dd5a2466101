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

	begin("greatest", "(x []float32) (most float32)", "x", 8, "greatestAVX2 is greatestGo, above −Inf.")
	x, n := base("x"), length("x")
	var acc [4]VecVirtual
	for j := range acc {
		acc[j] = constant(infinity | 1<<31)
	}
	// Of a NaN and a number, VMAXPS gives the operand named first.
	each(n, 4, func(at place) { VMAXPS(acc[at.u], at.load(x), acc[at.u]) })
	Store(fold(acc, VMAXPS), ReturnIndex(0))
	end()
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
	r := GP32()
	VMOVD(fold(acc, maximum), r)
	Store(r, ReturnIndex(0))
	end()
}

// fold is the largest of all lanes.
func fold(acc [4]VecVirtual, maximum func(...Op)) Register {
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
	return m
}

// sixteens runs body for every sixteen of n elements, with the sixteen sums at
// parameter s in as few registers as hold them.
func sixteens(n Register, body func(i Register, acc []VecVirtual)) {
	s := Load(Param("s"), GP64())
	size := 4 * width() // of a register, in bytes
	acc := make([]VecVirtual, 128/size)
	for j := range acc {
		acc[j] = register()
		VMOVUPD(Mem{Base: s, Disp: size * j}, acc[j])
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
		VMOVUPD(acc[j], Mem{Base: s, Disp: size * j})
	}
}
