package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func steps() {
	stepping("steps", ", start uint64", func() func(even, odd VecVirtual) {
		d := newDraws("start")
		return func(even, odd VecVirtual) {
			e, o := splitInto(two20, d.next())
			for _, w := range []struct{ v, draw VecVirtual }{{even, e}, {odd, o}} {
				VSUBPD(quads(two20<<32), w.draw, w.draw)
				VADDPD(w.draw, w.v, w.v)
			}
		}
	})
	stepping("nearestSteps", "", func() func(even, odd VecVirtual) {
		return func(even, odd VecVirtual) {
			for _, v := range []VecVirtual{even, odd} {
				VADDPD(quads(0x3fe0000000000000), v, v) // ½
			}
		}
	})

	// The order of floats is that of their bits as integers, if those of
	// negative ones are turned around.
	begin("extent", "(x []float32) (lo, hi int32)", "8")
	x, n := base("x"), length("x")
	lo, hi := op1(VMOVDQU, longs(magnitude)), op1(VMOVDQU, longs(1<<31))
	each(n, 8, func(i Register) {
		v := op1(VMOVDQU, at(x, i, 4, 0))
		key := op2(VPXOR, opi(VPSRLD, 1, opi(VPSRAD, 31, v)), v)
		VPMINSD(key, lo, lo)
		VPMAXSD(key, hi, hi)
	})
	for j, f := range []func(...Op){VPMINSD, VPMAXSD} {
		y := []VecVirtual{lo, hi}[j]
		m, t, r := y.AsX(), XMM(), GP32()
		f(upper(y), m, m)
		for _, order := range []uint64{0x4e, 0xb1} {
			VPSHUFD(Imm(order), m, t)
			f(t, m, m)
		}
		VMOVD(m, r)
		Store(r, ReturnIndex(j))
	}
	end()
}

// stepping writes a kernel that counts steps above low; shift adds what is
// added before cutting off.
func stepping(name, parameter string, setup func() func(even, odd VecVirtual)) {
	begin(name, "(codes []byte, x []float32, low, perStep, top float64"+parameter+")", "32")
	codes, x, n := base("codes"), base("x"), length("x")
	low, scale, top := double("low"), double("perStep"), double("top")
	shift := setup()
	eights(codes, n, func(i Register, u int) VecVirtual {
		even, odd := widen(op1(VMOVUPS, at(x, i, 4, 8*u)))
		for _, v := range []VecVirtual{even, odd} {
			VSUBPD(low, v, v)
			VMULPD(scale, v, v)
		}
		shift(even, odd)
		for _, v := range []VecVirtual{even, odd} {
			VMINPD(top, v, v)
			VROUNDPD(Imm(towardZero), v, v)
			VADDPD(quads(two52<<32), v, v)
		}
		VPSLLQ(Imm(32), odd, odd)
		VPBLENDD(Imm(0xaa), odd, even, even)
		VPAND(longs(255), even, even)
		return even
	})
	end()
}
