package data

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// External is the samples that the program of model=external has itself. The engine
// says which are due, by number: a sample is one value, its number from 0 on, with
// label 0 in the training set and 1 in the test set. Limits, shuffling and shares held
// out work as on any set; held-out training samples keep label 0.
type External struct {
	Train int `doc:"training samples that the program has"`
	Test  int `doc:"test samples that it has"`
}

var _ = Sets.Add("external", "numbers of samples that the program of model=external has itself", External{Train: 1000, Test: 100})

// Validate checks the options. A float32 holds whole numbers up to 2²⁴.
func (s External) Validate() error {
	if s.Train < 1 || s.Test < 1 || s.Train > 1<<24 || s.Test > 1<<24 {
		return fmt.Errorf("train and test must be 1 to 2²⁴, not %d and %d", s.Train, s.Test)
	}
	return nil
}

// Open serves the numbers. Augmentation is the program's own.
func (s External) Open(o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: external: %w", err)
	}
	ds := dataset(numbers{s.Train, 0}, numbers{s.Test, 1}, o, false)
	ds.Hash = uint64(rng.Key(0).With(uint64(s.Train)).With(uint64(s.Test)))
	ds.Note = "samples are the program's own"
	return ds, nil
}

// numbers is n samples, each its own number.
type numbers struct {
	n     int
	label int32
}

func (s numbers) len() int         { return s.n }
func (s numbers) form() sgd.Sample { return sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: 1}, Classes: 2} }

func (s numbers) read(i int, _ jitter, to Item) error {
	to.X[0], to.Y[0] = float32(i), s.label
	return nil
}
