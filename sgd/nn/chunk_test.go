package nn

import (
	"context"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// What samples score does not depend on the chunks they are evaluated in, nor on the
// training pass before. The memory of an evaluation holds what is still read and no more.
func TestEvaluationsInChunks(t *testing.T) {
	t.Parallel()
	const n = 70
	for _, c := range []struct {
		spec string
		in   sgd.Shape
		size float64 // of what training keeps
	}{
		{"mlp", mnist, 1}, {"mnistcnn", mnist, 1}, {"resnet20", cifar, 0.35}, {"airbench94", cifar, 0.9}, {"resnet50", sgd.Shape{C: 3, H: 32, W: 32}, 0.25},
	} {
		if large(t, c.spec, sgd.Sample{Shape: c.in, Classes: 10}) {
			continue
		}
		for _, precision := range []Precision{Float32, BFloat16} {
			m, p := withOptions(t, c.spec, c.in, Options{Precision: precision})
			b := randomBatch(sgd.Sample{Shape: c.in, Classes: 10}, n)
			whole, err := m.Eval(p.Params, m.NewScratch(), b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Grad(context.Background(), p, randomBatch(sgd.Sample{Shape: c.in, Classes: 10}, 4)); err != nil {
				t.Fatal(err)
			}
			for _, chunk := range []int{16, 37} {
				var sum sgd.Score
				for at := 0; at < n; at += chunk {
					part := sgd.Batch{X: b.X[at*c.in.Len():], Y: b.Y[at:], N: min(chunk, n-at)}
					s, err := m.Eval(p.Params, p.Scratch, part)
					if err != nil {
						t.Fatal(err)
					}
					sum.Add(s)
				}
				if d := sum.Sums[1] - whole.Sums[1]; d > 1e-12*whole.Sums[1] || -d > 1e-12*whole.Sums[1] || sum.Sums[0] != whole.Sums[0] || sum.N != n {
					t.Errorf("%s %v by %d: %v, as a whole %v", c.spec, precision, chunk, sum, whole)
				}
			}
			if got := float64(m.plan.passes.acts); got > c.size*float64(m.plan.keeps.acts) {
				t.Errorf("%s: an evaluation keeps %g values a sample of %d", c.spec, got, m.plan.keeps.acts)
			}
		}
	}
}
