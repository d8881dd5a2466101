package sgdtest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/sgdtest"
)

func batch(in sgd.Sample, n int) sgd.Batch {
	b := sgd.Batch{Y: make([]int32, n*in.Labels()), N: n, First: 11, Seed: 2}
	if in.Vocabulary > 0 {
		b.Tokens = make([]int32, n*in.Len())
	} else {
		b.X = make([]float32, n*in.Len())
	}
	for i := range b.Tokens {
		b.Tokens[i] = int32(rng.New(1, "tokens").IntN(uint64(i), in.Vocabulary))
	}
	for i := range b.X {
		b.X[i] = float32(rng.New(1, "x").Norm(uint64(i)))
	}
	for i := range b.Y {
		b.Y[i] = int32(i % 4)
	}
	return b
}

func TestGradientOfEveryModel(t *testing.T) {
	for _, name := range nn.Models.Names() {
		t.Run(name, func(t *testing.T) {
			var (
				in  sgd.Sample
				m   sgd.Model
				err error
			)
			for _, in = range []sgd.Sample{
				{Shape: sgd.Shape{C: 2, H: 8, W: 8}, Classes: 4},
				{Shape: sgd.Shape{C: 3, H: 32, W: 32}, Classes: 4}, // colour images of some size
				{Shape: sgd.Shape{C: 3, H: 75, W: 75}, Classes: 4},
				{Shape: sgd.Shape{C: 1, H: 9, W: 1}, Vocabulary: 4, Classes: 4, Targets: 9}, // texts
			} {
				if m, err = nn.Models.MustParse(name).New(in); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Layout().Size() > 3e6 || len(m.Layout().Spans) > 150 {
				t.Skip("too large or too deep for differences in float32: package nn checks what it is made of in float64")
			}
			if !patience.Long && m.Layout().Size() > 5e5 {
				t.Skip("takes seconds")
			}
			if err := sgdtest.Portable(m); err != nil {
				t.Error(err)
			}
			params := make([]float32, m.Layout().Size())
			m.Init(params, 1)
			for i, s := range m.Layout().Spans {
				for j := range m.Layout().View(params, i) {
					if s.Role != sgd.Buffer {
						params[s.Off+j] += 0.05 * float32(rng.New(3, "jitter").Norm(uint64(s.Off+j)))
					}
				}
			}
			// A wide tolerance, for the corners of many ReLUs: package nn is strict.
			if err := sgdtest.Gradient(m, params, batch(in, 6), sgdtest.GradOptions{PerSpan: 2, Tolerance: 0.25}); err != nil {
				t.Error(err)
			}
		})
	}
}

// lying doubles the gradient of span 1.
type lying struct{ sgd.Model }

func (l lying) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	loss, err := l.Model.Grad(ctx, p, b)
	for i, g := range l.Layout().View(p.Grad, 1) {
		l.Layout().View(p.Grad, 1)[i] = 2 * g
	}
	return loss, err
}

func TestGradientFindsALie(t *testing.T) {
	in := sgd.Shape{C: 1, H: 1, W: 6}
	m, err := nn.Logistic{}.New(sgd.Sample{Shape: in, Classes: 4})
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, m.Layout().Size())
	m.Init(params, 1)
	err = sgdtest.Gradient(lying{m}, params, batch(sgd.Sample{Shape: in, Classes: 4}, 5), sgdtest.GradOptions{})
	if err == nil || !strings.Contains(err.Error(), "dense1.bias") {
		t.Errorf("got %v", err)
	}
}
