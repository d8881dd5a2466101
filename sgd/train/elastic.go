package train

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/staleness"
)

// checkElastic refuses what cannot go on without a worker.
func (j *Job) checkElastic() error {
	if !j.Elastic {
		switch {
		case len(j.Leaves) > 0:
			return errors.New("fault leave: a worker can leave a run with elastic=on only")
		case len(j.Joins) > 0:
			return errors.New("fault join: a worker can join a run with elastic=on only")
		}
		return nil
	}
	t := j.Traits()
	if !t.Elastic && !t.Admits {
		return j.cannotBeElastic(t)
	}
	switch {
	case t.Elastic && t.Servers > 0 && !j.corrector().None:
		return fmt.Errorf("elastic=on: corrector %s keeps something for each worker, and some may leave; use corrector=none", staleness.Correctors.Spec(j.Corrector))
	case t.Servers > 0 && (j.LogOrder || j.Replay != nil):
		return errors.New("elastic=on: pushes that are called off would be in the order log; take order_log out of observe")
	case j.MinWorkers < 0 || j.MinWorkers > j.Workers:
		return fmt.Errorf("min_workers is %d, want 0 to %d, the workers that there are", j.MinWorkers, j.Workers)
	case j.Grows():
		return errors.New("elastic=on: batch_schedule plans for all workers, and some may leave; use batch_schedule=fixed")
	case j.NormWorkers() > 1:
		return errors.New("elastic=on: batch norms of several workers share statistics, and their groups would change; set bn_group=1")
	case j.NoiseScale:
		return errors.New("elastic=on: noise_scale compares the gradients of one worker with those of all, who would be fewer; take noise_scale out of observe")
	case j.Weightless && j.Sizes != nil:
		return errors.New("elastic=on: when workers leave depends on the clock, so that the run cannot be priced from another")
	}
	if t.Admits {
		if err := j.checkOpen(); err != nil {
			return err
		}
	}
	if _, err := j.moves(); err != nil {
		return err
	}
	if there, least := j.Workers-len(j.away()), max(1, j.MinWorkers); there < least {
		return fmt.Errorf("fault join: %d workers are there at first, and the run goes on with min_workers=%d or more", there, least)
	}
	return nil
}

// cannotBeElastic says why the run of a mode with these traits cannot go on without a worker,
// and what can.
func (j *Job) cannotBeElastic(t Traits) error {
	mode := Modes.Spec(j.Mode)
	switch {
	case j.Plan().First:
		return errors.New("elastic=on with overlap=priority: an update is finished in the next step's forward pass, so that no step can be called off; use overlap=buckets")
	case t.Outlives:
		return fmt.Errorf("elastic=on: mode %s goes on as it is without a worker that died, and takes none in its place; use mode %s, or elastic=none", mode, modesThat(staleness.ASP{}, func(t Traits) bool { return t.Admits }))
	default:
		return fmt.Errorf("elastic=on: mode %s cannot go on without a worker that its steps wait for; use mode %s, or elastic=none", mode, modesThat(staleness.BSP{}, func(t Traits) bool { return t.Elastic }))
	}
}

// modesThat lists the modes that claim something with a policy.
func modesThat(p staleness.Spec, claim func(Traits) bool) string {
	var names []string
	for _, name := range Modes.Names() {
		m, _ := Modes.Proto(name)
		if claim(m.Traits(&Job{Mode: m, Policy: p, Workers: 2, Servers: 1})) {
			names = append(names, name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Fixed says whether an elastic run cannot go on without a rank, whoever comes in its place:
// all ranks go back to a checkpoint with it. Such are servers, and workers with a relay.
func (j *Job) Fixed(rank int) bool {
	t := j.tree()
	return rank >= j.Workers || t != nil && t.relays[rank] != nil
}

// AllFixed lists the ranks that are Fixed, but for the observer.
func (j *Job) AllFixed() (ranks []int) {
	for r := range j.World() {
		if j.Fixed(r) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// errVoid calls off what the members of an epoch are doing.
var errVoid = errors.New("the epoch of membership is over")

// errLeaves ends the part of a worker that leaves by plan, errRests those of the others,
// who wait for the epoch without it, or with one that joins.
var (
	errLeaves = errors.New("the worker leaves by plan")
	errRests  = errors.New("another worker leaves or joins by plan")
)

// Boundary is called by parts of modes that claim Elastic before every step, or every
// few, of all ranks alike, and where a move of the plan is due. What the part keeps then is what it goes on from if what
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
	return leavingAt(r)
}

// leavingAt is why the rank's part ends at the present step: a member leaves by plan, or a
// worker joins.
func leavingAt(r *Rank) (err error) {
	due, _ := r.job.joined.m.due(r.member.plan, r.step)
	for _, d := range due {
		if err = errRests; d.worker == r.member.rank {
			return errLeaves
		}
	}
	return err
}

// KeepCounts keeps what a worker counts beside its steps: gradients that were made zero, and of
// an elastic run what it has missed and lost.
func (r *Rank) KeepCounts(k *checkpoint.Keeper) {
	k.Count(checkpoint.Key(keyZeroed, r.rank), &r.stats.zeroed)
	if !r.job.Elastic {
		return
	}
	k.Count(checkpoint.Key(keyMissed, r.rank), &r.stats.missed)
	if k.Loads() || r.stats.lost > 0 {
		k.Float(checkpoint.Key(keyLost, r.rank), &r.stats.lost)
	}
}
