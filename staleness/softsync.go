package staleness

import "fmt"

// Softsync is n-softsync (Zhang et al. 2016, Gupta et al. 2016): one update is
// the mean of any c gradients, the same worker may count twice, and nobody
// waits.
//
//	c = max(1, ⌊workers/n⌋)   admit: hold   flush: c are held   release: at once
//
// The mean staleness is (workers−1)/c, so about n: n = 1 is nearly a barrier,
// n = workers is ASP. c is fixed by the number of workers at the start; when
// some leave, updates become rarer and staleness falls. Each gradient carries
// the correction of its own staleness into the mean, if a Corrector is set.
//
// Dutta et al. 2018 call it K-batch-async with K = c.
//
// Tuning: n from 1, nearly a barrier, to workers, which is asp; with alpha_tau
// the rate of one worker serves all n.
//
// Cost: up to c held gradients.
type Softsync struct {
	N int `spec:"n,show" doc:"splits the workers into n groups' worth of gradients; about the mean staleness"`
}

var _ = Policies.Add("softsync", "one update from any workers/n gradients, never wait", Softsync{N: 1})

// Validate checks the range of N.
func (o Softsync) Validate() error {
	if o.N < 1 {
		return fmt.Errorf("option %q is %d; want at least 1", "n", o.N)
	}
	return nil
}

// New makes the Policy.
func (o Softsync) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, softsync{c: o.group(workers)})
}

// Traits implements Spec.
func (o Softsync) Traits(workers int) PolicyTraits {
	return PolicyTraits{PerUpdate: o.group(workers)}
}

// group is the number of gradients in an update.
func (o Softsync) group(workers int) int { return max(1, workers/o.N) }

type softsync struct {
	keepGoing
	c int
}

func (softsync) Admit(View, int) Verdict { return Hold }

func (p softsync) Flush(v View) bool { return v.NumHeld() >= p.c }

func (softsync) Release(View, int) bool { return true }
