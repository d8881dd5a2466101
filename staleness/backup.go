package staleness

import "fmt"

// Backup is synchronous SGD with backup workers (Chen et al. 2016): of P workers
// b are spare. One update is the mean of the first P − b gradients computed on
// the current parameters; those that come later are dropped.
//
//	admit: drop if late, else hold   flush: P − b workers have a push held
//	release: nothing of yours is held
//
// Nothing applied is ever stale. A dropped gradient has cost its worker's time:
// it finishes, is refused, and starts from the newest parameters. With b = 0 it
// is BSP.
//
// Tuning: minimise time per update × updates needed with P − b gradients each.
// Chen et al. found b = 4 of 100 best on their cluster.
//
// Cost: a held gradient for each worker, and the time of those that are dropped.
type Backup struct {
	B int `spec:"b,show" doc:"spare workers, less than there are workers"`
}

var _ = Policies.Add("backup", "barrier over the first workers − b, late gradients dropped", Backup{B: 1})

// Validate checks the range of B.
func (o Backup) Validate() error {
	if o.B < 0 {
		return fmt.Errorf("option %q is %d; want at least 0", "b", o.B)
	}
	return nil
}

// New makes the Policy. A single worker has no spare: it works alone.
func (o Backup) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if workers > 1 && o.B >= workers {
		return nil, fmt.Errorf("option %q is %d of %d workers; one at least must not be spare", "b", o.B, workers)
	}
	return serve(workers, backup{k: o.most(workers)})
}

// Traits implements Spec.
func (o Backup) Traits(workers int) PolicyTraits {
	if o.B == 0 {
		return barrier(workers)
	}
	return PolicyTraits{PerUpdate: o.most(workers), Waits: true, Drops: true}
}

// most is how many of the workers an update waits for.
func (o Backup) most(workers int) int { return max(1, workers-o.B) }

type backup struct {
	keepGoing
	fresh
	k int
}

func (p backup) Flush(v View) bool { return enough(v, p.k) }

func (backup) Release(v View, w int) bool { return v.Held[w] == 0 }
