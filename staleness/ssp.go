package staleness

import "fmt"

// SSP is stale synchronous parallel (Ho et al. 2013): every gradient is applied
// as it comes, and a worker too far ahead of the slowest waits.
//
//	admit: apply   release: pushed[w] − min pushed ≤ slack
//
// Off by one, and how it is settled: a worker that has pushed k gradients has
// finished clocks 0 … k−1 and, when released, starts clock k = Pushed[w]. The
// paper lets it start clock c+1 only if c − min c_q ≤ s, where c is the clock
// just finished. Both sides are one less than ours, so the rule is the same.
// The clocks that two workers are computing at one time never differ by more
// than slack. A worker waits with Pushed up to slack+1 above the smallest. And
// what it reads at clock k holds every gradient of clocks ≤ k−slack−1, as the
// paper promises.
//
// Slack 0 paces workers as a barrier does; a slack nobody reaches is ASP.
// Only live workers count, so one that leaves holds nobody back.
//
// Tuning: the gain comes from the first few units, which swallow jitter; a
// worker that is slower on average is waited for at any slack. 3 … 10 was best
// on 32 machines (Ho et al.).
//
// Cost: workers too far ahead wait; else that of asp.
type SSP struct {
	Slack int `doc:"clocks a worker may be ahead of the slowest, at least 0"`
}

var _ = Policies.Add("ssp", "apply at once; wait when too far ahead of the slowest", SSP{Slack: 3})

// Validate checks the range of Slack.
func (o SSP) Validate() error {
	if o.Slack < 0 {
		return fmt.Errorf("option %q is %d; want at least 0", "slack", o.Slack)
	}
	return nil
}

// Traits implements Spec.
func (o SSP) Traits(int) PolicyTraits {
	return PolicyTraits{PerUpdate: 1, Waits: true, Paced: true, Lead: o.Slack}
}

// New makes the Policy.
func (o SSP) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, ssp{slack: o.Slack})
}

type ssp struct {
	keepGoing
	slack int
}

func (ssp) Admit(View, int) Verdict { return Apply }

func (ssp) Flush(View) bool { return false }

func (p ssp) Release(v View, w int) bool { return v.Pushed[w]-v.MinClock() <= p.slack }
