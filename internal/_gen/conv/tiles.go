package conv

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// tiles writes the kernel of rows×16 tiles. All of a tile lives in 2·rows
// registers; each step loads 16 values of B and broadcasts rows values of A.
func tiles(rows int, strided bool) {
	name, doc := "dense", "over steps of one float in A and 16 in B"
	if strided {
		name, doc = "strided", "over steps of sa floats in A and sb in B"
	}
	name = fmt.Sprintf("%sTiles%d", name, rows)
	kernel.All(name, "func(tiles int, at, ct *int32, segs *int32, nsegs int, a, b, zero *float32, sa, sb, reps, arep, brep int, c, bias *float32, flags int)",
		fmt.Sprintf("%s is panelGo for %d rows, %s.", name, rows, doc),
		"tiles, nsegs and reps must be positive.")
	at, ct := Load(Param("at"), GP64()), Load(Param("ct"), GP64())
	// A and B of this repetition, and repetitions and segments to go.
	curA, curB, reps, segs := AllocLocal(8), AllocLocal(8), AllocLocal(8), AllocLocal(8)

	acc := make([][2]VecVirtual, rows)
	for i := range acc {
		acc[i] = [2]VecVirtual{YMM(), YMM()}
	}
	b0, b1, ai := YMM(), YMM(), []VecVirtual{YMM(), YMM()}

	Label("tile")
	t := GP64()
	// The tile of C will be wanted at the end: ask for it now.
	c := Load(Param("c"), GP64())
	for i := range rows {
		MOVLQSX(Mem{Base: ct, Disp: 4 * i}, t)
		PREFETCHT0(Mem{Base: c, Index: t, Scale: 4})
		PREFETCHT0(Mem{Base: c, Index: t, Scale: 4, Disp: 60})
	}
	for i := range acc {
		VXORPS(acc[i][0], acc[i][0], acc[i][0])
		VXORPS(acc[i][1], acc[i][1], acc[i][1])
	}
	for _, m := range []struct {
		from string
		to   Mem
	}{{"a", curA}, {"b", curB}, {"reps", reps}} {
		MOVQ(kernel.Address(m.from), t)
		MOVQ(t, m.to)
	}

	Label("rep")
	seg := Load(Param("segs"), GP64())
	MOVQ(kernel.Address("nsegs"), t)
	MOVQ(t, segs)

	Label("segment")
	row := make([]GPVirtual, rows)
	base, mask, zero := GP64(), GP64(), GP64()
	MOVLQSX(Mem{Base: seg}, t)
	MOVQ(curA, base)
	LEAQ(Mem{Base: base, Index: t, Scale: 4}, base)
	MOVLQSX(Mem{Base: seg, Disp: 12}, mask)
	MOVQ(kernel.Address("zero"), zero)
	for i := range row {
		row[i] = GP64()
		MOVLQSX(Mem{Base: at, Disp: 4 * i}, row[i])
		LEAQ(Mem{Base: base, Index: row[i], Scale: 4}, row[i])
		BTQ(Imm(uint64(i)), mask)
		CMOVQCC(zero, row[i])
	}
	b, n, off := GP64(), GP64(), GP64()
	MOVLQSX(Mem{Base: seg, Disp: 4}, t)
	MOVQ(curB, b)
	LEAQ(Mem{Base: b, Index: t, Scale: 4}, b)
	MOVLQSX(Mem{Base: seg, Disp: 8}, n)
	XORQ(off, off)

	step := func(u int) {
		VMOVUPS(Mem{Base: b, Disp: 64 * u}, b0)
		VMOVUPS(Mem{Base: b, Disp: 64*u + 32}, b1)
		for i := range rows {
			s := ai[i%2]
			VBROADCASTSS(Mem{Base: row[i], Index: off, Scale: 1, Disp: 4 * u}, s)
			VFMADD231PS(b0, s, acc[i][0])
			VFMADD231PS(b1, s, acc[i][1])
		}
	}
	if strided {
		sa, sb := Load(Param("sa"), GP64()), Load(Param("sb"), GP64())
		SHLQ(Imm(2), sa)
		SHLQ(Imm(2), sb)
		Label("loop")
		step(0)
		ADDQ(sa, off)
		ADDQ(sb, b)
		DECQ(n)
		JNZ(LabelRef("loop"))
	} else {
		const unroll = 4
		SUBQ(Imm(unroll), n)
		JLT(LabelRef("rest"))
		Label("loop")
		for u := range unroll {
			step(u)
		}
		ADDQ(Imm(4*unroll), off)
		ADDQ(U32(64*unroll), b)
		SUBQ(Imm(unroll), n)
		JGE(LabelRef("loop"))
		Label("rest")
		ADDQ(Imm(unroll), n)
		JZ(LabelRef("next"))
		Label("one")
		step(0)
		ADDQ(Imm(4), off)
		ADDQ(Imm(64), b)
		DECQ(n)
		JNZ(LabelRef("one"))
		Label("next")
	}
	ADDQ(Imm(16), seg)
	DECQ(segs)
	JNZ(LabelRef("segment"))

	for _, m := range []struct {
		cur Mem
		by  string
	}{{curA, "arep"}, {curB, "brep"}} {
		MOVQ(kernel.Address(m.by), t)
		SHLQ(Imm(2), t)
		ADDQ(t, m.cur)
	}
	DECQ(reps)
	JNZ(LabelRef("rep"))

	flags := Load(Param("flags"), GP64())
	MOVQ(kernel.Address("c"), c)
	for i := range row {
		MOVLQSX(Mem{Base: ct, Disp: 4 * i}, t)
		LEAQ(Mem{Base: c, Index: t, Scale: 4}, row[i])
	}
	// All of C is read before any is written: rows may be the same.
	BTQ(Imm(0), flags)
	JCC(LabelRef("bias"))
	for i := range acc {
		VADDPS(Mem{Base: row[i]}, acc[i][0], acc[i][0])
		VADDPS(Mem{Base: row[i], Disp: 32}, acc[i][1], acc[i][1])
	}
	Label("bias")
	BTQ(Imm(1), flags)
	JCC(LabelRef("relu"))
	MOVQ(kernel.Address("bias"), t)
	VMOVUPS(Mem{Base: t}, b0)
	VMOVUPS(Mem{Base: t, Disp: 32}, b1)
	for i := range acc {
		VADDPS(b0, acc[i][0], acc[i][0])
		VADDPS(b1, acc[i][1], acc[i][1])
	}
	Label("relu")
	BTQ(Imm(2), flags)
	JCC(LabelRef("store"))
	VXORPS(b0, b0, b0)
	for i := range acc {
		for j := range acc[i] {
			const lessOrEqual = 2 // false for NaN
			VCMPPS(Imm(lessOrEqual), b0, acc[i][j], ai[j])
			VANDNPS(acc[i][j], ai[j], acc[i][j])
		}
	}
	Label("store")
	for i := range acc {
		VMOVUPS(acc[i][0], Mem{Base: row[i]})
		VMOVUPS(acc[i][1], Mem{Base: row[i], Disp: 32})
	}
	ADDQ(Imm(uint64(4*rows)), at)
	ADDQ(Imm(uint64(4*rows)), ct)
	DECQ(kernel.Address("tiles"))
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}
