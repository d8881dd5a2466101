package sgd

import (
	"cmp"
	"errors"

	"github.com/gradlab/gradlab/internal/f32"
)

// Adagrad gives every coordinate a rate that falls with the gradients it has
// seen (Duchi et al. 2011), as the shards of Downpour SGD do (Dean et al. 2012):
//
//	s ← s + g²                    (s starts at Initial)
//	w ← w − lr·g / (√s + eps)
//
// A shard needs nothing but its own slice, and a coordinate its worker updated
// late takes a small step, which steadies asynchronous runs.
//
// Departure: the paper writes lr/√Σg² and no eps, which is 0/0 for a coordinate
// that has never moved. We keep Initial = 0, so the first step is lr·sign(g) as
// in the paper, and add eps outside the root, small enough to change nothing
// else. TensorFlow starts from initial = 0.1 instead, which damps the first
// steps.
//
// Tuning: start with up to ten times the best fixed rate (Dean et al.). Raise
// initial when the first steps are too wild; a warm start of one worker alone
// does the same.
//
// Cost: four bytes of state an element, one pass.
type Adagrad struct {
	Eps     float64 `doc:"added to the root, at least 0"`
	Initial float64 `doc:"the sum of squares to start from, at least 0"`
}

var _ = Optimizers.Add("adagrad", "per-coordinate rates lr/√Σg², as in Downpour SGD", Adagrad{Eps: 1e-8})

// Validate checks that the denominator can never be 0.
func (o Adagrad) Validate() error {
	if err := cmp.Or(
		check(o.Eps >= 0, "eps", o.Eps, "at least 0"),
		check(o.Initial >= 0, "initial", o.Initial, "at least 0"),
	); err != nil {
		return err
	}
	if float32(o.Eps) == 0 && float32(o.Initial) == 0 {
		return errors.New(`options "eps" and "initial" are both 0; a coordinate that never moved would be divided by 0`)
	}
	return nil
}

// New makes the Transform; its state is the slot "squares".
func (o Adagrad) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &adagrad{eps: float32(o.Eps), sum: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	for _, r := range t.ranges {
		f32.Fill(t.sum[r.Lo:r.Hi], float32(o.Initial))
	}
	return t, nil
}

type adagrad struct {
	local
	eps float32
	sum []float32
}

func (t *adagrad) step(u, _ []float32, r Range, s Step) {
	f32.Adagrad(u[r.Lo:r.Hi], t.sum[r.Lo:r.Hi], float32(s.LR), t.eps)
}

// Slots lists the sums of squares.
func (t *adagrad) Slots() []Slot { return []Slot{{"squares", t.sum}} }
