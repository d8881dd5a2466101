package lrschedule

import "github.com/gradlab/gradlab/registry"

// Times says how many times its first batch a run's batch is, at p: finite and more
// than 0. It depends on the progress of the data alone, Epoch and Samples.
type Times func(p Progress) float64

// BatchSpec is an option struct that makes Times. Learning rates go on as their
// schedule says, for the run's first batch: so batches grow where a rate would fall
// if the rate's schedule leaves that fall out.
type BatchSpec interface {
	Times(Run) (Times, error)
}

// Batches holds every batch schedule by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Batches = registry.New[BatchSpec]("batch schedule")

// Fixed keeps the batch.
//
// Rule: 1 · batch, from the first update to the last.
//
// Paper: none.
//
// Tuning: none.
//
// Cost: none.
type Fixed struct{}

var _ = Batches.Add("fixed", "the batch stays as it is", Fixed{})

// Times implements BatchSpec.
func (Fixed) Times(Run) (Times, error) { return func(Progress) float64 { return 1 }, nil }

// IsFixed says whether s, which may be nil, keeps the batch.
func IsFixed(s BatchSpec) bool {
	_, fixed := s.(Fixed)
	return s == nil || fixed
}
