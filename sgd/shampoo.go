package sgd

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
)

// Shampoo takes Adam's lengths along gradients whitened by both sides of a matrix (Gupta, Koren
// and Singer 2018; here in the form of Shi et al. 2023, arXiv 2309.06497, grafted on Adam). With
// t = Step.N + 1:
//
//	L ← β·L + (1−β)·g·gᵀ,     R ← β·R + (1−β)·gᵀ·g
//	A ← (L/(1−βᵗ) + eps·I)^(−1/4),  B ← (R/(1−βᵗ) + eps·I)^(−1/4)     at t = 1 and each every updates behind it
//	a ← adam's step for beta1, beta2 and graft
//	S ← A·m·B                           m: adam's mean
//	w ← w − lr·‖a‖/‖S‖·S − lr·decay·w
//
// A matrix with one side longer than most has the other one alone, to the power −1/2. Where
// both are longer, and for vectors, biases and normalisations, S is a. Decay spares biases and
// normalisations.
//
// Departures: sides longer than most are not cut into blocks, the mean is Adam's for direction
// and length, and there is no first stretch of plain steps. Roots are by eigenvectors in
// float64, products with them in float32. A tensor must be whole.
//
// Tuning: lr as for adam, every 10 to 100; a longer memory, beta 0.99 to 0.999, for small batches.
//
// Cost: that of soap, with 6·r³ + 6·c³ more behind every updates.
type Shampoo struct {
	Beta1 float64 `doc:"memory of the mean, in [0, 1)"`
	Beta2 float64 `doc:"memory of the mean square, in [0, 1)"`
	Beta  float64 `doc:"memory of L and R, in [0, 1)"`
	Eps   float64 `doc:"added to eigenvalues, more than 0"`
	Graft float64 `doc:"added to the root of Adam's step, more than 0"`
	Decay float64 `doc:"decoupled weight decay, at least 0"`
	Every int     `doc:"updates from one pair of roots to the next, at least 1"`
	Most  int     `doc:"longest side that has a root, at least 1"`
}

var _ = Optimizers.Add("shampoo", "adam's lengths along gradients whitened by both sides of a matrix", Shampoo{
	Beta1: 0.9, Beta2: 0.999, Beta: 0.99, Eps: 1e-12, Graft: 1e-8, Decay: 0.01, Every: 10, Most: 8192,
})

var _ Whole = Shampoo{}

// Validate checks the ranges.
func (o Shampoo) Validate() error {
	return cmp.Or(
		check(float32(o.Graft) > 0, "graft", o.Graft, "more than 0"),
		Adam{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Graft}.Validate(),
		check(0 <= o.Beta && o.Beta < 1, "beta", o.Beta, "at least 0 and less than 1"),
		check(o.Eps > 0, "eps", o.Eps, "more than 0"),
		check(o.Decay >= 0, "decay", o.Decay, "at least 0"),
		check(o.Every >= 1, "every", float64(o.Every), "at least 1 update"),
		check(o.Most >= 1, "most", float64(o.Most), "at least 1"),
	)
}

// NeedsWhole is true: roots are those of whole matrices.
func (Shampoo) NeedsWhole() bool { return true }

// Momentous is true but for beta1=0.
func (o Shampoo) Momentous() bool { return o.Beta1 != 0 }

// New makes the Transform; its state is the slots "mean" and "squares", and, in beside1 and
// so on, L and R and their roots.
func (o Shampoo) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &shampoo{
		matrixwise: newMatrixwise(l, func(Span) bool { return true }), o: o,
		m: make([]float32, l.Size()), v: make([]float32, l.Size()),
	}
	t.sides = newSides(l, t.taken, o.Most, o.Beta)
	t.kernel = t.step
	return t, nil
}

type shampoo struct {
	matrixwise
	sides
	o    Shampoo
	m, v []float32
}

func (t *shampoo) step(u, w []float32, s Span, at Step) {
	r, c := sided(s, t.o.Most)
	m, rates := t.m[s.Off:s.End()], Adam{Beta1: t.o.Beta1, Beta2: t.o.Beta2, Eps: t.o.Graft}.rates(at.N)
	length := at.LR
	if r+c > 0 {
		left, right := t.open(s)
		t.sum(left, right, s, u)
		if at.N%t.o.Every == 0 || f32.MaxAbs(left.rows) == 0 && f32.MaxAbs(right.rows) == 0 {
			power := -0.5
			if r > 0 && c > 0 {
				power = -0.25
			}
			t.root(left, power, at)
			t.root(right, power, at)
		}
		f32.Adam(u, m, t.v[s.Off:s.End()], &rates)
		step := math.Sqrt(f32.SumSq(u))
		copy(u, m)
		t.turn(u, s, left, right, false)
		if norm := math.Sqrt(f32.SumSq(u)); norm > 0 {
			length *= step / norm
		}
		t.close(s)
	} else {
		f32.Adam(u, m, t.v[s.Off:s.End()], &rates)
	}
	f32.Scale(u, float32(length))
	if t.o.Decay != 0 && s.Role.IsWeight() {
		f32.Axpy(u, float32(at.LR*t.o.Decay), w)
	}
}

// root sets a side's matrix to a power of its sums.
func (t *shampoo) root(b basis, power float64, at Step) {
	n := b.n
	a, v, d := t.a[:n*n], t.b[:n*n], t.d[:n]
	full := 1 - portable.Pow(t.o.Beta, float64(at.N)+1)
	for i, x := range b.sums {
		a[i] = float64(x) / full
	}
	portable.Eigen(d, v, a, t.e[:n])
	clear(a)
	for k, value := range d {
		by := portable.Pow(max(value, 0)+t.o.Eps, power)
		along := v[k*n : (k+1)*n]
		for i, x := range along {
			x *= by
			for j, y := range along {
				a[i*n+j] += float64(x * y)
			}
		}
	}
	round(b.rows, a)
}

// Slots lists the moments, and what is beside the tensors.
func (t *shampoo) Slots() []Slot {
	return append([]Slot{{"mean", t.m}, {"squares", t.v}}, t.slots()...)
}
