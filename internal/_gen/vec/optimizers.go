package vec

func optimizers() {
	begin("momentum", "(u, v []float32, lr, beta float32)", "u", 8)
	u, v, n := base("u"), base("v"), length("u")
	lr, beta := number("lr"), number("beta")
	each(n, 4, func(at place) {
		x := add(mul(beta, at.of(v, 4)), at.of(u, 4))
		at.store(x, v)
		at.store(mul(lr, x), u)
	})
	end()

	begin("nesterov", "(u, v []float32, lr, beta float32)", "u", 8)
	u, v, n = base("u"), base("v"), length("u")
	lr, beta = number("lr"), number("beta")
	each(n, 4, func(at place) {
		g := at.load(u)
		x := add(mul(beta, at.of(v, 4)), g)
		at.store(x, v)
		at.store(mul(lr, add(g, mul(beta, x))), u)
	})
	end()

	begin("adagrad", "(u, s []float32, lr, eps float32)", "u", 8)
	u, s, n := base("u"), base("s"), length("u")
	lr, eps := number("lr"), number("eps")
	each(n, 2, func(at place) {
		g := at.load(u)
		x := add(mul(g, g), at.of(s, 4))
		at.store(x, s)
		at.store(div(mul(lr, g), add(sqrt(x), eps)), u)
	})
	end()

	begin("rmsprop", "(u, s []float32, lr, decay, keep, eps float32)", "u", 8)
	u, s, n = base("u"), base("s"), length("u")
	lr, decay, keep, eps := number("lr"), number("decay"), number("keep"), number("eps")
	each(n, 2, func(at place) {
		g := at.load(u)
		x := add(mul(decay, at.of(s, 4)), mul(mul(keep, g), g))
		at.store(x, s)
		at.store(mul(lr, div(g, sqrt(add(x, eps)))), u)
	})
	end()

	begin("rmspropMomentum", "(u, s, v []float32, lr, decay, keep, eps, beta float32)", "u", 8)
	u, s, v, n = base("u"), base("s"), base("v"), length("u")
	lr, decay, keep, eps, beta = number("lr"), number("decay"), number("keep"), number("eps"), number("beta")
	each(n, 2, func(at place) {
		g := at.load(u)
		x := add(mul(decay, at.of(s, 4)), mul(mul(keep, g), g))
		at.store(x, s)
		y := add(mul(beta, at.of(v, 4)), div(g, sqrt(add(x, eps))))
		at.store(y, v)
		at.store(mul(lr, y), u)
	})
	end()

	begin("adam", "(u, m, v []float32, rate, unbias, b1, c1, b2, c2, eps float32)", "u", 8)
	u, m, v, n := base("u"), base("m"), base("v"), length("u")
	rate, unbias, eps := number("rate"), number("unbias"), number("eps")
	b1, c1, b2, c2 := number("b1"), number("c1"), number("b2"), number("c2")
	each(n, 2, func(at place) {
		g := at.load(u)
		x := add(mul(b1, at.of(m, 4)), mul(c1, g))
		y := add(mul(b2, at.of(v, 4)), mul(mul(c2, g), g))
		at.store(x, m)
		at.store(y, v)
		at.store(mul(rate, div(x, add(mul(sqrt(y), unbias), eps))), u)
	})
	end()
}
