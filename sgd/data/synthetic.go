package data

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Synthetic is a set of Gaussian clusters, one a class, drawn by address: any
// number of samples without a file. Sets of up to 2²² values, 16 MiB, are kept in
// memory as they are drawn, for copying takes a fortieth of the time. Sample i has
// class i mod Classes and is its class's centre plus standard normal noise in every
// dimension; two centres lie about Sep apart. The world (centres and noise) depends
// on World alone, not on the run's seed, so repeated runs train on the same data.
type Synthetic struct {
	Dim     int     `doc:"values in a sample"`
	Classes int     `doc:"number of clusters"`
	N       int     `doc:"training samples"`
	Test    int     `doc:"test samples"`
	Sep     float64 `doc:"typical distance of two centres, in standard deviations of the noise"`
	Side    int     `doc:"present a sample as dim/side² channels of side×side; 0: a plain vector"`
	World   uint64  `doc:"which world"`
}

var _ = Sets.Add("synthetic", "Gaussian class clusters by address, any size, no file",
	Synthetic{Dim: 64, Classes: 10, N: 4096, Test: 1024, Sep: 4})

// Validate checks the options.
func (s Synthetic) Validate() error {
	const maxCentres = 1 << 26 // values
	switch {
	case s.Dim < 1 || s.Dim > 1<<24:
		return fmt.Errorf("dim must be 1 to 2²⁴, not %d", s.Dim)
	case s.Classes < 1 || s.Classes > maxCentres/s.Dim:
		return fmt.Errorf("classes must be at least 1, and classes·dim at most 2²⁶, not %d·%d", s.Classes, s.Dim)
	case s.N < 1 || s.Test < 1 || s.N > math.MaxInt32 || s.Test > math.MaxInt32:
		return fmt.Errorf("n and test must be 1 to 2³¹−1, not %d and %d", s.N, s.Test)
	case !(s.Sep >= 0) || math.IsInf(s.Sep, 0):
		return fmt.Errorf("sep must be at least 0, not %g", s.Sep)
	case s.Side < 0 || s.Side > 1<<12 || s.Side > 0 && s.Dim%(s.Side*s.Side) != 0:
		return fmt.Errorf("side² must divide dim: side=%d, dim=%d", s.Side, s.Dim)
	}
	return nil
}

// Open serves the clusters. There is nothing to augment.
func (s Synthetic) Open(o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: synthetic: %w", err)
	}
	c := clusters{Synthetic: s, count: s.N, noise: rng.New(s.World, "synthetic-noise")}
	c.centre = make([]float32, s.Classes*s.Dim)
	spread := s.Sep / math.Sqrt(2*float64(s.Dim))
	key := rng.New(s.World, "synthetic-centre")
	for i := range c.centre {
		c.centre[i] = float32(spread * key.Norm(uint64(i)))
	}
	if s.N <= keptValues/s.Dim-s.Test {
		c.kept = &keptSamples{samples: s.N + s.Test, dim: s.Dim}
	}
	test := c
	test.first, test.count = s.N, s.Test
	ds := dataset(&c, &test, o, false)
	h := rng.Key(0)
	for _, v := range []uint64{uint64(s.Dim), uint64(s.Classes), uint64(s.N), uint64(s.Test),
		math.Float64bits(s.Sep), uint64(s.Side), s.World} {
		h = h.With(v)
	}
	ds.Hash = uint64(h)
	ds.Note = "synthetic data"
	return ds, nil
}

type clusters struct {
	Synthetic
	first, count int // this part's samples
	centre       []float32
	noise        rng.Key
	kept         *keptSamples // nil: all are drawn anew
}

func (c *clusters) len() int { return c.count }

func (c *clusters) form() sgd.Sample {
	if c.Side == 0 {
		return sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: c.Dim}, Classes: c.Classes}
	}
	return sgd.Sample{Shape: sgd.Shape{C: c.Dim / (c.Side * c.Side), H: c.Side, W: c.Side}, Classes: c.Classes}
}

func (c *clusters) read(i int, _ jitter, to Item) error {
	i += c.first
	y, x := i%c.Classes, to.X
	to.Y[0] = int32(y)
	if c.kept.copy(i, x) {
		return nil
	}
	key := c.noise.With(uint64(i))
	for k, m := range c.centre[y*c.Dim : (y+1)*c.Dim] {
		x[k] = m + float32(key.Norm(uint64(k)))
	}
	c.kept.keep(i, x)
	return nil
}

// keptValues is how many values of a set are kept at most.
const keptValues = 1 << 22

// keptSamples are samples that have been drawn. Any number of goroutines may use it; nil
// keeps none.
type keptSamples struct {
	samples, dim int
	once         sync.Once
	x            []float32       // sample after sample
	is           []atomic.Uint32 // what is known of each: keptNot, keptSoon or kept
}

const (
	keptNot  = iota
	keptSoon // somebody writes it
	kept
)

// copy writes sample i to x, and says whether it was kept.
func (k *keptSamples) copy(i int, x []float32) bool {
	if k == nil {
		return false
	}
	k.once.Do(func() { k.x, k.is = make([]float32, k.samples*k.dim), make([]atomic.Uint32, k.samples) })
	if k.is[i].Load() != kept {
		return false
	}
	copy(x, k.x[i*k.dim:(i+1)*k.dim])
	return true
}

// keep keeps x as sample i. Copy was called before.
func (k *keptSamples) keep(i int, x []float32) {
	if k != nil && k.is[i].CompareAndSwap(keptNot, keptSoon) {
		copy(k.x[i*k.dim:], x[:k.dim])
		k.is[i].Store(kept)
	}
}
