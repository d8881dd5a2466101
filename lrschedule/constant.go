package lrschedule

// Constant is one rate for the whole run. The theory of asynchronous SGD is
// mostly about it, and with it a comparison of codecs or policies has one cause
// less to doubt.
//
// Rule: lr, at any progress.
//
// Paper: none.
//
// Tuning: lr alone: the largest at which the loss still falls, less a margin.
//
// Cost: none.
type Constant struct {
	LR float64 `spec:"lr,show" doc:"learning rate"`
}

var _ = Specs.Add("constant", "one rate for the whole run", Constant{LR: 0.1})

// Validate checks the rate.
func (o Constant) Validate() error { return rate("lr", o.LR) }

// Unplanned says that rates do not depend on how many updates are planned.
func (Constant) Unplanned() bool { return true }

// New makes the Schedule.
func (o Constant) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return func(Progress) float64 { return o.LR }, nil
}
