package staletest_test

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/staleness"
	"github.com/gradlab/gradlab/staleness/staletest"
)

// broken is a policy made of functions, to see that the suite finds mistakes.
type broken struct {
	admit   func(v staleness.View, w int) staleness.Verdict
	flush   func(v staleness.View) bool
	release func(v staleness.View, w int) bool
}

func (b broken) New(int) (staleness.Policy, error)               { return b, nil }
func (b broken) Admit(v staleness.View, w int) staleness.Verdict { return b.admit(v, w) }
func (b broken) Flush(v staleness.View) bool                     { return b.flush(v) }
func (b broken) Release(v staleness.View, w int) bool            { return b.release(v, w) }
func (b broken) Cancel(staleness.View) []int                     { return nil }
func (b broken) Traits(workers int) staleness.PolicyTraits {
	return staleness.PolicyTraits{Synchronous: true, PerUpdate: workers, Waits: true, Paced: true}
}
func always(v staleness.Verdict) func(staleness.View, int) staleness.Verdict {
	return func(staleness.View, int) staleness.Verdict { return v }
}

// Every corrector is what its paper's equations say.
func TestCorrectors(t *testing.T) { staletest.Correctors(t) }

func TestSuiteFindsMistakes(t *testing.T) {
	yes := func(staleness.View) bool { return true }
	yesTo := func(staleness.View, int) bool { return true }
	calls := 0
	for name, c := range map[string]struct {
		policy broken
		check  func(staleness.Spec) error
		want   string
	}{
		"a barrier over the dead": {broken{always(staleness.Hold),
			func(v staleness.View) bool {
				for _, h := range v.Held {
					if h == 0 {
						return false
					}
				}
				return true
			},
			func(v staleness.View, w int) bool { return v.Held[w] == 0 }}, staletest.Leaves, "deadlock"},
		"a slack against the dead": {broken{always(staleness.Apply), yes,
			func(v staleness.View, w int) bool {
				least := v.Pushed[w]
				for _, p := range v.Pushed {
					least = min(least, p)
				}
				return v.Pushed[w]-least <= 2
			}}, staletest.Leaves, "deadlock"},
		"nobody is answered": {broken{always(staleness.Apply), yes,
			func(staleness.View, int) bool { return false }}, staletest.Progress, "deadlock"},
		"no update ever": {broken{always(staleness.Drop), yes, yesTo}, staletest.Progress, "no update"},
		"asynchronous":   {broken{always(staleness.Apply), yes, yesTo}, staletest.Traits, "PerUpdate says"},
		"a flush too early": {broken{always(staleness.Hold),
			func(v staleness.View) bool { return v.NumHeld() > v.NumLive()/2 },
			func(v staleness.View, w int) bool { return v.Held[w] == 0 }}, staletest.Traits, "PerUpdate says"},
		"a memory": {broken{always(staleness.Apply), yes,
			func(staleness.View, int) bool { calls++; return calls%2 == 0 }}, staletest.Progress, "no function of the view"},
		"a hand in the books": {broken{always(staleness.Apply), yes,
			func(v staleness.View, w int) bool { v.Held[w]++; return true }}, staletest.Progress, "no function of the view"},
	} {
		err := c.check(c.policy)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", name, err, c.want)
		}
	}
}
