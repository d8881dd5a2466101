package record

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/internal/portable"
)

// Spread is how a measured quantity is distributed: exact mean and extremes,
// quantiles to 5 %. Values that are not finite are left out.
type Spread struct {
	N    uint64  `json:"n"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	// Bins are the histogram: how many values were at most Le and more than the
	// bin before.
	Bins []Bin `json:"bins,omitempty"`
}

// Bin is one bin of a Spread.
type Bin struct {
	Le float64 `json:"le"`
	N  uint64  `json:"n"`
}

// Gauge gathers a Spread: bins are sixteen to a factor of two. Checkpoints hold it as JSON.
type Gauge struct {
	N        uint64
	Sum      float64
	Min, Max float64
	Bins     map[int]uint64
}

const binsPerOctave = 16

// Add takes a value, unless it is not finite.
func (g *Gauge) Add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) { // of parameters that have diverged
		return
	}
	if g.N == 0 {
		g.Min, g.Max, g.Bins = x, x, map[int]uint64{}
	}
	g.N++
	g.Sum += x
	g.Min, g.Max = min(g.Min, x), max(g.Max, x)
	bin := math.MinInt32 // nothing or less
	if x > 0 {
		bin = int(math.Ceil(portable.Log2(x) * binsPerOctave))
	}
	g.Bins[bin]++
}

// Spread is nil if nothing was measured.
func (g *Gauge) Spread() *Spread {
	if g.N == 0 {
		return nil
	}
	s := &Spread{N: g.N, Mean: g.Sum / float64(g.N), Min: g.Min, Max: g.Max}
	for bin, n := range g.Bins {
		le := 0.0
		if bin != math.MinInt32 {
			le = portable.Exp2(float64(bin) / binsPerOctave)
		}
		s.Bins = append(s.Bins, Bin{le, n})
	}
	slices.SortFunc(s.Bins, func(a, b Bin) int { return int(math.Copysign(1, a.Le-b.Le)) })
	s.quantiles()
	return s
}

func (s *Spread) quantiles() {
	x, weight := make([]float64, len(s.Bins)), make([]float64, len(s.Bins))
	for i, b := range s.Bins {
		x[i], weight[i] = b.Le, float64(b.N)
	}
	q := func(p float64) float64 { return min(stat.Quantile(p, stat.Empirical, x, weight), s.Max) }
	s.P50, s.P90, s.P99 = q(0.5), q(0.9), q(0.99)
}

// MergeSpreads is the spread of all that several shards measured, nil if that
// is nothing.
func MergeSpreads(parts ...*Spread) *Spread {
	var g Gauge
	bins := map[float64]uint64{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		if g.N == 0 {
			g.Min, g.Max = p.Min, p.Max
		}
		g.N += p.N
		g.Sum += float64(p.Mean * float64(p.N))
		g.Min, g.Max = min(g.Min, p.Min), max(g.Max, p.Max)
		for _, b := range p.Bins {
			bins[b.Le] += b.N
		}
	}
	if g.N == 0 {
		return nil
	}
	s := &Spread{N: g.N, Mean: g.Sum / float64(g.N), Min: g.Min, Max: g.Max}
	for le, n := range bins {
		s.Bins = append(s.Bins, Bin{le, n})
	}
	slices.SortFunc(s.Bins, func(a, b Bin) int { return int(math.Copysign(1, a.Le-b.Le)) })
	s.quantiles()
	return s
}
