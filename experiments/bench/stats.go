package bench

import "slices"

// Spread is the middle of some measurements and how far they reach.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf is the spread of the values, zero if there are none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	s := Spread{v[mid], v[0], v[len(v)-1]}
	if len(v)%2 == 0 {
		s.Median = (v[mid-1] + v[mid]) / 2
	}
	return s
}

// Half is half of what lies between the least and the most, as a share of the
// median: the ± of a table.
func (s Spread) Half() float64 {
	if s.Median == 0 {
		return 0
	}
	return (s.Max - s.Min) / 2 / s.Median
}
