package parts

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Ball is a heavy ball whose velocity is a mean of gradients:
//
//	b ← β·b + (1−β)·g
//	w ← w − lr·b
//
// Tuning: rates of plain sgd hold, as the mean is as long as a gradient.
type Ball struct {
	Beta float64 `doc:"share of the mean kept from step to step, in [0, 1)"`
}

var _ = sgd.Optimizers.Add("ball", "heavy ball with a mean: b = beta·b + (1−beta)·g, w −= lr·b", Ball{Beta: 0.9})

// Validate checks the range of Beta.
func (o Ball) Validate() error {
	if !(o.Beta >= 0 && o.Beta < 1) {
		return fmt.Errorf("option \"beta\" is %v; want at least 0 and less than 1", o.Beta)
	}
	return nil
}

// Momentous is true but for beta=0: what brings a momentum of its own is refused beside
// it.
func (o Ball) Momentous() bool { return o.Beta != 0 }

// New makes the rule for a layout. Buffers, such as batch-norm statistics, are left
// alone.
func (o Ball) New(l sgd.Layout) (sgd.Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	trained := l.Ranges(func(s sgd.Span) bool { return s.Role != sgd.Buffer })
	return &ball{beta: float32(o.Beta), trained: trained, buf: make([]float32, l.Size())}, nil
}

type ball struct {
	beta    float32
	trained []sgd.Range
	buf     []float32
}

// Apply turns the gradient u into the update, in place.
func (t *ball) Apply(u, _ []float32, s sgd.Step) {
	if len(u) != len(t.buf) {
		panic(fmt.Sprintf("ball: an update of %d values for a layout of %d", len(u), len(t.buf)))
	}
	for _, r := range t.trained {
		for i := r.Lo; i < r.Hi; i++ {
			t.buf[i] = float32(t.beta*t.buf[i]) + float32((1-t.beta)*u[i])
			u[i] = float32(s.LR) * t.buf[i]
		}
	}
}

// Slots lists the state, for checkpoints.
func (t *ball) Slots() []sgd.Slot { return []sgd.Slot{{Name: "buf", V: t.buf}} }
