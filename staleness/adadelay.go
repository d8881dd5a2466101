package staleness

import "math"

// AdaDelayEach is AdaDelay as its authors run it (Sra et al. 2016, §4): every
// coordinate has a c of its own, from its gradients so far.
//
//	c = √(1/t·Σ_s s/(s+τ_s)·g_s²)      g ← g/(1 + K·c·√(t+τ))
//
// With τ = 0 it is like Adagrad. Departure: L is taken as 1/α, so that the first
// updates have the schedule's rate. Use a constant schedule: this is one.
//
// Tuning: k=1 with the rate of a constant schedule; a larger k brakes sooner.
//
// Cost: four bytes of state an element at the server.
type AdaDelayEach struct {
	K float64 `spec:"k,show" doc:"how fast the rate falls, above 0"`
}

var _ = Correctors.Add("adadelay_each", "AdaDelay with a factor for each coordinate", AdaDelayEach{K: 1})

// Validate checks the range of K.
func (o AdaDelayEach) Validate() error { return positive("k", o.K) }

// Scale is 1.
func (AdaDelayEach) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (AdaDelayEach) Traits() CorrectorTraits { return CorrectorTraits{Amends: true} }

// Amender implements Amending.
func (o AdaDelayEach) Amender(n, _ int) Amender {
	return &adaDelayEach{o.K, make([]float32, n), make([]float32, 1)}
}

type adaDelayEach struct {
	k    float64
	sum  []float32 // Σ s/(s+τ)·g²
	seen []float32 // gradients so far
}

func (o *adaDelayEach) Amend(g, _, _ []float32, p Past) {
	o.seen[0]++
	t, tau := float64(o.seen[0]), float64(p.Delay)
	w := float32(t / (t + tau))
	k := o.k * math.Sqrt((t+tau)/t)
	for i, x := range g {
		o.sum[i] += float32(w * x * x)
		g[i] = x / float32(1+float64(k*math.Sqrt(float64(o.sum[i]))))
	}
}

func (o *adaDelayEach) State() map[string][]float32 {
	return map[string][]float32{"sum": o.sum, "seen": o.seen}
}
