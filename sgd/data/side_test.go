package data

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// at draws samples at a side.
func at(t *testing.T, s sgd.Source, side int, b *sgd.Batch) {
	t.Helper()
	if err := s.Batch(sgd.Draw{First: 3, N: 8, Side: side}, b); err != nil {
		t.Fatal(err)
	}
}

// Large pictures are cut and scaled as if the set had been opened at that size, whether
// they are decoded as a whole, reduced, or from a cache, and mixed and erased or not.
func TestLargePicturesAtOtherSides(t *testing.T) {
	t.Parallel()
	var files []entry
	for i := range 6 {
		files = append(files, entry{fmt.Sprintf("imagenette/train/n%d/%02d.JPEG", i%3, i), jpegBytes(scene(150+20*i, 210-15*i, i), 92)})
	}
	dir := put(t, append(files, entry{"imagenette/val/n0/v.JPEG", files[0].body})...)
	for _, how := range []string{"", ",cache=80", ",erase=1,lighting=0.1,mixup=0.2,cutmix=1"} {
		o := Options{Dir: dir, Seed: 3, Augment: true}
		large := open(t, "imagenette(size=64"+how+")", o).Train
		var got, want sgd.Batch
		for _, side := range []int{24, 40, 64} {
			at(t, large, side, &got)
			at(t, open(t, fmt.Sprintf("imagenette(size=%d%s)", side, how), o).Train, 0, &want)
			if !slices.Equal(got.X, want.X) || !slices.Equal(got.Y, want.Y) || !slices.Equal(got.Share, want.Share) {
				t.Errorf("%q: other samples at side %d", how, side)
			}
			if got.Side != side || cap(got.X) < 8*3*64*64 {
				t.Errorf("%q: side %d, room for %d values", how, got.Side, cap(got.X))
			}
		}
	}
}

// Small pictures are shifted and mirrored at their own size, and then scaled by a filter
// that averages. It is compared with its formula.
func TestSmallPicturesAtOtherSides(t *testing.T) {
	dir, _ := Made(t)
	for _, spec := range []string{"cifar10(erase=0.5,mixup=0.3)", "digits"} {
		train := open(t, spec, Options{Dir: dir, Seed: 2, Augment: true}).Train
		sh := train.Sample().Shape
		n := sh.H
		var whole, less sgd.Batch
		at(t, train, 0, &whole)
		room := &whole.X[0]
		for _, m := range []int{n, n - 1, n / 2} {
			at(t, train, m, &less)
			if !slices.Equal(less.Y, whole.Y) || len(less.X) != 8*sh.C*m*m {
				t.Fatalf("%s: %d values at side %d", spec, len(less.X), m)
			}
			for p := range 8 * sh.C {
				want := tents(whole.X[p*n*n:(p+1)*n*n], n, m)
				for i, v := range less.X[p*m*m : (p+1)*m*m] {
					if math.Abs(float64(v)-want[i]) > 1e-5 {
						t.Fatalf("%s: value %d of plane %d is %v at side %d, want %v", spec, i, p, v, m, want[i])
					}
				}
			}
		}
		at(t, train, n/2, &whole)
		if &whole.X[0] != room {
			t.Errorf("%s: smaller samples need new memory", spec)
		}
		if got := testing.AllocsPerRun(5, func() { at(t, train, n/2, &whole) }); got > 8 { // as at the set's own size
			t.Errorf("%s: a batch allocates %v times", spec, got)
		}
	}
}

// tents is the filter: each output is the mean of what lies below a tent of half width
// n/m around its middle, across and down.
func tents(x []float32, n, m int) []float64 {
	ratio := float64(n) / float64(m)
	weights := make([]float64, m*n)
	for i := range weights {
		weights[i] = math.Max(0, 1-math.Abs((float64(i%n)+0.5)/ratio-(float64(i/n)+0.5)))
	}
	out := make([]float64, m*m)
	for i := range m {
		for j := range m {
			sum, all := 0.0, 0.0
			for y := range n {
				for z := range n {
					w := weights[i*n+y] * weights[j*n+z]
					sum, all = sum+w*float64(x[y*n+z]), all+w
				}
			}
			out[i*m+j] = sum / all
		}
	}
	return out
}

// What is no square picture has no side, and no side is above a picture's own.
func TestNoOtherSide(t *testing.T) {
	t.Parallel()
	dir, _ := Made(t)
	var b sgd.Batch
	rows := open(t, "synthetic", Options{}).Train
	if rows.(sgd.Scaling).Scales() || rows.Batch(sgd.Draw{N: 1, Side: 4}, &b) == nil {
		t.Error("rows of numbers are scaled")
	}
	pictures := open(t, "cifar10", Options{Dir: dir}).Train
	if !pictures.(sgd.Scaling).Scales() {
		t.Error("pictures are not scaled")
	}
	for _, side := range []int{33, -1} {
		if pictures.Batch(sgd.Draw{N: 1, Side: side}, &b) == nil {
			t.Errorf("a side of %d", side)
		}
	}
	key := rng.New(1, "shrink")
	var s shrinker
	for range 20 { // every tap lies within the picture
		n := 2 + key.IntN(0, 200)
		m := 1 + key.IntN(1, n)
		key = key.With(uint64(n))
		s.prepare(m, n)
		for i := range m {
			sum := float32(0)
			for _, w := range s.weights[i*s.taps : (i+1)*s.taps] {
				sum += w
			}
			if s.first[i] < 0 || s.first[i]+s.taps > n || math.Abs(float64(sum)-1) > 1e-5 {
				t.Fatalf("%d to %d: output %d begins at %d of %d taps, of sum %v", n, m, i, s.first[i], s.taps, sum)
			}
		}
	}
}
