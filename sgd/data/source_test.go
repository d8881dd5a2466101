package data

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// counter is a store whose sample i is the number i.
type counter struct{ n int }

func (c counter) len() int { return c.n }
func (c counter) form() sgd.Sample {
	return sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: 1}, Classes: c.n}
}
func (c counter) read(i int, _ jitter, to Item) error {
	to.X[0], to.Y[0] = float32(i), int32(i)
	return nil
}

func TestTrainIsAPermutationPerEpoch(t *testing.T) {
	t.Parallel()
	ds := dataset(counter{100}, counter{7}, Options{Seed: 3}, false)
	var epochs [2][]int32
	for e := range epochs {
		b := batch(t, ds.Train, uint64(100*e), 100)
		epochs[e] = slices.Clone(b.Y)
		slices.Sort(b.Y)
		for i, y := range b.Y {
			if int(y) != i {
				t.Fatalf("epoch %d lacks sample %d", e, i)
			}
		}
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Error("two epochs in the same order")
	}
	other := dataset(counter{100}, counter{7}, Options{Seed: 4}, false)
	if slices.Equal(epochs[0], batch(t, other.Train, 0, 100).Y) {
		t.Error("two seeds give the same order")
	}
	// A batch across the end of an epoch, in pieces and at once.
	whole := batch(t, ds.Train, 90, 20)
	if want := append(epochs[0][90:], epochs[1][:10]...); !slices.Equal(whole.Y, want) {
		t.Errorf("across epochs: %v, want %v", whole.Y, want)
	}
	if whole.First != 90 || whole.N != 20 || whole.Seed != 3 {
		t.Errorf("batch says First %d, N %d, Seed %d", whole.First, whole.N, whole.Seed)
	}
}

func TestTestSourceIsInOrderAndWraps(t *testing.T) {
	t.Parallel()
	ds := dataset(counter{100}, counter{5}, Options{Seed: 3}, false)
	if got := batch(t, ds.Test, 3, 4).Y; !slices.Equal(got, []int32{3, 4, 0, 1}) {
		t.Errorf("test samples %v", got)
	}
}

func TestLimitServesTheSameSamplesForEverySeed(t *testing.T) {
	t.Parallel()
	var first []int32
	for seed := range uint64(3) {
		ds := dataset(counter{1000}, counter{50}, Options{Seed: seed, Limit: 20, TestLimit: 8}, false)
		if ds.Train.Len() != 20 || ds.Test.Len() != 8 {
			t.Fatalf("%d and %d samples", ds.Train.Len(), ds.Test.Len())
		}
		b := batch(t, ds.Train, 0, 20)
		slices.Sort(b.Y)
		if len(slices.Compact(slices.Clone(b.Y))) != 20 {
			t.Fatal("a sample twice in an epoch")
		}
		if seed == 0 {
			first = b.Y
		} else if !slices.Equal(first, b.Y) {
			t.Errorf("seed %d sees other samples", seed)
		}
	}
	if ds := dataset(counter{10}, counter{5}, Options{Limit: 20}, false); ds.Train.Len() != 10 {
		t.Error("a limit above the size is no limit")
	}
}

func TestBatchReusesSlices(t *testing.T) {
	ds := open(t, "digits", Options{Seed: 1, Augment: true})
	b := batch(t, ds.Train, 0, 64)
	x := &b.X[0]
	if err := ds.Train.Batch(sgd.Draw{First: 9, N: 32}, &b); err != nil || &b.X[0] != x || len(b.X) != 32*64 || len(b.Y) != 32 {
		t.Errorf("not reused: %v, %d values", err, len(b.X))
	}
	n := testing.AllocsPerRun(20, func() { ds.Train.Batch(sgd.Draw{First: 9, N: 32}, &b) })
	if n != 0 {
		t.Errorf("%g allocations a batch", n)
	}
	if err := ds.Train.Batch(sgd.Draw{N: -1}, &b); err == nil {
		t.Error("a negative batch passes")
	}
	if err := ds.Train.Batch(sgd.Draw{}, &b); err != nil || len(b.X) != 0 {
		t.Errorf("empty batch: %v", err)
	}
}

func TestConcurrentBatchesAreTheSame(t *testing.T) {
	t.Parallel()
	ds := open(t, "digits", Options{Seed: 1, Augment: true})
	want := batch(t, ds.Train, 100, 64)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var b sgd.Batch
			for i := range 64 { // one at a time: augmentation goes by position
				if err := ds.Train.Batch(sgd.Draw{First: 100 + uint64(i), N: 1}, &b); err != nil ||
					b.Y[0] != want.Y[i] || !slices.Equal(b.X, want.X[i*64:(i+1)*64]) {
					t.Errorf("sample %d differs (%v)", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestParallelReportsTheFirstError(t *testing.T) {
	t.Parallel()
	bad := map[int]error{70: errors.New("70"), 40: errors.New("40")}
	for range 20 {
		if err := parallel(100, func(i int) error { return bad[i] }); err != bad[40] {
			t.Fatalf("got %v", err)
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, augment := range []bool{false, true} {
		m := &images{sh: cifarShape, cls: 10, pix: make([]uint8, 1000*cifarPixels), label: make([]int32, 1000)}
		h := &held{images: m, view: view{scale: newScale(3, 255, imageNetMean, imageNetStd), pad: 4, flip: true}}
		ds := dataset(h, h, Options{Augment: augment}, false)
		b.Run(map[bool]string{false: "plain", true: "augmented"}[augment], func(b *testing.B) {
			var out sgd.Batch
			b.SetBytes(128 * cifarPixels)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ds.Train.Batch(sgd.Draw{First: uint64(128 * i), N: 128}, &out)
			}
		})
	}
}

// What is held out is the same for every seed, never trained on, and takes the
// place of the test set.
func TestValidationIsHeldOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o           Options
		train, test int
	}{
		{Options{Validation: 0.1}, 90, 10},
		{Options{Validation: 0.1, Limit: 50}, 45, 5},
		{Options{Validation: 0.25, Limit: 40, TestLimit: 3, Augment: true}, 30, 3},
		{Options{Validation: 1e-9}, 99, 1},
		{Options{Validation: 0.999}, 1, 99},
	} {
		var first []int32
		for seed := range uint64(3) {
			o := c.o
			o.Seed = seed
			ds := dataset(counter{100}, counter{7}, o, false)
			if ds.Train.Len() != c.train || ds.Test.Len() != c.test {
				t.Fatalf("%+v: %d and %d samples", o, ds.Train.Len(), ds.Test.Len())
			}
			held := slices.Clone(batch(t, ds.Test, 0, c.test).Y)
			if first == nil {
				first = held
			}
			if !slices.Equal(held, first) {
				t.Errorf("%+v: seed %d holds out others", o, seed)
			}
			seen := map[int32]bool{}
			for _, y := range batch(t, ds.Train, 0, c.train).Y {
				seen[y] = true
			}
			for _, y := range held {
				if seen[y] {
					t.Errorf("%+v: sample %d is trained on and held out", o, y)
				}
			}
			if len(seen) != c.train {
				t.Errorf("%+v: %d samples in an epoch", o, len(seen))
			}
		}
	}
}
