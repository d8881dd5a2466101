package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	two52      = 0x43300000 // upper half of the bits of 2⁵²: the lower half counts ones
	two20      = 0x41300000 // of 2²⁰: the lower half counts 2⁻³²
	towardZero = 3
)

func levels() {
	// The number and the draw, both whole, are added above 2⁵², which leaves
	// their sum in the low bits: the level in the second 32 of them.
	begin("levels", "(codes []byte, x []float32, perLevel float64, most int, start uint64)", "32")
	codes, x, n := base("codes"), base("x"), length("x")
	d, scale, most := newDraws("start"), double("perLevel"), op1(VPBROADCASTD, address("most"))
	top := YMM()
	VCVTDQ2PD(most.AsX(), top)
	VMULPD(quads(two32), top, top)
	eights(codes, n, func(i Register, u int) VecVirtual {
		v := op1(VMOVUPS, at(x, i, 4, 8*u))
		even, odd := widen(op2(VANDPS, v, longs(magnitude)))
		e, o := splitInto(two52, d.next())
		for _, w := range []struct{ v, draw VecVirtual }{{even, e}, {odd, o}} {
			VMULPD(scale, w.v, w.v)
			VMINPD(top, w.v, w.v)
			VROUNDPD(Imm(towardZero), w.v, w.v)
			VADDPD(w.draw, w.v, w.v)
		}
		VPSRLQ(Imm(32), even, even)
		VPBLENDD(Imm(0xaa), odd, even, even)
		VPAND(longs(255), even, even)
		VPSIGND(v, even, even)
		VPADDD(most, even, even)
		return even
	})
	end()

	begin("addLevels", "(dst []float32, scale float32, codes []byte, zero int, low, unit float64)", "8")
	dst, codes, n := base("dst"), base("codes"), length("dst")
	by, low, unit := single("scale"), double("low"), double("unit")
	zero := op1(VPBROADCASTD, address("zero"))
	each(n, 8, func(i Register) {
		c := op1(VPMOVZXBD, at(codes, i, 1, 0))
		VPSUBD(zero, c, c)
		v := inDoubles(c, VCVTDQ2PD, func(w VecVirtual) {
			VMULPD(unit, w, w)
			VADDPD(low, w, w)
		})
		VMULPS(by, v, v)
		VADDPS(at(dst, i, 4, 0), v, v)
		VMOVUPS(v, at(dst, i, 4, 0))
	})
	end()
}

const two32 = 0x41f0000000000000 // the bits of 2³²
