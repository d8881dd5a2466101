package nn

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// TestBFloat16LearnsAlike: loss curves in bfloat16 are those of float32, within what
// another seed changes. The net has dense layers and convolutions of every form that
// rounds operands, and one that does not.
func TestBFloat16LearnsAlike(t *testing.T) {
	t.Parallel()
	in := sgd.Shape{C: 3, H: 10, W: 10}
	full := mustNet(t, in, 10, 0, Conv{Out: 32, Kernel: 3, Pad: 1}, ReLU{}, Conv{Out: 32, Kernel: 3, Pad: 1, Stride: 2}, BatchNorm{}, ReLU{},
		Conv{Out: 64, Kernel: 5, Pad: 2}, BatchNorm{}, ReLU{}, Conv{Out: 64, Kernel: 1}, ReLU{}, Dense{Out: 32}, ReLU{}, Dense{Out: 10})
	half, err := full.With(Options{Precision: BFloat16})
	if err != nil {
		t.Fatal(err)
	}
	rounds := 0
	for _, n := range half.plan.nodes {
		if n.traits().rounds {
			rounds++
		}
	}
	if rounds != 4 {
		t.Fatalf("%d nodes round their operands, want 4", rounds)
	}
	const steps, points, seeds, batch = 60, 6, 4, 16
	r := rand.New(rand.NewPCG(1, 1))
	centres := make([]float32, 10*in.Len())
	for i := range centres {
		centres[i] = float32(r.NormFloat64())
	}
	draw := func(r *rand.Rand) sgd.Batch {
		b := sgd.Batch{N: batch, X: make([]float32, batch*in.Len()), Y: make([]int32, batch)}
		for i := range batch {
			b.Y[i] = int32(r.IntN(10))
			for j := range in.Len() {
				b.X[i*in.Len()+j] = 0.4*centres[int(b.Y[i])*in.Len()+j] + float32(r.NormFloat64())
			}
		}
		return b
	}
	// curve is the mean loss of each tenth of the steps.
	curve := func(n *Net, seed uint64) (c [points]float64) {
		size := n.layout.Size()
		p := sgd.Pass{Params: make([]float32, size), Grad: make([]float32, size), Scratch: n.NewScratch()}
		n.Init(p.Params, seed)
		r := rand.New(rand.NewPCG(seed, 2))
		for s := range steps {
			loss, err := n.Grad(context.Background(), p, draw(r))
			if err != nil {
				t.Fatal(err)
			}
			f32.Axpy(p.Params, -0.02, p.Grad)
			c[s*points/steps] += loss * points / steps
		}
		return c
	}
	var a, b [seeds][points]float64
	for s := range seeds {
		a[s], b[s] = curve(full, uint64(s)), curve(half, uint64(s))
	}
	for i := range points {
		var mean, apart, spread float64
		for s := range seeds {
			mean += a[s][i] / seeds
			apart += (b[s][i] - a[s][i]) / seeds
		}
		for s := range seeds {
			spread += (a[s][i] - mean) * (a[s][i] - mean) / (seeds - 1)
		}
		if spread = math.Sqrt(spread); math.Abs(apart) > spread {
			t.Errorf("part %d of %d: loss %.4f, in bfloat16 %+.4f; seeds are %.4f apart", i+1, points, mean, apart, spread)
		}
		t.Logf("%.4f %+.4f ± %.4f", mean, apart, spread)
	}
	if a[0][points-1] > 0.7*a[0][0] {
		t.Errorf("nothing was learned: the loss went from %g to %g", a[0][0], a[0][points-1])
	}
}
