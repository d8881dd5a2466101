package data

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// realDir is the folder of real data sets, if this machine has one.
func realDir() string {
	if dir := os.Getenv("GRADLAB_DATA_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared", "data")
}

// TestRealSets opens what is there of the real sets and checks counts, labels
// and normalisation.
func TestRealSets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   string
		slow  bool
		label []int32 // of the first test samples
	}{
		{"mnist", false, []int32{7, 2, 1, 0, 4, 1, 4, 9}},
		{"fashion", true, []int32{9, 2, 1, 1, 6, 1, 4, 6}},
		{"cifar10", true, nil},
		{"tiny_imagenet", true, nil},
	} {
		t.Run(c.set, func(t *testing.T) {
			o := Options{Dir: realDir()}
			if loc, err := Locate(c.set, o); err != nil || !loc.Found {
				t.Skipf("%s is not on this machine: set GRADLAB_DATA_DIR to a folder that has it", c.set)
			}
			if c.slow && !patience.Long {
				t.Log("found but not decoded, which takes seconds: run without -short")
				return
			}
			ds := open(t, c.set, o)
			t.Logf("%d + %d, %s, %d classes, hash %016x, %q", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape, ds.Train.Sample().Classes, ds.Hash, ds.Note)
			r := recipes[c.set]
			if f := float64(ds.Train.Sample().Classes) / float64(r.classes); ds.Train.Len() != int(f*float64(r.train)) || ds.Test.Len() != int(f*float64(r.test)) || ds.Train.Sample().Shape != r.shape {
				t.Errorf("%d + %d of %s", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape)
			}
			if got := batch(t, ds.Test, 0, len(c.label)).Y; c.label != nil {
				for i, y := range got {
					if y != c.label[i] {
						t.Errorf("test labels %v, want %v", got, c.label)
						break
					}
				}
			}
			b := batch(t, ds.Train, 0, 2000)
			var sum, sq float64
			for _, v := range b.X {
				sum, sq = sum+float64(v), sq+float64(v)*float64(v)
			}
			n := float64(len(b.X))
			if m, v := sum/n, sq/n; math.Abs(m) > .05 || math.Abs(v-1) > .1 {
				t.Errorf("inputs have mean %.3f, square %.3f", m, v)
			}
			count := make([]int, ds.Test.Sample().Classes)
			for _, y := range batch(t, ds.Test, 0, ds.Test.Len()).Y {
				count[y]++
			}
			for y, k := range count {
				if fair := ds.Test.Len() / len(count); k < fair*8/10 || k > fair*12/10 {
					t.Errorf("class %d has %d test samples", y, k)
				}
			}
		})
	}
}
