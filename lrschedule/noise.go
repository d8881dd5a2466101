package lrschedule

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// NoiseAt is the gradient noise scale that a run had at a time.
type NoiseAt struct {
	Epoch float64 // passes over the training set
	Scale float64 // samples; 0 or less: not measured
}

// ByNoise grows the batch with a noise scale that was measured: the batch is kept near
// the scale, where more samples an update begin to pay less (McCandlish, Kaplan, Amodei
// et al. 2018, "An empirical model of large-batch training": the critical batch is near
// the noise scale, which rises as the loss falls).
//
//	batch · factorᵏ,   k the greatest with batch · factorᵏ ≤ share · scale from here on
//
// "From here on" makes a batch that never shrinks, and leaves out what a scale is above
// for a short time only, as at the begin of a run. For the same reason the batch does not
// grow in the last twentieth of what was measured, which nothing follows.
//
// Departure: the paper changes the batch in the run that is measured. Here one run is
// measured and the next one grows, so that batches stay a function of progress alone.
//
// Tuning: Share 1 takes about twice the least updates and twice the least samples; less
// saves samples, more saves updates. With a batch that grows let the rate fall less.
type ByNoise struct {
	Batch  int     // samples of an update at the begin, at least 1
	Share  float64 // of the noise scale that a batch may be, more than 0
	Factor float64 // a step of growth, more than 1
	Max    float64 // how many times the first batch it becomes at most; 0: no bound
}

// Stages makes the batch schedule of what was measured, in any order of epochs. The
// error says which option is wrong, or that nothing was measured.
func (o ByNoise) Stages(measured []NoiseAt) (Stages, error) {
	if err := cmp.Or(
		check(o.Batch >= 1, "batch", float64(o.Batch), "at least 1"),
		check(o.Share > 0, "share", o.Share, "more than 0"),
		check(o.Factor > 1, "factor", o.Factor, "more than 1"),
		check(o.Max == 0 || o.Max >= 1, "max", o.Max, "0 or at least 1"),
	); err != nil {
		return Stages{}, err
	}
	var m []NoiseAt
	for _, x := range measured {
		if x.Scale > 0 && !math.IsInf(x.Scale, 0) && x.Epoch >= 0 && !math.IsInf(x.Epoch, 0) {
			m = append(m, x)
		}
	}
	if len(m) == 0 {
		return Stages{}, errors.New("no noise scale was measured; measure one with observe=noise_scale")
	}
	slices.SortStableFunc(m, func(a, b NoiseAt) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := len(m) - 2; i >= 0; i-- {
		m[i].Scale = min(m[i].Scale, m[i+1].Scale) // from here on
	}
	m = slices.CompactFunc(m, func(a, b NoiseAt) bool { return a.Epoch == b.Epoch })
	out, times := Stages{Of: []float64{1}}, 1.0
	lasting := m[len(m)-1].Epoch * 0.95
	for _, x := range m {
		if x.Epoch > lasting {
			break
		}
		most := min(o.Share*x.Scale/float64(o.Batch), 1e6)
		if o.Max > 0 {
			most = min(most, o.Max)
		}
		grown := times
		for grown*o.Factor <= most {
			grown *= o.Factor
		}
		if grown == times {
			continue
		}
		if times = grown; x.Epoch == 0 {
			out.Of[0] = times
		} else {
			out.At, out.Of = append(out.At, x.Epoch), append(out.Of, times)
		}
	}
	if err := out.Validate(); err != nil {
		return out, fmt.Errorf("growth by the noise scale: %w", err)
	}
	return out, nil
}
