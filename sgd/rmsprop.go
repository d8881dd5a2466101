package sgd

import (
	"cmp"

	"github.com/gradlab/gradlab/internal/f32"
)

// RMSProp divides by a running root mean square (Tieleman and Hinton 2012),
// with momentum on the quotient (Chen, Pan et al. 2016):
//
//	s ← decay·s + (1−decay)·g²
//	v ← momentum·v + g/√(s + eps)
//	w ← w − lr·v
//
// eps stands under the root, as in TensorFlow, so that the eps = 1 of Chen, Pan
// et al. means here what it means there.
//
// Departures: s starts at 0 (TensorFlow: 1), so the first steps are 1/√(1−decay)
// times longer than later ones; the rate stays outside v (see Momentum;
// TensorFlow has it inside).
//
// Tuning: lr near 0.001 with the default eps. With eps = 1 the rule is close to
// plain momentum while gradients are small, and lr is that of sgd. Chen, Pan et
// al.: decay 0.9, momentum 0.9, eps 1, lr 0.045 a worker.
//
// Cost: four bytes of state an element, eight with momentum; one pass.
type RMSProp struct {
	Decay    float64 `doc:"memory of the mean square, in [0, 1)"`
	Eps      float64 `doc:"added under the root, more than 0"`
	Momentum float64 `doc:"share of the velocity kept, in [0, 1); 0 keeps no velocity"`
}

var _ = Optimizers.Add("rmsprop", "divide by a running root mean square, optional momentum", RMSProp{Decay: 0.9, Eps: 1e-10})

// Validate checks the ranges.
func (o RMSProp) Validate() error {
	return cmp.Or(
		check(0 <= o.Decay && o.Decay < 1, "decay", o.Decay, "at least 0 and less than 1"),
		check(float32(o.Eps) > 0, "eps", o.Eps, "more than 0"),
		check(0 <= o.Momentum && o.Momentum < 1, "momentum", o.Momentum, "at least 0 and less than 1"),
	)
}

// Momentous is true with a momentum.
func (o RMSProp) Momentous() bool { return o.Momentum != 0 }

// New makes the Transform; its state is the slot "squares" and, with momentum,
// "velocity".
func (o RMSProp) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &rmsprop{decay: float32(o.Decay), keep: float32(1 - o.Decay),
		eps: float32(o.Eps), beta: float32(o.Momentum), sq: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	if o.Momentum != 0 {
		t.v = make([]float32, l.Size())
	}
	return t, nil
}

type rmsprop struct {
	local
	decay, keep, eps, beta float32
	sq, v                  []float32
}

func (t *rmsprop) step(u, _ []float32, r Range, s Step) {
	u, sq, lr := u[r.Lo:r.Hi], t.sq[r.Lo:r.Hi], float32(s.LR)
	if t.v == nil {
		f32.RMSProp(u, sq, lr, t.decay, t.keep, t.eps)
		return
	}
	f32.RMSPropMomentum(u, sq, t.v[r.Lo:r.Hi], lr, t.decay, t.keep, t.eps, t.beta)
}

// Slots lists the mean squares and the velocity, if there is one.
func (t *rmsprop) Slots() []Slot {
	slots := []Slot{{"squares", t.sq}}
	if t.v != nil {
		slots = append(slots, Slot{"velocity", t.v})
	}
	return slots
}
