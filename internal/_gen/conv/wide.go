package conv

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// Where the fields of conv.job are; conv has a test of it.
const (
	jobTiles = 0
	jobAt    = 8
	jobCt    = 32
	jobSegs  = 56
	jobA     = 80
	jobB     = 104
	jobC     = 128
	jobSA    = 152
	jobSB    = 160
	jobPB    = 168
	jobPC    = 176
	jobReps  = 184
	jobARep  = 192
	jobBRep  = 200
	jobBias  = 208
	jobAdd   = 232
	jobReLU  = 233
)

// wide writes the AVX-512 kernel of tiles of rows×16 in some neighbouring
// panels; 12 rows are two tiles at once, as the six sums of one would wait for each
// other: a register for each row of each panel, one for each panel's part of B,
// and the rest for values of A. Broadcasts go by a register: as operands of the
// multiplications they would take a port that the processor lacks.
func wide(rows, panels int) {
	name := fmt.Sprintf("wideTiles%dx%d", rows, panels)
	what := fmt.Sprintf("tiles of %d rows in %d panels", rows, panels)
	if rows == 12 {
		what = "pairs of tiles of 6 rows in 1 panel, whose number is in the field for that of tiles"
	}
	kernel.All(name, "func(job *int, zero *float32)", fmt.Sprintf("%s is panelGo for all panels, for %s.", name, what),
		"Its argument job points to the first field of a job, of at least one tile, segment and repetition.")
	job := Load(Param("job"), GP64())
	field := func(offset int) Mem { return Mem{Base: job, Disp: offset} }
	// Twelve rows leave so few registers that the loop does without what it can.
	tight := rows == 12
	// local is a copy of a field on the stack, in bytes if it counts floats.
	local := func(offset int, floats bool) Mem {
		m, t := AllocLocal(8), GP64()
		MOVQ(field(offset), t)
		if floats {
			SHLQ(Imm(2), t)
		}
		MOVQ(t, m)
		return m
	}
	zero := AllocLocal(8)
	t := GP64()
	Load(Param("zero"), t)
	MOVQ(t, zero)
	tiles, at, ct := local(jobTiles, false), local(jobAt, false), local(jobCt, false)
	sa, sb, arep, brep := local(jobSA, true), local(jobSB, true), local(jobARep, true), local(jobBRep, true)
	// A and B of this repetition, repetitions and segments to go, and where a
	// segment's part of B ends.
	curA, curB, reps, seg, segs, end := AllocLocal(8), AllocLocal(8), AllocLocal(8), AllocLocal(8), AllocLocal(8), AllocLocal(8)
	// stride is a field in bytes, and its triple if that many panels need it.
	stride := func(offset int) (one, three GPVirtual) {
		if panels == 1 {
			return
		}
		one = GP64()
		Load(Param("job"), one)
		MOVQ(Mem{Base: one, Disp: offset}, one)
		SHLQ(Imm(2), one)
		if panels > 3 {
			three = GP64()
			LEAQ(Mem{Base: one, Index: one, Scale: 2}, three)
		}
		return one, three
	}
	// panel is a place in panel p, step apart.
	panel := func(base Register, p int, one, three GPVirtual) Mem {
		switch p {
		case 1, 2:
			return Mem{Base: base, Index: one, Scale: uint8(p)}
		case 3:
			return Mem{Base: base, Index: three, Scale: 1}
		}
		return Mem{Base: base}
	}

	acc := make([][]VecVirtual, rows)
	for i := range acc {
		for range panels {
			acc[i] = append(acc[i], ZMM())
		}
	}
	b := make([]VecVirtual, panels)
	for p := range b {
		b[p] = ZMM()
	}
	ai := []VecVirtual{ZMM(), ZMM(), ZMM(), ZMM()}[:min(4, rows)]
	row := make([]GPVirtual, rows)
	for i := range row {
		row[i] = GP64()
	}
	// rowsOf sets the rows of C.
	rowsOf := func() (one, three GPVirtual) {
		list, c := GP64(), GP64()
		MOVQ(ct, list)
		Load(Param("job"), c)
		MOVQ(Mem{Base: c, Disp: jobC}, c)
		for i := range row {
			MOVLQSX(Mem{Base: list, Disp: 4 * i}, row[i])
			LEAQ(Mem{Base: c, Index: row[i], Scale: 4}, row[i])
		}
		return stride(jobPC)
	}

	Label("tile")
	{
		// The tile of C will be wanted at the end: ask for it now.
		one, three := rowsOf()
		for i := range row {
			for p := range panels {
				PREFETCHT0(panel(row[i], p, one, three))
			}
			last := panel(row[i], panels-1, one, three)
			last.Disp = 60
			PREFETCHT0(last)
		}
	}
	for i := range acc {
		for _, x := range acc[i] {
			VPXORD(x, x, x)
		}
	}
	Load(Param("job"), job)
	for _, m := range []struct {
		from int
		to   Mem
	}{{jobA, curA}, {jobB, curB}, {jobReps, reps}} {
		MOVQ(field(m.from), t)
		MOVQ(t, m.to)
	}

	Label("rep")
	Load(Param("job"), job)
	MOVQ(field(jobSegs), t)
	MOVQ(t, seg)
	MOVQ(field(jobSegs+8), t)
	MOVQ(t, segs)

	Label("segment")
	s, base, list := GP64(), GP64(), GP64()
	MOVQ(seg, s)
	MOVLQSX(Mem{Base: s}, base)
	SHLQ(Imm(2), base)
	ADDQ(curA, base)
	MOVQ(at, list)
	var mask, none Op = Mem{Base: s, Disp: 12}, zero
	if !tight {
		mask, none = GP32(), GP64()
		MOVL(Mem{Base: s, Disp: 12}, mask)
		MOVQ(zero, none)
	}
	for i := range row {
		MOVLQSX(Mem{Base: list, Disp: 4 * i}, row[i])
		LEAQ(Mem{Base: base, Index: row[i], Scale: 4}, row[i])
		BTL(Imm(uint64(i%6)), mask)
		CMOVQCC(none, row[i])
	}
	pb, off, n := GP64(), GP64(), GP64()
	MOVLQSX(Mem{Base: s, Disp: 4}, pb)
	SHLQ(Imm(2), pb)
	ADDQ(curB, pb)
	MOVLQSX(Mem{Base: s, Disp: 8}, n)
	ADDQ(Imm(16), seg)
	stepA, stepB := Op(sa), Op(sb)
	if tight {
		IMULQ(sb, n)
		ADDQ(pb, n)
		MOVQ(n, end)
		CMPQ(pb, n)
	} else {
		stepA, stepB = GP64(), GP64()
		MOVQ(sa, stepA)
		MOVQ(sb, stepB)
		TESTQ(n, n)
	}
	JEQ(LabelRef("next"))
	one, three := stride(jobPB)
	// Where pixels follow each other, so do tiles: each step of the loop asks for as much of
	// the next tile as it reads of this one, whose values nobody has read yet if C has few
	// channels.
	var ahead GPVirtual
	if rows == 6 {
		ahead = GP64()
		MOVQ(row[5], ahead)
		SUBQ(row[4], ahead)
		ADDQ(row[5], ahead)
	}
	XORQ(off, off)
	Label("loop")
	for p := range b {
		VMOVUPS(panel(pb, p, one, three), b[p])
	}
	if rows == 6 {
		PREFETCHT0(Mem{Base: ahead})
		ADDQ(Imm(24), ahead)
	}
	for i := range rows {
		v := ai[i%len(ai)]
		VBROADCASTSS(Mem{Base: row[i], Index: off, Scale: 1}, v)
		for p := range b {
			VFMADD231PS(b[p], v, acc[i][p])
		}
	}
	ADDQ(stepB, pb)
	ADDQ(stepA, off)
	if tight {
		CMPQ(pb, end)
	} else {
		DECQ(n)
	}
	JNE(LabelRef("loop"))
	Label("next")
	DECQ(segs)
	JNZ(LabelRef("segment"))

	for _, m := range []struct{ cur, by Mem }{{curA, arep}, {curB, brep}} {
		MOVQ(m.by, t)
		ADDQ(t, m.cur)
	}
	DECQ(reps)
	JNZ(LabelRef("rep"))

	one, three = rowsOf()
	Load(Param("job"), job)
	flag := GP8()
	// All of C is read before any is written: rows may be the same.
	MOVB(field(jobAdd), flag)
	TESTB(flag, flag)
	JZ(LabelRef("bias"))
	for i := range acc {
		for p, x := range acc[i] {
			VADDPS(panel(row[i], p, one, three), x, x)
		}
	}
	Label("bias")
	MOVQ(field(jobBias), t)
	TESTQ(t, t)
	JZ(LabelRef("relu"))
	for p := range b {
		VMOVUPS(Mem{Base: t, Disp: 64 * p}, b[p])
	}
	for i := range acc {
		for p, x := range acc[i] {
			VADDPS(b[p], x, x)
		}
	}
	Label("relu")
	MOVB(field(jobReLU), flag)
	TESTB(flag, flag)
	JZ(LabelRef("store"))
	VPXORD(b[0], b[0], b[0])
	for i := range acc {
		for _, x := range acc[i] {
			const notLessOrEqual = 6 // true for NaN
			k := K()
			VCMPPS(Imm(notLessOrEqual), b[0], x, k)
			VMOVAPS_Z(x, k, x)
		}
	}
	Label("store")
	for i := range acc {
		for p, x := range acc[i] {
			VMOVUPS(x, panel(row[i], p, one, three))
		}
	}
	ADDQ(Imm(uint64(4*rows)), at)
	ADDQ(Imm(uint64(4*rows)), ct)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}
