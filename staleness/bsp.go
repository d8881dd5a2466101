package staleness

// BSP is bulk synchronous parallel (Valiant 1990; hardsync of Gupta et al.
// 2016): everybody computes on the same version, and one update is the mean of
// one gradient from each.
//
//	admit: hold   flush: every live worker has a push held   release: nothing of yours is held
//
// It is not SSP with slack 0: that one paces the workers alike, but applies
// each gradient by itself. Of a worker that leaves, what it had pushed still
// counts; the barrier goes on with the others.
//
// Tuning: none; the rate is that of the joint batch.
//
// Cost: every update waits for the slowest worker; a held gradient for each
// worker.
type BSP struct{}

var _ = Policies.Add("bsp", "barrier: one update is the mean over all workers", BSP{})

// New makes the Policy.
func (BSP) New(workers int) (Policy, error) { return serve(workers, bsp{}) }

// Traits implements Spec.
func (BSP) Traits(workers int) PolicyTraits { return barrier(workers) }

// barrier is what a barrier over all workers claims.
func barrier(workers int) PolicyTraits {
	return PolicyTraits{Synchronous: true, PerUpdate: workers, Waits: true, Paced: true}
}

type bsp struct{ keepGoing }

func (bsp) Admit(View, int) Verdict { return Hold }

func (bsp) Flush(v View) bool {
	for w, live := range v.Live {
		if live && v.Held[w] == 0 {
			return false
		}
	}
	return v.NumHeld() > 0
}

func (bsp) Release(v View, w int) bool { return v.Held[w] == 0 }
