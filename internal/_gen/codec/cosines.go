package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/reg"
)

// cosines writes the kernels of cosine transforms, on rows of float64.
func cosines() {
	begin("fold", "(sum, diff, x, y []float64, m float64)", "4")
	sum, diff, x, y, n, m := base("sum"), base("diff"), base("x"), base("y"), length("sum"), double("m")
	each(n, 4, func(i Register) {
		a, b := op1(VMOVUPD, at(x, i, 8, 0)), op1(VMOVUPD, at(y, i, 8, 0))
		VMOVUPD(op2(VADDPD, a, b), at(sum, i, 8, 0))
		VMOVUPD(op2(VMULPD, op2(VSUBPD, a, b), m), at(diff, i, 8, 0))
	})
	end()

	begin("unfold", "(x, y, sum, diff []float64, m float64)", "4")
	sum, diff, x, y, n, m = base("sum"), base("diff"), base("x"), base("y"), length("x"), double("m")
	each(n, 4, func(i Register) {
		s, d := op1(VMOVUPD, at(sum, i, 8, 0)), op2(VMULPD, m, at(diff, i, 8, 0))
		VMOVUPD(op2(VADDPD, s, d), at(x, i, 8, 0))
		VMOVUPD(op2(VSUBPD, s, d), at(y, i, 8, 0))
	})
	end()

	begin("sum", "(dst, x, y []float64)", "4")
	dst, x, y, n := base("dst"), base("x"), base("y"), length("dst")
	each(n, 4, func(i Register) {
		VMOVUPD(op2(VADDPD, op1(VMOVUPD, at(x, i, 8, 0)), at(y, i, 8, 0)), at(dst, i, 8, 0))
	})
	end()
}
