package stats

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Point is a throughput measured with N workers.
type Point struct {
	N          int
	Throughput float64 // of the whole, in anything a second
}

// Efficiency is the throughput of each point over what perfect scaling of the
// point with the fewest workers would give, sorted by workers. Without a
// positive throughput there it is NaN.
func Efficiency(points []Point) []float64 {
	p := sorted(points)
	out := make([]float64, len(p))
	for i := range p {
		out[i] = math.NaN()
		if p[0].Throughput > 0 {
			out[i] = p[i].Throughput / p[0].Throughput * float64(p[0].N) / float64(p[i].N)
		}
	}
	return out
}

func sorted(points []Point) []Point {
	p := slices.Clone(points)
	slices.SortStableFunc(p, func(a, b Point) int { return cmp.Compare(a.N, b.N) })
	return p
}

// Law is a fitted law of scaling,
//
//	X(N) = λN / (1 + σ(N − 1) + κN(N − 1)),
//
// Gunther's universal scalability law; with κ = 0 it is Amdahl's law, of serial
// share σ. σ is what queues for one resource, κ what everybody does with
// everybody. Both are at least 0 here.
type Law struct {
	Lambda, Sigma, Kappa float64
	RMS                  float64 // of relative errors at the points it was fitted to
}

// At is the throughput with n workers.
func (l Law) At(n float64) float64 {
	return l.Lambda * n / (1 + l.Sigma*(n-1) + l.Kappa*n*(n-1))
}

// Limit is the largest throughput there can be and the number of workers that
// gives it: +Inf workers where throughput only levels off.
func (l Law) Limit() (workers, throughput float64) {
	switch {
	case l.Kappa > 0 && l.Sigma < 1:
		workers = max(1, math.Sqrt((1-l.Sigma)/l.Kappa))
		return workers, l.At(workers)
	case l.Kappa > 0 || l.Sigma >= 1:
		return 1, l.Lambda
	case l.Sigma > 0:
		return math.Inf(1), l.Lambda / l.Sigma
	}
	return math.Inf(1), math.Inf(1)
}

// Amdahl fits Amdahl's law. It takes points at two different N at least.
func Amdahl(points []Point) (Law, error) { return fit(points, 2) }

// USL fits the universal scalability law. It takes points at three different N
// at least; with exactly three it goes through all of them and proves nothing.
func USL(points []Point) (Law, error) { return fit(points, 3) }

// fit solves N/X = a + b(N − 1) + cN(N − 1), which is linear in a = 1/λ,
// b = σ/λ and c = κ/λ, by least squares on relative errors. A law that would
// need a negative σ or κ is fitted again without it, the best of what remains.
func fit(points []Point, terms int) (Law, error) {
	sizes := map[int]bool{}
	for _, p := range points {
		if p.N < 1 || !(p.Throughput > 0) || math.IsInf(p.Throughput, 0) {
			return Law{}, errors.New("stats: scaling wants positive throughputs of one worker or more")
		}
		sizes[p.N] = true
	}
	if len(sizes) < terms {
		return Law{}, errors.New("stats: too few different numbers of workers for a law of scaling")
	}
	best, found := Law{RMS: math.Inf(1)}, false
	for set := 0; set < 1<<(terms-1); set++ { // bit i: term i + 1 is in
		l, ok := solve(points, set)
		if ok && l.RMS < best.RMS {
			best, found = l, true
		}
	}
	if !found {
		return Law{}, errors.New("stats: no law of scaling fits")
	}
	return best, nil
}

// solve fits the constant and the terms in set.
func solve(points []Point, set int) (Law, bool) {
	term := []func(n float64) float64{
		func(float64) float64 { return 1 },
		func(n float64) float64 { return n - 1 },
		func(n float64) float64 { return n * (n - 1) },
	}
	in := []int{0}
	for i := 1; i < len(term); i++ {
		if set>>(i-1)&1 == 1 {
			in = append(in, i)
		}
	}
	a, y := mat.NewDense(len(points), len(in), nil), mat.NewVecDense(len(points), nil)
	for i, p := range points {
		n := float64(p.N)
		w := p.Throughput / n // 1 over what is fitted: relative errors
		for j, t := range in {
			a.Set(i, j, w*term[t](n))
		}
		y.SetVec(i, 1)
	}
	var x mat.VecDense
	if err := x.SolveVec(a, y); err != nil {
		return Law{}, false
	}
	var c [3]float64
	for j, t := range in {
		c[t] = x.AtVec(j)
	}
	if c[0] <= 0 || c[1] < 0 || c[2] < 0 {
		return Law{}, false
	}
	l := Law{Lambda: 1 / c[0], Sigma: c[1] / c[0], Kappa: c[2] / c[0]}
	for _, p := range points {
		e := l.At(float64(p.N))/p.Throughput - 1
		l.RMS += e * e / float64(len(points))
	}
	l.RMS = math.Sqrt(l.RMS)
	return l, true
}
