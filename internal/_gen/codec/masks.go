package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// masks writes the kernels of masks of a bit an element.
func masks() {
	TEXT("addSignedAVX2", NOSPLIT, "func(dst []float32, mask, signs []uint64, plus float32)")
	Doc("addSignedAVX2 is addSignedGo for 64 elements a word.")
	Pragma("noescape")
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
}
