package vec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// format converts between eight float32 and eight halves of 16 bits.
type format struct {
	name string
	// setup loads constants; encode writes halves, round leaves their values,
	// decode reads them.
	setup  func()
	encode func(y VecVirtual, to Mem)
	round  func(y VecVirtual) VecVirtual
	decode func(from Mem) VecVirtual
}

func halves() {
	for _, f := range []format{bf16(), fp16()} {
		begin("encode"+f.name, "(dst []byte, x []float32)", "x", 8)
		f.setup()
		dst, x, n := base("dst"), base("x"), length("x")
		each(n, 2, func(at place) { f.encode(at.load(x), at.of(dst, 2)) })
		end()

		begin("decode"+f.name, "(dst []float32, b []byte)", "dst", 8)
		dst, b, n := base("dst"), base("b"), length("dst")
		each(n, 4, func(at place) { at.store(f.decode(at.of(b, 2)), dst) })
		end()

		begin("add"+f.name, "(dst []float32, scale float32, b []byte)", "dst", 8)
		dst, b, n = base("dst"), base("b"), length("dst")
		scale := number("scale")
		each(n, 4, func(at place) { at.store(add(at.load(dst), mul(scale, f.decode(at.of(b, 2)))), dst) })
		end()

		begin("round"+f.name, "(x []float32)", "x", 8)
		f.setup()
		x, n = base("x"), length("x")
		each(n, 2, func(at place) { at.store(f.round(at.load(x)), x) })
		end()
	}

	// The values of bfloat16 that products of pairs read.
	f := bf16()
	begin("flush"+f.name, "(dst, x []float32)", "x", 8)
	f.setup()
	exponent, magnitude, none := constant(infinity), constant(magnitude), zero()
	dst, x, n := base("dst"), base("x"), length("x")
	each(n, 2, func(at place) {
		y, small := at.load(x), YMM()
		VPAND(exponent, y, small)
		VPCMPEQD(none, small, small)
		VPAND(magnitude, small, small)
		VPANDN(y, small, small)
		at.store(f.round(small), dst)
	})
	end()
}

// fp16 is the hardware's.
func fp16() format {
	const nearest = 0
	return format{
		name:   "FP16",
		setup:  func() {},
		encode: func(y VecVirtual, to Mem) { VCVTPS2PH(Imm(nearest), y, to) },
		round: func(y VecVirtual) VecVirtual {
			h, back := XMM(), YMM()
			VCVTPS2PH(Imm(nearest), y, h)
			VCVTPH2PS(h, back)
			return back
		},
		decode: func(from Mem) VecVirtual {
			y := YMM()
			VCVTPH2PS(from, y)
			return y
		},
	}
}

// bf16 is ToBF16 in integers.
func bf16() format {
	var abs, inf, bias, one, payload, quiet, none VecVirtual
	// upper is the half in the low bits of each lane.
	upper := func(y VecVirtual) VecVirtual {
		h, odd, r, nan, lost := YMM(), YMM(), YMM(), YMM(), YMM()
		VPSRLD(Imm(16), y, h)
		VPAND(one, h, odd)
		VPADDD(bias, y, r)
		VPADDD(odd, r, r)
		VPSRLD(Imm(16), r, r)
		VPAND(payload, y, lost)
		VPCMPEQD(none, lost, lost)
		VPAND(quiet, lost, lost)
		VPOR(lost, h, h)
		VPAND(abs, y, nan)
		VPCMPGTD(inf, nan, nan)
		VPBLENDVB(nan, h, r, r)
		return r
	}
	return format{
		name: "BF16",
		setup: func() {
			abs, inf, bias, one = constant(magnitude), constant(infinity), constant(0x7fff), constant(1)
			payload, quiet, none = constant(0x7f0000), constant(0x40), zero()
		},
		encode: func(y VecVirtual, to Mem) {
			r, hi := upper(y), XMM()
			VEXTRACTI128(Imm(1), r, hi)
			VPACKUSDW(hi, r.AsX(), hi)
			VMOVDQU(hi, to)
		},
		round: func(y VecVirtual) VecVirtual {
			r := upper(y)
			VPSLLD(Imm(16), r, r)
			return r
		},
		decode: func(from Mem) VecVirtual {
			y := YMM()
			VPMOVZXWD(from, y)
			VPSLLD(Imm(16), y, y)
			return y
		},
	}
}
