package staleness

import "fmt"

// MultiASGD keeps a momentum for each worker at the server (Hakimi et al. 2019,
// the baseline Multi-ASGD):
//
//	v_i ← γv_i + g      w ← w − ηv_i
//
// The optimizer behind it is sgd: the momentum is here.
//
// Tuning: gamma=0.9, with the rate of a momentum run of one worker.
//
// Cost: four bytes of state an element and worker at the server.
type MultiASGD struct {
	Gamma float64 `doc:"momentum, from 0 to below 1"`
}

// DANA is DANA-Zero (Hakimi et al. 2019, algorithm 4): MultiASGD whose workers
// compute where the parameters will be once everybody's momentum has moved them
// on, so that the gap is as small as without momentum.
//
//	v_i ← γv_i + g      w ← w − ηv_i      send ŵ = w − ηγ·Σ_j v_j
//
// Σ_j v_j is kept as a running sum. The optimizer behind it is sgd; evaluated
// and reported is w. η is the rate of one gradient: an update that is the mean of c
// moves on by a c-th of it for each.
//
// Tuning: gamma=0.9, with the rate of a momentum run of one worker.
//
// Cost: four bytes of state an element and worker at the server, and four for
// the sum. What is sent differs from the parameters, and is made for each
// version.
type DANA struct {
	Gamma float64 `doc:"momentum, from 0 to below 1"`
}

// DANASlim is DANA-Slim (Hakimi et al. 2019, algorithm 6), where the worker has
// the momentum and the server nothing:
//
//	worker: v ← γv + g, push γv + g      server: w ← w − η·(what was pushed)
//
// It is DANA in the variable ŵ: with a constant rate its workers compute on the
// same parameters, and evaluated is ŵ. The optimizer behind it is sgd.
//
// Tuning: gamma=0.9, with the rate of a momentum run of one worker.
//
// Cost: four bytes of state an element at each worker, none at the server.
type DANASlim struct {
	Gamma float64 `doc:"momentum, from 0 to below 1"`
}

// DANADC is DANA with the compensation of DC-ASGD-a for what gap is left
// (Hakimi et al. 2019, §5, "DANA-DC"): the gradient that goes into v_i is
//
//	g + λ/√(m+ε)·g⊙g⊙(w − ŵ_sent)
//
// Tuning: as dana; lambda=2 and mu=0.95 are those of dcasgd_a.
//
// Cost: that of dana, four bytes of state an element more, and the parameters
// that each worker was sent.
type DANADC struct {
	Gamma  float64 `doc:"momentum, from 0 to below 1"`
	Lambda float64 `doc:"strength of the compensation, above 0"`
	Mu     float64 `doc:"how slowly the mean square forgets, from 0 to below 1"`
}

// Implicit keeps one momentum at the server and leaves out the part of it that
// asynchrony brings by itself (Mitliagkas et al. 2016, theorem 3): with P
// workers of geometric staleness that is 1 − 1/P.
//
//	μ = β − (1 − 1/P)      v ← μv + g      w ← w − ηv
//
// β is the momentum wanted in all. μ may be negative, as they found best with
// many workers. Departure: the rate is not rescaled. The optimizer is sgd.
//
// Tuning: beta as in a run of one worker.
//
// Cost: four bytes of state an element at the server.
type Implicit struct {
	Beta float64 `spec:"beta,show" doc:"momentum wanted in all, from 0 to below 1"`
}

var (
	_ = Correctors.Add("multi_asgd", "a momentum for each worker at the server", MultiASGD{Gamma: 0.9})
	_ = Correctors.Add("dana", "DANA-Zero: a momentum for each worker, and looking ahead", DANA{Gamma: 0.9})
	_ = Correctors.Add("dana_slim", "DANA-Slim: the same with the momentum at the worker", DANASlim{Gamma: 0.9})
	_ = Correctors.Add("dana_dc", "DANA-DC: DANA with delay compensation", DANADC{Gamma: 0.9, Lambda: 2, Mu: 0.95})
	_ = Correctors.Add("implicit", "momentum less the part that asynchrony brings", Implicit{Beta: 0.9})
)

func fraction(option string, v float64) error {
	if !(v >= 0 && v < 1) {
		return fmt.Errorf("option %q is %g; want at least 0 and below 1", option, v)
	}
	return nil
}

// Validate checks the range of Gamma.
func (o MultiASGD) Validate() error { return fraction("gamma", o.Gamma) }

// Validate checks the range of Gamma.
func (o DANA) Validate() error { return fraction("gamma", o.Gamma) }

// Validate checks the range of Gamma.
func (o DANASlim) Validate() error { return fraction("gamma", o.Gamma) }

// Validate checks the ranges.
func (o DANADC) Validate() error {
	if err := fraction("gamma", o.Gamma); err != nil {
		return err
	}
	return DCASGDA{o.Lambda, o.Mu}.Validate()
}

// Validate checks the range of Beta.
func (o Implicit) Validate() error { return fraction("beta", o.Beta) }

// Scale is 1.
func (MultiASGD) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (o MultiASGD) Traits() CorrectorTraits {
	return CorrectorTraits{Amends: true, Momentum: o.Gamma > 0}
}

// Scale is 1.
func (DANA) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (o DANA) Traits() CorrectorTraits {
	return CorrectorTraits{Amends: true, Momentum: o.Gamma > 0, Ahead: o.Gamma > 0}
}

// Scale is 1.
func (DANASlim) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (o DANASlim) Traits() CorrectorTraits {
	return CorrectorTraits{Amends: true, AtWorker: true, Momentum: o.Gamma > 0}
}

// Scale is 1.
func (DANADC) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (o DANADC) Traits() CorrectorTraits {
	return CorrectorTraits{Amends: true, Compares: true, Momentum: o.Gamma > 0, Ahead: o.Gamma > 0}
}

// Scale is 1.
func (Implicit) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (Implicit) Traits() CorrectorTraits { return CorrectorTraits{Amends: true, Momentum: true} }

// Amender implements Amending.
func (o MultiASGD) Amender(n, workers int) Amender { return newVelocities(o.Gamma, n, workers) }

// Amender implements Amending.
func (o DANA) Amender(n, workers int) Amender {
	return &dana{newVelocities(o.Gamma, n, workers), make([]float32, n)}
}

// Amender implements Amending.
func (o DANASlim) Amender(n, _ int) Amender {
	return &slim{float32(o.Gamma), make([]float32, n)}
}

// Amender implements Amending.
func (o DANADC) Amender(n, workers int) Amender {
	return &danaDC{DANA{o.Gamma}.Amender(n, workers).(*dana), DCASGDA{o.Lambda, o.Mu}.Amender(n, workers).(*dcasgdA)}
}

// Amender implements Amending.
func (o Implicit) Amender(n, workers int) Amender {
	return &implicit{float32(o.Beta - (1 - 1/float64(workers))), make([]float32, n)}
}

// velocities is a momentum for each worker.
type velocities struct {
	gamma float32
	v     [][]float32
}

func newVelocities(gamma float64, n, workers int) *velocities {
	o := &velocities{float32(gamma), make([][]float32, workers)}
	for w := range o.v {
		o.v[w] = make([]float32, n)
	}
	return o
}

func (o *velocities) Amend(g, _, _ []float32, p Past) {
	v := o.v[p.Worker]
	for i, x := range g {
		v[i] = float32(o.gamma*v[i]) + x
		g[i] = v[i]
	}
}

func (o *velocities) State() map[string][]float32 {
	s := map[string][]float32{}
	for w, v := range o.v {
		s[fmt.Sprintf("v%d", w)] = v
	}
	return s
}

type dana struct {
	*velocities
	sum []float32 // of all velocities
}

func (o *dana) Amend(g, _, _ []float32, p Past) {
	v := o.v[p.Worker]
	for i, x := range g {
		u := float32(o.gamma*v[i]) + x
		o.sum[i] += u - v[i]
		v[i], g[i] = u, u
	}
}

// Ahead implements Ahead.
func (o *dana) Ahead(dst, now []float32, rate float64) {
	k := float32(rate) * o.gamma
	for i, x := range now {
		dst[i] = x - float32(k*o.sum[i])
	}
}

func (o *dana) State() map[string][]float32 {
	s := o.velocities.State()
	s["sum"] = o.sum
	return s
}

type danaDC struct {
	*dana
	dc *dcasgdA
}

func (o *danaDC) Amend(g, now, sent []float32, p Past) {
	o.dc.Amend(g, now, sent, p)
	o.dana.Amend(g, now, sent, p)
}

func (o *danaDC) State() map[string][]float32 {
	s := o.dana.State()
	s["square"] = o.dc.square
	return s
}

type slim struct {
	gamma float32
	v     []float32
}

func (o *slim) Amend(g, _, _ []float32, _ Past) {
	for i, x := range g {
		o.v[i] = float32(o.gamma*o.v[i]) + x
		g[i] = float32(o.gamma*o.v[i]) + x
	}
}

func (o *slim) State() map[string][]float32 { return map[string][]float32{"v": o.v} }

type implicit struct {
	mu float32
	v  []float32
}

func (o *implicit) Amend(g, _, _ []float32, _ Past) {
	for i, x := range g {
		o.v[i] = float32(o.mu*o.v[i]) + x
		g[i] = o.v[i]
	}
}

func (o *implicit) State() map[string][]float32 { return map[string][]float32{"v": o.v} }
