package f32

import "math"

// Update rules, one pass over gradient and state: u holds the gradient and
// receives the update, rate included. Package sgd has the formulas and what
// they are for; here each operation is rounded once, in the order written, and
// divisions and roots are correctly rounded, so the bits are the same on every
// machine and for any part of a vector.

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// Momentum is a step of the heavy ball:
//
//	for i: v[i] = beta*v[i] + u[i]; u[i] = lr*v[i]
//
// It panics unless len(v) == len(u).
func Momentum(u, v []float32, lr, beta float32) {
	same("Momentum", len(v), len(u))
	n := momentumAVX2(u, v, lr, beta)
	momentumGo(u[n:], v[n:], lr, beta)
}

func momentumGo(u, v []float32, lr, beta float32) {
	v = v[:len(u)]
	for i, g := range u {
		x := float32(beta*v[i]) + g
		v[i] = x
		u[i] = lr * x
	}
}

// Nesterov is a step of accelerated momentum:
//
//	for i: v[i] = beta*v[i] + u[i]; u[i] = lr*(u[i] + beta*v[i])
//
// It panics unless len(v) == len(u).
func Nesterov(u, v []float32, lr, beta float32) {
	same("Nesterov", len(v), len(u))
	n := nesterovAVX2(u, v, lr, beta)
	nesterovGo(u[n:], v[n:], lr, beta)
}

func nesterovGo(u, v []float32, lr, beta float32) {
	v = v[:len(u)]
	for i, g := range u {
		x := float32(beta*v[i]) + g
		v[i] = x
		u[i] = lr * (g + float32(beta*x))
	}
}

// Adagrad is a step at rates that fall with the squares seen:
//
//	for i: s[i] += u[i]*u[i]; u[i] = lr*u[i] / (√s[i] + eps)
//
// It panics unless len(s) == len(u).
func Adagrad(u, s []float32, lr, eps float32) {
	same("Adagrad", len(s), len(u))
	n := adagradAVX2(u, s, lr, eps)
	adagradGo(u[n:], s[n:], lr, eps)
}

func adagradGo(u, s []float32, lr, eps float32) {
	s = s[:len(u)]
	for i, g := range u {
		x := s[i] + float32(g*g)
		s[i] = x
		u[i] = float32(lr*g) / (sqrt(x) + eps)
	}
}

// RMSProp is a step divided by a running root mean square, without momentum:
//
//	for i: s[i] = decay*s[i] + keep*u[i]*u[i]; u[i] = lr * (u[i] / √(s[i]+eps))
//
// It panics unless len(s) == len(u).
func RMSProp(u, s []float32, lr, decay, keep, eps float32) {
	same("RMSProp", len(s), len(u))
	n := rmspropAVX2(u, s, lr, decay, keep, eps)
	rmspropGo(u[n:], s[n:], lr, decay, keep, eps)
}

func rmspropGo(u, s []float32, lr, decay, keep, eps float32) {
	s = s[:len(u)]
	for i, g := range u {
		x := float32(decay*s[i]) + float32(float32(keep*g)*g)
		s[i] = x
		u[i] = lr * (g / sqrt(x+eps))
	}
}

// RMSPropMomentum is RMSProp with momentum on the quotient:
//
//	for i: s[i] = decay*s[i] + keep*u[i]*u[i]
//	       v[i] = beta*v[i] + u[i] / √(s[i]+eps); u[i] = lr*v[i]
//
// It panics unless the lengths agree.
func RMSPropMomentum(u, s, v []float32, lr, decay, keep, eps, beta float32) {
	same("RMSPropMomentum", len(s), len(u))
	same("RMSPropMomentum", len(v), len(u))
	n := rmspropMomentumAVX2(u, s, v, lr, decay, keep, eps, beta)
	rmspropMomentumGo(u[n:], s[n:], v[n:], lr, decay, keep, eps, beta)
}

func rmspropMomentumGo(u, s, v []float32, lr, decay, keep, eps, beta float32) {
	s, v = s[:len(u)], v[:len(u)]
	for i, g := range u {
		x := float32(decay*s[i]) + float32(float32(keep*g)*g)
		s[i] = x
		y := float32(beta*v[i]) + g/sqrt(x+eps)
		v[i] = y
		u[i] = lr * y
	}
}

// AdamRates are the numbers of one step of Adam: the rate with the correction
// of the mean in it, the factor that corrects the root, and for each moment how
// much of it stays and how much of the gradient is added.
type AdamRates struct {
	Rate, Unbias, B1, C1, B2, C2, Eps float32
}

// Adam is a step along the running mean over the running root mean square:
//
//	for i: m[i] = b1*m[i] + c1*u[i]; v[i] = b2*v[i] + c2*u[i]*u[i]
//	       u[i] = rate * (m[i] / (√v[i]*unbias + eps))
//
// It panics unless the lengths agree.
func Adam(u, m, v []float32, r *AdamRates) {
	same("Adam", len(m), len(u))
	same("Adam", len(v), len(u))
	n := adamAVX2(u, m, v, r.Rate, r.Unbias, r.B1, r.C1, r.B2, r.C2, r.Eps)
	adamGo(u[n:], m[n:], v[n:], r)
}

func adamGo(u, m, v []float32, r *AdamRates) {
	m, v = m[:len(u)], v[:len(u)]
	for i, g := range u {
		x := float32(r.B1*m[i]) + float32(r.C1*g)
		y := float32(r.B2*v[i]) + float32(float32(r.C2*g)*g)
		m[i], v[i] = x, y
		u[i] = r.Rate * (x / (float32(sqrt(y)*r.Unbias) + r.Eps))
	}
}
