package lrschedule_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/lrschedule"
)

func TestByNoise(t *testing.T) {
	measured := []lrschedule.NoiseAt{{4, 900}, {4.1, 950}, {5, 900}, {5.1, 1e5}, {0.5, 500}, {1, 70}, {1.5, 0}, {2, 300}, {3, 250}, {2.5, math.Inf(1)}}
	for _, c := range []struct {
		rule     lrschedule.ByNoise
		times    []float64
		at       []float64
		mistaken string
	}{
		// The 500 of the begin does not last, nothing follows the 1e5 of the end, and from epoch 2 on there are 250.
		{rule: lrschedule.ByNoise{Batch: 64, Share: 1, Factor: 2}, times: []float64{1, 2, 8}, at: []float64{2, 4}},
		{rule: lrschedule.ByNoise{Batch: 64, Share: 1.1, Factor: 2}, times: []float64{1, 4, 8}, at: []float64{2, 4}},
		{rule: lrschedule.ByNoise{Batch: 64, Share: 1, Factor: 2, Max: 4}, times: []float64{1, 2, 4}, at: []float64{2, 4}},
		{rule: lrschedule.ByNoise{Batch: 1000, Share: 1, Factor: 2}, times: []float64{1}},
		{rule: lrschedule.ByNoise{Batch: 0, Share: 1, Factor: 2}, mistaken: `"batch" is 0`},
		{rule: lrschedule.ByNoise{Batch: 1, Share: math.NaN(), Factor: 2}, mistaken: `"share" is NaN`},
		{rule: lrschedule.ByNoise{Batch: 1, Share: 1, Factor: 1}, mistaken: `"factor" is 1`},
		{rule: lrschedule.ByNoise{Batch: 1, Share: 1, Factor: 2, Max: 0.5}, mistaken: `"max" is 0.5`},
	} {
		got, err := c.rule.Stages(measured)
		if c.mistaken != "" {
			if err == nil || !strings.Contains(err.Error(), c.mistaken) {
				t.Errorf("%+v: %v, want %s", c.rule, err, c.mistaken)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Of, c.times) || !slices.Equal(got.At, c.at) {
			t.Errorf("%+v: %+v, %v; want %v at %v", c.rule, got, err, c.times, c.at)
		}
	}
	if _, err := (lrschedule.ByNoise{Batch: 1, Share: 1, Factor: 2}).Stages([]lrschedule.NoiseAt{{1, 0}}); err == nil || !strings.Contains(err.Error(), "observe=noise_scale") {
		t.Error(err)
	}
}

// Whatever was measured, the batch never shrinks, reads back from its text, is at most
// the share of every scale that is still to come, and one step more would not be.
func TestByNoiseProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m []lrschedule.NoiseAt
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			m = append(m, lrschedule.NoiseAt{Epoch: float64(rapid.IntRange(0, 8).Draw(t, "epoch")) / 2, Scale: rapid.Float64Range(1, 1e5).Draw(t, "scale")})
		}
		o := lrschedule.ByNoise{Batch: rapid.IntRange(1, 500).Draw(t, "batch"), Share: rapid.Float64Range(0.1, 4).Draw(t, "share"), Factor: rapid.Float64Range(1.1, 4).Draw(t, "factor")}
		s, err := o.Stages(slices.Clone(m))
		if err != nil {
			t.Fatal(err)
		}
		text := lrschedule.Batches.Spec(s)
		back, err := lrschedule.Batches.Parse(text)
		if err != nil || lrschedule.Batches.Spec(back) != text {
			t.Fatalf("%s: %v", text, err)
		}
		f, err := s.Times(lrschedule.Run{})
		if err != nil {
			t.Fatal(err)
		}
		last := 1.0
		for e := 0.0; e <= 4; e += 0.5 {
			times, least := f(lrschedule.Progress{Epoch: e}), math.Inf(1)
			measuredYet, end := false, 0.0
			for _, x := range m {
				end = max(end, x.Epoch)
				if x.Epoch >= e {
					least = min(least, x.Scale)
				}
				measuredYet = measuredYet || x.Epoch == e
			}
			if times < last {
				t.Fatalf("the batch shrinks from %v to %v times at epoch %v: %s", last, times, e, text)
			}
			last = times
			bound := o.Share * least / float64(o.Batch)
			if times > 1 && times > bound*(1+1e-12) {
				t.Fatalf("%v times at epoch %v, of at most %v: %s", times, e, bound, text)
			}
			if measuredYet && e <= 0.95*end && max(times, 1)*o.Factor < min(bound, 1e6/o.Factor)*(1-1e-12) {
				t.Fatalf("%v times at epoch %v, though %v would fit: %s", times, e, bound, text)
			}
		}
	})
}
