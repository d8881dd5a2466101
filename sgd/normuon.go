package sgd

import (
	"cmp"
	"math"
)

// NorMuon is Muon with rows of equal length in the long run (Li et al. 2025, arXiv 2510.05491,
// as in nanochat). X is Muon's orthogonal matrix of r rows and c columns:
//
//	v ← β₂·v + (1−β₂)·mean(X²)          of each row; where r < c of each column
//	Y ← X / √max(v, 1e-10)              row by row, or column by column
//	w ← w·(1 − lr·decay) − lr·scale·‖X‖/‖Y‖·Y
//
// All else is muon's, whose options these are. Departure: the paper has rows, whatever the
// shape.
//
// Tuning: as muon; beta2 0.95.
//
// Cost: that of muon, and a mean square for each row or column. It lies in a vector as long as
// the parameters, whose other pages are never touched.
type NorMuon struct {
	Muon
	Beta2 float64 `doc:"memory of the mean squares, in [0, 1)"`
}

var _ = Optimizers.Add("normuon", "muon with rows of equal length in the long run", NorMuon{muonDefault, 0.95})

var (
	_ Whole     = NorMuon{}
	_ Selective = NorMuon{}
)

// Validate checks ranges and names.
func (o NorMuon) Validate() error {
	return cmp.Or(o.Muon.Validate(), check(0 <= o.Beta2 && o.Beta2 < 1, "beta2", o.Beta2, "at least 0 and less than 1"))
}

// New makes the Transform; its state is the slots "momentum" and "squares".
func (o NorMuon) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	base, err := o.Muon.new(l)
	if err != nil {
		return nil, err
	}
	t := &normuon{muon: base, beta2: o.Beta2, v: make([]float32, l.Size())}
	side := 0
	for _, s := range t.taken {
		side = max(side, s.Rows, s.Cols)
	}
	t.squares = make([]float64, side)
	t.kernel = t.step
	return t, nil
}

type normuon struct {
	*muon
	beta2   float64
	v       []float32 // of each tensor the first values
	squares []float64 // sums of squares of one matrix, then factors
}

func (t *normuon) step(u, w []float32, s Span, at Step) {
	t.direction(u, s)
	t.level(u, s)
	t.take(u, w, s, at)
}

// level divides rows or columns by the roots of their mean squares, and keeps the norm.
func (t *normuon) level(x []float32, s Span) {
	c, along := s.Cols, max(s.Rows, s.Cols)
	sums, v := t.squares[:along], t.v[s.Off:s.Off+along]
	clear(sums)
	line := func(i int) int { // of a value
		if s.Rows >= c {
			return i / c
		}
		return i % c
	}
	for i, a := range x {
		sums[line(i)] += float64(float64(a) * float64(a))
	}
	before, after, each := 0.0, 0.0, float64(len(x)/along)
	for i, sum := range sums {
		v[i] = float32(float64(t.beta2*float64(v[i])) + float64((1-t.beta2)*(sum/each)))
		sums[i] = 1 / math.Sqrt(max(float64(v[i]), 1e-10))
		before += sum
		after += float64(sum * float64(sums[i]*sums[i]))
	}
	if after == 0 {
		return
	}
	norm := math.Sqrt(before / after)
	for i := range x {
		x[i] = float32(float64(x[i]) * float64(sums[line(i)]*norm))
	}
}

// Slots lists the momentum and the mean squares.
func (t *normuon) Slots() []Slot { return append(t.muon.Slots(), Slot{"squares", t.v}) }
