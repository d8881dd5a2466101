package lrschedule

import (
	"cmp"
	"sort"

	"github.com/gradlab/gradlab/internal/portable"
)

// Growth multiplies the batch where a schedule of rates would divide the rate (Smith,
// Kindermans, Ying and Le 2017, "Don't decay the learning rate, increase the batch
// size"): the noise of an update goes with lr·N/B for N training samples, and falls
// in either way.
//
//	batch · min(factorᵏ, max),   k = how many of the epochs in At have begun
//
// The defaults take over the falls of wide ResNets on CIFAR-10 (Zagoruyko and
// Komodakis 2016).
//
// Tuning: take out of the rate's schedule the falls that the batch takes over. The
// batch should stay well below the training set; from max on let the rate fall, as in
// step(lr=0.1,factor=0.2,at=[160]) beside growth(at=[60,120]).
//
// Cost: none; the same epochs take fewer updates.
type Growth struct {
	Factor float64   `spec:"factor,show" doc:"what the batch is multiplied by, at least 1"`
	At     []float64 `spec:"at,show" doc:"epochs at which it grows, ascending"`
	Max    float64   `doc:"how many times the first batch it becomes at most, at least 1; 0: no bound"`
}

var _ = Batches.Add("growth", "the batch grows at given epochs, where a rate would fall", Growth{Factor: 5, At: []float64{60, 120, 160}})

// Validate checks ranges and order.
func (o Growth) Validate() error {
	largest := portable.Pow(o.Factor, float64(len(o.At)))
	if o.Max > 0 {
		largest = min(largest, o.Max)
	}
	return cmp.Or(
		check(o.Factor >= 1, "factor", o.Factor, "at least 1"),
		check(o.Max == 0 || o.Max >= 1, "max", o.Max, "0 or at least 1"),
		check(largest <= 1e6, "factor", o.Factor, "less: the batch would be more than a million times the first one"),
		ascending(o.At),
	)
}

// Times implements BatchSpec.
func (o Growth) Times(Run) (Times, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	at := append([]float64(nil), o.At...)
	return func(p Progress) float64 {
		times := portable.Pow(o.Factor, float64(begun(at, p.Epoch)))
		if o.Max > 0 {
			times = min(times, o.Max)
		}
		return times
	}, nil
}

// begun is how many of ascending epochs have begun.
func begun(at []float64, epoch float64) int {
	return sort.Search(len(at), func(i int) bool { return at[i] > epoch })
}
