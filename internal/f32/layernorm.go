package f32

import "math"

// Norms of rows, which a transformer has one or two of before each of its parts: mean and
// variance are those of one row, n elements, in float64.

// LayerNorm normalises a row (Ba, Kiros and Hinton 2016, equation 4) and returns what
// LayerNormGrad needs of it, the mean and the inverse standard deviation:
//
//	mean = Σ x[i]/n,  rstd = 1/√(Σ x[i]²/n − mean² + eps)
//	for i: y[i] = (x[i] − mean)·rstd·gamma[i] + beta[i]
//
// beta may be nil, for zeros, and y may be x. It panics unless the lengths agree.
func LayerNorm(y, x, gamma, beta []float32, eps float64) (mean, rstd float32) {
	n := float64(len(x))
	mu := Sum(x) / n
	mean, rstd = float32(mu), inverseRoot(max(0, SumSq(x)/n-float64(mu*mu))+eps)
	normRow("LayerNorm", y, x, gamma, mean, rstd)
	if beta != nil {
		Add(y, beta)
	}
	return mean, rstd
}

// RMSNorm divides a row by its root mean square (Zhang and Sennrich 2019, equation 4) and
// returns what it multiplied by, which RMSNormGrad needs:
//
//	rstd = 1/√(Σ x[i]²/n + eps)
//	for i: y[i] = x[i]·rstd·gamma[i]
//
// y may be x. It panics unless the lengths agree.
func RMSNorm(y, x, gamma []float32, eps float64) (rstd float32) {
	rstd = inverseRoot(SumSq(x)/float64(len(x)) + eps)
	normRow("RMSNorm", y, x, gamma, 0, rstd)
	return rstd
}

func inverseRoot(x float64) float32 { return float32(1 / math.Sqrt(x)) }

func normRow(op string, y, x, gamma []float32, mean, rstd float32) {
	same(op, len(y), len(x))
	same(op, len(gamma), len(x))
	n := normRowAVX2(y, x, gamma, mean, rstd)
	normRowGo(y[n:], x[n:], gamma[n:], mean, rstd)
}

func normRowGo(y, x, gamma []float32, mean, rstd float32) {
	y, gamma = y[:len(x)], gamma[:len(x)]
	for i, v := range x {
		y[i] = (v - mean) * rstd * gamma[i]
	}
}

// LayerNormGrad takes the gradient dy back through LayerNorm, which read x and returned
// mean and rstd, and adds to the gradients of its parameters:
//
//	for i: h[i] = (x[i] − mean)·rstd,  g[i] = dy[i]·gamma[i]
//	       dbeta[i] += dy[i]
//	       dgamma[i] += dy[i]·h[i]
//	       dx[i] = (g[i] − Σ g[j]/n − h[i]·Σ g[j]·h[j]/n)·rstd
//
// dbeta may be nil. dx may be dy, and not x. It panics unless the lengths agree.
func LayerNormGrad(dx, dgamma, dbeta, dy, x, gamma []float32, mean, rstd float32) {
	if dbeta != nil {
		Add(dbeta, dy)
	}
	normRowGamma("LayerNormGrad", dx, dgamma, dy, x, gamma, mean, rstd)
	sum, n := Sum(dx), float64(len(x))
	along := (Dot(dx, x) - float64(float64(mean)*sum)) * float64(rstd)
	normRowGrad(dx, x, mean, rstd, float32(along/n), float32(sum/n))
}

// RMSNormGrad takes the gradient dy back through RMSNorm, which read x and returned rstd,
// and adds to the gradient of its parameters:
//
//	for i: h[i] = x[i]·rstd,  g[i] = dy[i]·gamma[i]
//	       dgamma[i] += dy[i]·h[i]
//	       dx[i] = (g[i] − h[i]·Σ g[j]·h[j]/n)·rstd
//
// dx may be dy, and not x. It panics unless the lengths agree.
func RMSNormGrad(dx, dgamma, dy, x, gamma []float32, rstd float32) {
	normRowGamma("RMSNormGrad", dx, dgamma, dy, x, gamma, 0, rstd)
	normRowGrad(dx, x, 0, rstd, float32(Dot(dx, x)*float64(rstd)/float64(len(x))), 0)
}

// normRowGamma adds to dgamma and sets dx to dy·gamma.
func normRowGamma(op string, dx, dgamma, dy, x, gamma []float32, mean, rstd float32) {
	for _, s := range [][]float32{dgamma, dy, x, gamma} {
		same(op, len(s), len(dx))
	}
	n := normRowGammaAVX2(dx, dgamma, dy, x, gamma, mean, rstd)
	normRowGammaGo(dx[n:], dgamma[n:], dy[n:], x[n:], gamma[n:], mean, rstd)
}

func normRowGammaGo(dx, dgamma, dy, x, gamma []float32, mean, rstd float32) {
	dgamma, dy, x, gamma = dgamma[:len(dx)], dy[:len(dx)], x[:len(dx)], gamma[:len(dx)]
	for i, d := range dy {
		dgamma[i] += float32((x[i] - mean) * rstd * d)
		dx[i] = d * gamma[i]
	}
}

// normRowGrad subtracts from dx what is along the normalised row, and a level.
func normRowGrad(dx, x []float32, mean, rstd, along, level float32) {
	n := normRowGradAVX2(dx, x, mean, rstd, along, level)
	normRowGradGo(dx[n:], x[n:], mean, rstd, along, level)
}

func normRowGradGo(dx, x []float32, mean, rstd, along, level float32) {
	x = x[:len(dx)]
	for i, g := range dx {
		dx[i] = ((g - level) - float32((x[i]-mean)*rstd*along)) * rstd
	}
}
