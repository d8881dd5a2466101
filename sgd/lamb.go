package sgd

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// LAMB is Adam's step with a length for every tensor in proportion to its own norm
// (You et al. 2020, "Large batch optimization for deep learning", algorithm 2):
//
//	r ← (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps) + decay·w
//	w ← w − lr·φ(‖w‖)/‖r‖ · r,        φ(z) = min(z, bound), or z if bound = 0
//
// m and v are adam's, and t is the count of updates of the run. φ(‖w‖)/‖r‖ is 1
// where a norm is 0. Biases and normalisations, and tensors whose name contains one
// of Skip, are neither adapted nor decayed, as in the authors' code and in MLPerf;
// all=true takes them in, as the paper's algorithm does. With correct=false the
// moments are not corrected for starting at 0, as in the paper's own BERT runs; MLPerf
// corrects, and divides the gradient by its global norm where that is above 1:
// chain(clip(norm=1),lamb).
//
// Tuning: betas (0.9, 0.999), eps 1e-6, decay 0.01; a rate of √(batch) times that
// of a small batch, with warm-up.
//
// Cost: eight bytes of state an element, and a pass more for the norms of each
// tensor.
type LAMB struct {
	Beta1   float64  `doc:"memory of the mean, in [0, 1)"`
	Beta2   float64  `doc:"memory of the mean square, in [0, 1)"`
	Eps     float64  `doc:"added to the root, more than 0"`
	Decay   float64  `doc:"decoupled weight decay, at least 0"`
	Bound   float64  `doc:"upper bound of the weights' norm; 0: none"`
	Correct bool     `doc:"correct the moments for starting at 0"`
	All     bool     `doc:"adapt and decay biases and normalisations too"`
	Skip    []string `doc:"parts of names of tensors that are neither adapted nor decayed"`
}

var _ = Optimizers.Add("lamb", "adam with a step for every tensor in proportion to its norm", LAMB{
	Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, Decay: 0.01, Correct: true,
})

var _ Whole = LAMB{}

// Validate checks the ranges.
func (o LAMB) Validate() error {
	return cmp.Or(
		o.adam().Validate(),
		check(o.Decay >= 0, "decay", o.Decay, "at least 0"),
		check(o.Bound >= 0, "bound", o.Bound, "at least 0"),
	)
}

func (o LAMB) adam() Adam { return Adam{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps} }

// NeedsWhole is true: norms are those of whole tensors.
func (LAMB) NeedsWhole() bool { return true }

// Momentous is true but for beta1=0.
func (o LAMB) Momentous() bool { return o.Beta1 != 0 }

// New makes the Transform; its state is the slots "mean" and "squares".
func (o LAMB) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &lamb{layered: newLayered(l, o.All, o.Skip), o: o, m: make([]float32, l.Size()), v: make([]float32, l.Size())}
	t.kernel = t.step
	return t, nil
}

type lamb struct {
	layered
	o    LAMB
	m, v []float32
}

func (t *lamb) step(u, params []float32, r Range, adapted bool, s Step) {
	u, w := u[r.Lo:r.Hi], params[r.Lo:r.Hi]
	rates := t.o.adam().rates(s.N)
	if !t.o.Correct {
		rates.Rate, rates.Unbias = 1, 1
	}
	f32.Adam(u, t.m[r.Lo:r.Hi], t.v[r.Lo:r.Hi], &rates)
	ratio := 1.0
	if adapted {
		if t.o.Decay != 0 {
			f32.Axpy(u, float32(t.o.Decay), w)
		}
		norm, length := math.Sqrt(f32.SumSq(w)), math.Sqrt(f32.SumSq(u))
		if t.o.Bound > 0 {
			norm = min(norm, t.o.Bound)
		}
		if norm > 0 && length > 0 {
			ratio = norm / length
		}
	}
	f32.Scale(u, float32(s.LR*ratio))
}

// Slots lists both moments.
func (t *lamb) Slots() []Slot { return []Slot{{"mean", t.m}, {"squares", t.v}} }
