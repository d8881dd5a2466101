package vec

import (
	. "github.com/mmcloughlin/avo/build"
)

func vectors() {
	axpy("axpy", "x []float32")
	axpy("addBytes", "b []byte")

	begin("axpyTo", "(dst, y []float32, a float32, x []float32)", "dst", 8)
	dst, y, x, n, a := base("dst"), base("y"), base("x"), length("dst"), number("a")
	each(n, 4, func(at place) { at.store(add(at.load(y), mul(a, at.of(x, 4))), dst) })
	end()

	begin("add", "(dst, x []float32)", "dst", 8)
	dst, x, n = base("dst"), base("x"), length("dst")
	each(n, 4, func(at place) { at.store(add(at.load(dst), at.of(x, 4)), dst) })
	end()

	begin("sub", "(dst, x []float32)", "dst", 8)
	dst, x, n = base("dst"), base("x"), length("dst")
	each(n, 4, func(at place) { at.store(sub(at.load(dst), at.of(x, 4)), dst) })
	end()

	begin("scale", "(x []float32, a float32)", "x", 8)
	x, n = base("x"), length("x")
	a = number("a")
	each(n, 4, func(at place) { at.store(mul(a, at.of(x, 4)), x) })
	end()

	begin("clamp", "(x []float32, limit float32)", "x", 8)
	x, n = base("x"), length("x")
	hi := number("limit")
	lo := YMM()
	VXORPS(constant(1<<31), hi, lo)
	each(n, 4, func(at place) {
		v := YMM()
		// Of a NaN and a number, both give the operand named first here.
		VMINPS(at.of(x, 4), hi, v)
		VMAXPS(v, lo, v)
		at.store(v, x)
	})
	end()

	begin("fill", "(x []float32, v float32)", "x", 8)
	x, n = base("x"), length("x")
	v := number("v")
	each(n, 4, func(at place) { at.store(v, x) })
	end()
}

// axpy writes dst += a·x for an x of float32 or of their bytes.
func axpy(name, x string) {
	begin(name, "(dst []float32, a float32, "+x+")", "dst", 8)
	dst, from, n, a := base("dst"), base(x[:1]), length("dst"), number("a")
	each(n, 4, func(at place) { at.store(add(at.load(dst), mul(a, at.of(from, 4))), dst) })
	end()
}
