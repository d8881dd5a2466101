package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func selection() {
	begin("atLeast", "(mask []byte, x []float32, tau uint32) (most uint32)", "x", 32)
	mask, x, n := base("mask"), base("x"), length("x")
	tau := single("tau")
	VPSUBD(longs(1), tau, tau)
	acc := [2]VecVirtual{YMM(), YMM()}
	for _, y := range acc {
		VPXOR(y, y, y)
	}
	each(n, 32, func(i Register) {
		var hit [4]VecVirtual
		for u := range hit {
			v := op2(VPAND, op1(VMOVDQU, at(x, i, 4, 8*u)), longs(magnitude))
			VPMAXUD(v, acc[u&1], acc[u&1])
			hit[u] = op2(VPCMPGTD, v, tau)
			if u&1 == 1 {
				VPACKSSDW(hit[u], hit[u-1], hit[u-1])
			}
		}
		VPACKSSWB(hit[2], hit[0], hit[0])
		VPERMD(hit[0], inOrder(), hit[0])
		r := GP32()
		VPMOVMSKB(hit[0], r)
		MOVL(r, Mem{Base: mask})
		ADDQ(Imm(4), mask)
	})
	VPMAXUD(acc[1], acc[0], acc[0])
	Store(reduce(acc[0], VPMAXUD), ReturnIndex(0))
	end()

	begin("count", "(x []float32, tau uint32) int", "x", 32)
	x, n = base("x"), length("x")
	tau = single("tau")
	VPSUBD(longs(1), tau, tau)
	acc = [2]VecVirtual{YMM(), YMM()}
	for _, y := range acc {
		VPXOR(y, y, y)
	}
	each(n, 32, func(i Register) {
		for u := range 4 {
			v := op2(VPAND, op1(VMOVDQU, at(x, i, 4, 8*u)), longs(magnitude))
			VPSUBD(op2(VPCMPGTD, v, tau), acc[u&1], acc[u&1])
		}
	})
	VPADDD(acc[1], acc[0], acc[0])
	total := GP64()
	MOVL(reduce(acc[0], VPADDD), total.As32())
	Store(total, ReturnIndex(0))
	end()

	begin("squeeze", "(idx []uint32, val, x []float32, tau, first uint32, order *[256]uint64) int", "x", 8)
	idx, val, x, n := base("idx"), base("val"), base("x"), length("x")
	tau = single("tau")
	VPSUBD(longs(1), tau, tau)
	place := op2(VPADDD, single("first"), lanes(0, 1, 2, 3, 4, 5, 6, 7))
	pushed(n, func() { VPADDD(longs(8), place, place) }, func(i Register) (VecVirtual, []stream) {
		v := op1(VMOVDQU, at(x, i, 4, 0))
		return op2(VPCMPGTD, op2(VPAND, v, longs(magnitude)), tau), []stream{{v, val}, {place, idx}}
	})
	end()

	// inside chooses magnitudes from lo on and below hi.
	inside := func() func(v VecVirtual) VecVirtual {
		lo, hi := single("lo"), single("hi")
		VPSUBD(longs(1), lo, lo)
		VPSUBD(longs(1), hi, hi)
		return func(v VecVirtual) VecVirtual { return op2(VPANDN, op2(VPCMPGTD, v, hi), op2(VPCMPGTD, v, lo)) }
	}

	begin("between", "(dst, x []float32, lo, hi uint32, order *[256]uint64) int", "x", 8)
	dst, x, n := base("dst"), base("x"), length("x")
	hit := inside()
	pushed(n, nil, func(i Register) (VecVirtual, []stream) {
		v := op2(VPAND, op1(VMOVDQU, at(x, i, 4, 0)), longs(magnitude))
		return hit(v), []stream{{v, dst}}
	})
	end()

	begin("band", "(idx []uint32, val, x []float32, lo, hi, first uint32, order *[256]uint64) int", "x", 8)
	idx, val, x, n = base("idx"), base("val"), base("x"), length("x")
	hit = inside()
	place = op2(VPADDD, single("first"), lanes(0, 1, 2, 3, 4, 5, 6, 7))
	pushed(n, func() { VPADDD(longs(8), place, place) }, func(i Register) (VecVirtual, []stream) {
		v := op1(VMOVDQU, at(x, i, 4, 0))
		return hit(op2(VPAND, v, longs(magnitude))), []stream{{v, val}, {place, idx}}
	})
	end()

	// The same by the compress instruction.
	insideWide := func() func(v VecVirtual) Register {
		lo, hi := single("lo"), single("hi")
		return func(v VecVirtual) Register {
			from, in := K(), K()
			VPCMPUD(Imm(5), lo, v, from)
			VPCMPUD(Imm(1), hi, v, from, in)
			return in
		}
	}

	wide("between", "(dst, x []float32, lo, hi uint32) int", "x", 16, func() {
		dst, x, n := base("dst"), base("x"), length("x")
		hit, signs := insideWide(), everywhere(magnitude<<32|magnitude)
		compressed(n, nil, func(i Register) (Register, []stream) {
			v := op2(VPANDD, signs, at(x, i, 4, 0))
			return hit(v), []stream{{v, dst}}
		})
	})

	wide("band", "(idx []uint32, val, x []float32, lo, hi, first uint32) int", "x", 16, func() {
		idx, val, x, n := base("idx"), base("val"), base("x"), length("x")
		hit, place := insideWide(), single("first")
		signs, step := everywhere(magnitude<<32|magnitude), everywhere(16<<32|16)
		VPADDD(row("sixteen", 16, 32, func(i int) uint64 { return uint64(i) }), place, place)
		compressed(n, func() { VPADDD(step, place, place) }, func(i Register) (Register, []stream) {
			v := op1(VMOVDQU32, at(x, i, 4, 0))
			return hit(op2(VPANDD, signs, v)), []stream{{v, val}, {place, idx}}
		})
	})

	begin("sumOver", "(x []float32, from, sum float64) float64", "x", 8)
	x, n = base("x"), length("x")
	from, sum := double("from"), Load(Param("sum"), XMM())
	each(n, 8, func(i Register) {
		for u := range 2 {
			v := op1(VCVTPS2PD, at(x, i, 4, 4*u))
			VANDPD(quads(1<<63-1), v, v)
			VSUBPD(from, v, v)
			high := upper(v)
			for _, w := range []Register{v.AsX(), high} {
				VADDSD(w, sum, sum)
				VUNPCKHPD(w, w, w)
				VADDSD(w, sum, sum)
			}
		}
	})
	Store(sum, ReturnIndex(0))
	end()
}

// stream says where what is chosen of some elements goes.
type stream struct {
	of VecVirtual
	to Register
}

// pushed stores what body chooses of n elements, eight at a time. They are pushed together
// by a permutation: order has that of every eight bits, eight places of a byte each. Eight
// are stored, of which as many count as there are bits: the rest is overwritten by the next.
// next, if there is one, follows each eight. The kernel returns how many were chosen.
func pushed(n Register, next func(), body func(i Register) (hit VecVirtual, out []stream)) {
	order := word("order")
	j, bits := none(), GP64()
	each(n, 8, func(i Register) {
		hit, out := body(i)
		VMOVMSKPS(hit, bits.As32())
		to := op1(VPMOVZXBD, Mem{Base: order, Index: bits, Scale: 8})
		for _, s := range out {
			VMOVDQU(op2(VPERMD, to, s.of), at(s.to, j, 4, 0))
		}
		if next != nil {
			next()
		}
		POPCNTQ(bits, bits)
		ADDQ(bits, j)
	})
	Store(j, ReturnIndex(0))
}

// compressed is pushed for sixteen at a time.
func compressed(n Register, next func(), body func(i Register) (hit Register, out []stream)) {
	j, bits := none(), GP64()
	each(n, 16, func(i Register) {
		hit, out := body(i)
		for _, s := range out {
			VMOVDQU32(squeezed(s.of, hit), at(s.to, j, 4, 0))
		}
		if next != nil {
			next()
		}
		KMOVW(hit, bits.As32())
		POPCNTQ(bits, bits)
		ADDQ(bits, j)
	})
	Store(j, ReturnIndex(0))
}

// none is a count that begins at 0.
func none() GPVirtual {
	j := GP64()
	XORQ(j, j)
	return j
}

// squeezed pushes the lanes of v that are in k together.
func squeezed(v VecVirtual, k Register) VecVirtual {
	y := vec()
	VPCOMPRESSD_Z(v, k, y)
	return y
}
