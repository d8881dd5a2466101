package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	half       = 0x3fe0000000000000 // the bits of ½
	two52      = 0x4330000000000000 // of 2⁵²: added to it, a whole number shows in the low bits
	two32      = 0x41f0000000000000 // of 2³²
	two84      = 0x4530000000000000 // of 2⁸⁴
	towardZero = 3
)

func steps() {
	begin("steps", "(codes []byte, x []float32, pre, low, perStep, top float32, start uint64)", "x", 32)
	codes, x, n := base("codes"), base("x"), length("x")
	pre, low, scale, top := single("pre"), single("low"), single("perStep"), single("top")
	d := newDraws("start")
	var u23 [2]VecVirtual
	eights(codes, n, func(i Register, u int) VecVirtual {
		if u&1 == 0 {
			u23 = d.fractions(23)
		}
		r := op2(VSUBPS, op2(VMULPS, pre, at(x, i, 4, 8*u)), low)
		r = op2(VMINPS, op2(VMULPS, r, scale), top)
		return opi(VPSRLD, 23, op2(VPADDD, op1(VCVTPS2DQ, r), u23[u&1]))
	})
	end()

	begin("nearestSteps", "(codes []byte, x []float32, low, perStep, top float64)", "x", 32)
	codes, x, n = base("codes"), base("x"), length("x")
	from, by, most := double("low"), double("perStep"), double("top")
	eights(codes, n, func(i Register, u int) VecVirtual {
		even, odd := widen(op1(VMOVUPS, at(x, i, 4, 8*u)))
		for _, v := range []VecVirtual{even, odd} {
			VSUBPD(from, v, v)
			VMULPD(by, v, v)
			VADDPD(quads(half), v, v)
			VMINPD(most, v, v)
			VROUNDPD(Imm(towardZero), v, v)
			VADDPD(quads(two52), v, v)
		}
		VPSLLQ(Imm(32), odd, odd)
		VPBLENDD(Imm(0xaa), odd, even, even)
		VPAND(longs(255), even, even)
		return even
	})
	end()

	// The order of floats is that of their bits as integers, if those of
	// negative ones are turned around.
	begin("extent", "(x []float32) (lo, hi int32)", "x", 8)
	x, n = base("x"), length("x")
	lo, hi := op1(VMOVDQU, longs(magnitude)), op1(VMOVDQU, longs(1<<31))
	each(n, 8, func(i Register) {
		v := op1(VMOVDQU, at(x, i, 4, 0))
		key := op2(VPXOR, opi(VPSRLD, 1, opi(VPSRAD, 31, v)), v)
		VPMINSD(key, lo, lo)
		VPMAXSD(key, hi, hi)
	})
	Store(reduce(lo, VPMINSD), ReturnIndex(0))
	Store(reduce(hi, VPMAXSD), ReturnIndex(1))
	end()
}
