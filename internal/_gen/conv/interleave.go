package conv

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// interleave16 writes the transpose of 16 rows, 8 columns at a time.
func interleave16() {
	kernel.All("interleave16", "func(dst, src *float32, ld, blocks int)",
		"interleave16 writes the transpose of a 16×(8·blocks) matrix: dst[16*j+i] = src[i*ld+j].",
		"blocks must be positive.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	ld := Load(Param("ld"), GP64())
	blocks := Load(Param("blocks"), GP64())
	SHLQ(Imm(2), ld)
	ld3 := GP64()
	LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, ld3)
	// Every fourth row has its own address.
	quads := make([]GPVirtual, 4)
	quads[0] = src.(GPVirtual)
	for i := 1; i < 4; i++ {
		quads[i] = GP64()
		LEAQ(Mem{Base: quads[i-1], Index: ld, Scale: 4}, quads[i])
	}
	row := func(i, disp int) Mem {
		m := Mem{Base: quads[i/4], Disp: disp}
		switch i % 4 {
		case 1:
			m.Index, m.Scale = ld, 1
		case 2:
			m.Index, m.Scale = ld, 2
		case 3:
			m.Index, m.Scale = ld3, 1
		}
		return m
	}
	Label("block")
	for eight := range 2 {
		for half := range 2 {
			// Lane by lane: x[i] holds four columns of rows i (low) and i+4 (high).
			x := make([]VecVirtual, 4)
			for i := range x {
				lo := XMM()
				x[i] = YMM()
				VMOVUPS(row(8*eight+i, 16*half), lo)
				VINSERTF128(Imm(1), row(8*eight+i+4, 16*half), lo.AsY(), x[i])
			}
			t := []VecVirtual{YMM(), YMM(), YMM(), YMM()}
			VUNPCKLPS(x[1], x[0], t[0])
			VUNPCKHPS(x[1], x[0], t[1])
			VUNPCKLPS(x[3], x[2], t[2])
			VUNPCKHPS(x[3], x[2], t[3])
			for j := range 4 {
				y := YMM()
				VSHUFPS(Imm([]uint64{0x44, 0xee, 0x44, 0xee}[j]), t[2+j/2], t[j/2], y)
				VMOVUPS(y, Mem{Base: dst, Disp: 64*(4*half+j) + 32*eight})
			}
		}
	}
	for _, q := range quads {
		ADDQ(Imm(32), q)
	}
	ADDQ(U32(512), dst)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
