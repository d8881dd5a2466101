package sgd

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
)

// RMSPropWarmup goes over from RMSProp to momentum SGD in the first epochs (Akiba,
// Suzuki and Fukuda 2017, "Extremely large minibatch SGD", section 3.1):
//
//	s ← μ₂·s + (1−μ₂)·g²
//	v ← μ₁·v + (a + (1−a)·ratio/(√s + eps))·g
//	w ← w − lr·v
//
// with the share a of SGD as a function of the epoch e,
//
//	½·exp(2·(e−center)/period)      e < center
//	½ + 2·(e−center)/period         e < center + period/4
//	1                               afterwards
//
// Departures: ratio is the rate of the RMSProp part over lr, where the paper's code
// has a rate of its own, so that schedules act on both parts alike. The straight
// line ends where it reaches 1, a quarter of a period after the centre.
//
// Tuning: center 10 and period 5 epochs are the paper's, with schedule akiba;
// ratio=4.7e-5 is a rate of 3e-4 beside their 6.4 at batch 32,768. Shrink center and
// period with the number of epochs.
//
// Cost: eight bytes of state an element, one pass.
type RMSPropWarmup struct {
	Mu1    float64 `doc:"share of the velocity kept, in [0, 1)"`
	Mu2    float64 `doc:"memory of the mean square, in [0, 1)"`
	Eps    float64 `doc:"added to the root, more than 0"`
	Ratio  float64 `doc:"rate of the RMSProp part over the learning rate, at least 0"`
	Center float64 `doc:"epoch at which the share of SGD is a half, at least 0"`
	Period float64 `doc:"epochs that the change takes, more than 0"`
}

var _ = Optimizers.Add("rmsprop_warmup", "RMSProp at first, momentum SGD later (Akiba et al.)", RMSPropWarmup{
	Mu1: 0.9, Mu2: 0.99, Eps: 1e-8, Ratio: 4.7e-5, Center: 10, Period: 5,
})

// Validate checks the ranges.
func (o RMSPropWarmup) Validate() error {
	return cmp.Or(
		check(0 <= o.Mu1 && o.Mu1 < 1, "mu1", o.Mu1, "at least 0 and less than 1"),
		check(0 <= o.Mu2 && o.Mu2 < 1, "mu2", o.Mu2, "at least 0 and less than 1"),
		check(float32(o.Eps) > 0, "eps", o.Eps, "more than 0"),
		check(o.Ratio >= 0, "ratio", o.Ratio, "at least 0"),
		check(o.Center >= 0, "center", o.Center, "at least 0"),
		check(o.Period > 0, "period", o.Period, "more than 0"),
	)
}

// Momentous is true but for mu1=0.
func (o RMSPropWarmup) Momentous() bool { return o.Mu1 != 0 }

// share is the share of SGD in an epoch.
func (o RMSPropWarmup) share(epoch float64) float64 {
	x := 2 * (epoch - o.Center) / o.Period
	if x < 0 {
		return portable.Exp(x) / 2
	}
	return min(1, 0.5+x)
}

// New makes the Transform; its state is the slots "squares" and "velocity".
func (o RMSPropWarmup) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &rmspropWarmup{o: o, sq: make([]float32, l.Size()), v: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	return t, nil
}

type rmspropWarmup struct {
	local
	o     RMSPropWarmup
	sq, v []float32
}

func (t *rmspropWarmup) step(u, _ []float32, r Range, s Step) {
	u, sq, v := u[r.Lo:r.Hi], t.sq[r.Lo:r.Hi], t.v[r.Lo:r.Hi]
	a := t.o.share(s.Epoch)
	share, rest := float32(a), float32((1-a)*t.o.Ratio)
	keep, add, eps := float32(t.o.Mu2), float32(1-t.o.Mu2), float32(t.o.Eps)
	sq = sq[:len(u)]
	for i, g := range u {
		q := float32(keep*sq[i]) + float32(add*float32(g*g))
		sq[i] = q
		u[i] = float32(share*g) + float32(rest*g)/(float32(math.Sqrt(float64(q)))+eps)
	}
	f32.Momentum(u, v, float32(s.LR), float32(t.o.Mu1))
}

// Slots lists the mean squares and the velocity.
func (t *rmspropWarmup) Slots() []Slot { return []Slot{{"squares", t.sq}, {"velocity", t.v}} }
