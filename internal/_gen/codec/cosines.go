package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// cosines writes the kernels of cosine transforms: steps of one length on a strip of
// eight columns, and what carries tiles to and fro.
func cosines() {
	strips("AVX2", 32, func() VecVirtual { return YMM() })
	strips("AVX512", 64, func() VecVirtual { return ZMM() })

	begin("widen", "(dst []float64, src []float32)", "dst", 8)
	dst, src, n := base("dst"), base("src"), length("dst")
	each(n, 8, func(i Register) {
		for u := range 2 {
			VMOVUPD(op1(VCVTPS2PD, at(src, i, 4, 4*u)), at(dst, i, 8, 4*u))
		}
	})
	end()

	begin("narrow", "(dst []float32, src []float64)", "dst", 8)
	dst, src, n = base("dst"), base("src"), length("dst")
	each(n, 8, func(i Register) {
		for u := range 2 {
			x := XMM()
			VCVTPD2PSY(at(src, i, 8, 4*u), x)
			VMOVUPS(x, at(dst, i, 4, 4*u))
		}
	})
	end()

	kernel.All("transposeAVX2", "func(dst, src []float64, h, w int)",
		"transposeAVX2 is transposeGo for numbers of rows and columns that are multiples of 4.")
	dst, src = base("dst"), base("src")
	h, w := word("h"), word("w")
	down, across := bytesOf(w), bytesOf(h) // from row to row, of src and of dst
	each(h, 4, func(Register) {
		from, to := GP64(), GP64()
		MOVQ(src, from)
		MOVQ(dst, to)
		each(w, 4, func(Register) {
			p := rowsAt(from, down)
			lower, upper := op2(VUNPCKLPD, op1(VMOVUPD, p[0]), p[1]), op2(VUNPCKHPD, op1(VMOVUPD, p[0]), p[1])
			lower2, upper2 := op2(VUNPCKLPD, op1(VMOVUPD, p[2]), p[3]), op2(VUNPCKHPD, op1(VMOVUPD, p[2]), p[3])
			q := rowsAt(to, across)
			for i, half := range []uint64{0x20, 0x31} {
				for j, pair := range [][2]VecVirtual{{lower, lower2}, {upper, upper2}} {
					y := YMM()
					VPERM2F128(Imm(half), pair[1], pair[0], y)
					VMOVUPD(y, q[2*i+j])
				}
			}
			ADDQ(Imm(32), from)
			LEAQ(Mem{Base: to, Index: across, Scale: 4}, to)
		})
		LEAQ(Mem{Base: src, Index: down, Scale: 4}, src)
		ADDQ(Imm(32), dst)
	})
	end()
}

// bytesOf is what so many numbers take.
func bytesOf(n Register) Register {
	b := GP64()
	MOVQ(n, b)
	SHLQ(Imm(3), b)
	return b
}

// rowsAt is where four rows are, step bytes apart.
func rowsAt(p, step Register) [4]Mem {
	third := GP64()
	LEAQ(Mem{Base: p, Index: step, Scale: 2}, third)
	return [4]Mem{{Base: p}, {Base: p, Index: step, Scale: 1}, {Base: third}, {Base: third, Index: step, Scale: 1}}
}

const rowBytes = 64 // of a strip

// strips writes the steps of transforms with vectors of so many bytes.
func strips(set string, size int, register func() VecVirtual) {
	vec = register
	defer func() { vec = func() VecVirtual { return YMM() } }()
	row := func(p Register, fn func(m Mem)) {
		for d := 0; d < rowBytes; d += size {
			fn(Mem{Base: p, Disp: d})
		}
	}
	open := func(name, signature string) {
		kernel.All(name+set, "func"+signature, name+set+" is "+name+"Go.")
	}
	// blocks runs body for every block of s of n rows, with the bytes of half a block.
	blocks := func(body func(half, halfBytes Register)) {
		n, s := word("n"), word("s")
		half, halfBytes := GP64(), GP64()
		MOVQ(s, half)
		SHRQ(Imm(1), half)
		MOVQ(half, halfBytes)
		SHLQ(Imm(6), halfBytes)
		repeat(n, s, func() { body(half, halfBytes) })
	}
	copied := func(r Register) Register {
		c := GP64()
		MOVQ(r, c)
		return c
	}
	// last is the last of twice as many rows from p.
	last := func(p, step, many Register) Register {
		q := copied(many)
		ADDQ(q, q)
		DECQ(q)
		IMULQ(step, q)
		ADDQ(p, q)
		return q
	}

	open("folds", "(dst, src []float64, stride, n, s int, mul []float64)")
	dst, src, step, mul := base("dst"), base("src"), bytesOf(word("stride")), base("mul")
	blocks(func(half, halfBytes Register) {
		q, e := last(src, step, half), copied(dst)
		ADDQ(halfBytes, e)
		each(half, 1, func(i Register) {
			m := op1(VBROADCASTSD, Mem{Base: mul, Index: i, Scale: 8})
			for d := 0; d < rowBytes; d += size {
				a, b := op1(VMOVUPD, Mem{Base: src, Disp: d}), op1(VMOVUPD, Mem{Base: q, Disp: d})
				VMOVUPD(op2(VADDPD, a, b), Mem{Base: dst, Disp: d})
				VMOVUPD(op2(VMULPD, op2(VSUBPD, a, b), m), Mem{Base: e, Disp: d})
			}
			ADDQ(step, src)
			SUBQ(step, q)
			ADDQ(Imm(rowBytes), dst)
			ADDQ(Imm(rowBytes), e)
		})
		ADDQ(halfBytes, dst)
		back := copied(half)
		IMULQ(step, back)
		ADDQ(back, src)
	})
	end()

	open("unfolds", "(dst []float64, stride int, src []float64, n, s int, mul []float64)")
	dst, src, step, mul = base("dst"), base("src"), bytesOf(word("stride")), base("mul")
	blocks(func(half, halfBytes Register) {
		q, e := last(dst, step, half), copied(src)
		ADDQ(halfBytes, e)
		each(half, 1, func(i Register) {
			m := op1(VBROADCASTSD, Mem{Base: mul, Index: i, Scale: 8})
			for d := 0; d < rowBytes; d += size {
				a, b := op1(VMOVUPD, Mem{Base: src, Disp: d}), op2(VMULPD, m, Mem{Base: e, Disp: d})
				VMOVUPD(op2(VADDPD, a, b), Mem{Base: dst, Disp: d})
				VMOVUPD(op2(VSUBPD, a, b), Mem{Base: q, Disp: d})
			}
			ADDQ(step, dst)
			SUBQ(step, q)
			ADDQ(Imm(rowBytes), src)
			ADDQ(Imm(rowBytes), e)
		})
		ADDQ(halfBytes, src)
		back := copied(half)
		IMULQ(step, back)
		ADDQ(back, dst)
	})
	end()

	open("weaves", "(dst []float64, stride int, src []float64, n, s int, scale float64)")
	dst, src, step = base("dst"), base("src"), bytesOf(word("stride"))
	by := op1(VBROADCASTSD, address("scale"))
	blocks(func(half, halfBytes Register) {
		e := copied(src)
		ADDQ(halfBytes, e)
		var odd []VecVirtual
		row(e, func(m Mem) { odd = append(odd, op1(VMOVUPD, m)) })
		rest := copied(half)
		DECQ(rest)
		out := func(next bool) {
			row(src, func(m Mem) {
				VMOVUPD(op2(VMULPD, by, m), Mem{Base: dst, Disp: m.Disp})
			})
			ADDQ(step, dst)
			ADDQ(Imm(rowBytes), src)
			ADDQ(Imm(rowBytes), e)
			row(e, func(m Mem) {
				u := m.Disp / size
				y := vec()
				if next {
					v := op1(VMOVUPD, m)
					VADDPD(v, odd[u], y)
					VMOVAPD(v, odd[u])
				} else {
					VMOVAPD(odd[u], y)
				}
				VMOVUPD(op2(VMULPD, by, y), Mem{Base: dst, Disp: m.Disp})
			})
			ADDQ(step, dst)
		}
		each(rest, 1, func(Register) { out(true) })
		out(false)
		ADDQ(halfBytes, src)
	})
	end()

	open("unweaves", "(dst, src []float64, stride, n, s int, scale float64)")
	dst, src, step = base("dst"), base("src"), bytesOf(word("stride"))
	by = op1(VBROADCASTSD, address("scale"))
	blocks(func(half, halfBytes Register) {
		e := copied(dst)
		ADDQ(halfBytes, e)
		var before []VecVirtual
		in := func(first bool) {
			row(src, func(m Mem) {
				VMOVUPD(op2(VMULPD, by, m), Mem{Base: dst, Disp: m.Disp})
			})
			ADDQ(step, src)
			row(src, func(m Mem) {
				u := m.Disp / size
				y := op2(VMULPD, by, m)
				if first {
					VMOVUPD(y, Mem{Base: e, Disp: m.Disp})
					before = append(before, y)
				} else {
					VMOVUPD(op2(VADDPD, y, before[u]), Mem{Base: e, Disp: m.Disp})
					VMOVAPD(y, before[u])
				}
			})
			ADDQ(step, src)
			ADDQ(Imm(rowBytes), dst)
			ADDQ(Imm(rowBytes), e)
		}
		rest := copied(half)
		DECQ(rest)
		in(true)
		each(rest, 1, func(Register) { in(false) })
		ADDQ(halfBytes, dst)
	})
	end()

	threeLevels(size, open)

	for _, back := range []bool{false, true} {
		name, body := "eights", fold8
		if back {
			name, body = "eightsBack", unfold8
		}
		open(name, "(x []float64, stride, n int, mul *[7]float64)")
		x := base("x")
		step, mul, n := bytesOf(word("stride")), word("mul"), word("n")
		each(n, 8, func(Register) {
			var p Register
			for d := 0; d < rowBytes; d += size {
				p = copied(x)
				q := copied(x)
				var col [8]VecVirtual
				for i := range col {
					col[i] = op1(VMOVUPD, Mem{Base: p, Disp: d})
					ADDQ(step, p)
				}
				body(col[:], mul)
				for _, y := range col {
					VMOVUPD(y, Mem{Base: q, Disp: d})
					ADDQ(step, q)
				}
			}
			MOVQ(p, x)
		})
		end()
	}
}

// fold8 transforms the registers of eight rows, fewer inside it. The multipliers of
// eight rows are the first four of seven, then come those of four and of two.
func fold8(x []VecVirtual, mul Register) {
	n := len(x)
	if n == 1 {
		zero := vec()
		if x[0].Size() == 64 {
			VPXORQ(zero, zero, zero)
		} else {
			VXORPD(zero, zero, zero)
		}
		VADDPD(zero, x[0], x[0]) // −0 becomes 0
		return
	}
	a, b := make([]VecVirtual, n/2), make([]VecVirtual, n/2)
	for i := range a {
		a[i], b[i] = op2(VADDPD, x[i], x[n-1-i]), op2(VSUBPD, x[i], x[n-1-i])
		VMULPD(op1(VBROADCASTSD, Mem{Base: mul, Disp: 8 * (8 - n + i)}), b[i], b[i])
	}
	fold8(a, mul)
	fold8(b, mul)
	for i := range a {
		x[2*i] = a[i]
		if i+1 < len(b) {
			VADDPD(b[i+1], b[i], b[i])
		}
		x[2*i+1] = b[i]
	}
}

// unfold8 is the transpose of fold8.
func unfold8(x []VecVirtual, mul Register) {
	n := len(x)
	if n == 1 {
		fold8(x, mul)
		return
	}
	a, b := make([]VecVirtual, n/2), make([]VecVirtual, n/2)
	for i := len(a) - 1; i >= 0; i-- {
		a[i], b[i] = x[2*i], x[2*i+1]
		if i > 0 {
			VADDPD(x[2*i-1], b[i], b[i])
		}
	}
	unfold8(a, mul)
	unfold8(b, mul)
	for i := range a {
		VMULPD(op1(VBROADCASTSD, Mem{Base: mul, Disp: 8 * (8 - n + i)}), b[i], b[i])
		x[i], x[n-1-i] = op2(VADDPD, a[i], b[i]), op2(VSUBPD, a[i], b[i])
	}
}

// repeat runs body for every step of n, a multiple of it and at least one.
func repeat(n, step Register, body func()) {
	left := GP64()
	MOVQ(n, left)
	next := labelled("block")
	Label(next)
	body()
	SUBQ(step, left)
	JNZ(LabelRef(next))
}
