package sgd

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// Muon steps along the orthogonal matrix that is nearest to its momentum (Jordan et al.
// 2024, "Muon: an optimizer for hidden layers in neural networks"). For a matrix of r rows
// and c columns:
//
//	m ← β·m + (1−β)·g
//	u ← (1−β)·g + β·m                   nesterov=false: u ← m
//	X ← u / (‖u‖ + 1e-7)
//	A ← XXᵀ,  X ← a·X + (b·A + c·A²)·X  in each of steps; where r > c on Xᵀ
//	w ← w·(1 − lr·decay) − lr·scale·X
//
// Each step changes a singular value s of X to a·s + b·s³ + c·s⁵. coefficients names
// (a, b, c), and how many steps are taken where steps=0:
//
//	jordan   5 × (3.4445, −4.7750, 2.0315): ends between 0.68 and 1.13
//	polar    5 triples of Polar Express (Amsel et al. 2025, arXiv 2505.16932), X ← u / (1.02·‖u‖ + 1e-6);
//	         further steps repeat the last one
//	cubic    12 × (2, −1.5, 0.5): ends at 1
//
// scale is the length of a step:
//
//	jordan    √max(1, r/c)
//	moonshot  0.2·√max(r, c): root mean squares are those of adamw's steps, so that its rate
//	          can be kept (Liu et al. 2025, arXiv 2502.16982)
//	spectral  √(r/c), as r outputs of c inputs ask for
//
// It is for matrices: tensors of Role Weight with more than one row and column, filters as
// output × rest. Tables, positions and the layer that scores tokens have Role Embedding,
// and stay, as biases and normalisations do. They are left to the rest of a group:
//
//	groups(muon,on(adamw(beta1=0.9,beta2=0.95,eps=1e-10,decay=0),lr=0.015))
//
// Departure: products are of float32, where the authors' are of bfloat16. Averages over
// workers are taken before step 2, so matrices must be whole.
//
// Tuning: lr 0.02 with scale=jordan, decay 0 to 0.1. The last layer of a classifier has Role
// Weight: groups(on(adamw,names=[dense]),muon,adamw) takes it out.
//
// Cost: four bytes of state an element, and 2·min(r, c)·(2·r·c + min(r, c)²) operations a
// step of the iteration.
type Muon struct {
	Beta         float64 `doc:"share of the momentum kept from step to step, in [0, 1)"`
	Nesterov     bool    `doc:"look ahead by the momentum"`
	Decay        float64 `doc:"decoupled weight decay, at least 0"`
	Coefficients string  `doc:"of the iteration: jordan, polar or cubic"`
	Steps        int     `doc:"of the iteration, at most 100; 0: 5, and with cubic 12"`
	Scale        string  `doc:"length of a step by rows and columns: jordan, moonshot or spectral"`
}

var _ = Optimizers.Add("muon", "steps along the orthogonal matrix nearest to the momentum, for matrices", muonDefault)

var muonDefault = Muon{Beta: 0.95, Nesterov: true, Coefficients: "jordan", Scale: "jordan"}

var (
	_ Whole     = Muon{}
	_ Selective = Muon{}
)

// iteration is a polynomial a·s + b·s³ + c·s⁵ for each step, and what its input is
// divided by: over·‖u‖ + eps.
type iteration struct {
	triples   [][3]float32
	steps     int
	over, eps float64
}

var iterations = map[string]iteration{
	"jordan": {[][3]float32{{3.4445, -4.7750, 2.0315}}, 5, 1, 1e-7},
	"cubic":  {[][3]float32{{2, -1.5, 0.5}}, 12, 1, 1e-7},
	"polar": {[][3]float32{
		{8.156554524902461, -22.48329292557795, 15.878769915207462},
		{4.042929935166739, -2.808917465908714, 0.5000178451051316},
		{3.8916678022926607, -2.772484153217685, 0.5060648178503393},
		{3.285753657755655, -2.3681294933426376, 0.46449024233003106},
		{2.3465413258596377, -1.7097828382687081, 0.42323551169305323},
	}, 5, 1.02, 1e-6},
}

// scales are lengths of steps of a matrix of r rows and c columns.
var scales = map[string]func(r, c float64) float64{
	"jordan":   func(r, c float64) float64 { return math.Sqrt(max(1, r/c)) },
	"moonshot": func(r, c float64) float64 { return 0.2 * math.Sqrt(max(r, c)) },
	"spectral": func(r, c float64) float64 { return math.Sqrt(r / c) },
}

// Validate checks ranges and names.
func (o Muon) Validate() error {
	if _, ok := iterations[o.Coefficients]; !ok {
		return fmt.Errorf(`option "coefficients" is %q; want jordan, polar or cubic`, o.Coefficients)
	}
	if _, ok := scales[o.Scale]; !ok {
		return fmt.Errorf(`option "scale" is %q; want jordan, moonshot or spectral`, o.Scale)
	}
	return cmp.Or(
		check(0 <= o.Beta && o.Beta < 1, "beta", o.Beta, "at least 0 and less than 1"),
		check(o.Decay >= 0, "decay", o.Decay, "at least 0"),
		check(0 <= o.Steps && o.Steps <= 100, "steps", float64(o.Steps), "0 to 100"),
	)
}

// Takes says that it is for matrices.
func (Muon) Takes(s Span) bool { return isMatrix(s) }

// NeedsWhole is true: a part of a matrix has other nearest ones.
func (Muon) NeedsWhole() bool { return true }

// Momentous is true but for beta=0.
func (o Muon) Momentous() bool { return o.Beta != 0 }

// New makes the Transform; its state is the slot "momentum".
func (o Muon) New(l Layout) (Transform, error) { return o.new(l) }

func (o Muon) new(l Layout) (*muon, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &muon{matrixwise: newMatrixwise(l, isMatrix), o: o, m: make([]float32, l.Size()), iteration: iterations[o.Coefficients]}
	if o.Steps > 0 {
		t.steps = o.Steps
	}
	most, side := 0, 0
	for _, s := range t.taken {
		most, side = max(most, s.Len()), max(side, min(s.Rows, s.Cols))
	}
	t.next, t.square, t.fourth = make([]float32, most), make([]float32, side*side), make([]float32, side*side)
	t.kernel = t.step
	return t, nil
}

type muon struct {
	matrixwise
	iteration
	o                    Muon
	m                    []float32
	next, square, fourth []float32 // of one matrix: X behind a step, A, and b·A + c·A²
}

func (t *muon) step(u, w []float32, s Span, at Step) {
	t.direction(u, s)
	t.take(u, w, s, at)
}

// direction turns a gradient into an orthogonal matrix.
func (t *muon) direction(u []float32, s Span) {
	m, keep := t.m[s.Off:s.End()], float32(t.o.Beta)
	f32.Scale(u, float32(1-t.o.Beta))
	f32.Scale(m, keep)
	f32.Add(m, u)
	if t.o.Nesterov {
		f32.Axpy(u, keep, m)
	} else {
		copy(u, m)
	}
	t.orthogonalise(u, s.Rows, s.Cols)
}

// take makes an update of a direction.
func (t *muon) take(u, w []float32, s Span, at Step) {
	f32.Scale(u, float32(at.LR*scales[t.o.Scale](float64(s.Rows), float64(s.Cols))))
	if t.o.Decay != 0 {
		f32.Axpy(u, float32(at.LR*t.o.Decay), w)
	}
}

// orthogonalise iterates on a matrix in place.
func (t *muon) orthogonalise(x []float32, r, c int) {
	f32.Scale(x, float32(1/(float64(t.over*math.Sqrt(f32.SumSq(x)))+t.eps)))
	y, n := t.next[:len(x)], min(r, c)
	square, fourth := t.square[:n*n], t.fourth[:n*n]
	in := x
	for i := range t.steps {
		k := t.triples[min(i, len(t.triples)-1)]
		tall := r > c
		f32.Gemm(tall, !tall, n, n, max(r, c), 1, x, c, x, c, 0, square, n)
		copy(fourth, square)
		f32.Gemm(false, false, n, n, n, k[2], square, n, square, n, k[1], fourth, n)
		copy(y, x)
		if tall {
			f32.Gemm(false, false, r, c, n, 1, x, c, fourth, n, k[0], y, c)
		} else {
			f32.Gemm(false, false, r, c, n, 1, fourth, n, x, c, k[0], y, c)
		}
		x, y = y, x
	}
	if &x[0] != &in[0] {
		copy(in, x)
	}
}

// Slots lists the momentum.
func (t *muon) Slots() []Slot { return []Slot{{"momentum", t.m}} }
