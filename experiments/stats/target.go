package stats

import (
	"math"
	"slices"
)

// Reach describes how far it was to a target over repeats of which some may
// never have reached it. A mean would have to leave those out and flatter the
// configuration that fails more often, so this is the median with never as
// +Inf, and the range.
type Reach struct {
	N       int     // repeats
	Reached int     // of them
	Median  float64 // over all repeats; +Inf if half of them or more never got there, NaN without repeats
	Min     float64 // of those that did; NaN if none
	Max     float64 // +Inf if one never did
}

// Reaching sums up repeats; never is given as +Inf or NaN.
func Reaching(x []float64) Reach {
	v := slices.Clone(x)
	r := Reach{N: len(v), Median: math.NaN(), Min: math.NaN(), Max: math.NaN()}
	for i, a := range v {
		if math.IsNaN(a) {
			v[i] = math.Inf(1)
		}
		if !math.IsInf(v[i], 1) {
			r.Reached++
		}
	}
	if r.N == 0 {
		return r
	}
	slices.Sort(v)
	if r.Reached > 0 {
		r.Min = v[0]
	}
	r.Max = v[r.N-1]
	lo, hi := v[(r.N-1)/2], v[r.N/2]
	r.Median = (lo + hi) / 2
	return r
}
