package conv

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// ahead is how many pixels ahead copies ask for: channels-last images are read
// a piece here and a piece there, which no prefetcher foresees.
const ahead = 8

// copies writes the copies of parts of pixels.
func copies() {
	kernel.All("copySixteens", "func(dst, src *float32, channels, n int)",
		"copySixteens copies 16 channels of n pixels, channels apart, to a dense dst. n must", "be positive.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	channels, n := Load(Param("channels"), GP64()), Load(Param("n"), GP64())
	SHLQ(Imm(2), channels)
	early := GP64()
	MOVQ(channels, early)
	IMUL3Q(Imm(ahead), early, early)
	Label("pixel")
	x, y := YMM(), YMM()
	PREFETCHT0(Mem{Base: src, Index: early, Scale: 1})
	VMOVUPS(Mem{Base: src}, x)
	VMOVUPS(Mem{Base: src, Disp: 32}, y)
	VMOVUPS(x, Mem{Base: dst})
	VMOVUPS(y, Mem{Base: dst, Disp: 32})
	ADDQ(channels, src)
	ADDQ(Imm(64), dst)
	DECQ(n)
	JNZ(LabelRef("pixel"))
	VZEROUPPER()
	RET()

	kernel.All("copySixes", "func(dst *float32, next int, src *float32, step, channels, n, tiles int)",
		"copySixes copies pieces of 6 channels of n pixels, channels apart: piece k, from",
		"channel k·step on, of pixel i to dst[k*next+6*i]. n and tiles must be positive.")
	dst, src = Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	channels, n = Load(Param("channels"), GP64()), Load(Param("n"), GP64())
	next, step := Load(Param("next"), GP64()), Load(Param("step"), GP64())
	SHLQ(Imm(2), channels)
	SHLQ(Imm(2), next)
	SHLQ(Imm(2), step)
	Label("pixel")
	from, to, tiles := GP64(), GP64(), GP64()
	MOVQ(src, from)
	MOVQ(dst, to)
	Load(Param("tiles"), tiles)
	Label("tile")
	u, v := XMM(), XMM()
	VMOVUPS(Mem{Base: from}, u)
	VMOVSD(Mem{Base: from, Disp: 16}, v)
	VMOVUPS(u, Mem{Base: to})
	VMOVSD(v, Mem{Base: to, Disp: 16})
	ADDQ(step, from)
	ADDQ(next, to)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	ADDQ(channels, src)
	ADDQ(Imm(24), dst)
	DECQ(n)
	JNZ(LabelRef("pixel"))
	VZEROUPPER()
	RET()
}
