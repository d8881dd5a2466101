package parts

import (
	"errors"

	"github.com/gradlab/gradlab/staleness"
)

// Half makes an update of the gradients of half of the workers, the first that come.
//
//	admit: hold   flush: half of the live workers are held   release: not held any more
//
// A worker waits until an update has taken its gradient.
type Half struct{}

var _ = staleness.Policies.Add("half", "update by the first half of the workers to come; they wait for it", Half{})

// Traits implements Spec.
func (Half) Traits(workers int) staleness.PolicyTraits {
	return staleness.PolicyTraits{PerUpdate: half(workers), Waits: true}
}

// New makes the Policy.
func (Half) New(workers int) (staleness.Policy, error) {
	if workers < 1 {
		return nil, errors.New("policy half wants at least 1 worker")
	}
	return waitForHalf{}, nil
}

// half is what an update needs of n workers.
func half(n int) int { return (n + 1) / 2 }

type waitForHalf struct{}

func (waitForHalf) Admit(staleness.View, int) staleness.Verdict { return staleness.Hold }

func (waitForHalf) Flush(v staleness.View) bool {
	return v.NumHeld() > 0 && v.NumHeld() >= half(v.NumLive())
}

func (waitForHalf) Release(v staleness.View, w int) bool { return v.Held[w] == 0 }

func (waitForHalf) Cancel(staleness.View) []int { return nil }
