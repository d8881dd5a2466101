package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// transpose8 writes the 8×8 transpose, eight columns at a time.
func transpose8() {
	kernel.All("transpose8", "func(dst *float32, ldd int, src *float32, lds, rows, blocks int)",
		"transpose8 writes the transpose of an 8×(8·blocks) matrix: for j ascending,",
		"dst[j*ldd+i] = src[min(i,rows-1)*lds+j] for i < 8. With ldd < 8 a later row",
		"overwrites the surplus of the one before. rows and blocks must be positive.")
	row := make([]Register, 8) // addresses of the rows
	row[0] = Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	rows := Load(Param("rows"), GP64())
	SHLQ(Imm(2), lds)
	for i := 1; i < 8; i++ {
		p, q := GP64(), GP64()
		MOVQ(row[i-1], p)
		LEAQ(Mem{Base: p, Index: lds, Scale: 1}, q)
		CMPQ(rows, Imm(uint64(i)))
		CMOVQGT(q, p)
		row[i] = p
	}
	dst := Load(Param("dst"), GP64())
	ldd := Load(Param("ldd"), GP64())
	n := Load(Param("blocks"), GP64())
	SHLQ(Imm(2), ldd)
	off := GP64()
	XORQ(off, off)
	src := func(i, disp int) Mem { return Mem{Base: row[i], Index: off, Scale: 1, Disp: disp} }
	Label("block")
	// Lane by lane: x[i] holds four columns of rows i (low) and i+4 (high).
	for half := range 2 {
		x := make([]VecVirtual, 4)
		for i := range x {
			lo := XMM()
			x[i] = YMM()
			VMOVUPS(src(i, 16*half), lo)
			VINSERTF128(Imm(1), src(i+4, 16*half), lo.AsY(), x[i])
		}
		t := []VecVirtual{YMM(), YMM(), YMM(), YMM()}
		VUNPCKLPS(x[1], x[0], t[0])
		VUNPCKHPS(x[1], x[0], t[1])
		VUNPCKLPS(x[3], x[2], t[2])
		VUNPCKHPS(x[3], x[2], t[3])
		for j := range 4 {
			y := YMM()
			VSHUFPS(Imm([]uint64{0x44, 0xee, 0x44, 0xee}[j]), t[2+j/2], t[j/2], y)
			VMOVUPS(y, Mem{Base: dst})
			ADDQ(ldd, dst)
		}
	}
	ADDQ(Imm(32), off)
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// copyRuns writes the copy of parts of rows, width elements each: 6, or a
// multiple of 4.
func copyRuns(width int) {
	name := fmt.Sprintf("copy%d", width)
	kernel.All(name, "func(dst *float32, ldd int, src *float32, lds, n, ahead int)",
		fmt.Sprintf("%s copies n runs of %d elements, lds apart in src and ldd apart in dst,", name, width),
		"asking for what lies ahead elements further. n must be positive.")
	dst := Load(Param("dst"), GP64())
	ldd := Load(Param("ldd"), GP64())
	src := Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	n := Load(Param("n"), GP64())
	SHLQ(Imm(2), lds)
	ahead := Load(Param("ahead"), GP64())
	SHLQ(Imm(2), ldd)
	Label("run")
	PREFETCHT0(Mem{Base: src, Index: ahead, Scale: 4})
	type part struct {
		at   int
		x    VecVirtual
		move func(Op, Op)
	}
	var parts []part
	for at := 0; at < width; {
		switch left := width - at; {
		case left >= 8:
			parts = append(parts, part{at, YMM(), func(from, to Op) { VMOVUPS(from, to) }})
			at += 8
		case left >= 4:
			parts = append(parts, part{at, XMM(), func(from, to Op) { VMOVUPS(from, to) }})
			at += 4
		default:
			parts = append(parts, part{at, XMM(), func(from, to Op) { VMOVSD(from, to) }})
			at += 2
		}
	}
	for _, p := range parts {
		p.move(Mem{Base: src, Disp: 4 * p.at}, p.x)
	}
	for _, p := range parts {
		p.move(p.x, Mem{Base: dst, Disp: 4 * p.at})
	}
	ADDQ(lds, src)
	ADDQ(ldd, dst)
	DECQ(n)
	JNZ(LabelRef("run"))
	VZEROUPPER()
	RET()
}
