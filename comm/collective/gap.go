package collective

import (
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Gap is the spectral gap 1 − ρ of a graph over size ranks: ρ is the factor by
// which a round shrinks the distance of all values from what they end at, in the
// Euclidean norm and in the geometric mean over a period,
//
//	ρ = ‖W(T−1)···W(0)·(I − 11ᵀ/P)‖₂ ^ (1/T)
//
// which for one symmetric W is its second largest |eigenvalue|. 1 is agreement
// within a period.
func Gap(g Graph, size int) float64 {
	if size < 2 {
		return 1
	}
	period := g.Period(size)
	norm := 0.0
	if a, ok := g.(alike); ok {
		norm = circulantNorm(a, size, period)
	} else {
		norm = iteratedNorm(g, size, period)
	}
	if norm < 1e-9 { // rounding
		return 1
	}
	return 1 - portable.Pow(norm, 1/float64(period))
}

// circulantNorm is the norm of a period off the mean in closed form: circulant
// matrices share their eigenvectors, the waves of k turns around the ranks, and
// the wave's eigenvalue is the Fourier transform of the first row.
func circulantNorm(g alike, size, period int) float64 {
	cos, sin := make([]float64, size), make([]float64, size)
	for i := range size {
		turn := 2 * float64(i) / float64(size)
		cos[i], sin[i] = portable.CosPi(turn), portable.SinPi(turn)
	}
	rows := make([]Mix, period)
	for t := range rows {
		rows[t] = g.Mix(0, size, t)
	}
	norm := 0.0
	for k := 1; k <= size/2; k++ { // the others are conjugates
		product := 1.0
		for _, m := range rows {
			re, im := m.Self, 0.0
			for _, e := range m.In {
				re += float64(e.Weight * cos[k*e.Rank%size])
				im += float64(e.Weight * sin[k*e.Rank%size])
			}
			product *= math.Sqrt(float64(re*re) + float64(im*im))
		}
		norm = max(norm, product)
	}
	return norm
}

// iteratedNorm is the same of any graph, by power iteration on AᵀA, A the product
// over a period off the mean, until it changes no more; the cost is period·edges
// for each of its products.
func iteratedNorm(g Graph, size, period int) float64 {
	mixes := make([][]Mix, period)
	for t := range mixes {
		mixes[t] = make([]Mix, size)
		for r := range mixes[t] {
			mixes[t][r] = g.Mix(r, size, t)
		}
	}
	x, y := make([]float64, size), make([]float64, size)
	for i := range x { // of no symmetry that a graph could share
		x[i] = portable.SinPi((1 + float64(float64(i)*float64(i))) / math.Pi)
	}
	// deviation takes the mean away and returns the norm of what is left.
	deviation := func(x []float64) float64 {
		mean, sum := 0.0, 0.0
		for _, v := range x {
			mean += v / float64(size)
		}
		for i := range x {
			x[i] -= mean
			sum += float64(x[i] * x[i])
		}
		return math.Sqrt(sum)
	}
	round := func(mixes []Mix, transposed bool) {
		for i, m := range mixes {
			y[i] = m.Self * x[i]
			edges := m.In
			if transposed {
				edges = m.Out
			}
			for _, e := range edges {
				y[i] += float64(e.Weight * x[e.Rank])
			}
		}
		x, y = y, x
	}
	const most, enough, nothing = 100_000, 1e-12, 1e-9
	largest := 0.0 // eigenvalue of AᵀA
	for range most {
		norm := deviation(x)
		for i := range x {
			x[i] /= norm
		}
		for t := range mixes {
			round(mixes[t], false)
		}
		deviation(x)
		for t := len(mixes) - 1; t >= 0; t-- {
			round(mixes[t], true)
		}
		last := largest
		if largest = deviation(x); largest < nothing*nothing {
			return 0
		}
		if math.Abs(largest-last) <= enough*largest {
			break
		}
	}
	return math.Sqrt(largest)
}
