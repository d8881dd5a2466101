package vec

func rows() {
	begin("softmaxGrad", "(dx, dy, y []float32, mean float32)", "dx", 8)
	dx, dy, y, n := base("dx"), base("dy"), base("y"), length("dx")
	mean := number("mean")
	each(n, 4, func(at place) { at.store(mul(sub(at.load(dy), mean), at.of(y, 4)), dx) })
	end()

	begin("normRow", "(y, x, gamma []float32, mean, rstd float32)", "y", 8)
	y, x, gamma, n := base("y"), base("x"), base("gamma"), length("y")
	mean, rstd := number("mean"), number("rstd")
	each(n, 4, func(at place) { at.store(mul(mul(sub(at.load(x), mean), rstd), at.of(gamma, 4)), y) })
	end()

	begin("normRowGamma", "(dx, dgamma, dy, x, gamma []float32, mean, rstd float32)", "dx", 8)
	dx, dgamma, dy, x, gamma, n := base("dx"), base("dgamma"), base("dy"), base("x"), base("gamma"), length("dx")
	mean, rstd = number("mean"), number("rstd")
	each(n, 2, func(at place) {
		d := at.load(dy)
		at.store(add(mul(mul(sub(at.load(x), mean), rstd), d), at.of(dgamma, 4)), dgamma)
		at.store(mul(d, at.of(gamma, 4)), dx)
	})
	end()

	begin("normRowGrad", "(dx, x []float32, mean, rstd, along, level float32)", "dx", 8)
	dx, x, n = base("dx"), base("x"), length("dx")
	mean, rstd = number("mean"), number("rstd")
	along, level := number("along"), number("level")
	each(n, 4, func(at place) {
		v := mul(mul(sub(at.load(x), mean), rstd), along)
		at.store(mul(sub(sub(at.load(dx), level), v), rstd), dx)
	})
	end()
}
