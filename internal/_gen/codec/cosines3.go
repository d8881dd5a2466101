package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// spaced is where the k-th of things is that lie step apart from p on, for k up to 7.
type spaced struct{ step, three, five, seven Register }

func spacedBy(step Register) spaced {
	t := spaced{step, GP64(), GP64(), GP64()}
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, t.three)
	LEAQ(Mem{Base: step, Index: step, Scale: 4}, t.five)
	LEAQ(Mem{Base: t.three, Index: step, Scale: 4}, t.seven)
	return t
}

func (t spaced) at(p Register, k int) Mem {
	switch k {
	case 1, 2, 4:
		return Mem{Base: p, Index: t.step, Scale: uint8(k)}
	case 3, 6:
		return Mem{Base: p, Index: t.three, Scale: uint8(k / 3)}
	case 5:
		return Mem{Base: p, Index: t.five, Scale: 1}
	case 7:
		return Mem{Base: p, Index: t.seven, Scale: 1}
	}
	return Mem{Base: p}
}

// threeLevels writes three steps at once, on all n rows of a strip: of eight spaced as many
// as a block has in the space.
func threeLevels(size int, open func(name, signature string)) {
	eighth := func() (rows Register, blocks spaced) {
		rows = word("n")
		SHRQ(Imm(3), rows)
		bytes := GP64()
		MOVQ(rows, bytes)
		SHLQ(Imm(6), bytes)
		return rows, spacedBy(bytes)
	}
	// mirrored are the rows of a matrix that are folded into row j of all blocks: four
	// that ascend with j from up, four that descend from down.
	mirrored := func(x, step, rows Register) (up, down, quarter, three Register) {
		up, down, quarter, three = x, GP64(), GP64(), GP64()
		MOVQ(rows, quarter)
		IMULQ(step, quarter)
		ADDQ(quarter, quarter)
		MOVQ(quarter, down)
		SUBQ(step, down)
		ADDQ(x, down)
		LEAQ(Mem{Base: quarter, Index: quarter, Scale: 2}, three)
		return
	}
	mirror := func(i int, up, down, quarter, three Register) Mem {
		p := up
		if i%2 == 1 {
			p = down
		}
		switch i / 2 {
		case 0:
			return Mem{Base: p}
		case 3:
			return Mem{Base: p, Index: three, Scale: 1}
		}
		return Mem{Base: p, Index: quarter, Scale: uint8(i / 2)}
	}
	by := func(m Mem, disp int) Mem {
		m.Disp += disp
		return m
	}

	open("folds3", "(dst, src []float64, stride, n int, mul []float64)")
	dst, src, step, mul := base("dst"), base("src"), bytesOf(word("stride")), base("mul")
	rows, blocks := eighth()
	up, down, quarter, three := mirrored(src, step, rows)
	each(rows, 1, func(Register) {
		for d := 0; d < rowBytes; d += size {
			var x [8]VecVirtual
			for i := range 4 {
				a, m := op1(VMOVUPD, by(mirror(i, up, down, quarter, three), d)), by(mirror(7-i, up, down, quarter, three), d)
				x[i], x[4+i] = op2(VADDPD, a, m), op2(VSUBPD, a, m)
				VMULPD(op1(VBROADCASTSD, Mem{Base: mul, Disp: 8 * i}), x[4+i], x[4+i])
			}
			foldIn(x[:4], mul)
			foldIn(x[4:], mul)
			for i, y := range x {
				VMOVUPD(y, by(blocks.at(dst, i), d))
			}
		}
		ADDQ(step, up)
		SUBQ(step, down)
		ADDQ(Imm(rowBytes), dst)
		ADDQ(Imm(7*8), mul)
	})
	end()

	open("unfolds3", "(dst []float64, stride int, src []float64, n int, mul []float64)")
	dst, src, step, mul = base("dst"), base("src"), bytesOf(word("stride")), base("mul")
	rows, blocks = eighth()
	up, down, quarter, three = mirrored(dst, step, rows)
	each(rows, 1, func(Register) {
		for d := 0; d < rowBytes; d += size {
			var x [8]VecVirtual
			for i := range x {
				x[i] = op1(VMOVUPD, by(blocks.at(src, i), d))
			}
			unfoldIn(x[:], mul)
			for i, y := range x {
				VMOVUPD(y, by(mirror(i, up, down, quarter, three), d))
			}
		}
		ADDQ(step, up)
		SUBQ(step, down)
		ADDQ(Imm(rowBytes), src)
		ADDQ(Imm(7*8), mul)
	})
	end()

	open("weaves3", "(dst []float64, stride int, src []float64, n int, scale float64)")
	dst, src = base("dst"), base("src")
	matrix := spacedBy(bytesOf(word("stride")))
	rows, blocks = eighth()
	scale := op1(VBROADCASTSD, address("scale"))
	DECQ(rows)
	out := func(last bool) {
		for d := 0; d < rowBytes; d += size {
			// woven are m rows made of those of blocks from e on, and the row behind them.
			var woven func(e, m int) (v []VecVirtual, next Mem)
			woven = func(e, m int) (v []VecVirtual, next Mem) {
				if m == 1 {
					at := by(blocks.at(src, e), d)
					return []VecVirtual{op1(VMOVUPD, at)}, by(at, rowBytes)
				}
				odd, after := woven(e+m/2, m/2)
				for k, x := range odd {
					y := x
					if k+1 < m/2 {
						y = op2(VADDPD, odd[k+1], x)
					} else if !last {
						y = op2(VADDPD, x, after)
					}
					v = append(v, nil, y)
				}
				even, next := woven(e, m/2)
				for k, x := range even {
					v[2*k] = x
				}
				return v, next
			}
			v, _ := woven(0, 8)
			for k, x := range v {
				VMOVUPD(op2(VMULPD, scale, x), by(matrix.at(dst, k), d))
			}
		}
		LEAQ(Mem{Base: dst, Index: matrix.step, Scale: 8}, dst)
		ADDQ(Imm(rowBytes), src)
	}
	each(rows, 1, func(Register) { out(false) })
	out(true)
	end()

	open("unweaves3", "(dst, src []float64, stride, n int, scale float64)")
	dst, src = base("dst"), base("src")
	matrix = spacedBy(bytesOf(word("stride")))
	rows, blocks = eighth()
	scale = op1(VBROADCASTSD, address("scale"))
	before := GP64()
	MOVQ(src, before)
	DECQ(rows)
	in := func(first bool) {
		for d := 0; d < rowBytes; d += size {
			row := func(k int) VecVirtual {
				at := matrix.at(src, k&7)
				if k < 0 {
					at = matrix.at(before, k&7)
				}
				return op2(VMULPD, scale, by(at, d))
			}
			// apart sets row by row m blocks from e on, of rows from 1−m to m−1 around the
			// present one, of which it needs every one at most once, and from the first on.
			var apart func(e, m int, row func(k int) VecVirtual)
			apart = func(e, m int, row func(k int) VecVirtual) {
				if m == 1 {
					VMOVUPD(row(0), by(blocks.at(dst, e), d))
					return
				}
				sums := map[int]VecVirtual{}
				var left VecVirtual
				if !first {
					left = row(1 - m)
				}
				for k := 1 - m/2; k < m/2; k++ {
					if first && k < 0 {
						continue
					}
					right := row(2*k + 1)
					sums[k] = right
					if left != nil {
						sums[k] = op2(VADDPD, left, right)
					}
					left = right
				}
				apart(e+m/2, m/2, func(k int) VecVirtual { return sums[k] })
				apart(e, m/2, func(k int) VecVirtual { return row(2 * k) })
			}
			apart(0, 8, row)
		}
		MOVQ(src, before)
		LEAQ(Mem{Base: src, Index: matrix.step, Scale: 8}, src)
		ADDQ(Imm(rowBytes), dst)
	}
	in(true)
	each(rows, 1, func(Register) { in(false) })
	end()
}

// foldIn folds 8, 4 or 2 rows into sums and differences, and those again. The multipliers
// of eight rows are the first four of seven, then come those of four and of two.
func foldIn(x []VecVirtual, mul Register) {
	n := len(x)
	if n == 1 {
		return
	}
	var sums, diffs []VecVirtual
	for i := range n / 2 {
		a, b := x[i], x[n-1-i]
		sums, diffs = append(sums, op2(VADDPD, a, b)), append(diffs, op2(VSUBPD, a, b))
		VMULPD(op1(VBROADCASTSD, Mem{Base: mul, Disp: 8 * (8 - n + i)}), diffs[i], diffs[i])
	}
	copy(x, sums)
	copy(x[n/2:], diffs)
	foldIn(x[:n/2], mul)
	foldIn(x[n/2:], mul)
}

// unfoldIn is the transpose of foldIn.
func unfoldIn(x []VecVirtual, mul Register) {
	n := len(x)
	if n == 1 {
		return
	}
	unfoldIn(x[:n/2], mul)
	unfoldIn(x[n/2:], mul)
	var y [8]VecVirtual
	for i := range n / 2 {
		a, b := x[i], x[n/2+i]
		VMULPD(op1(VBROADCASTSD, Mem{Base: mul, Disp: 8 * (8 - n + i)}), b, b)
		y[i], y[n-1-i] = op2(VADDPD, a, b), op2(VSUBPD, a, b)
	}
	copy(x, y[:n])
}
