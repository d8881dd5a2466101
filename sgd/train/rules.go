package train

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// NewStepper makes the steps of a rule for all parameters, on cores that are idle.
func (j *Job) NewStepper(rule sgd.Optimizer) (*compute.Stepper, error) {
	return compute.NewStepper(rule, j.Model.Layout(), j.cores.gate.Threads())
}

// NewAverage is the average that the job asks for, of parameters that begin as
// given; nil: it asks for none.
func (j *Job) NewAverage(initial []float32) *compute.Average {
	if j.Weightless {
		return nil
	}
	return compute.NewAverage(initial, j.EMA, j.EMAEvery)
}

// checkAverage refuses an average that nobody could keep.
func (j *Job) checkAverage() error {
	switch t := j.Traits(); {
	case !(j.EMA >= 0 && j.EMA < 1):
		return fmt.Errorf("ema: decay is %v: want the share of the average that an update leaves, below 1, or 0 for none", j.EMA)
	case j.EMAEvery < 0:
		return fmt.Errorf("ema: every is %d: want at least 1 update", j.EMAEvery)
	case j.EMA == 0:
		return nil
	case t.Coordinator:
		return fmt.Errorf("mode %s steps to the best point of a line and back, and averages none of them; set ema=none", Modes.Spec(j.Mode))
	case t.Conduct != NotConducted:
		return fmt.Errorf("mode %s evaluates the mean of the workers' own parameters, which no rank has an average of; set ema=none", Modes.Spec(j.Mode))
	}
	return nil
}
