package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Rounding by adding random bits below the place where it is cut off.
func powers() {
	begin("exponents", "(codes []byte, x []float32, start uint64)", "x", 32)
	codes, x, n := base("codes"), base("x"), length("x")
	d := newDraws("start")
	eights(codes, n, func(i Register, u int) VecVirtual {
		v := op2(VPAND, op1(VMOVDQU, at(x, i, 4, 8*u)), longs(magnitude))
		VPADDD(op2(VPAND, d.next(), longs(1<<23-1)), v, v)
		VPSRLD(Imm(23), v, v)
		VPMINUD(longs(254), v, v)
		return v
	})
	end()

	begin("addExponents", "(dst []float32, scale float32, codes, signs []byte)", "dst", 8)
	dst, codes, n, signs := base("dst"), base("codes"), length("dst"), base("signs")
	scale := single("scale")
	up := op1(VMOVDQU, lanes(31, 30, 29, 28, 27, 26, 25, 24)) // moves bit i of lane i to the sign
	each(n, 8, func(i Register) {
		v := op1(VPMOVZXBD, at(codes, i, 1, 0))
		VPSLLD(Imm(23), v, v)
		s := op1(VPBROADCASTB, Mem{Base: signs})
		INCQ(signs)
		VPSLLVD(up, s, s)
		VPAND(longs(1<<31), s, s)
		VPOR(s, v, v)
		VMULPS(scale, v, v)
		VADDPS(at(dst, i, 4, 0), v, v)
		VMOVUPS(v, at(dst, i, 4, 0))
	})
	end()

	toBF16("randomBF16", ", start uint64", func() func(v [2]VecVirtual) {
		d := newDraws("start")
		return func(v [2]VecVirtual) {
			draw := d.next()
			VPADDD(op1(VPMOVZXWD, draw.AsX()), v[0], v[0])
			VPADDD(op1(VPMOVZXWD, upper(draw)), v[1], v[1])
		}
	})
	// Half a step less one, and one more where the last bit kept is set.
	toBF16("nearestBF16", "", func() func(v [2]VecVirtual) {
		return func(v [2]VecVirtual) {
			for _, v := range v {
				odd := op2(VPAND, opi(VPSRLD, 16, v), longs(1))
				VPADDD(longs(0x7fff), v, v)
				VPADDD(odd, v, v)
			}
		}
	})

	// Elements below the least normal half come out wrong; who calls writes them again.
	begin("randomFP16", "(dst []byte, x []float32, start uint64) (most uint32)", "x", 16)
	dst, x, n = base("dst"), base("x"), length("x")
	d16, most16 := newDraws("start"), op1(VMOVDQU, longs(0))
	each(n, 16, func(i Register) {
		draw := d16.next()
		var h [2]VecVirtual
		for u, part := range []Op{draw.AsX(), upper(draw)} {
			v := op1(VMOVDQU, at(x, i, 4, 8*u))
			h[u] = op2(VPAND, v, longs(magnitude))
			VPMAXUD(h[u], most16, most16)
			VPSUBD(longs(0x38000000), h[u], h[u])
			VPADDD(op2(VPAND, op1(VPMOVZXWD, part), longs(0x1fff)), h[u], h[u])
			VPSRLD(Imm(13), h[u], h[u])
			VPMINUD(longs(0x7bff), h[u], h[u])
			VPOR(opi(VPSLLD, 15, opi(VPSRLD, 31, v)), h[u], h[u])
		}
		VPACKUSDW(h[1], h[0], h[0])
		VPERMQ(Imm(0xd8), h[0], h[0])
		VMOVDQU(h[0], at(dst, i, 2, 0))
	})
	Store(reduce(most16, VPMAXUD), ReturnIndex(0))
	end()

	begin("nearestFP16", "(dst []byte, x []float32) (most uint32)", "x", 16)
	dst, x, n = base("dst"), base("x"), length("x")
	most := op1(VMOVDQU, longs(0))
	each(n, 16, func(i Register) {
		for u := range 2 {
			const toNearest = 0
			v := op1(VMOVUPS, at(x, i, 4, 8*u))
			VPMAXUD(op2(VPAND, v, longs(magnitude)), most, most)
			VCVTPS2PH(Imm(toNearest), v, at(dst, i, 2, 8*u))
		}
	})
	Store(reduce(most, VPMAXUD), ReturnIndex(0))
	end()

	begin("ternary", "(codes []byte, x []float32, half float32)", "x", 32)
	codes, x, n = base("codes"), base("x"), length("x")
	half := single("half")
	minus := op2(VXORPS, half, longs(1<<31))
	eights(codes, n, func(i Register, u int) VecVirtual {
		const atLeast, atMost = 0x1d, 0x12 // false for NaN, raise nothing
		v := op1(VMOVUPS, at(x, i, 4, 8*u))
		plus, less := YMM(), YMM()
		VCMPPS(Imm(atLeast), half, v, plus)
		VCMPPS(Imm(atMost), minus, v, less)
		y := op2(VPSUBD, less, plus)
		VPADDD(longs(1), y, y)
		return y
	})
	end()

	// Sixteen elements to sixteen sums of magnitudes and sixteen of numbers.
	begin("signSums", "(dst []byte, x []float32, sums *[32]float64)", "x", 16)
	dst, x, n = base("dst"), base("x"), length("x")
	sums := word("sums")
	var acc [8]VecVirtual
	for j := range acc {
		acc[j] = op1(VMOVUPD, Mem{Base: sums, Disp: 32 * j})
	}
	r := GP32()
	each(n, 16, func(i Register) {
		for j := range 4 {
			v := op1(VCVTPS2PD, at(x, i, 4, 4*j))
			VADDPD(v, acc[4+j], acc[4+j])
			VANDPD(quads(1<<63-1), v, v)
			VADDPD(v, acc[j], acc[j])
		}
		for j := range 2 {
			VMOVMSKPS(op1(VMOVUPS, at(x, i, 4, 8*j)), r)
			MOVB(r.As8(), Mem{Base: dst, Disp: j})
		}
		ADDQ(Imm(2), dst)
	})
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: sums, Disp: 32 * j})
	}
	end()
}

// toBF16 writes a kernel that adds something below the upper halves and cuts these
// off. It returns the largest magnitude.
func toBF16(name, parameter string, setup func() func(v [2]VecVirtual)) {
	begin(name, "(dst []byte, x []float32"+parameter+") (most uint32)", "x", 16)
	dst, x, n := base("dst"), base("x"), length("x")
	round := setup()
	most := op1(VMOVDQU, longs(0))
	each(n, 16, func(i Register) {
		var v [2]VecVirtual
		for u := range v {
			v[u] = op1(VMOVDQU, at(x, i, 4, 8*u))
			VPMAXUD(op2(VPAND, v[u], longs(magnitude)), most, most)
		}
		round(v)
		for u := range v {
			VPSRLD(Imm(16), v[u], v[u])
		}
		VPACKUSDW(v[1], v[0], v[0])
		VPERMQ(Imm(0xd8), v[0], v[0])
		// An infinity becomes the largest number.
		over := op2(VPAND, v[0], longs(0x7fff7fff))
		VPCMPEQW(longs(0x7f807f80), over, over)
		VPADDW(over, v[0], v[0])
		VMOVDQU(v[0], at(dst, i, 2, 0))
	})
	Store(reduce(most, VPMAXUD), ReturnIndex(0))
	end()
}
