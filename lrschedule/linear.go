package lrschedule

import "fmt"

// Linear is the linear scaling rule (Krizhevsky 2014, Goyal et al. 2017): k
// times the batch, k times the rate.
//
//	in(p) · batch/reference
//
// Batch counts the samples of one update over all workers. One update on k·n
// samples then goes as far as k updates on n would, as long as the gradient
// hardly changes over them; early in training it does, hence warmup.
//
// Use it where an update is a mean over all workers. In asynchronous runs an
// update is one worker's gradient: scaling by the joint batch overshoots by the
// number of workers; correct for staleness instead (Zhang et al. 2016).
//
// Tuning: reference is the batch at which the inner rate is known to be good.
//
// Cost: none.
type Linear struct {
	In        Spec `doc:"the schedule for the reference batch"`
	Reference int  `doc:"batch size the schedule was tuned for"`
}

var _ = Specs.Add("linear", "linear scaling rule: rate × batch/reference", Linear{In: Constant{LR: 0.1}, Reference: 256})

// Validate checks the ranges.
func (o Linear) Validate() error { return reference(o.Reference) }

// Unplanned says that rates do not depend on how many updates are planned, where those of the schedule inside do not.
func (o Linear) Unplanned() bool { return IsUnplanned(o.In) }

// New makes the Schedule.
func (o Linear) New(r Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return scaled(o.In, r, float64(r.Batch)/float64(o.Reference))
}

func reference(n int) error {
	if n < 1 {
		return fmt.Errorf("option %q is %d; want at least 1", "reference", n)
	}
	return nil
}

// scaled is schedule s times factor.
func scaled(s Spec, r Run, factor float64) (Schedule, error) {
	if r.Batch < 1 {
		return nil, fmt.Errorf("scaling by batch size: the batch is %d; want at least 1", r.Batch)
	}
	in, err := inner(s, r)
	if err != nil {
		return nil, err
	}
	return func(p Progress) float64 { return in(p) * factor }, nil
}
