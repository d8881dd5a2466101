package staleness

import (
	"fmt"
	"math"
)

// DropSlowest is a barrier that gives up on the slowest share of those who live:
// K-sync with k = live − ⌊share·live⌋, which follows as workers leave and join.
//
//	admit: drop if late, else hold   flush: all but the share have a push held
//	release: nothing of yours is held   cancel: all who compute
//
// It is the rule "drop the slowest p % of gradients" of many schedulers.
//
// Paper: none.
//
// Tuning: a share just above that of stragglers; what is dropped is biased
// against the samples of slow workers.
//
// Cost: a held gradient for each worker, and the passes that are broken off.
type DropSlowest struct {
	Share float64 `spec:"share,show" doc:"of the workers not waited for, from 0 to below 1"`
}

var _ = Policies.Add("dropslowest", "barrier that gives up on the slowest share of workers, who start over", DropSlowest{Share: 0.1})

// Validate checks the range of Share.
func (o DropSlowest) Validate() error {
	if !(o.Share >= 0 && o.Share < 1) {
		return fmt.Errorf("option %q is %g; want at least 0 and below 1", "share", o.Share)
	}
	return nil
}

// New makes the Policy.
func (o DropSlowest) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, dropSlowest{share: o.Share})
}

// Traits implements Spec.
func (o DropSlowest) Traits(workers int) PolicyTraits {
	if o.Share == 0 {
		return barrier(workers)
	}
	return PolicyTraits{PerUpdate: keep(workers, o.Share), Waits: true, Drops: true, Voids: true}
}

// keep is how many of n are waited for.
func keep(n int, share float64) int { return max(1, n-int(math.Floor(share*float64(n)))) }

type dropSlowest struct {
	startOver
	fresh
	share float64
}

func (p dropSlowest) Flush(v View) bool { return enough(v, keep(v.NumLive(), p.share)) }

func (dropSlowest) Release(v View, w int) bool { return v.Held[w] == 0 }
