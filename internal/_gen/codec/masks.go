package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// masks writes the kernels of masks of a bit an element.
func masks() {
	kernel.First("addSignedAVX2", "func(dst []float32, mask, signs []uint64, plus float32)", "mask", 1,
		"addSignedAVX2 is addSignedGo for 64 elements a word.")
	dst, mask, signs, n := base("dst"), base("mask"), base("signs"), length("mask")
	plus, sign := single("plus"), op1(VMOVDQU, longs(1<<31))
	up := op1(VMOVDQU, lanes(31, 30, 29, 28, 27, 26, 25, 24))
	each(n, 1, func(i Register) {
		m, s := Mem{Base: mask, Index: i, Scale: 8}, Mem{Base: signs, Index: i, Scale: 8}
		w, v := GP64(), GP64()
		MOVQ(m, w)
		MOVQ(s, v)
		PDEPQ(w, v, v)
		for u := range 8 {
			hit, by := XMM(), XMM()
			if u > 0 {
				SHRQ(Imm(8), w)
				SHRQ(Imm(8), v)
			}
			VMOVD(w.As32(), hit)
			VMOVD(v.As32(), by)
			h, b := op1(VPBROADCASTB, hit), op1(VPBROADCASTB, by)
			VPSLLVD(up, h, h)
			VPSLLVD(up, b, b)
			VPAND(sign, b, b)
			VPXOR(plus, b, b)
			d := op1(VMOVUPS, Mem{Base: dst, Disp: 32 * u})
			VADDPS(d, b, b)
			VBLENDVPS(h, b, d, d)
			VMOVUPS(d, Mem{Base: dst, Disp: 32 * u})
		}
		ADDQ(U32(256), dst)
	})
	end()

	begin("pick", "(dst, x []float32, mask []byte, order *[256]uint64) int", "x", 8)
	dst, x, n := base("dst"), base("x"), length("x")
	of, order, j, r := base("mask"), word("order"), GP64(), GP64()
	XORQ(j, j)
	each(n, 8, func(i Register) {
		MOVBQZX(Mem{Base: of}, r)
		INCQ(of)
		to := op1(VPMOVZXBD, Mem{Base: order, Index: r, Scale: 8})
		VMOVDQU(op2(VPERMD, to, at(x, i, 4, 0)), at(dst, j, 4, 0))
		POPCNTQ(r, r)
		ADDQ(r, j)
	})
	Store(j, ReturnIndex(0))
	end()

	wide("pick", "(dst, x []float32, mask []byte) int", "x", 16, func() {
		dst, x, n := base("dst"), base("x"), length("x")
		of, j, bits := base("mask"), GP64(), GP64()
		XORQ(j, j)
		each(n, 16, func(i Register) {
			in := K()
			MOVWQZX(Mem{Base: of}, bits)
			ADDQ(Imm(2), of)
			KMOVW(bits.As32(), in)
			VMOVDQU32(squeezed(op1(VMOVDQU32, at(x, i, 4, 0)), in), at(dst, j, 4, 0))
			POPCNTQ(bits, bits)
			ADDQ(bits, j)
		})
		Store(j, ReturnIndex(0))
	})

	begin("sumsReach", "(mask []byte, x, y, tau []float32)", "x", 32)
	of, x, y, tau, n := base("mask"), base("x"), base("y"), base("tau"), length("x")
	each(n, 32, func(i Register) {
		var miss [4]VecVirtual
		for u := range miss {
			v := op2(VADDPS, op1(VMOVUPS, at(x, i, 4, 8*u)), at(y, i, 4, 8*u))
			VPAND(longs(magnitude), v, v)
			miss[u] = op2(VPCMPGTD, op1(VMOVDQU, at(tau, i, 4, 8*u)), v)
			if u&1 == 1 {
				VPACKSSDW(miss[u], miss[u-1], miss[u-1])
			}
		}
		VPACKSSWB(miss[2], miss[0], miss[0])
		VPERMD(miss[0], inOrder(), miss[0])
		VPMOVMSKB(miss[0], r.As32())
		NOTL(r.As32())
		MOVL(r.As32(), Mem{Base: of})
		ADDQ(Imm(4), of)
	})
	end()

	begin("momentum", "(u, v, g []float32, sent []byte, m, scale float32) uint32", "u", 8)
	u, v, g, n := base("u"), base("v"), base("g"), length("u")
	of = base("sent")
	m, scale := single("m"), single("scale")
	bit, most := op1(VMOVDQU, lanes(31, 30, 29, 28, 27, 26, 25, 24)), YMM()
	VPXOR(most, most, most)
	each(n, 8, func(i Register) {
		gone := op1(VPBROADCASTB, Mem{Base: of})
		INCQ(of)
		VPSLLVD(bit, gone, gone)
		VPSRAD(Imm(31), gone, gone)
		old := op2(VMULPS, m, op2(VPANDN, gone, at(u, i, 4, 0)))
		next := op2(VADDPS, op2(VMULPS, scale, at(g, i, 4, 0)), old)
		sum := op2(VADDPS, next, op2(VPANDN, gone, at(v, i, 4, 0)))
		VMOVUPS(next, at(u, i, 4, 0))
		VMOVUPS(sum, at(v, i, 4, 0))
		for _, y := range []VecVirtual{next, sum} {
			VPAND(longs(magnitude), y, y)
			VPMAXUD(y, most, most)
		}
	})
	Store(reduce(most, VPMAXUD), ReturnIndex(0))
	end()

	begin("shrink", "(x []float32, tau float32)", "x", 8)
	x, n = base("x"), length("x")
	by := single("tau")
	less := op2(VPSUBD, by, longs(1))
	each(n, 8, func(i Register) {
		v := op1(VMOVDQU, at(x, i, 4, 0))
		hit := op2(VPCMPGTD, op2(VPAND, v, longs(magnitude)), less)
		VPAND(op2(VPOR, op2(VPAND, v, longs(1<<31)), by), hit, hit)
		VMOVUPS(op2(VSUBPS, v, hit), at(x, i, 4, 0))
	})
	end()
}
