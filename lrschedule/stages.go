package lrschedule

import "fmt"

// Stages is a batch for each stretch of epochs, in multiples of the first one: the
// batch-size control of Mikami et al. 2018 ("Massively distributed SGD:
// ImageNet/ResNet-50 training in a flash").
//
//	batch · times[k],   k = how many of the epochs in At have begun
//
// so Times has one entry more than At. A batch may also become smaller.
//
// Tuning: begin with what the first epochs bear, and grow as the loss flattens. Rates
// that linear(…) scales are scaled to the first batch.
//
// Cost: none; the same epochs take fewer updates.
type Stages struct {
	Of []float64 `spec:"times,show" doc:"the batch in multiples of the first one, more than 0; one more than epochs in at"`
	At []float64 `spec:"at,show" doc:"epochs at which the next one begins, ascending"`
}

var _ = Batches.Add("stages", "a batch of its own for each stretch of epochs", Stages{Of: []float64{1, 2}, At: []float64{30}})

// Validate checks ranges and order.
func (o Stages) Validate() error {
	if len(o.Of) != len(o.At)+1 {
		return fmt.Errorf("option %q has %d batches for the %d epochs of option %q; want one batch more than epochs", "times", len(o.Of), len(o.At), "at")
	}
	for _, x := range o.Of {
		if err := check(x > 0 && x <= 1e6, "times", x, "more than 0 and at most a million"); err != nil {
			return err
		}
	}
	return ascending(o.At)
}

// Times implements BatchSpec.
func (o Stages) Times(Run) (Times, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	of, at := append([]float64(nil), o.Of...), append([]float64(nil), o.At...)
	return func(p Progress) float64 { return of[begun(at, p.Epoch)] }, nil
}
