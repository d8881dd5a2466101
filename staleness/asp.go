package staleness

// ASP is asynchronous parallel: every gradient is applied as it comes and
// nobody ever waits. It is Downpour SGD with n_fetch = n_push = 1 (Dean et al.
// 2012).
//
//	admit: apply   release: at once
//
// With equal workers the mean staleness is workers − 1; how far it spreads
// depends on how even their speeds are.
//
// Tuning: lower the rate or the momentum as workers are added, or correct by
// staleness (AlphaTau).
//
// Cost: no waiting; parameters for every version that a worker computes on.
type ASP struct{}

var _ = Policies.Add("asp", "apply at once, never wait (Downpour)", ASP{})

// New makes the Policy.
func (ASP) New(workers int) (Policy, error) { return serve(workers, asp{}) }

// Traits implements Spec.
func (ASP) Traits(int) PolicyTraits { return PolicyTraits{PerUpdate: 1} }

type asp struct{ keepGoing }

func (asp) Admit(View, int) Verdict { return Apply }

func (asp) Flush(View) bool { return false }

func (asp) Release(View, int) bool { return true }
