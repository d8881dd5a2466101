package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func levels() {
	begin("levels", "(codes []byte, x []float32, pre, perLevel float32, most int, start uint64)", "x", 32)
	codes, x, n := base("codes"), base("x"), length("x")
	d, pre, scale, most := newDraws("start"), single("pre"), single("perLevel"), op1(VPBROADCASTD, address("most"))
	top := op1(VCVTDQ2PS, opi(VPSLLD, 24, most))
	var u24 [2]VecVirtual
	eights(codes, n, func(i Register, u int) VecVirtual {
		if u&1 == 0 {
			u24 = d.fractions(24)
		}
		v := op1(VMOVUPS, at(x, i, 4, 8*u))
		r := op2(VMULPS, op2(VANDPS, v, longs(magnitude)), pre)
		r = op2(VMINPS, op2(VMULPS, r, scale), top)
		level := op2(VPADDD, op1(VCVTPS2DQ, r), u24[u&1])
		VPSRLD(Imm(24), level, level)
		VPSIGND(v, level, level)
		VPADDD(most, level, level)
		return level
	})
	end()

	begin("addLevels", "(dst []float32, scale float32, codes []byte, zero int, low, unit float64)", "dst", 8)
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
