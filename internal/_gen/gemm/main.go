// Command gen writes the AVX2 assembly of package f32: the micro-kernels of
// the matrix product and the transpose that packs their panels. From this
// folder:
//
//	go run . -out ../../f32/kernel_amd64.s -stubs ../../f32/kernel_stubs_amd64.go -pkg f32
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!noasm")
	micro(6)
	micro(4)
	transpose8()
	copyRows(6)
	copyRows(16)
	Generate()
}

// micro writes the kernel of the first rows×16 part of a tile. All of the tile
// lives in 2·rows registers; each step of k loads 16 values of B and
// broadcasts rows values of A.
func micro(rows int) {
	TEXT(fmt.Sprintf("micro%dx16", rows), NOSPLIT, "func(k int, a, b *float32, alpha float32, c *float32, ldc int, add bool)")
	Doc(fmt.Sprintf("micro%dx16 is microGo for the first %d rows, with fused multiply-adds.", rows, rows))
	Pragma("noescape")
	k := Load(Param("k"), GP64())
	a := Load(Param("a"), GP64())
	b := Load(Param("b"), GP64())
	c := Load(Param("c"), GP64())
	ldc := Load(Param("ldc"), GP64())
	SHLQ(Imm(2), ldc)

	acc := make([][2]VecVirtual, rows)
	for i := range acc {
		acc[i] = [2]VecVirtual{YMM(), YMM()}
		VXORPS(acc[i][0], acc[i][0], acc[i][0])
		VXORPS(acc[i][1], acc[i][1], acc[i][1])
	}
	// The tile of C will be wanted at the end: ask for it now.
	p := GP64()
	MOVQ(c, p)
	for i := range rows {
		PREFETCHT0(Mem{Base: p})
		PREFETCHT0(Mem{Base: p, Disp: 60})
		if i+1 < rows {
			ADDQ(ldc, p)
		}
	}

	b0, b1, ai := YMM(), YMM(), []VecVirtual{YMM(), YMM()}
	step := func(u int) {
		VMOVUPS(Mem{Base: b, Disp: 64 * u}, b0)
		VMOVUPS(Mem{Base: b, Disp: 64*u + 32}, b1)
		for i := range rows {
			s := ai[i%2]
			VBROADCASTSS(Mem{Base: a, Disp: 24*u + 4*i}, s)
			VFMADD231PS(b0, s, acc[i][0])
			VFMADD231PS(b1, s, acc[i][1])
		}
	}
	const unroll = 4
	SUBQ(Imm(unroll), k)
	JLT(LabelRef("rest"))
	Label("loop")
	for u := range unroll {
		step(u)
	}
	ADDQ(Imm(24*unroll), a)
	ADDQ(U32(64*unroll), b)
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), k)
	JZ(LabelRef("out"))
	Label("one")
	step(0)
	ADDQ(Imm(24), a)
	ADDQ(Imm(64), b)
	DECQ(k)
	JNZ(LabelRef("one"))

	Label("out")
	alpha := b0
	ref, err := Param("alpha").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(ref.Addr, alpha)
	for i := range acc {
		VMULPS(alpha, acc[i][0], acc[i][0])
		VMULPS(alpha, acc[i][1], acc[i][1])
	}
	add := Load(Param("add"), GP8())
	TESTB(add, add)
	JZ(LabelRef("store"))
	MOVQ(c, p)
	for i := range acc {
		VADDPS(Mem{Base: p}, acc[i][0], acc[i][0])
		VADDPS(Mem{Base: p, Disp: 32}, acc[i][1], acc[i][1])
		if i+1 < rows {
			ADDQ(ldc, p)
		}
	}
	Label("store")
	for i := range acc {
		VMOVUPS(acc[i][0], Mem{Base: c})
		VMOVUPS(acc[i][1], Mem{Base: c, Disp: 32})
		if i+1 < rows {
			ADDQ(ldc, c)
		}
	}
	VZEROUPPER()
	RET()
}

// transpose8 writes the 8×8 transpose, eight columns at a time.
func transpose8() {
	TEXT("transpose8", NOSPLIT, "func(dst *float32, ldd int, src *float32, lds, rows, blocks int)")
	Doc("transpose8 writes the transpose of an 8×(8·blocks) matrix: for j ascending,",
		"dst[j*ldd+i] = src[min(i,rows-1)*lds+j] for i < 8. With ldd < 8 a later row",
		"overwrites the surplus of the one before. rows and blocks must be positive.")
	Pragma("noescape")
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

// copyRows writes the copy of a strip of short rows.
func copyRows(width int) {
	TEXT(fmt.Sprintf("copyRows%d", width), NOSPLIT, "func(dst, src *float32, lds, n int)")
	Doc(fmt.Sprintf("copyRows%d copies n rows of %d elements, lds apart, to a dense dst. n must be", width, width),
		"positive.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	n := Load(Param("n"), GP64())
	SHLQ(Imm(2), lds)
	Label("row")
	switch width {
	case 6:
		x, y := XMM(), XMM()
		VMOVUPS(Mem{Base: src}, x)
		VMOVSD(Mem{Base: src, Disp: 16}, y)
		VMOVUPS(x, Mem{Base: dst})
		VMOVSD(y, Mem{Base: dst, Disp: 16})
	case 16:
		x, y := YMM(), YMM()
		VMOVUPS(Mem{Base: src}, x)
		VMOVUPS(Mem{Base: src, Disp: 32}, y)
		VMOVUPS(x, Mem{Base: dst})
		VMOVUPS(y, Mem{Base: dst, Disp: 32})
	}
	ADDQ(lds, src)
	ADDQ(Imm(uint64(4*width)), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
