package data

import (
	"slices"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

func TestSynthetic(t *testing.T) {
	t.Parallel()
	ds := open(t, "synthetic(dim=48,classes=5,n=1000,test=500,side=4)", Options{Seed: 1})
	if ds.Train.Sample().Shape != (sgd.Shape{C: 3, H: 4, W: 4}) || ds.Train.Len() != 1000 || ds.Test.Len() != 500 || ds.Train.Sample().Classes != 5 {
		t.Fatalf("%s, %d + %d", ds.Train.Sample().Shape, ds.Train.Len(), ds.Test.Len())
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

// What is kept is what is drawn, whoever reads it first and however many do so at once.
func TestSyntheticIsKeptAsDrawn(t *testing.T) {
	t.Parallel()
	spec := Synthetic{Dim: 24, Classes: 3, N: 300, Test: 50, Sep: 2, World: 7}
	kept, err := spec.Open(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	large := spec
	large.N = keptValues
	if ds, err := large.Open(Options{}); err != nil || ds.Train.(*source).samples.(*clusters).kept != nil {
		t.Fatalf("a set of %d values is kept, %v", keptValues*24, err)
	}
	drawn := *kept.Train.(*source).samples.(*clusters)
	drawn.kept = nil
	var all sync.WaitGroup
	for reader := range 4 {
		all.Go(func() {
			var b sgd.Batch
			want, y := make([]float32, spec.Dim), [1]int32{}
			for epoch := range uint64(2) {
				for p := range uint64(300) {
					at := epoch*300 + (p*7+uint64(reader)*75)%300
					if err := kept.Train.Batch(sgd.Draw{First: at, N: 1}, &b); err != nil {
						t.Error(err)
						return
					}
					drawn.read(kept.Train.(*source).index(at), jitter{}, Item{X: want, Y: y[:]})
					if b.Y[0] != y[0] || !slices.Equal(b.X, want) {
						t.Errorf("reader %d, position %d: %v, want %v", reader, at, b.X, want)
						return
					}
				}
			}
		})
	}
	all.Wait()
	drawn.first = 300
	test := batch(t, kept.Test, 0, 50)
	want, y := make([]float32, spec.Dim), make([]int32, 1)
	for i := range 50 {
		if err := drawn.read(i, jitter{}, Item{X: want, Y: y}); err != nil || !slices.Equal(test.X[i*24:(i+1)*24], want) {
			t.Fatalf("test sample %d is not as drawn", i)
		}
	}
}

// A batch of samples that are kept, and of some that are drawn anew.
func BenchmarkSynthetic(b *testing.B) {
	for name, n := range map[string]int{"kept": 4096, "drawn": keptValues} {
		ds, err := Synthetic{Dim: 64, Classes: 10, N: n, Test: 1024, Sep: 4}.Open(Options{Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			var out sgd.Batch
			b.SetBytes(128 * 64 * 4)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ds.Train.Batch(sgd.Draw{First: uint64(128 * i), N: 128}, &out)
			}
		})
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
