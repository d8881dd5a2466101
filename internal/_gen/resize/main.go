// Command resize writes the AVX2 assembly of package resize. From this folder:
//
//	go run . -out ../../resize/kernels_amd64.s -stubs ../../resize/kernels_stubs_amd64.go -pkg resize
//
// Each kernel does what its twin in plain Go does, bit for bit. No product is fused
// with a sum.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!noasm")
	colours("coloursAVX2", "coloursAVX2 is coloursGo for the first n pixels, a positive multiple of eight, with half 0.", 8)
	colours("coloursHalfAVX2", "coloursHalfAVX2 is coloursGo for the first n pixels, a positive multiple of eight, with half 1.", 4)
	across()
	down()
	Generate()
}

var known = map[string]Mem{}

// every is a constant in all eight lanes.
func every(name string, v int32) Mem {
	m, ok := known[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(uint32(v)))
		}
		known[name] = m
	}
	return m
}

// bytes is a constant of 16 bytes.
func bytes(name string, b [16]byte) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, v := range b {
		DATA(i, U8(v))
	}
	return m
}

// colours takes eight pixels at a time, which have so many colours.
func colours(name, doc string, shared int) {
	TEXT(name, NOSPLIT, "func(dst *float64, luma, cb, cr *uint8, n int)")
	Doc(doc)
	Pragma("noescape")
	dst, luma, cb, cr, n := Load(Param("dst"), GP64()), Load(Param("luma"), GP64()), Load(Param("cb"), GP64()), Load(Param("cr"), GP64()), Load(Param("n"), GP64())
	var twice VecVirtual
	if shared == 4 {
		twice = XMM()
		VMOVDQU(bytes("twice", [16]byte{0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0}), twice)
	}
	zero := YMM()
	VPXOR(zero, zero, zero)
	Label("pixels")
	y, b, r := YMM(), YMM(), YMM()
	VPMOVZXBD(Mem{Base: luma}, y)
	for i, v := range []VecVirtual{b, r} {
		p := []Register{cb, cr}[i]
		if shared == 8 {
			VPMOVZXBD(Mem{Base: p}, v)
		} else {
			x := XMM()
			VMOVD(Mem{Base: p}, x)
			VPSHUFB(twice, x, x)
			VPMOVZXBD(x, v)
		}
		VPSUBD(every("middle", 128), v, v)
	}
	VPMULLD(every("grey", 0x10101), y, y)
	product := func(c Mem, v VecVirtual) VecVirtual {
		t := YMM()
		VPMULLD(c, v, t)
		return t
	}
	red, green, blue := product(every("redCr", 91881), r), product(every("greenCb", 22554), b), product(every("blueCb", 116130), b)
	VPADDD(y, red, red)
	VPADDD(y, blue, blue)
	VPSUBD(green, y, y)
	VPSUBD(product(every("greenCr", 46802), r), y, y)
	green = y
	for _, v := range []VecVirtual{red, green, blue} {
		VPSRAD(Imm(8), v, v)
		VPMAXSD(zero, v, v)
		VPMINSD(every("full", 0xffff), v, v)
	}
	rgLo, rgHi, bLo, bHi := YMM(), YMM(), YMM(), YMM()
	VPUNPCKLDQ(green, red, rgLo)
	VPUNPCKHDQ(green, red, rgHi)
	VPUNPCKLDQ(zero, blue, bLo)
	VPUNPCKHDQ(zero, blue, bHi)
	for i := range 4 { // pixels i and i+4
		p, out, hi := YMM(), YMM(), XMM()
		switch i {
		case 0:
			VPUNPCKLQDQ(bLo, rgLo, p)
		case 1:
			VPUNPCKHQDQ(bLo, rgLo, p)
		case 2:
			VPUNPCKLQDQ(bHi, rgHi, p)
		case 3:
			VPUNPCKHQDQ(bHi, rgHi, p)
		}
		VEXTRACTI128(Imm(1), p, hi)
		VCVTDQ2PD(p.AsX(), out)
		VMOVUPD(out, Mem{Base: dst, Disp: 32 * i})
		VCVTDQ2PD(hi, out)
		VMOVUPD(out, Mem{Base: dst, Disp: 32 * (i + 4)})
	}
	ADDQ(Imm(8), luma)
	ADDQ(Imm(uint64(shared)), cb)
	ADDQ(Imm(uint64(shared)), cr)
	ADDQ(U32(256), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("pixels"))
	VZEROUPPER()
	RET()
}

func across() {
	TEXT("acrossAVX2", NOSPLIT, "func(dst, src *float64, from *int, weights, full *float64, n, taps int)")
	Doc("acrossAVX2 is acrossGo; every pixel has as many taps, and src as many pixels more, finite ones.")
	Pragma("noescape")
	dst, src, from, w, full := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("from"), GP64()), Load(Param("weights"), GP64()), Load(Param("full"), GP64())
	n, taps := Load(Param("n"), GP64()), Load(Param("taps"), GP64())
	Label("pixels")
	at, left := GP64(), GP64()
	MOVQ(Mem{Base: from}, at)
	SHLQ(Imm(5), at)
	ADDQ(src, at)
	sum, v, weight := YMM(), YMM(), YMM()
	VBROADCASTSD(Mem{Base: w}, weight)
	VMULPD(Mem{Base: at}, weight, sum)
	MOVQ(taps, left)
	DECQ(left)
	JZ(LabelRef("store"))
	Label("taps")
	ADDQ(Imm(8), w)
	ADDQ(Imm(32), at)
	VBROADCASTSD(Mem{Base: w}, weight)
	VMULPD(Mem{Base: at}, weight, v)
	VADDPD(v, sum, sum)
	DECQ(left)
	JNZ(LabelRef("taps"))
	Label("store")
	ADDQ(Imm(8), w)
	VBROADCASTSD(Mem{Base: full}, weight)
	VMULPD(weight, sum, sum)
	VMOVUPD(sum, Mem{Base: dst})
	ADDQ(Imm(8), from)
	ADDQ(Imm(8), full)
	ADDQ(Imm(32), dst)
	DECQ(n)
	JNZ(LabelRef("pixels"))
	VZEROUPPER()
	RET()
}

func down() {
	TEXT("downAVX2", NOSPLIT, "func(red, green, blue *uint8, rows, w *float64, n, taps, stride int, most, inverse float64)")
	Doc("downAVX2 is downGo for the first n pixels, a positive multiple of four, of rows stride bytes apart.")
	Pragma("noescape")
	r, g, b := Load(Param("red"), GP64()), Load(Param("green"), GP64()), Load(Param("blue"), GP64())
	rows, w := Load(Param("rows"), GP64()), Load(Param("w"), GP64())
	n, taps, stride := Load(Param("n"), GP64()), Load(Param("taps"), GP64()), Load(Param("stride"), GP64())
	most, inverse, full, half := YMM(), YMM(), YMM(), YMM()
	for i, v := range []VecVirtual{most, inverse} {
		x, _ := Param([]string{"most", "inverse"}[i]).Resolve()
		VBROADCASTSD(x.Addr, v)
	}
	number := func(name string, v float64) Mem {
		m := GLOBL(name, RODATA|NOPTR)
		DATA(0, U64(math.Float64bits(v)))
		return m
	}
	VBROADCASTSD(number("range", 0xffff), full)
	VBROADCASTSD(number("half", 0.5), half)
	order := XMM()
	VMOVDQU(bytes("order", [16]byte{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}), order)
	Label("pixels")
	at, left, weights := GP64(), GP64(), GP64()
	MOVQ(rows, at)
	MOVQ(w, weights)
	MOVQ(taps, left)
	var sum [4]VecVirtual
	weight, v := YMM(), YMM()
	for i := range sum {
		sum[i] = YMM()
		VXORPD(sum[i], sum[i], sum[i])
	}
	Label("taps")
	VBROADCASTSD(Mem{Base: weights}, weight)
	for i := range sum {
		VMULPD(Mem{Base: at, Disp: 32 * i}, weight, v)
		VADDPD(v, sum[i], sum[i])
	}
	ADDQ(Imm(8), weights)
	ADDQ(stride, at)
	DECQ(left)
	JNZ(LabelRef("taps"))
	var whole [4]VecVirtual
	for i := range sum {
		whole[i] = XMM()
		VMINPD(most, sum[i], sum[i])
		VMULPD(inverse, sum[i], sum[i])
		VMULPD(full, sum[i], sum[i])
		VADDPD(half, sum[i], sum[i])
		VCVTTPD2DQY(sum[i], whole[i])
	}
	VPACKUSDW(whole[1], whole[0], whole[0]) // cut to 0 … 65535
	VPACKUSDW(whole[3], whole[2], whole[2])
	VPSRLW(Imm(8), whole[0], whole[0])
	VPSRLW(Imm(8), whole[2], whole[2])
	VPACKUSWB(whole[2], whole[0], whole[0])
	VPSHUFB(order, whole[0], whole[0])
	VMOVD(whole[0], Mem{Base: r})
	VPEXTRD(Imm(1), whole[0], Mem{Base: g})
	VPEXTRD(Imm(2), whole[0], Mem{Base: b})
	ADDQ(Imm(4), r)
	ADDQ(Imm(4), g)
	ADDQ(Imm(4), b)
	ADDQ(U32(128), rows)
	SUBQ(Imm(4), n)
	JNZ(LabelRef("pixels"))
	VZEROUPPER()
	RET()
}
