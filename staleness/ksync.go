package staleness

// KSync is K-sync SGD (Dutta et al. 2018, §3): one update is the mean of one
// gradient from each of the first k workers to finish. The others are told to
// stop and start over on the new parameters, so nothing is ever stale.
//
//	admit: drop if late, else hold   flush: k workers have a push held
//	release: nothing of yours is held   cancel: all who compute
//
// An update takes E[X_{k:P}], the k-th of P compute times: for exponential ones
// of rate μ it is (H_P − H_{P−k})/μ with H the harmonic numbers. k = workers is
// BSP in all but its promise not to depend on arrivals: a message may cross
// with the word to stop. When fewer than k live, all of them are waited for.
//
// Backup is the same without the word to stop, so that the slow finish what
// will be dropped and are late for the next update, too.
//
// Tuning: k by the curve of error against time (study dutta-error-runtime).
//
// Cost: up to k held gradients, and the passes that are broken off.
type KSync struct {
	K int `spec:"k,show" doc:"workers an update waits for"`
}

// KBatchSync is K-batch-sync SGD (Dutta et al. 2018, §3): one update is the mean
// of the first k gradients on the present parameters, whoever made them; who is
// fast makes several. Then all start over.
//
//	admit: drop if late, else hold   flush: k are held
//	release: at once   cancel: all who compute
//
// For exponential compute times of rate μ an update takes k/(Pμ).
//
// Tuning: as ksync.
//
// Cost: up to k held gradients, and the passes that are broken off.
type KBatchSync struct {
	K int `spec:"k,show" doc:"gradients in an update, at most as many as workers"`
}

var (
	_ = Policies.Add("ksync", "one update from the first k workers, the others start over", KSync{K: 2})
	_ = Policies.Add("kbatchsync", "one update from the first k gradients, whoever runs starts over", KBatchSync{K: 2})
)

// Validate checks the range of K.
func (o KSync) Validate() error { return atLeastOne("k", o.K) }

// Validate checks the range of K.
func (o KBatchSync) Validate() error { return atLeastOne("k", o.K) }

// New makes the Policy.
func (o KSync) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, ksync{k: o.K})
}

// New makes the Policy.
func (o KBatchSync) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, kbatchsync{k: min(o.K, workers)})
}

// Traits implements Spec.
func (o KSync) Traits(workers int) PolicyTraits {
	return PolicyTraits{PerUpdate: min(o.K, workers), Waits: o.K > 1, Drops: true, Voids: true}
}

// Traits implements Spec.
func (o KBatchSync) Traits(workers int) PolicyTraits {
	return PolicyTraits{PerUpdate: min(o.K, workers), Drops: true, Voids: true}
}

type ksync struct {
	startOver
	fresh
	k int
}

func (p ksync) Flush(v View) bool { return enough(v, p.k) }

func (ksync) Release(v View, w int) bool { return v.Held[w] == 0 }

type kbatchsync struct {
	startOver
	fresh
	k int
}

func (p kbatchsync) Flush(v View) bool { return v.NumHeld() >= p.k }

func (kbatchsync) Release(View, int) bool { return true }
