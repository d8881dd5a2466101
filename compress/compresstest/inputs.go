package compresstest

import (
	"math"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/internal/rng"
)

// input is a named law of test vectors.
type input struct {
	name string
	make func(k rng.Key, d int) []float32
}

func each(fn func(k rng.Key, i int) float64) func(rng.Key, int) []float32 {
	return func(k rng.Key, d int) []float32 {
		x := make([]float32, d)
		for i := range x {
			x[i] = float32(fn(k, i))
		}
		return x
	}
}

// inputs are what gradients look like and what breaks codecs.
var inputs = []input{
	{"gaussian", each(func(k rng.Key, i int) float64 { return k.Norm(uint64(i)) })},
	{"laplace", each(func(k rng.Key, i int) float64 { return k.Exp(uint64(2*i)) * signOf(k, 2*i+1) })},
	{"t3", each(func(k rng.Key, i int) float64 {
		k = k.With(uint64(i))
		return k.Norm(0) / math.Sqrt((sq(k.Norm(1))+sq(k.Norm(2))+sq(k.Norm(3)))/3)
	})},
	{"mixed", each(func(k rng.Key, i int) float64 { // layers of unequal scale
		return k.Norm(uint64(i)) * math.Pow(10, float64(i/13%4)-2)
	})},
	{"flat", each(func(rng.Key, int) float64 { return 1 })},
	{"onehot", func(k rng.Key, d int) []float32 {
		x := make([]float32, d)
		if d > 0 {
			x[k.IntN(0, d)] = -3
		}
		return x
	}},
	{"alternating", each(func(_ rng.Key, i int) float64 { return float64(1 - 2*(i&1)) })},
	{"positive", each(func(k rng.Key, i int) float64 { return k.Exp(uint64(i)) })},
	{"sparse", each(func(k rng.Key, i int) float64 {
		if k.Float64(uint64(2*i)) < 0.9 {
			return 0
		}
		return k.Norm(uint64(2*i + 1))
	})},
}

func sq(x float64) float64 { return x * x }

func signOf(k rng.Key, i int) float64 { return float64(1 - 2*int(k.Uint64(uint64(i))&1)) }

// vector draws vector n of a law. The caller may write to it.
func (in input) vector(d, n int) []float32 {
	at := drawing{in.name, d, n}
	drawn.Lock()
	x, ok := drawn.had[at]
	drawn.Unlock()
	if ok {
		return slices.Clone(x)
	}
	x = in.make(rng.New(1, "compresstest/"+in.name).With(uint64(d)).With(uint64(n)), d)
	drawn.Lock()
	defer drawn.Unlock()
	if drawn.values += d; drawn.values > 1<<23 {
		drawn.values, drawn.had = d, map[drawing][]float32{}
	}
	drawn.had[at] = x
	return slices.Clone(x)
}

type drawing struct {
	law  string
	d, n int
}

// drawn is vectors that were drawn before: every family is tried on the same ones, and
// drawing takes longer than encoding.
var drawn = struct {
	sync.Mutex
	had    map[drawing][]float32
	values int
}{had: map[drawing][]float32{}}

// gaussian is the vector to use where any will do.
func gaussian(d, n int) []float32 { return inputs[0].vector(d, n) }
