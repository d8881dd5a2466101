// Package pool opens the AVX2 kernels of package pool.
package pool

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// Predicates of VCMPPS that raise nothing.
const (
	ordered        = 0x07 // neither is NaN
	notLessOrEqual = 0x16 // or one is NaN
)

// Kernels opens all of them.
func Kernels() {
	maximum()
	maximumGrad()
}

// walk is eight channels at a time of the pixels of a window.
type walk struct {
	n             Register // channels, a multiple of eight
	w, h          Register
	pixel, stride Register // bytes from pixel to pixel and row to row
	j             Register // first channel of the eight
}

func newWalk() walk {
	k := walk{n: kernel.Word("channels"), w: Load(Param("w"), GP64()), h: Load(Param("h"), GP64()),
		pixel: Load(Param("c"), GP64()), stride: Load(Param("stride"), GP64()), j: GP64()}
	SHLQ(Imm(2), k.pixel)
	SHLQ(Imm(2), k.stride)
	return k
}

// each runs body for every eight channels. w, h and n must be positive.
func (k walk) each(body func()) {
	XORQ(k.j, k.j)
	Label("channels")
	body()
	ADDQ(Imm(8), k.j)
	CMPQ(k.j, k.n)
	JLT(LabelRef("channels"))
	VZEROUPPER()
	RET()
}

// pixels runs body with the place of the eight channels in each pixel of x, and
// eight times its number in the window.
func (k walk) pixels(x Register, body func(at Mem, i VecVirtual)) {
	row, at, left, rows := GP64(), GP64(), GP64(), GP64()
	i, one := YMM(), YMM()
	VPXOR(i, i, i)
	VPCMPEQD(one, one, one) // −1
	LEAQ(Mem{Base: x, Index: k.j, Scale: 4}, row)
	MOVQ(k.h, rows)
	Label("rows")
	MOVQ(row, at)
	MOVQ(k.w, left)
	Label("pixels")
	body(Mem{Base: at}, i)
	VPSUBD(one, i, i)
	ADDQ(k.pixel, at)
	DECQ(left)
	JNZ(LabelRef("pixels"))
	ADDQ(k.stride, row)
	DECQ(rows)
	JNZ(LabelRef("rows"))
}

func maximum() {
	kernel.First("maxAVX2", "func(y *float32, at *uint8, x *float32, channels, c, w, h, stride int, relu bool)", "channels", 8,
		"maxAVX2 is maxGo for the first channels.")
	y, at, x := Load(Param("y"), GP64()), Load(Param("at"), GP64()), Load(Param("x"), GP64())
	k := newWalk()
	relu := Load(Param("relu"), GP8())
	k.each(func() {
		best, where := YMM(), YMM()
		VMOVUPS(Mem{Base: x, Index: k.j, Scale: 4}, best)
		VPXOR(where, where, where)
		k.pixels(x, func(from Mem, i VecVirtual) {
			v, better, known := YMM(), YMM(), YMM()
			VMOVUPS(from, v)
			VCMPPS(Imm(notLessOrEqual), best, v, better)
			VCMPPS(Imm(ordered), best, best, known)
			VPAND(known, better, better)
			VBLENDVPS(better, v, best, best)
			VPBLENDVB(better, i, where, where)
		})
		TESTB(relu, relu)
		JZ(LabelRef("store"))
		keep := YMM()
		VXORPS(keep, keep, keep)
		VCMPPS(Imm(notLessOrEqual), keep, best, keep)
		VPAND(keep, best, best)
		Label("store")
		VMOVUPS(best, Mem{Base: y, Index: k.j, Scale: 4})
		hi := XMM()
		VEXTRACTI128(Imm(1), where, hi)
		lo := where.AsX()
		VPACKUSDW(hi, lo, lo)
		VPACKUSWB(lo, lo, lo)
		VMOVQ(lo, Mem{Base: at, Index: k.j, Scale: 1})
	})
}

func maximumGrad() {
	kernel.First("maxGradAVX2", "func(dx, dy *float32, at *uint8, channels, c, w, h, stride int, add bool)", "channels", 8,
		"maxGradAVX2 is maxGradGo for the first channels.")
	dx, dy, at := Load(Param("dx"), GP64()), Load(Param("dy"), GP64()), Load(Param("at"), GP64())
	k := newWalk()
	add, bits, keep := Load(Param("add"), GP8()), GP32(), YMM()
	MOVBLZX(add, bits)
	NEGL(bits)
	VMOVD(bits, keep.AsX())
	VPBROADCASTD(keep.AsX(), keep) // all ones with add
	k.each(func() {
		d, where := YMM(), YMM()
		VMOVUPS(Mem{Base: dy, Index: k.j, Scale: 4}, d)
		VPMOVZXBD(Mem{Base: at, Index: k.j, Scale: 1}, where)
		k.pixels(dx, func(to Mem, i VecVirtual) {
			part, old := YMM(), YMM()
			VPCMPEQD(i, where, part)
			VPAND(d, part, part)
			VPAND(to, keep, old)
			VADDPS(old, part, part)
			VMOVUPS(part, to)
		})
	})
}
