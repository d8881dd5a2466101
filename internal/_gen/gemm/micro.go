package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// tile is the shape of a kernel's part of C and how it is held in registers.
type tile struct {
	name    string
	vectors int   // in a row
	lanes   int   // floats in a vector: 8 (AVX2) or 16 (AVX-512)
	heights []int // rows of the kernels, one function each
	unroll  int   // steps of k a turn of the loop, with one prefetch
	pairs   bool  // elements of A and B are two bfloat16
}

var tiles = []tile{
	{"avx2x16x", 2, 8, []int{6, 5, 4, 3, 2, 1}, 2, false},
	{"avx512x32x", 2, 16, []int{12, 10, 8, 6, 4, 3, 2, 1}, 1, false},
	{"avx512x48x", 3, 16, []int{8, 6, 5, 4, 3, 2, 1}, 1, false},
	{"bf16x32x", 2, 16, []int{12, 10, 8, 6, 4, 3, 2, 1}, 1, true},
}

// Where the fields of f32.call are; f32 has a test of it.
const (
	callK        = 0
	callTiles    = 8
	callA        = 16
	callARow     = 40
	callAStep    = 48
	callATile    = 56
	callB        = 64
	callBStep    = 88
	callPacked   = 96
	callNext     = 120
	callNextStep = 144
	callC        = 152
	callCRow     = 176
	callMask     = 184
	callAlpha    = 192
	callAdd      = 196
	callFlush    = 197
)

// flushed is the control word for rounding to nearest with denormals taken for 0,
// in operands and results.
const flushed = 0x9fc0

func (t tile) vec() VecVirtual {
	if t.lanes == 8 {
		return YMM()
	}
	return ZMM()
}

// registers are vectors for each row of a tile, for a row of B and two for A. Those
// of pairs are chosen here, because their instruction is written in bytes.
func (t tile) registers(rows int) (acc [][]Register, b, a []Register) {
	next := 0
	one := func() Register {
		if next++; t.pairs {
			return zmm[next-1]
		}
		return t.vec()
	}
	some := func(n int) (x []Register) {
		for range n {
			x = append(x, one())
		}
		return x
	}
	for range rows {
		acc = append(acc, some(t.vectors))
	}
	return acc, some(t.vectors), some(2)
}

// madd adds the products of a and b to acc.
func (t tile) madd(b, a, acc Register) {
	if t.pairs {
		dot(b, a, acc)
	} else {
		VFMADD231PS(b, a, acc)
	}
}

func (t tile) zero(x Register) {
	if t.lanes == 8 {
		VXORPS(x, x, x)
	} else {
		VPXORD(x, x, x)
	}
}

// micro writes the kernel for tiles of that many rows. All of a tile lives in
// registers; each step of k loads a row of B and broadcasts a column of A.
func (t tile) micro(rows int) {
	name := fmt.Sprintf("%s%d", t.name, rows)
	spec := "microGo for tiles of %d×%d."
	if t.pairs {
		spec = "pairsGo for tiles of %d×%d."
	}
	kernel.All(name, "func(call *int)", fmt.Sprintf("%s is "+spec, name, rows, t.vectors*t.lanes),
		"Its argument points to the first field of a call.")
	args := Load(Param("call"), GP64())
	field := func(offset int) Mem { return Mem{Base: args, Disp: offset} }
	// stride loads one in bytes.
	stride := func(offset int) GPVirtual {
		r := GP64()
		MOVQ(field(offset), r)
		SHLQ(Imm(2), r)
		return r
	}

	// What changes from tile to tile is kept on the stack.
	tilesLeft, aBase, bBase, nextLeft := AllocLocal(8), AllocLocal(8), AllocLocal(8), AllocLocal(8)
	before, during := AllocLocal(8), AllocLocal(8) // control words
	flush := GP8()
	MOVB(field(callFlush), flush)
	TESTB(flush, flush)
	JZ(LabelRef("begin"))
	STMXCSR(before)
	MOVL(U32(flushed), during)
	LDMXCSR(during)
	Label("begin")
	MOVQ(U32(uint32(t.unroll)), nextLeft) // tiles until the next panel is prefetched
	aRow, aStep, bStep := stride(callARow), stride(callAStep), stride(callBStep)
	next, nextStep := GP64(), stride(callNextStep)
	MOVQ(field(callNext), next)
	c, packed := GP64(), GP64()
	MOVQ(field(callC), c)
	MOVQ(field(callPacked), packed)
	tmp := GP64()
	for _, x := range []struct {
		offset int
		local  Mem
	}{{callTiles, tilesLeft}, {callA, aBase}, {callB, bBase}} {
		MOVQ(field(x.offset), tmp)
		MOVQ(tmp, x.local)
	}

	acc, b, ai := t.registers(rows)
	size := 4 * t.lanes // of a vector

	Label("tile")
	for i := range acc {
		for _, x := range acc[i] {
			t.zero(x)
		}
	}
	// The tile of C will be wanted at the end: ask for it now.
	MOVQ(c, tmp)
	cRow := stride(callCRow)
	for i := range rows {
		for d := 0; d < t.vectors*size; d += 64 {
			PREFETCHT0(Mem{Base: tmp, Disp: d})
		}
		PREFETCHT0(Mem{Base: tmp, Disp: t.vectors*size - 4})
		if i+1 < rows {
			ADDQ(cRow, tmp)
		}
	}

	// Rows of A three by three: a register can be scaled by 1 or 2.
	a := make([]GPVirtual, (rows+2)/3)
	for g := range a {
		a[g] = GP64()
		if g == 0 {
			MOVQ(aBase, a[g])
		} else {
			LEAQ(Mem{Base: a[g-1], Index: aRow, Scale: 2}, a[g])
			ADDQ(aRow, a[g])
		}
	}
	aAt := func(i int) Mem {
		m := Mem{Base: a[i/3]}
		if i%3 > 0 {
			m.Index, m.Scale = aRow, uint8(i%3)
		}
		return m
	}
	pb, k := GP64(), GP64()
	MOVQ(bBase, pb)
	MOVQ(field(callK), k)

	// step is one step of k; keep says to copy the row of B.
	step := func(keep bool) {
		for v := range b {
			VMOVUPS(Mem{Base: pb, Disp: v * size}, b[v])
		}
		ADDQ(bStep, pb)
		if keep {
			for v := range b {
				VMOVUPS(b[v], Mem{Base: packed, Disp: v * size})
			}
			ADDQ(U32(uint32(t.vectors*size)), packed)
		}
		for i := range rows {
			VBROADCASTSS(aAt(i), ai[i%2])
			for v := range b {
				t.madd(b[v], ai[i%2], acc[i][v])
			}
		}
		for g := range a {
			ADDQ(aStep, a[g])
		}
	}
	// loop runs through k, which is not 0, with a prefetch every turn.
	loop := func(label string, keep bool) {
		last := label + "last"
		if t.unroll > 1 {
			SUBQ(Imm(uint64(t.unroll)), k)
			JLT(LabelRef(last))
		}
		Label(label)
		for line := range t.vectors * size / 64 { // next is in the last one of a row
			PREFETCHT1(Mem{Base: next, Disp: -64 * line})
		}
		ADDQ(nextStep, next)
		for range t.unroll {
			step(keep)
		}
		SUBQ(Imm(uint64(t.unroll)), k)
		if t.unroll == 1 {
			JNZ(LabelRef(label))
			return
		}
		JGE(LabelRef(label))
		Label(last)
		CMPQ(k, I32(int32(-t.unroll)))
		JEQ(LabelRef(label + "done"))
		step(keep)
		Label(label + "done")
	}
	TESTQ(packed, packed)
	JZ(LabelRef("again"))
	// From the second tile on B is where the first one has packed it.
	MOVQ(packed, bBase)
	loop("first", true)
	MOVQ(U32(uint32(t.vectors*size)), bStep)
	XORQ(packed, packed)
	JMP(LabelRef("finish"))
	Label("again")
	loop("loop", false)

	Label("finish")
	alpha := ai[0]
	VBROADCASTSS(field(callAlpha), alpha)
	for i := range acc {
		for _, x := range acc[i] {
			VMULPS(alpha, x, x)
		}
	}
	cRow = stride(callCRow)
	mask := GP64()
	MOVQ(field(callMask), mask)
	add := GP8()
	MOVB(field(callAdd), add)
	TESTQ(mask, mask)
	JNZ(LabelRef("edge"))
	TESTB(add, add)
	JZ(LabelRef("store"))
	MOVQ(c, tmp)
	for i := range acc {
		for v, x := range acc[i] {
			VADDPS(Mem{Base: tmp, Disp: v * size}, x, x)
		}
		if i+1 < rows {
			ADDQ(cRow, tmp)
		}
	}
	Label("store")
	for i := range acc {
		for v, x := range acc[i] {
			VMOVUPS(x, Mem{Base: c, Disp: v * size})
		}
		ADDQ(cRow, c)
	}
	Label("done")
	MOVQ(field(callATile), tmp)
	SHLQ(Imm(2), tmp)
	ADDQ(tmp, aBase)
	DECQ(nextLeft)
	JNZ(LabelRef("more"))
	XORQ(nextStep, nextStep)
	Label("more")
	DECQ(tilesLeft)
	JNZ(LabelRef("tile"))
	MOVB(field(callFlush), flush)
	TESTB(flush, flush)
	JZ(LabelRef("return"))
	LDMXCSR(before)
	Label("return")
	VZEROUPPER()
	RET()

	Label("edge")
	t.edge(acc, b, c, cRow, mask, add, tmp)
	JMP(LabelRef("done"))
}

// edge writes the end of a tile that reaches over the last column of C: only
// elements whose mask is set are read and written. It moves c past the tile.
func (t tile) edge(acc [][]Register, masks []Register, c, cRow, mask, add, tmp Register) {
	size := 4 * t.lanes
	k := []OpmaskVirtual{K(), K(), K()}
	for v, m := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * size}, m)
		if t.lanes == 16 {
			VPTESTMD(m, m, k[v])
		}
	}
	// each visits the rows of a vector, in code.
	each := func(v int, f func(x Register, at Mem)) {
		MOVQ(c, tmp)
		for i := range acc {
			f(acc[i][v], Mem{Base: tmp, Disp: v * size})
			if i+1 < len(acc) {
				ADDQ(cRow, tmp)
			}
		}
	}
	TESTB(add, add)
	JZ(LabelRef("edgestore"))
	old := t.vec()
	for v := range masks {
		each(v, func(x Register, at Mem) {
			if t.lanes == 8 {
				VMASKMOVPS(at, masks[v], old)
			} else {
				VMOVUPS_Z(at, k[v], old)
			}
			VADDPS(old, x, x)
		})
	}
	Label("edgestore")
	for v := range masks {
		if t.lanes == 16 {
			each(v, func(x Register, at Mem) { VMOVUPS(x, k[v], at) })
			continue
		}
		// A masked store takes many times as long as a plain one: only a vector
		// that is cut in two has to have it.
		next, whole := fmt.Sprintf("edge%d", v+1), fmt.Sprintf("whole%d", v)
		lane := GP8()
		MOVB(Mem{Base: mask, Disp: v * size}, lane)
		TESTB(lane, lane)
		JZ(LabelRef(next))
		MOVB(Mem{Base: mask, Disp: (v+1)*size - 4}, lane)
		TESTB(lane, lane)
		JNZ(LabelRef(whole))
		each(v, func(x Register, at Mem) { VMASKMOVPS(x, masks[v], at) })
		JMP(LabelRef(next))
		Label(whole)
		each(v, func(x Register, at Mem) { VMOVUPS(x, at) })
		Label(next)
	}
	for range acc {
		ADDQ(cRow, c)
	}
}
