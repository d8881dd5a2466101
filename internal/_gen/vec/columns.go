package vec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func columns() {
	matrix("biasReLU", "x, bias []float32, relu bool")
	x, bias, relu, none := base("x"), base("bias"), flag("relu"), zero()
	eachRow(length("bias"), []Register{x}, func(at place) {
		at.store(rectifyIf(relu, add(at.load(x), at.of(bias, 4)), none), x)
	})
	end()

	matrix("scaleShift", "y, x, scale, shift, plus []float32, relu bool")
	y, x, scale, shift, plus, relu := base("y"), base("x"), base("scale"), base("shift"), base("plus"), flag("relu")
	none = zero()
	width := length("scale")
	scaled := func(at place) VecVirtual { return add(mul(at.load(scale), at.of(x, 4)), at.of(shift, 4)) }
	TESTQ(plus, plus)
	JZ(LabelRef("plain"))
	eachRow(width, []Register{y, x, plus}, func(at place) {
		at.store(rectifyIf(relu, add(scaled(at), at.of(plus, 4)), none), y)
	})
	end()
	Label("plain")
	eachRow(width, []Register{y, x}, func(at place) { at.store(rectifyIf(relu, scaled(at), none), y) })
	end()

	matrix("normGrad", "dx, dy, x, k, p, q []float32")
	dx, dy, x, k, p, q := base("dx"), base("dy"), base("x"), base("k"), base("p"), base("q")
	eachRow(length("k"), []Register{dx, dy, x}, func(at place) {
		at.store(add(add(mul(at.load(k), at.of(dy, 4)), mul(at.load(p), at.of(x, 4))), at.of(q, 4)), dx)
	})
	end()

	matrix("colSums", "sum []float64, x []float32")
	x = base("x")
	columnSums("sum", []string{"sum"}, func(at cell, s []doubles) { s[0].add(at.mem(x)) })
	end()

	matrix("reluGradColSums", "sum []float64, dy, y []float32")
	dy, y = base("dy"), base("y")
	none = zero()
	columnSums("sum", []string{"sum"}, func(at cell, s []doubles) {
		d := passed(at.mem(dy), at.mem(y), none)
		VMOVUPS(d, at.mem(dy))
		s[0].add(at.mem(dy))
	})
	end()

	matrix("moments", "sum, sq []float64, x []float32")
	x = base("x")
	columnSums("sum", []string{"sum", "sq"}, func(at cell, s []doubles) {
		v := widen(at.mem(x))
		s[0].addWide(v)
		s[1].addProduct(v, v)
	})
	end()

	matrix("normGradSums", "sdy, sdyx []float64, dy, x, y []float32")
	dy, x, y = base("dy"), base("x"), base("y")
	none = zero()
	sums := []string{"sdy", "sdyx"}
	addUp := func(at cell, s []doubles) {
		d := widen(at.mem(dy))
		s[0].addWide(d)
		s[1].addProduct(d, widen(at.mem(x)))
	}
	TESTQ(y, y)
	JZ(LabelRef("plain"))
	columnSums("sdy", sums, func(at cell, s []doubles) {
		VMOVUPS(passed(at.mem(dy), at.mem(y), none), at.mem(dy))
		addUp(at, s)
	})
	end()
	Label("plain")
	columnSums("sdy", sums, addUp)
	end()
}

// matrix opens a kernel over rows of a matrix.
func matrix(name, parameters string) {
	begin(name, "(rows, cols int, "+parameters+")", "cols", 8,
		fmt.Sprintf("%sAVX2 is %sGo for the first columns.", name, name))
}

// flag broadcasts a bool: zeros if it is set, else ones.
func flag(name string) VecVirtual {
	r, b := GP32(), Load(Param(name), GP8())
	MOVBLZX(b, r)
	DECL(r)
	x, y := XMM(), YMM()
	VMOVD(r, x)
	VPBROADCASTD(x, y)
	return y
}

// rectifyIf is rectify, or nothing if keepAll is ones.
func rectifyIf(keepAll, v, zero VecVirtual) VecVirtual {
	keep := YMM()
	VCMPPS(Imm(notLessOrEqual), zero, v, keep)
	VORPS(keepAll, keep, keep)
	VANDPS(v, keep, keep)
	return keep
}

// eachRow runs body for every group of eight in the first cols columns of all
// rows; p are the matrices, of the given width.
func eachRow(width Register, p []Register, body func(at place)) {
	rows, cols := Load(Param("rows"), GP64()), Load(Param("cols"), GP64())
	loops++
	next, done := fmt.Sprintf("row%d", loops), fmt.Sprintf("end%d", loops)
	TESTQ(rows, rows)
	JZ(LabelRef(done))
	Label(next)
	each(cols, 2, body)
	for _, m := range p {
		LEAQ(Mem{Base: m, Index: width, Scale: 4}, m)
	}
	DECQ(rows)
	JNZ(LabelRef(next))
	Label(done)
}

// cell is where eight columns of a row lie: at an offset in elements.
type cell struct{ off Register }

func (at cell) mem(p Register) Mem { return Mem{Base: p, Index: at.off, Scale: 4} }

// half is the upper or lower four of eight elements.
func half(m Mem, h int) Mem {
	m.Disp += 16 * h
	return m
}

// doubles are eight float64.
type doubles [2]VecVirtual

func widen(m Mem) doubles {
	d := doubles{YMM(), YMM()}
	for h := range d {
		VCVTPS2PD(half(m, h), d[h])
	}
	return d
}

func (s doubles) add(m Mem) { s.addWide(widen(m)) }

func (s doubles) addWide(v doubles) {
	for h := range s {
		VADDPD(v[h], s[h], s[h])
	}
}

// addProduct fuses, as the product of two float32 is exact.
func (s doubles) addProduct(a, b doubles) {
	for h := range s {
		VFMADD231PD(a[h], b[h], s[h])
	}
}

// columnSums runs body for every group of eight columns of all rows in turn,
// with the sums of these columns in registers; four rows at a time.
func columnSums(width string, names []string, body func(at cell, s []doubles)) {
	rows, cols, wide := Load(Param("rows"), GP64()), Load(Param("cols"), GP64()), length(width)
	var sums []Register
	for _, name := range names {
		sums = append(sums, base(name))
	}
	loops++
	id := loops
	name := func(s string, n int) string { return fmt.Sprintf("%s%dx%d", s, id, n) }
	first, i := GP64(), GP64()
	XORQ(first, first)
	for _, n := range []int{4, 1} {
		Label(name("rows", n))
		CMPQ(rows, Imm(uint64(n)))
		JLT(LabelRef(name("done", n)))
		off := []Register{GP64()}
		MOVQ(first, off[0])
		for r := 1; r < n; r++ {
			off = append(off, GP64())
			LEAQ(Mem{Base: off[r-1], Index: wide, Scale: 1}, off[r])
		}
		XORQ(i, i)
		Label(name("cols", n))
		s := make([]doubles, len(sums))
		for j := range s {
			for h := range s[j] {
				s[j][h] = YMM()
				VMOVUPD(Mem{Base: sums[j], Index: i, Scale: 8, Disp: 32 * h}, s[j][h])
			}
		}
		for r := range n {
			body(cell{off[r]}, s)
			ADDQ(Imm(8), off[r])
		}
		for j := range s {
			for h := range s[j] {
				VMOVUPD(s[j][h], Mem{Base: sums[j], Index: i, Scale: 8, Disp: 32 * h})
			}
		}
		ADDQ(Imm(8), i)
		CMPQ(i, cols)
		JLT(LabelRef(name("cols", n)))
		for range n {
			ADDQ(wide, first)
		}
		SUBQ(Imm(uint64(n)), rows)
		JMP(LabelRef(name("rows", n)))
		Label(name("done", n))
	}
}
