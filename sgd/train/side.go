package train

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
)

// A run whose pictures change their side draws, computes and is billed at the side of
// each step, which follows from the samples that steps before it took. Parameters are
// the same at every side. Evaluations are at the size of the data set.

// sized is the model at a side, and what a sample costs there.
type sized struct {
	model  sgd.Model
	flops  float64   // of its forward pass
	shares []float64 // of each span in it
	input  float64   // its bytes, over those of a sample of the data set's size; 0 for that
}

// weighed is a model and what a sample costs.
func weighed(m sgd.Model) sized {
	s := sized{model: m, shares: slices.Clone(m.SpanFLOPs())}
	for _, f := range s.shares {
		s.flops += f
	}
	for i := range s.shares {
		if s.flops > 0 {
			s.shares[i] /= s.flops
		}
	}
	return s
}

// Resizes says whether the side of training pictures may change during the run.
func (j *Job) Resizes() bool { return !lrschedule.IsFixedSide(j.Sides) }

// size is the side of the data set's pictures.
func (j *Job) size() int { return j.Data.Train.Sample().Shape.H }

// Side is the side of the pictures of a step of all workers; 0: the data set's size.
func (j *Job) Side(step int) int {
	if !j.Resizes() {
		return 0
	}
	samples := j.drawn(step * j.Workers)
	side := j.Sides.Side(lrschedule.Progress{Samples: samples, Epoch: float64(samples) / float64(j.Data.Train.Len())})
	if side == j.size() {
		return 0
	}
	return side
}

// sideOfUpdate is the side of the pictures of an update, in pixels.
func (j *Job) sideOfUpdate(n int) int {
	if side := j.Side(n * j.PerUpdate() / j.Workers); side > 0 {
		return side
	}
	return j.size()
}

// ForwardFLOPs is the operations of the forward passes of all samples of the run, at
// their sides. The job is prepared.
func (j *Job) ForwardFLOPs() (sum float64) {
	for n := range j.Updates {
		sum += float64(float64(j.Drawn(n+1)-j.Drawn(n)) * j.sized(j.Side(n*j.PerUpdate()/j.Workers)).flops)
	}
	return sum
}

// sized is the model at a side of the run's, 0 being its own.
func (j *Job) sized(side int) *sized {
	if side == 0 {
		return &j.own
	}
	return j.smaller[side]
}

// planSides makes the model at every side that there may be; Prepare does it. The error
// says what cannot be shown or computed at another side.
func (j *Job) planSides() error {
	j.own, j.smaller = weighed(j.Model), nil
	if !j.Resizes() || j.Data.Train == nil {
		return nil
	}
	spec, size := lrschedule.Sides.Spec(j.Sides), j.size()
	if s, ok := j.Data.Train.(sgd.Scaling); !ok || !s.Scales() {
		return fmt.Errorf("side_schedule %s: samples of %s, %v, are no square pictures that can be scaled; use side_schedule=fixed", spec, j.Data.Name, j.Data.Train.Sample().Shape)
	}
	smaller := map[int]*sized{}
	for _, side := range j.Sides.Sides() {
		if side > size {
			return fmt.Errorf("side_schedule %s: a side of %d is above the %d pixels of data set %s, at which evaluations are; use smaller sides, or a set of larger size", spec, side, size, j.Data.Name)
		}
		if side == size {
			continue
		}
		m, ok := j.Model.(sgd.Resizable)
		if !ok {
			return fmt.Errorf("side_schedule %s: this model computes pictures of one side only; use side_schedule=fixed", spec)
		}
		at, err := m.At(side)
		if err != nil {
			return fmt.Errorf("side_schedule %s: this model cannot compute pictures of side %d: %w; use side_schedule=fixed, or a model such as resnet50", spec, side, err)
		}
		s := weighed(at)
		s.input = float64(side*side) / float64(size*size)
		smaller[side] = &s
	}
	j.smaller = smaller
	return nil
}

// checkSides refuses sides that change where a draw is not that of a step.
func (j *Job) checkSides() error {
	switch {
	case !j.Resizes():
		return nil
	case j.Traits().Coordinator:
		return fmt.Errorf("side_schedule %s: in mode %s samples belong to no step of a worker; use side_schedule=fixed, or another mode", lrschedule.Sides.Spec(j.Sides), Modes.Spec(j.Mode))
	}
	return j.planSides()
}
