package sgd

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
)

// Dion steps along orthonormal factors of low rank of its momentum, with what they leave out
// kept for later (Ahn et al. 2025, arXiv 2504.05295, algorithm 1). For a matrix of r rows and
// c columns, with k = ⌈fraction·min(r, c)⌉ columns in P and Q:
//
//	M ← M + g
//	P ← orthonormal columns of M·Q,     R ← Mᵀ·P
//	M ← M − (1−μ)·P·Rᵀ
//	Q ← R, each column divided by its length + 1e-8
//	w ← w·(1 − lr·decay) − lr·√(r/c)·P·Qᵀ
//
// Q starts from normal numbers, drawn by the run's seed. As muon it takes matrices, and leaves
// tables, biases and normalisations to the rest of a group: groups(dion,on(lion,lr=0.1)).
//
// Left out is the paper's compressed synchronisation, which sends P and R alone and lets
// momenta of workers part: that is a codec's matter, such as feedback(powersgd). Columns become
// orthonormal in float64, other products are of float32. Matrices must be whole.
//
// Tuning: lr 0.01 to 0.02, mu 0.95; fraction 1 to 0.25 costs little, and less in larger models.
//
// Cost: eight bytes of state an element, 8·r·c·k operations a step, and 4·r·k² of float64.
type Dion struct {
	Fraction float64 `spec:",show" doc:"rank by the shorter side, more than 0 and at most 1"`
	Mu       float64 `doc:"share of what was stepped along that stays in the momentum, in [0, 1)"`
	Decay    float64 `doc:"decoupled weight decay, at least 0"`
}

var _ = Optimizers.Add("dion", "steps along orthonormal factors of the momentum, for matrices", Dion{Fraction: 0.25, Mu: 0.95})

var (
	_ Whole     = Dion{}
	_ Selective = Dion{}
)

// Validate checks the ranges.
func (o Dion) Validate() error {
	return cmp.Or(
		check(o.Fraction > 0 && o.Fraction <= 1, "fraction", o.Fraction, "more than 0 and at most 1"),
		check(0 <= o.Mu && o.Mu < 1, "mu", o.Mu, "at least 0 and less than 1"),
		check(o.Decay >= 0, "decay", o.Decay, "at least 0"),
	)
}

// Takes says that it is for matrices.
func (Dion) Takes(s Span) bool { return isMatrix(s) }

// NeedsWhole is true: factors are those of whole matrices.
func (Dion) NeedsWhole() bool { return true }

// Momentous is true: what the factors leave out comes later, whatever mu is.
func (Dion) Momentous() bool { return true }

// rank is the number of columns of the factors of a span.
func (o Dion) rank(s Span) int { return int(math.Ceil(o.Fraction * float64(min(s.Rows, s.Cols)))) }

// New makes the Transform; its state is the slots "momentum" and "right".
func (o Dion) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &dion{matrixwise: newMatrixwise(l, isMatrix), o: o, m: make([]float32, l.Size()), q: make([]float32, l.Size())}
	left, right := 0, 0
	for _, s := range t.taken {
		left, right = max(left, s.Rows*o.rank(s)), max(right, s.Cols*o.rank(s))
	}
	t.p, t.r, t.columns = make([]float32, left), make([]float32, right), make([]float64, left)
	t.kernel = t.step
	return t, nil
}

type dion struct {
	matrixwise
	o       Dion
	m, q    []float32 // of q each tensor has the first values: Qᵀ, column by column
	p, r    []float32 // Pᵀ and Rᵀ of one tensor
	columns []float64 // Pᵀ
}

func (t *dion) step(u, w []float32, s Span, at Step) {
	r, c, k := s.Rows, s.Cols, t.o.rank(s)
	m, q, p, right := t.m[s.Off:s.End()], t.q[s.Off:s.Off+k*c], t.p[:k*r], t.r[:k*c]
	if f32.MaxAbs(q) == 0 {
		draw := rng.New(at.Seed, "dion").With(uint64(s.Off))
		for i := range q {
			q[i] = float32(draw.Norm(uint64(i)))
		}
	}
	f32.Add(m, u)
	f32.Gemm(false, true, k, r, c, 1, q, c, m, c, 0, p, r)
	for i, v := range p {
		t.columns[i] = float64(v)
	}
	portable.Orthonormal(t.columns[:k*r], k)
	round(p, t.columns)
	f32.Gemm(false, false, k, c, r, 1, p, r, m, c, 0, right, c)
	f32.Gemm(true, false, r, c, k, float32(t.o.Mu-1), p, r, right, c, 1, m, c)
	for i := 0; i < len(q); i += c {
		column := q[i : i+c]
		copy(column, right[i:])
		f32.Scale(column, float32(1/(math.Sqrt(f32.SumSq(column))+1e-8)))
	}
	f32.Gemm(true, false, r, c, k, float32(at.LR*math.Sqrt(float64(r)/float64(c))), p, r, q, c, 0, u, c)
	if t.o.Decay != 0 {
		f32.Axpy(u, float32(at.LR*t.o.Decay), w)
	}
}

// Slots lists the momentum and the right factors.
func (t *dion) Slots() []Slot { return []Slot{{"momentum", t.m}, {"right", t.q}} }
