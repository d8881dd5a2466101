package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// places are those of a gather. Its register is chosen: qemu 7 takes Y4 for none at all.
var places = Y15

func eightBit() {
	begin("eightBit", "(codes []byte, x []float32, inv float64, cells *[1 << 14]uint32)", "x", 32)
	codes, x, n, inv, cells := base("codes"), base("x"), length("x"), double("inv"), word("cells")
	eights(codes, n, func(i Register, u int) VecVirtual {
		v := op1(VMOVUPS, at(x, i, 4, 8*u))
		share := inDoubles(op2(VANDPS, v, longs(magnitude)), VCVTPS2PD, func(w VecVirtual) { VMULPD(inv, w, w) })
		cell := op2(VPAND, opi(VPSRLD, 16, share), longs(1<<14-1))
		VMOVDQA(cell, places)
		code, all := YMM(), op1(VMOVDQU, longs(1<<32-1))
		VPGATHERDD(all, Mem{Base: cells, Index: places, Scale: 4}, code)
		VPADDD(op2(VPAND, share, longs(1<<16-1)), code, code)
		VPSRLD(Imm(24), code, code)
		return op2(VPOR, code, opi(VPSLLD, 7, opi(VPSRLD, 31, v)))
	})
	end()

	begin("addEightBit", "(dst []float32, codes []byte, values *[256]float32)", "dst", 8)
	dst, codes, n, values := base("dst"), base("codes"), length("dst"), word("values")
	each(n, 8, func(i Register) {
		v, all := YMM(), op1(VMOVDQU, longs(1<<32-1))
		VPMOVZXBD(at(codes, i, 1, 0), places)
		VGATHERDPS(all, Mem{Base: values, Index: places, Scale: 4}, v)
		VADDPS(at(dst, i, 4, 0), v, v)
		VMOVUPS(v, at(dst, i, 4, 0))
	})
	end()
}
