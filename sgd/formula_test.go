package sgd_test

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// formula is an update rule computed a second time, in float64, from the equations
// of its paper: the update for gradient g at parameters w, in step n = 0, 1, …
type formula func(g, w []float64, lr float64, n int) []float64

// each makes a formula of a rule that treats every coordinate by itself: state
// holds what it keeps of one, all 0 at first.
func each(rule func(g, w, lr float64, n int, state *[2]float64) float64) formula {
	var states [formulaSize][2]float64
	return func(g, w []float64, lr float64, n int) []float64 {
		out := make([]float64, len(g))
		for i := range g {
			out[i] = rule(g[i], w[i], lr, n, &states[i])
		}
		return out
	}
}

func heavyBall(beta float64) formula { // Polyak 1964
	return each(func(g, _, lr float64, _ int, v *[2]float64) float64 {
		v[0] = beta*v[0] + g
		return lr * v[0]
	})
}

func lookAhead(beta float64) formula { // Goyal et al. 2017
	return each(func(g, _, lr float64, _ int, v *[2]float64) float64 {
		v[0] = beta*v[0] + g
		return lr * (g + beta*v[0])
	})
}

func duchi(eps, initial float64) formula { // Duchi et al. 2011
	return each(func(g, _, lr float64, n int, s *[2]float64) float64 {
		if n == 0 {
			s[0] = initial
		}
		s[0] += g * g
		return lr * g / (math.Sqrt(s[0]) + eps)
	})
}

func tieleman(decay, eps, momentum float64) formula { // Chen, Pan et al. 2016
	return each(func(g, _, lr float64, _ int, s *[2]float64) float64 {
		s[0] = decay*s[0] + (1-decay)*g*g
		s[1] = momentum*s[1] + g/math.Sqrt(s[0]+eps)
		return lr * s[1]
	})
}

func kingma(beta1, beta2, eps float64) formula { // Kingma and Ba 2015, algorithm 1
	return each(func(g, _, lr float64, n int, s *[2]float64) float64 {
		s[0], s[1] = beta1*s[0]+(1-beta1)*g, beta2*s[1]+(1-beta2)*g*g
		mean, square := s[0]/(1-math.Pow(beta1, float64(n+1))), s[1]/(1-math.Pow(beta2, float64(n+1)))
		return lr * mean / (math.Sqrt(square) + eps)
	})
}

func absorbed(beta float64, ahead bool) formula { // the rate inside the velocity
	return each(func(g, _, lr float64, _ int, v *[2]float64) float64 {
		v[0] = beta*v[0] + lr*g
		if ahead {
			return lr*g + beta*v[0]
		}
		return v[0]
	})
}

// besides adds lr·rate·w to a rule's update of the first values.
func besides(rule formula, rate float64, upTo int) formula {
	return func(g, w []float64, lr float64, n int) []float64 {
		out := rule(g, w, lr, n)
		for i := range upTo {
			out[i] += lr * rate * w[i]
		}
		return out
	}
}

func evolved(beta1, beta2 float64) formula { // Chen et al. 2023, algorithm 2
	return each(func(g, _, lr float64, _ int, m *[2]float64) float64 {
		c := beta1*m[0] + (1-beta1)*g
		m[0] = beta2*m[0] + (1-beta2)*g
		if c == 0 {
			return 0
		}
		return math.Copysign(lr, c)
	})
}

func akiba(mu1, mu2, eps, ratio, center, period float64) formula { // Akiba et al. 2017
	return each(func(g, _, lr float64, n int, s *[2]float64) float64 {
		e, a := float64(n)/4, 1.0
		switch {
		case e < center:
			a = 0.5 * math.Exp(2*(e-center)/period)
		case e < center+period/4:
			a = 0.5 + 2*(e-center)/period
		}
		s[0] = mu2*s[0] + (1-mu2)*g*g
		s[1] = mu1*s[1] + (a+(1-a)*ratio/(math.Sqrt(s[0])+eps))*g
		return lr * s[1]
	})
}

// slow is Zhang et al. 2019, algorithm 1, with a share of each step.
func slow(rule formula, every int, share func(epoch float64) float64) formula {
	var phi []float64
	return func(g, w []float64, lr float64, n int) []float64 {
		if n == 0 {
			phi = append([]float64(nil), w...)
		}
		out := rule(g, w, lr, n)
		if (n+1)%every == 0 {
			for i := range out {
				phi[i] += share(float64(n)/4) * (w[i] - out[i] - phi[i])
				out[i] = w[i] - phi[i]
			}
		}
		return out
	}
}

func length(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// larsRule is You et al. 2017 over the tensors of the test, of which the first
// ones are adapted and decayed.
func larsRule(o sgd.LARS, adapted int) formula {
	v := make([]float64, formulaSize)
	return func(g, w []float64, lr float64, _ int) []float64 {
		out := make([]float64, len(g))
		for k, end := range []int{formulaWeights, formulaSize} {
			from := k * formulaWeights
			g, w := append([]float64(nil), g[from:end]...), w[from:end]
			scale := 1.0
			if k < adapted {
				below := length(g) + o.Decay*length(w) + o.Eps
				for i := range g {
					g[i] += o.Decay * w[i]
				}
				if o.Joint {
					below = length(g) + o.Eps
				}
				scale = o.Trust * length(w) / below
			}
			for i := range g {
				inside, outside := lr, 1.0
				if !o.Inside {
					inside, outside = 1, lr
				}
				step := inside * scale * g[i]
				v[from+i] = o.Beta*v[from+i] + step
				out[from+i] = outside * v[from+i]
				if o.Nesterov {
					out[from+i] = outside * (step + o.Beta*v[from+i])
				}
			}
		}
		return out
	}
}

// lambRule is You et al. 2020, algorithm 2.
func lambRule(o sgd.LAMB, adapted int) formula {
	m, v := make([]float64, formulaSize), make([]float64, formulaSize)
	return func(g, w []float64, lr float64, n int) []float64 {
		r := make([]float64, len(g))
		for i := range g {
			m[i] = o.Beta1*m[i] + (1-o.Beta1)*g[i]
			v[i] = o.Beta2*v[i] + (1-o.Beta2)*g[i]*g[i]
			first, second := m[i], v[i]
			if o.Correct {
				first /= 1 - math.Pow(o.Beta1, float64(n+1))
				second /= 1 - math.Pow(o.Beta2, float64(n+1))
			}
			r[i] = first / (math.Sqrt(second) + o.Eps)
		}
		for k, end := range []int{formulaWeights, formulaSize} {
			from, ratio := k*formulaWeights, 1.0
			if k < adapted {
				for i := from; i < end; i++ {
					r[i] += o.Decay * w[i]
				}
				ratio = length(w[from:end])
				if o.Bound > 0 {
					ratio = min(ratio, o.Bound)
				}
				ratio /= length(r[from:end])
			}
			for i := from; i < end; i++ {
				r[i] *= lr * ratio
			}
		}
		return r
	}
}

// apart has a rule for the weights and one for the biases.
func apart(weights, biases formula) formula {
	return func(g, w []float64, lr float64, n int) []float64 {
		a, b := weights(g, w, lr, n), biases(g, w, lr, n)
		return append(a[:formulaWeights:formulaWeights], b[formulaWeights:]...)
	}
}

func faster(by float64, rule formula) formula {
	return func(g, w []float64, lr float64, n int) []float64 { return rule(g, w, by*lr, n) }
}

func still(g, _ []float64, _ float64, _ int) []float64 { return make([]float64, len(g)) }

func clippedApart(norm float64) func(g, w []float64) {
	return func(g, w []float64) {
		clipped(norm)(g[:formulaWeights], nil)
		clipped(norm)(g[formulaWeights:], nil)
	}
}

// behind is a rule behind a filter of the gradient.
func behind(filter func(g, w []float64), rule formula) formula {
	return func(g, w []float64, lr float64, n int) []float64 {
		g = append([]float64(nil), g...)
		filter(g, w)
		return rule(g, w, lr, n)
	}
}

func decayed(rate float64, upTo int) func(g, w []float64) {
	return func(g, w []float64) {
		for i := range upTo {
			g[i] += rate * w[i]
		}
	}
}

// dgcDecay is the weight decay of Deep Gradient Compression's authors: a velocity of
// its own, for gradients that come with theirs (Lin et al. 2018, DGCSGD).
func dgcDecay(rate, momentum float64) func(g, w []float64) {
	v := make([]float64, formulaWeights)
	return func(g, w []float64) {
		for i := range v {
			v[i] = momentum*v[i] + rate*w[i]
			g[i] += v[i]
		}
	}
}

func clipped(norm float64) func(g, w []float64) { // Pascanu et al. 2013
	return func(g, _ []float64) {
		sum := 0.0
		for _, x := range g {
			sum += x * x
		}
		for i := range g {
			g[i] *= min(1, norm/math.Sqrt(sum))
		}
	}
}

func bounded(limit float64) func(g, w []float64) {
	return func(g, _ []float64) {
		for i, x := range g {
			g[i] = math.Copysign(min(math.Abs(x), limit), x)
		}
	}
}

// The parameters of the formula test: some for kernels that take eight at a time,
// some left over, weights, biases and a statistic between them that no rule minds.
const formulaSize, formulaWeights, formulaBuffers = 21, 14, 3

func descent(g, _ []float64, lr float64, _ int) []float64 {
	out := make([]float64, len(g))
	for i := range g {
		out[i] = lr * g[i]
	}
	return out
}

var formulas = map[string]func() formula{
	"sgd":                                  func() formula { return descent },
	"momentum":                             func() formula { return heavyBall(0.9) },
	"momentum(beta=-0.4)":                  func() formula { return heavyBall(-0.4) },
	"nesterov":                             func() formula { return lookAhead(0.9) },
	"nesterov(beta=0.8)":                   func() formula { return lookAhead(0.8) },
	"adagrad":                              func() formula { return duchi(1e-8, 0) },
	"adagrad(eps=0.01,initial=0.1)":        func() formula { return duchi(0.01, 0.1) },
	"rmsprop":                              func() formula { return tieleman(0.9, 1e-10, 0) },
	"rmsprop(decay=0.7)":                   func() formula { return tieleman(0.7, 1e-10, 0) },
	"rmsprop(eps=0.5)":                     func() formula { return tieleman(0.9, 0.5, 0) },
	"rmsprop(eps=1,momentum=0.9)":          func() formula { return tieleman(0.9, 1, 0.9) },
	"adam":                                 func() formula { return kingma(0.9, 0.999, 1e-8) },
	"adam(beta1=0.8,beta2=0.99)":           func() formula { return kingma(0.8, 0.99, 1e-8) },
	"adam(beta1=0.6,eps=0.1)":              func() formula { return kingma(0.6, 0.999, 0.1) },
	"chain(decay,sgd)":                     func() formula { return behind(decayed(1e-4, formulaWeights), descent) },
	"chain(decay(rate=0.01),momentum)":     func() formula { return behind(decayed(0.01, formulaWeights), heavyBall(0.9)) },
	"chain(decay(rate=0.01,all=true),sgd)": func() formula { return behind(decayed(0.01, formulaSize), descent) },
	"chain(decay(rate=0.01,momentum=0.9),sgd)": func() formula {
		return behind(dgcDecay(0.01, 0.9), descent)
	},
	"momentum(inside=true)": func() formula { return absorbed(0.9, false) },
	"nesterov(inside=true)": func() formula { return absorbed(0.9, true) },
	"adamw":                 func() formula { return besides(kingma(0.9, 0.999, 1e-8), 0.01, formulaWeights) },
	"adamw(beta1=0.8,beta2=0.99,eps=0.01,decay=0.2,all=true)": func() formula {
		return besides(kingma(0.8, 0.99, 0.01), 0.2, formulaSize)
	},
	"decoupled": func() formula { return besides(heavyBall(0.9), 0.01, formulaWeights) },
	"decoupled(rmsprop,rate=0.3,all=true)": func() formula {
		return besides(tieleman(0.9, 1e-10, 0), 0.3, formulaSize)
	},
	"lion": func() formula { return evolved(0.9, 0.99) },
	"lion(beta1=0.8,beta2=0.7,decay=0.1)": func() formula {
		return besides(evolved(0.8, 0.7), 0.1, formulaWeights)
	},
	"lion(decay=0.1,all=true)": func() formula { return besides(evolved(0.9, 0.99), 0.1, formulaSize) },
	"lookahead":                func() formula { return slow(heavyBall(0.9), 5, func(float64) float64 { return 0.5 }) },
	"lookahead(nesterov,every=2,alpha=0.6,ramp=3,start=1.25,over=2)": func() formula { // a look back is at epoch 1.25
		return slow(lookAhead(0.9), 2, func(e float64) float64 {
			if e < 1.25 {
				return 1
			}
			return 1 - 0.4*math.Pow(min(1, e/2), 3)
		})
	},
	"rmsprop_warmup": func() formula { return akiba(0.9, 0.99, 1e-8, 4.7e-5, 10, 5) },
	"rmsprop_warmup(mu1=0.5,mu2=0.8,eps=0.1,ratio=0.3,center=1,period=4)": func() formula {
		return akiba(0.5, 0.8, 0.1, 0.3, 1, 4)
	},
	"lars": func() formula {
		return larsRule(sgd.LARS{Trust: 0.001, Beta: 0.9, Decay: 1e-4, Inside: true}, 1)
	},
	"lars(trust=0.02,beta=0.8,decay=0.1,eps=0.5,nesterov=true)": func() formula {
		return larsRule(sgd.LARS{Trust: 0.02, Beta: 0.8, Decay: 0.1, Eps: 0.5, Nesterov: true, Inside: true}, 1)
	},
	"lars(decay=0.1,inside=false,joint=true,all=true)": func() formula {
		return larsRule(sgd.LARS{Trust: 0.001, Beta: 0.9, Decay: 0.1, Joint: true}, 2)
	},
	"lars(inside=false,nesterov=true,all=true)": func() formula {
		return larsRule(sgd.LARS{Trust: 0.001, Beta: 0.9, Decay: 1e-4, Nesterov: true}, 2)
	},
	"lars(skip=[w])": func() formula { return absorbed(0.9, false) },
	"lamb": func() formula {
		return lambRule(sgd.LAMB{Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, Decay: 0.01, Correct: true}, 1)
	},
	"lamb(beta1=0.8,beta2=0.9,eps=0.1,decay=0.2,bound=3,correct=false,all=true)": func() formula {
		return lambRule(sgd.LAMB{Beta1: 0.8, Beta2: 0.9, Eps: 0.1, Decay: 0.2, Bound: 3}, 2)
	},
	"lamb(skip=[w])": func() formula { return kingma(0.9, 0.999, 1e-6) },
	"on":             func() formula { return descent },
	"on(momentum,names=[w],lr=3)": func() formula {
		return apart(faster(3, heavyBall(0.9)), still)
	},
	"on(lars(decay=0.1,all=true),roles=[bias])": func() formula {
		return apart(still, larsRule(sgd.LARS{Trust: 0.001, Beta: 0.9, Decay: 0.1, Inside: true}, 2))
	},
	"groups": func() formula { return apart(heavyBall(0.9), faster(2, heavyBall(0.9))) },
	"groups(on(lamb,roles=[weight],lr=0.5),on(sgd,names=[x]),nesterov)": func() formula {
		return apart(faster(0.5, lambRule(sgd.LAMB{Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, Decay: 0.01, Correct: true}, 1)), lookAhead(0.9))
	},
	"groups(on(sgd,roles=[bias]),on(momentum,names=[nothing]))": func() formula { return apart(still, descent) },
	"chain(decay(rate=0.01,all=true),groups(on(sgd,roles=[weight]),momentum))": func() formula {
		return behind(decayed(0.01, formulaSize), apart(descent, heavyBall(0.9)))
	},
	"chain(clip(norm=9,by=role),sgd)":   func() formula { return behind(clippedApart(9), descent) },
	"chain(clip(norm=9,by=tensor),sgd)": func() formula { return behind(clippedApart(9), descent) },
	"chain(clip,sgd)":                   func() formula { return behind(clipped(1), descent) },
	"chain(clip(norm=40),momentum)":     func() formula { return behind(clipped(40), heavyBall(0.9)) }, // of some steps
	"chain(clipvalue,sgd)":              func() formula { return behind(bounded(1), descent) },
	"chain(clipvalue(limit=0.5),sgd)":   func() formula { return behind(bounded(0.5), descent) },
	"chain(decay(rate=0.3),clip(norm=2),sgd)": func() formula {
		return behind(decayed(0.3, formulaWeights), behind(clipped(2), descent))
	},
}

// Every rule is its paper's equations, with every option away from its default
// once. The tolerance is a few roundings of a float32; small gradients are among
// those that are tried, so that what is added to a root shows.
func TestFormulas(t *testing.T) {
	var tried []sgd.Optimizer
	sign := func(i int) float64 { return float64(1 - 2*(i%2)) }
	for text, make64 := range formulas {
		o := sgd.Optimizers.MustParse(text)
		tried = append(tried, o)
		t.Run(text, func(t *testing.T) {
			var l sgd.Layout
			l.Add("w", sgd.Weight, 2, formulaWeights/2)
			l.Add("statistic", sgd.Buffer, 1, formulaBuffers)
			l.Add("b", sgd.Bias, 1, formulaSize-formulaWeights)
			tr, err := o.New(l)
			if err != nil {
				t.Fatal(err)
			}
			place := func(i int) int { // of a trained value among all
				if i < formulaWeights {
					return i
				}
				return i + formulaBuffers
			}
			rule, tolerance := make64(), max(3e-6, loose[text])
			params, u := make([]float32, l.Size()), make([]float32, l.Size())
			g, w := make([]float64, formulaSize), make([]float64, formulaSize)
			for i := range w {
				w[i] = sign(i) * float64(1+i%5)
				params[place(i)] = float32(w[i])
			}
			for step := range 12 {
				lr := 0.1 / float64(1+step%3)
				for i := range u { // a statistic's: nobody's business
					u[i] = 1000
				}
				for i := range g { // exact in float32, of all sizes and signs
					g[i] = sign(i/2+step) * math.Exp2(float64(i%9-6)) * float64(1+(3*step+i)%4)
					if step%4 == 3 {
						g[i] *= 16
					}
					u[place(i)] = float32(g[i])
				}
				want := rule(g, w, lr, step)
				tr.Apply(u, params, sgd.Step{N: step, LR: lr, Epoch: float64(step) / 4})
				for i := range want {
					if got := float64(u[place(i)]); math.Abs(got-want[i]) > tolerance*(math.Abs(want[i])+0.1*lr) {
						t.Fatalf("step %d, value %d: update %v, want %v", step, i, got, want[i])
					}
					w[i] -= want[i]
				}
				sgd.Update(params, u)
			}
		})
	}
	for _, what := range sgd.Optimizers.Untried(tried...) {
		t.Errorf("optimizer %s: no formula was compared with it; add one to formulas", what)
	}
}
