package data

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

func TestSynthetic(t *testing.T) {
	t.Parallel()
	ds := open(t, "synthetic(dim=48,classes=5,n=1000,test=500,side=4)", Options{Seed: 1})
	if ds.Train.Shape() != (sgd.Shape{C: 3, H: 4, W: 4}) || ds.Train.Len() != 1000 || ds.Test.Len() != 500 || ds.Train.Classes() != 5 {
		t.Fatalf("%s, %d + %d", ds.Train.Shape(), ds.Train.Len(), ds.Test.Len())
	}
	// Class means from the training part classify the test part well, not fully.
	b := batch(t, ds.Train, 0, 1000)
	mean, count := make([]float32, 5*48), [5]float32{}
	for i, y := range b.Y {
		count[y]++
		for k := range 48 {
			mean[int(y)*48+k] += b.X[i*48+k]
		}
	}
	for i := range mean {
		mean[i] /= count[i/48]
	}
	test := batch(t, ds.Test, 0, 500)
	right := 0
	for i, y := range test.Y {
		best, at := float32(1e30), 0
		for c := range 5 {
			d := float32(0)
			for k := range 48 {
				e := test.X[i*48+k] - mean[c*48+k]
				d += e * e
			}
			if d < best {
				best, at = d, c
			}
		}
		if at == int(y) {
			right++
		}
	}
	if right < 400 || right == 500 {
		t.Errorf("nearest mean gets %d of 500", right)
	}
	again := open(t, ds.Name, Options{Seed: 2})
	if again.Hash != ds.Hash || !slices.Equal(batch(t, again.Test, 0, 9).X, batch(t, ds.Test, 0, 9).X) {
		t.Error("the world depends on the run's seed")
	}
	if other := open(t, "synthetic(world=1)", Options{}); other.Hash == open(t, "synthetic", Options{}).Hash {
		t.Error("two worlds, one hash")
	}
}

func TestSyntheticValidate(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"synthetic(dim=0)", "synthetic(classes=0)", "synthetic(n=0)", "synthetic(dim=60,side=4)",
		"synthetic(sep=-1)", "synthetic(dim=16777216,classes=1000)", "synthetic(side=-4)", "imagenet(size=4)", "imagnet"} {
		if _, err := Open(spec, Options{}); err == nil {
			t.Errorf("%s passes", spec)
		}
	}
}
