package lbfgs_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/sgd/lbfgs"
)

// bowl is f(x) = (x₀ − 3)² + 10·(x₁ + 1)², with its vectors in one memory.
type bowl struct{ lbfgs.Memory }

func (b bowl) Do(_ context.Context, ops ...lbfgs.Op) ([]float64, error) {
	return b.Memory.Do(nil, ops), nil
}

func (b bowl) Evaluate(context.Context) (float64, error) {
	x, g := b.Memory[lbfgs.X], b.Memory[lbfgs.G]
	u, v := x[0]-3, x[1]+1
	g[0], g[1] = 2*u, 20*v
	return float64(u*u + 10*v*v), nil
}

// The minimizer never touches a vector: a Space does, here one in memory.
func Example() {
	b := bowl{lbfgs.NewMemory(5, 2)}
	m := lbfgs.New(b, 5)
	for range 20 {
		if _, err := m.Iterate(context.Background()); err != nil {
			break
		}
	}
	fmt.Printf("%.3f\n", b.Memory[lbfgs.X])
	// Output: [3.000 -1.000]
}
