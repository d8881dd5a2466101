package datatest_test

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/data/datatest"
)

// store is samples of noise by address.
type store struct {
	n    int
	name string
}

func (s store) Len() int         { return s.n }
func (store) Sample() sgd.Sample { return sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: 3}, Classes: 4} }
func (s store) Read(i int, to data.Item) error {
	k := rng.New(4, s.name).With(uint64(i))
	for j := range to.X {
		to.X[j] = float32(k.Norm(uint64(j)))
	}
	to.Y[0] = int32(i % 4)
	return nil
}

// noise is a set that keeps to everything, but for what is changed.
type noise struct {
	train data.Samples
	late  func(ds *sgd.Dataset, o data.Options)
}

func (n noise) Open(o data.Options) (sgd.Dataset, error) {
	var train, test data.Samples = store{200, "train"}, store{60, "test"}
	if n.train != nil {
		train = n.train
	}
	ds := data.Serve(train, test, o)
	ds.Hash = 17
	if n.late != nil {
		n.late(&ds, o)
	}
	return ds, nil
}

type odd struct {
	store
	read func(i int, x []float32) int32
}

func (s odd) Read(i int, to data.Item) error {
	err := s.store.Read(i, to)
	if s.read != nil {
		to.Y[0] = s.read(i, to.X)
	}
	return err
}

// source is another source but for its draws.
type source struct {
	sgd.Source
	batch func(s sgd.Source, d sgd.Draw, b *sgd.Batch) error
}

func (s source) Batch(d sgd.Draw, b *sgd.Batch) error { return s.batch(s.Source, d, b) }

// Sets that keep to all but one thing are found by the check for it, and one that
// keeps to all by none.
func TestLiars(t *testing.T) {
	var chance atomic.Int64
	base := store{200, "train"}
	for name, c := range map[string]struct {
		noise
		check, says string
	}{
		"nothing wrong":          {},
		"a label of no class":    {noise{train: odd{base, func(int, []float32) int32 { return 4 }}}, "samples", "label 4 of 4"},
		"a value that is none":   {noise{train: odd{base, func(i int, x []float32) int32 { x[0] = float32(math.NaN()); return 0 }}}, "samples", "NaN"},
		"another hash each time": {noise{late: func(ds *sgd.Dataset, _ data.Options) { ds.Hash = uint64(chance.Add(1)) }}, "samples", "Hash"},
		"samples by chance":      {noise{train: odd{base, func(i int, x []float32) int32 { x[0] = float32(chance.Add(1)); return 0 }}}, "address", "another sample"},
		"the batch matters": {noise{late: func(ds *sgd.Dataset, _ data.Options) {
			ds.Train = source{ds.Train, func(s sgd.Source, d sgd.Draw, b *sgd.Batch) error {
				err := s.Batch(d, b)
				if d.N > 1 {
					b.X[0]++
				}
				return err
			}}
		}}, "address", "another sample"},
		"drawn with replacement": {noise{late: func(ds *sgd.Dataset, _ data.Options) {
			ds.Train = source{ds.Train, func(s sgd.Source, d sgd.Draw, b *sgd.Batch) error {
				if d.N < 0 {
					return s.Batch(d, b)
				}
				var one sgd.Batch
				b.N, b.First, b.X, b.Y = d.N, d.First, append(b.X[:0], make([]float32, 3*d.N)...), append(b.Y[:0], make([]int32, d.N)...)
				for i := range d.N {
					at := d.First + uint64(i)
					if err := s.Batch(sgd.Draw{First: uint64(rng.New(1, "again").IntN(at, s.Len())), N: 1}, &one); err != nil {
						return err
					}
					copy(b.X[3*i:], one.X)
					b.Y[i] = one.Y[0]
				}
				return nil
			}}
		}}, "epoch", "each as often"},
		"one order for all epochs": {noise{late: func(ds *sgd.Dataset, _ data.Options) {
			ds.Train = source{ds.Train, func(s sgd.Source, d sgd.Draw, b *sgd.Batch) error {
				first := d.First
				err := s.Batch(sgd.Draw{First: first % uint64(s.Len()), N: d.N}, b)
				b.First = first
				return err
			}}
		}}, "epoch", "order of epoch 0"},
		"a test set in another order for each seed": {noise{late: func(ds *sgd.Dataset, o data.Options) {
			ds.Test = source{ds.Test, func(s sgd.Source, d sgd.Draw, b *sgd.Batch) error {
				err := s.Batch(sgd.Draw{First: d.First + o.Seed, N: d.N}, b)
				b.First = d.First
				return err
			}}
		}}, "test", "another order"},
		"no limits": {noise{late: func(ds *sgd.Dataset, o data.Options) {
			*ds = data.Serve(store{90, "train"}, store{60, "test"}, data.Options{Seed: o.Seed})
		}}, "limit", "13 serves 90"},
		"validation on everything": {noise{late: func(ds *sgd.Dataset, o data.Options) { o.Validation = 0; ds.Train = data.Serve(base, base, o).Train }}, "validation", "trains on 97"},
		"a draw of less than none": {noise{late: func(ds *sgd.Dataset, _ data.Options) {
			ds.Test = source{ds.Test, func(s sgd.Source, d sgd.Draw, b *sgd.Batch) error {
				d.N = max(d.N, 0)
				return s.Batch(d, b)
			}}
		}}, "samples", "−1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := datatest.Failures(c.noise, data.Options{})
			if err := got[c.check]; c.check != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("check %s says %v; all: %v", c.check, err, got)
			}
			if c.check == "" && len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}
