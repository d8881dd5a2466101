package sgd

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
)

// SOAP is Adam in the basis of Shampoo's eigenvectors (Vyas et al. 2024, arXiv 2409.11321,
// algorithm 3, as in the authors' code). For a matrix, with t = Step.N:
//
//	g' ← Q_Lᵀ·g·Q_R
//	m' ← β₁·m' + (1−β₁)·g',   v ← β₂·v + (1−β₂)·g'²
//	w ← w − lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · Q_L·(m'/(√v + eps))·Q_Rᵀ − lr·decay·w
//	L ← β·L + (1−β)·g·gᵀ,     R ← β·R + (1−β)·gᵀ·g
//
// Update 0 of a run takes no step: it makes L, R and their eigenvectors. Behind every updates
// the columns of Q_L and v's rows are sorted by diag(Q_Lᵀ·L·Q_L), the greatest first, then
// Q_L ← the orthonormal columns of L·Q_L by Householder; Q_R and v's columns likewise. m' is
// taken along, v is not.
//
// Sides longer than most have no basis of their own; vectors, biases and normalisations take
// the step of Adam. Decay spares biases and normalisations. Departures: the authors decay
// those too, and what has taken its step; here decay is that of the weights before. Bases are
// computed in float64, products with them in float32. A tensor must be whole.
//
// Tuning: lr 3e-3, beta1 and beta2 0.95, every 10.
//
// Cost: for r rows and c columns 8·r·c + 8·(r² + c²) bytes of state, 6·r·c·(r + c) operations a
// step, and about 8·(r³ + c³) of float64 on one core behind every updates. State comes in
// vectors as long as the parameters: pages that no tensor needs are never touched.
type SOAP struct {
	Beta1 float64 `doc:"memory of the mean, in [0, 1)"`
	Beta2 float64 `doc:"memory of the mean square, in [0, 1)"`
	Beta  float64 `doc:"memory of L and R, in [0, 1)"`
	Eps   float64 `doc:"added to the root, more than 0"`
	Decay float64 `doc:"decoupled weight decay, at least 0"`
	Every int     `doc:"updates from one basis to the next, at least 1"`
	Most  int     `doc:"longest side that has a basis, at least 1"`
}

var _ = Optimizers.Add("soap", "adam in the basis of shampoo's eigenvectors", SOAP{
	Beta1: 0.95, Beta2: 0.95, Beta: 0.95, Eps: 1e-8, Decay: 0.01, Every: 10, Most: 10000,
})

var _ Whole = SOAP{}

// Validate checks the ranges.
func (o SOAP) Validate() error {
	return cmp.Or(
		o.adam().Validate(),
		check(0 <= o.Beta && o.Beta < 1, "beta", o.Beta, "at least 0 and less than 1"),
		check(o.Decay >= 0, "decay", o.Decay, "at least 0"),
		check(o.Every >= 1, "every", float64(o.Every), "at least 1 update"),
		check(o.Most >= 1, "most", float64(o.Most), "at least 1"),
	)
}

func (o SOAP) adam() Adam { return Adam{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps} }

// NeedsWhole is true: a basis is one of whole matrices.
func (SOAP) NeedsWhole() bool { return true }

// Momentous is true but for beta1=0.
func (o SOAP) Momentous() bool { return o.Beta1 != 0 }

// New makes the Transform; its state is the slots "mean" and "squares", and, in beside1 and
// so on, L and R and their eigenvectors.
func (o SOAP) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &soap{
		matrixwise: newMatrixwise(l, func(Span) bool { return true }), o: o,
		m: make([]float32, l.Size()), v: make([]float32, l.Size()),
	}
	t.sides = newSides(l, t.taken, o.Most, o.Beta)
	t.kernel = t.step
	return t, nil
}

type soap struct {
	matrixwise
	sides
	o    SOAP
	m, v []float32
}

func (t *soap) step(u, w []float32, s Span, at Step) {
	if r, c := sided(s, t.o.Most); r+c == 0 {
		t.adam(u, w, s, at)
		return
	}
	left, right := t.open(s)
	g := t.g[:s.Len()]
	copy(g, u)
	if at.N == 0 || f32.MaxAbs(left.rows) == 0 && f32.MaxAbs(right.rows) == 0 {
		clear(u)
		t.sum(left, right, s, g)
		t.begin(left)
		t.begin(right)
	} else {
		t.turn(u, s, left, right, false)
		t.adam(u, nil, s, at)
		t.turn(u, s, left, right, true)
		t.decay(u, w, s, at)
		t.sum(left, right, s, g)
		if at.N%t.o.Every == 0 {
			m := t.m[s.Off:s.End()]
			t.turn(m, s, left, right, true)
			t.renew(left, s, true)
			t.renew(right, s, false)
			t.turn(m, s, left, right, false)
		}
	}
	t.close(s)
}

// adam takes Adam's step; with w it decays, too.
func (t *soap) adam(u, w []float32, s Span, at Step) {
	if at.N == 0 {
		clear(u)
		return
	}
	rates := t.o.adam().rates(at.N - 1)
	n := float64(at.N)
	rates.Unbias = 1
	rates.Rate = float32(at.LR * math.Sqrt(1-portable.Pow(t.o.Beta2, n)) / (1 - portable.Pow(t.o.Beta1, n)))
	f32.Adam(u, t.m[s.Off:s.End()], t.v[s.Off:s.End()], &rates)
	if w != nil {
		t.decay(u, w, s, at)
	}
}

func (t *soap) decay(u, w []float32, s Span, at Step) {
	if t.o.Decay != 0 && s.Role.IsWeight() {
		f32.Axpy(u, float32(at.LR*t.o.Decay), w)
	}
}

// begin sets a basis to the eigenvectors of its sums.
func (t *soap) begin(b basis) {
	n := b.n
	for i, x := range b.sums {
		t.a[i] = float64(x)
	}
	portable.Eigen(t.d[:n], t.b[:n*n], t.a[:n*n], t.e[:n])
	round(b.rows, t.b)
}

// renew sorts a basis by what its sums are along it, and v with it, and takes a power step.
func (t *soap) renew(b basis, s Span, left bool) {
	n := b.n
	if n == 0 {
		return
	}
	a, d, order := t.a[:n*n], t.d[:n], t.order[:n]
	clear(a)
	for i := range n {
		row := a[i*n : (i+1)*n]
		for k, q := range b.rows[i*n : (i+1)*n] {
			for j, x := range b.sums[k*n : (k+1)*n] {
				row[j] += float64(float64(q) * float64(x))
			}
		}
		d[i] = 0
		for k, q := range b.rows[i*n : (i+1)*n] {
			d[i] += float64(row[k] * float64(q))
		}
		at := i // sorted so far: what comes first stays first
		for at > 0 && d[order[at-1]] < d[i] {
			order[at] = order[at-1]
			at--
		}
		order[at] = i
	}
	v, sorted := t.v[s.Off:s.End()], t.next[:s.Len()]
	copy(sorted, v)
	for i, from := range order {
		copy(t.b[i*n:(i+1)*n], a[from*n:(from+1)*n])
		if left {
			copy(v[i*s.Cols:(i+1)*s.Cols], sorted[from*s.Cols:])
			continue
		}
		for k := 0; k < len(v); k += n {
			v[k+i] = sorted[k+from]
		}
	}
	portable.Orthonormal(t.b[:n*n], n)
	round(b.rows, t.b)
}

// Slots lists the moments, and what is beside the tensors.
func (t *soap) Slots() []Slot {
	return append([]Slot{{"mean", t.m}, {"squares", t.v}}, t.slots()...)
}
