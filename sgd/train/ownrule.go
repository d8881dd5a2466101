package train

import (
	"fmt"

	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// OwnRule is the job's optimizer and schedule as a worker's own, which steps on
// parameters of its own.
type OwnRule struct {
	rank  *Rank
	opt   *compute.Stepper
	sched lrschedule.Schedule
}

// NewOwnRule makes the rule of a worker. Without weights it does nothing.
func NewOwnRule(r *Rank) (*OwnRule, error) {
	o := &OwnRule{rank: r}
	var err error
	if !r.job.Weightless {
		if o.opt, err = r.job.NewStepper(r.job.Optimizer); err != nil {
			return nil, fmt.Errorf("optimizer: %w", err)
		}
	}
	o.sched, err = r.job.Rates()
	return o, err
}

// step is the optimizer's present step.
func (o *OwnRule) step() sgd.Step {
	s := o.rank.job.ProgressOf(o.rank.step)
	return sgd.Step{N: o.rank.step, Epoch: s.Epoch, LR: o.sched(s), Seed: o.rank.job.Seed}
}

// Descend takes the worker's present step from params, in place, by a gradient, which
// holds nothing of use afterwards.
func (o *OwnRule) Descend(grad, params []float32) {
	if o.opt != nil {
		o.opt.Advance(grad, params, o.step())
	}
}

// Direction makes of a gradient what Descend would subtract from params.
func (o *OwnRule) Direction(grad, params []float32) {
	if o.opt != nil {
		o.opt.Opt.Apply(grad, params, o.step())
	}
}

// Keep keeps what the optimizer remembers.
func (o *OwnRule) Keep(k *checkpoint.Keeper) { o.opt.Keep(k, checkpoint.Under(KeyInner, o.rank.rank)) }
