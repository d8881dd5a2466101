package vec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS that hold for NaN and raise nothing.
const (
	notLessOrEqual = 0x16
	notEqual       = 0x04
)

// rectify is v where v > 0 or NaN, else 0.
func rectify(v, zero VecVirtual) VecVirtual {
	keep := YMM()
	VCMPPS(Imm(notLessOrEqual), zero, v, keep)
	VANDPS(v, keep, keep)
	return keep
}

// passed is d where y is not 0, else 0.
func passed(d, y Op, zero VecVirtual) VecVirtual {
	keep := YMM()
	VCMPPS(Imm(notEqual), y, zero, keep)
	VANDPS(d, keep, keep)
	return keep
}

func rectifiers() {
	begin("relu", "(dst, x []float32)", "dst", 8)
	dst, x, n, none := base("dst"), base("x"), length("dst"), zero()
	each(n, 4, func(at place) { at.store(rectify(at.load(x), none), dst) })
	end()

	begin("addReLU", "(dst, a, b []float32)", "dst", 8)
	dst, a, b, n, none := base("dst"), base("a"), base("b"), length("dst"), zero()
	each(n, 4, func(at place) { at.store(rectify(add(at.load(a), at.of(b, 4)), none), dst) })
	end()

	begin("reluGrad", "(dx, dy, y []float32)", "dx", 8)
	dx, dy, y, n, none := base("dx"), base("dy"), base("y"), length("dx"), zero()
	each(n, 4, func(at place) { at.store(passed(at.of(dy, 4), at.of(y, 4), none), dx) })
	end()
}
