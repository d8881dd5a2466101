package vec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func signs() {
	begin("signs", "(dst []byte, x []float32)", "x", 8)
	dst, x, n := base("dst"), base("x"), length("x")
	each(n, 4, func(at place) {
		r := GP32()
		VMOVMSKPS(at.load(x), r)
		MOVB(r.As8(), Mem{Base: dst})
		INCQ(dst)
	})
	end()

	begin("addSigns", "(dst []float32, plus, minus float32, b []byte)", "dst", 8)
	dst, b, n := base("dst"), base("b"), length("dst")
	plus, minus := number("plus"), number("minus")
	r, t, bit := GP64(), XMM(), YMM() // lane i has bit i
	MOVQ(U64(0x8040201008040201), r)
	VMOVQ(r, t)
	VPMOVZXBD(t, bit)
	each(n, 4, func(at place) {
		set, v := YMM(), YMM()
		VPBROADCASTB(Mem{Base: b}, set)
		INCQ(b)
		VPAND(bit, set, set)
		VPCMPEQD(bit, set, set)
		VBLENDVPS(set, minus, plus, v)
		at.store(add(at.load(dst), v), dst)
	})
	end()
}
