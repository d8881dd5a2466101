package sgd

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// Clip bounds the global norm, a filter (Pascanu, Mikolov and Bengio 2013):
//
//	g ← g · min(1, norm/‖g‖₂)
//
// ‖g‖ runs over all trainable spans together and is summed in float64, so the
// direction is kept. It needs the whole vector at once (NeedsWhole). With by=role it
// runs over all weights, all tables (Role Embedding), all
// biases and all normalisations, each for itself; with
// by=tensor over every tensor for itself.
//
// Tuning: log ‖g‖ of a healthy run and take a little more than its median;
// Norm is in units of the mean gradient, before the learning rate.
//
// Cost: one more pass over the gradient, for the norm, before any element is
// updated; no state.
type Clip struct {
	Norm float64 `doc:"largest global norm, more than 0"`
	By   string  `doc:"whose norm: all, role or tensor"`
}

var _ = Optimizers.Add("clip", "filter: bound the global norm of the gradient", Clip{Norm: 1, By: "all"})

var (
	_ Filter = Clip{}
	_ Whole  = Clip{}
)

// Validate checks Norm and By.
func (o Clip) Validate() error {
	switch o.By {
	case "", "all", "role", "tensor":
		return check(o.Norm > 0, "norm", o.Norm, "more than 0")
	}
	return fmt.Errorf(`option "by" is %q; want all, role or tensor`, o.By)
}

// NeedsWhole is true: the norm is that of the whole vector.
func (Clip) NeedsWhole() bool { return true }

// New refuses: a filter needs an update rule behind it.
func (o Clip) New(Layout) (Transform, error) { return nil, alone(o) }

// NewFilter makes the Transform; it has no state.
func (o Clip) NewFilter(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &clip{norm: o.Norm}
	switch o.By {
	case "role":
		for _, role := range []Role{Weight, Embedding, Bias, Norm} {
			t.groups = append(t.groups, domain{l.Size(), l.Ranges(func(s Span) bool { return s.Role == role })})
		}
	case "tensor":
		for _, r := range tensors(l) {
			t.groups = append(t.groups, domain{l.Size(), []Range{r}})
		}
	default:
		t.groups = []domain{trainable(l)}
	}
	return t, nil
}

type clip struct {
	groups []domain // a norm each
	norm   float64
}

func (t *clip) Apply(u, _ []float32, _ Step) {
	for i := range t.groups {
		t.bound(u, t.groups[i].of(u))
	}
}

func (t *clip) bound(u []float32, ranges []Range) {
	var sum float64
	for _, r := range ranges {
		sum += f32.SumSq(u[r.Lo:r.Hi])
	}
	norm := math.Sqrt(sum)
	if norm <= t.norm {
		return
	}
	scale := float32(t.norm / norm)
	for _, r := range ranges {
		f32.Scale(u[r.Lo:r.Hi], scale)
	}
}
