package train

import (
	"errors"
	"fmt"
	"slices"
)

// checkElastic refuses what cannot go on without a worker.
func (j *Job) checkElastic() error {
	if !j.Elastic {
		if len(j.Leaves) > 0 {
			return errors.New("leave: a worker can leave a run with elastic=true only")
		}
		return nil
	}
	mode, t := Modes.Spec(j.Mode), j.traits()
	switch {
	case !t.Elastic && j.Priority:
		return errors.New("elastic=true with priority=true: an update is finished in the next step's forward pass, so that no step can be called off; set priority=false")
	case !t.Elastic:
		return fmt.Errorf("elastic=true: mode %s cannot go on without a worker that its steps wait for; use mode reduce, gather or localsgd, or elastic=false", mode)
	case j.MinWorkers < 0 || j.MinWorkers > j.Workers:
		return fmt.Errorf("min_workers is %d, want 0 to %d, the workers that there are", j.MinWorkers, j.Workers)
	case j.Grows():
		return errors.New("elastic=true: batch_schedule plans for all workers, and some may leave; use batch_schedule=fixed")
	case j.normWorkers() > 1:
		return errors.New("elastic=true: batch norms of several workers share statistics, and their groups would change; set bn_group=1")
	case j.NoiseScale:
		return errors.New("elastic=true: noise_scale compares the gradients of one worker with those of all, who would be fewer; set noise_scale=false")
	case j.Hollow:
		return errors.New("elastic=true: when workers leave depends on the clock, so that the run cannot be priced from another")
	}
	last := -1
	for _, d := range j.Leaves {
		if d.Worker < 0 || d.Worker >= j.Workers || d.Step < 0 || d.Step >= j.Updates || d.Step < last {
			return fmt.Errorf("leave: worker %d before step %d: want workers 0 to %d, in order of steps 0 to %d", d.Worker, d.Step, j.Workers-1, j.Updates-1)
		}
		last = d.Step
	}
	return nil
}

// errVoid calls off what the members of an epoch are doing.
var errVoid = errors.New("the epoch of membership is over")

// errLeaves ends the part of a worker that leaves by plan, errRests those of the others,
// who wait for the epoch without it.
var (
	errLeaves = errors.New("the worker leaves by plan")
	errRests  = errors.New("another worker leaves by plan")
)

// Boundary is called by parts of modes that claim Elastic before every step, or every
// few, of all ranks alike. What the part keeps then is what it goes on from if what
// follows, up to the boundary behind the next one, is called off. Ranks come to a
// boundary only when all others have come to the one before. The error ends the part.
func (r *Rank) Boundary(p Part) error {
	m := r.member
	if m == nil {
		return nil
	}
	if err := m.hold(r, p); err != nil {
		return err
	}
	return r.leaving()
}

// leaving is why the rank's part ends at the present step: a member leaves by plan.
func (r *Rank) leaving() (err error) {
	for _, d := range r.member.job.Leaves {
		switch {
		case d.Step > r.step || !slices.Contains(r.job.joined.m.Workers, d.Worker):
		case d.Worker == r.member.rank:
			return errLeaves
		default:
			err = errRests
		}
	}
	return err
}
