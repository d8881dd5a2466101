// Package stats says what repeats over seeds allow one to say: intervals,
// paired differences, significance among many comparisons, medians of times
// that some runs never reached, and laws of scaling.
//
// Figures that are not known are NaN: the spread of one value, a test on one
// pair. Nothing here invents them.
package stats

import (
	"maps"
	"math"
	"slices"

	mf "github.com/montanaflynn/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// Summary describes a sample.
type Summary struct {
	N      int
	Mean   float64
	SD     float64 // of the sample (n − 1); NaN below two values
	Half   float64 // half the 95 % interval of the mean by Student's t; NaN below two values
	Median float64
	Min    float64
	Max    float64
}

// Summarize describes a sample. Of no values, all figures are NaN.
func Summarize(x []float64) Summary {
	nan := math.NaN()
	s := Summary{N: len(x), Mean: nan, SD: nan, Half: nan, Median: nan, Min: nan, Max: nan}
	if len(x) == 0 {
		return s
	}
	d := mf.Float64Data(x)
	s.Mean, _ = d.Mean()
	s.Median, _ = d.Median()
	s.Min, _ = d.Min()
	s.Max, _ = d.Max()
	if len(x) > 1 {
		s.SD, _ = d.StandardDeviationSample()
		s.Half = critical(float64(len(x)-1)) * s.SD / math.Sqrt(float64(len(x)))
	}
	return s
}

// critical is the 97.5 % point of Student's t.
func critical(freedom float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(0.975)
}

// Difference compares two samples: B − A.
type Difference struct {
	N    int     // pairs
	Mean float64 // of the differences
	Half float64 // half of its 95 % interval; NaN below two pairs
	P    float64 // two-sided, of no difference; NaN below two pairs
	// Error is the standard error of Mean, and Freedom its degrees of freedom; NaN below two
	// pairs.
	Error, Freedom float64
}

// Paired compares two samples on the seeds both have. Runs of one seed share
// their data order and initial parameters, so the differences vary less than
// the samples do. Without a common seed N is 0 and the rest NaN.
func Paired(a, b map[uint64]float64) Difference {
	var seeds []uint64
	for s := range a {
		if _, ok := b[s]; ok {
			seeds = append(seeds, s)
		}
	}
	slices.Sort(seeds)
	var d []float64
	for _, s := range seeds {
		d = append(d, b[s]-a[s])
	}
	s := Summarize(d)
	out := Difference{N: s.N, Mean: s.Mean, Half: s.Half, P: math.NaN(), Error: math.NaN(), Freedom: math.NaN()}
	if s.N > 1 {
		out.Error, out.Freedom = s.SD/math.Sqrt(float64(s.N)), float64(s.N-1)
		out.P = pvalue(s.Mean/out.Error, out.Freedom, s.Mean == 0)
	}
	return out
}

// Welch compares two samples that share no seeds, of unequal variances. N is
// the size of the smaller one; below two it is all that is known beside Mean.
func Welch(a, b []float64) Difference {
	x, y := Summarize(a), Summarize(b)
	out := Difference{N: min(x.N, y.N), Mean: y.Mean - x.Mean, Half: math.NaN(), P: math.NaN(), Error: math.NaN(), Freedom: math.NaN()}
	if out.N < 2 {
		return out
	}
	u, v := x.SD*x.SD/float64(x.N), y.SD*y.SD/float64(y.N)
	se := math.Sqrt(u + v)
	nu := (u + v) * (u + v) / (u*u/float64(x.N-1) + v*v/float64(y.N-1))
	if se == 0 {
		nu = 1
	}
	out.Error, out.Freedom, out.Half = se, nu, critical(nu)*se
	out.P = pvalue(out.Mean/se, nu, out.Mean == 0)
	return out
}

// Compare is Paired where two seeds or more are common, else Welch.
func Compare(a, b map[uint64]float64) (d Difference, paired bool) {
	if d = Paired(a, b); d.N >= 2 {
		return d, true
	}
	values := func(of map[uint64]float64) []float64 { return slices.Sorted(maps.Values(of)) }
	return Welch(values(a), values(b)), false
}

// pvalue is two-sided. Equal samples without any spread differ in nothing.
func pvalue(t, nu float64, equal bool) float64 {
	switch {
	case equal:
		return 1
	case math.IsInf(t, 0):
		return 0
	}
	return 2 * distuv.StudentsT{Sigma: 1, Nu: nu}.Survival(math.Abs(t))
}

// Holm corrects p-values for being many (Holm 1979): in increasing order,
// p₍ᵢ₎·(m − i + 1), never below the one before, never above 1. Those below α
// then hold together with an error of at most α. NaN stays NaN and counts for
// nothing.
func Holm(p []float64) []float64 {
	out := slices.Clone(p)
	var order []int
	for i, x := range p {
		if !math.IsNaN(x) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if p[i] < p[j] {
			return -1
		}
		if p[i] > p[j] {
			return 1
		}
		return 0
	})
	floor := 0.0
	for rank, i := range order {
		floor = max(floor, min(1, p[i]*float64(len(order)-rank)))
		out[i] = floor
	}
	return out
}

// Median is the median of a sample, NaN of none.
func Median(x []float64) float64 { return Summarize(x).Median }
