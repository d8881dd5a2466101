package staleness

import "fmt"

// KAsync is K-async SGD (Dutta et al. 2018): one update is the mean of one
// gradient from each of the first k workers to finish. The others go on with
// the parameters they have, so their gradients come late.
//
//	admit: hold   flush: k workers have a push held   release: nothing of yours is held
//
// Its error is between that of BSP (k = workers) and of ASP (k = 1), and so is
// the time of an update. For exponential compute times of rate μ it is
// (H_P − H_{P−k})/μ with H the harmonic numbers. When fewer than k live, all of
// them are waited for.
//
// Tuning: k by the curve of error against time (study dutta-error-runtime):
// small first, large for the last of the error.
//
// Cost: up to k held gradients.
type KAsync struct {
	K int `spec:"k,show" doc:"workers an update waits for"`
}

// KBatchAsync is K-batch-async SGD (Dutta et al. 2018): one update is the mean
// of the first k gradients, whoever made them, and nobody waits.
//
//	admit: hold   flush: k are held   release: at once
//
// An update takes k·E[X]/P on average for compute times X of any law. It is
// n-softsync with k = ⌊workers/n⌋, under the name of the other paper.
//
// Tuning: as kasync.
//
// Cost: up to k held gradients.
type KBatchAsync struct {
	K int `spec:"k,show" doc:"gradients in an update, at most as many as workers"`
}

var (
	_ = Policies.Add("kasync", "one update from the first k workers, late ones count later", KAsync{K: 2})
	_ = Policies.Add("kbatchasync", "one update from the first k gradients, never wait", KBatchAsync{K: 2})
)

// Validate checks the range of K.
func (o KAsync) Validate() error { return atLeastOne("k", o.K) }

// Validate checks the range of K.
func (o KBatchAsync) Validate() error { return atLeastOne("k", o.K) }

func atLeastOne(option string, n int) error {
	if n < 1 {
		return fmt.Errorf("option %q is %d; want at least 1", option, n)
	}
	return nil
}

// New makes the Policy.
func (o KAsync) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, kasync{k: o.K})
}

// New makes the Policy.
func (o KBatchAsync) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, softsync{c: min(o.K, workers)})
}

// Traits implements Spec.
func (o KAsync) Traits(workers int) PolicyTraits {
	return PolicyTraits{PerUpdate: min(o.K, workers), Waits: o.K > 1}
}

// Traits implements Spec.
func (o KBatchAsync) Traits(workers int) PolicyTraits {
	return PolicyTraits{PerUpdate: min(o.K, workers)}
}

type kasync struct {
	keepGoing
	k int
}

func (kasync) Admit(View, int) Verdict { return Hold }

func (p kasync) Flush(v View) bool { return enough(v, p.k) }

func (kasync) Release(v View, w int) bool { return v.Held[w] == 0 }

// enough says whether k workers have a push held, or all that live if they are
// fewer.
func enough(v View, k int) bool {
	have, missing := 0, 0
	for w, held := range v.Held {
		switch {
		case held > 0:
			have++
		case v.Live[w]:
			missing++
		}
	}
	return have >= k || have > 0 && missing == 0
}
