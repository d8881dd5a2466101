package data

import (
	"math"
	"testing"
)

func TestDigits(t *testing.T) {
	t.Parallel()
	ds := open(t, "digits", Options{})
	if ds.Name != "digits" || ds.Train.Len() != 1438 || ds.Test.Len() != 359 || ds.Train.Sample().Classes != 10 || ds.Train.Sample().Shape.String() != "1x8x8" {
		t.Fatalf("%s: %d + %d of %s", ds.Name, ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape)
	}
	// The split is part of every published result: it must not move.
	if ds.Hash != 0x215c6ee6a520b4c7 {
		t.Errorf("hash %#x", ds.Hash)
	}
	var count [2][10]int
	var sum, sq float64
	b := batch(t, ds.Train, 0, ds.Train.Len())
	for _, v := range b.X {
		sum, sq = sum+float64(v), sq+float64(v)*float64(v)
	}
	n := float64(len(b.X))
	if m, v := sum/n, sq/n; math.Abs(m) > .01 || math.Abs(v-1) > .02 {
		t.Errorf("inputs have mean %g, square %g", m, v)
	}
	for p, y := range [][]int32{b.Y, batch(t, ds.Test, 0, ds.Test.Len()).Y} {
		for _, c := range y {
			count[p][c]++
		}
	}
	for c := range 10 {
		all := count[0][c] + count[1][c]
		if all < 174 || all > 183 || math.Abs(float64(count[1][c])-float64(all)/5) > .5 {
			t.Errorf("class %d: %d + %d", c, count[0][c], count[1][c])
		}
	}
}

func TestListCoversEverySet(t *testing.T) {
	t.Parallel()
	for _, in := range List() {
		if in.About == "" || !in.BuiltIn && !in.Own && (in.Licence == "" || in.Train == 0) {
			t.Errorf("%+v", in)
		}
		if in.Name == "digits" {
			ds := open(t, "digits", Options{})
			if in.Train != ds.Train.Len() || in.Test != ds.Test.Len() || in.Shape != ds.Train.Sample().Shape {
				t.Errorf("digits listed as %+v", in)
			}
		}
	}
	if len(List()) != len(Sets.Names()) {
		t.Errorf("%d sets listed of %d", len(List()), len(Sets.Names()))
	}
	for name, r := range recipes {
		if _, ok := Sets.Proto(name); !ok || r.name != name || !r.text && (len(r.mean) != r.shape.C || len(r.std) != r.shape.C) {
			t.Errorf("recipe %q does not fit", name)
		}
	}
}
