package stats

import (
	"maps"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Level is the probability α with which [WithBest] may call one of several equal samples
// worse.
const Level = 0.05

// Standing is where a multiple comparison with the best leaves a sample.
type Standing struct {
	N      int     // pairs of seeds, or the smaller sample, that its difference rests on
	Paired bool    // by seed; else by Welch's test
	Mean   float64 // of the sample less the best of the others; above 0 for the best one alone
	// Low and High hold that difference, for all samples at once, with probability
	// 1 − Level. High is 0 where another sample is better, or equal to the last bit; Low is 0
	// where no other can be better.
	// NaN: there are too few seeds.
	Low, High float64
	// P is the smallest level at which the sample is called worse than another one, corrected
	// for all pairs; 1 for the best one, NaN where there are too few seeds.
	P float64
}

// Worse reports whether another sample is better by more than chance explains.
func (s Standing) Worse() bool { return s.P < Level }

// Ranking is what samples come to that were compared with the best of each other.
type Ranking struct {
	Standings []Standing // sample by sample
	p         [][]float64
}

// WithBest compares every sample with the best of the others, of which more is better:
// multiple comparisons with the best, constrained intervals (Hsu 1984; Edwards and Hsu
// 1983). A difference has the standard error and the degrees of freedom of its own pairs,
// as [Compare] finds them, so variances may differ and seeds may be missing. The critical
// value is Student's at Šidák's level for all k(k − 1)/2 pairs; samples with the same
// values count as one.
//
// Hsu's own critical value is that of k − 1 comparisons. It says of equal samples that
// they are not better than the best of the others, which is true, and calls one of eight
// equal samples worse in one case of four. This one calls none of them worse with
// probability 1 − Level, whichever was seen to be the best.
func WithBest(samples []map[uint64]float64) *Ranking {
	k := len(samples)
	out := make([]Standing, k)
	all := make([][]float64, k)        // p of every pair, corrected; NaN where there are too few seeds
	between := make([][]Difference, k) // of i less j
	paired := make([][]bool, k)
	tests, copies := 0, make([]bool, k)
	for i := range samples {
		for j := range i {
			copies[i] = copies[i] || maps.Equal(samples[i], samples[j])
		}
		between[i], paired[i] = make([]Difference, k), make([]bool, k)
		for j := range i {
			d, p := Compare(samples[j], samples[i])
			between[i][j], paired[i][j], paired[j][i] = d, p, p
			d.Mean = -d.Mean
			between[j][i] = d
			if !math.IsNaN(d.P) && !copies[i] && !copies[j] {
				tests++
			}
		}
	}
	values := map[float64]float64{} // critical ones, by degrees of freedom
	half := func(d Difference) float64 {
		c, ok := values[d.Freedom]
		if !ok {
			c = sidak(d.Freedom, tests)
			values[d.Freedom] = c
		}
		return c * d.Error
	}
	best := make([]bool, k) // samples that may be the best
	for i := range samples {
		s := Standing{Mean: math.NaN(), High: math.Inf(1), P: math.NaN()}
		all[i] = make([]float64, k)
		for j := range samples {
			d := between[i][j]
			if all[i][j] = math.NaN(); i == j || math.IsNaN(d.Mean) {
				continue
			}
			if !(s.Mean <= d.Mean) {
				s.Mean, s.N, s.Paired = d.Mean, d.N, paired[i][j]
			}
			if math.IsNaN(d.P) {
				continue
			}
			s.High = min(s.High, d.Mean+half(d))
			p := 1.0
			if d.Mean < 0 {
				p = -math.Expm1(float64(tests) * math.Log1p(-d.P))
			}
			if all[i][j] = p; !(s.P <= p) {
				s.P = p
			}
		}
		if s.High = max(0, s.High); math.IsNaN(s.P) {
			s.High = math.NaN()
		}
		best[i] = !s.Worse()
		out[i] = s
	}
	for i := range out {
		if math.IsNaN(out[i].P) {
			out[i].Low = math.NaN()
			continue
		}
		for j := range out {
			if d := between[i][j]; i != j && best[j] && !math.IsNaN(d.P) {
				out[i].Low = min(out[i].Low, d.Mean-half(d))
			}
		}
	}
	return &Ranking{out, all}
}

// Tells reports whether samples i and j have seeds enough to be compared.
func (r *Ranking) Tells(i, j int) bool { return i != j && !math.IsNaN(r.p[i][j]) }

// Worse reports whether sample i is worse than sample j by more than chance explains.
func (r *Ranking) Worse(i, j int) bool { return r.Tells(i, j) && r.p[i][j] < Level }

// sidak is the two-sided critical value of Student's t for so many tests at once: of
// independent ones the probability that any exceeds it is Level. Differences of the same
// samples exceed it less often.
func sidak(freedom float64, tests int) float64 {
	each := -math.Expm1(math.Log1p(-Level) / float64(max(tests, 1)))
	return distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(1 - each/2)
}
