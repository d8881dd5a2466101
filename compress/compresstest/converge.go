package compresstest

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
)

// quadratic is a problem of several ranks that none of them can solve alone: rank
// r has the loss ½Σ curve·(x − at)², whose minimum is far from that of the mean.
type quadratic struct {
	curve, at [world][]float64
	best      []float64
	start     float64 // distance of the origin from best
}

func newQuadratic(d int) *quadratic {
	q := &quadratic{best: make([]float64, d)}
	key := rng.New(4, "compresstest/quadratic")
	for r := range q.at {
		q.curve[r], q.at[r] = make([]float64, d), make([]float64, d)
	}
	for i := range d {
		k := key.With(uint64(i))
		shared, sum, weight := 10*k.Norm(0), 0.0, 0.0
		for r := range q.at {
			q.curve[r][i] = 0.5 + k.Float64(uint64(10+r))
			q.at[r][i] = shared + k.Norm(uint64(20+r))
			sum += q.curve[r][i] * q.at[r][i]
			weight += q.curve[r][i]
		}
		q.best[i] = sum / weight
		q.start += sq(q.best[i])
	}
	q.start = math.Sqrt(q.start)
	return q
}

// descend takes steps at a rate and returns the distance from the best point
// over that at the beginning, averaged over the last steps, or +Inf if it
// diverges.
func (q *quadratic) descend(f compress.Family, rate float64, steps int) (float64, error) {
	d := len(q.best)
	r, err := newRing(f, d)
	if err != nil {
		return 0, err
	}
	x, mean := make([]float64, d), make([]float32, d)
	g := make([][]float32, world)
	for rank := range g {
		g[rank] = make([]float32, d)
	}
	const last = 50
	var off float64
	for n := range steps {
		for rank := range g {
			for i := range x {
				g[rank][i] = float32(q.curve[rank][i] * (x[i] - q.at[rank][i]))
			}
		}
		if err := r.step(n, g); err != nil {
			return 0, err
		}
		clear(mean)
		if err := r.ex[0].Output(mean, 1/float32(world)); err != nil {
			return 0, err
		}
		s := 0.0
		for i, v := range mean {
			x[i] -= rate * float64(v)
			s += sq(x[i] - q.best[i])
		}
		if !(s <= 1e6*sq(q.start)) {
			return math.Inf(1), nil
		}
		if n >= steps-last {
			off += math.Sqrt(s) / q.start / last
		}
	}
	return off, nil
}

// checkConverge: on ranks that disagree, descent with the codec ends near the
// minimum of their mean. A contraction is run inside feedback, unless it is a
// memory already, at a rate scaled by its delta, an unbiased codec by itself at a
// rate scaled by 1/(1+omega). Others have no such promise to keep.
func checkConverge(f compress.Family) error {
	const d, near = 65, 0.04
	q := newQuadratic(d)
	b := block(d)
	claims, ok := compress.ClaimsOf(f, b)
	if !ok {
		return nil
	}
	run := func(f compress.Family, share float64) error {
		if share < 0.01 { // too slow to be worth it
			return nil
		}
		steps := 100 + int(130/share)
		off, err := q.descend(f, 0.05*share, steps)
		if err == nil && !(off <= near) {
			err = fmt.Errorf("%d steps at a rate of %.2g end at %.3g of the distance at the beginning, want %v", steps, 0.05*share, off, near)
		}
		return err
	}
	if claims.Unbiased && !claims.Stateful {
		if err := run(f, 1/(1+claims.Omega)); err != nil {
			return fmt.Errorf("without bias, omega %.3g: %w", claims.Omega, err)
		}
	}
	in := claims
	if m, is := f.(compress.Compensator); is {
		in, _ = compress.ClaimsOf(m.Remembers(), b)
	} else if claims.Delta > 0 {
		f = compress.Feedback{In: f, Decay: 1}
	} else {
		return nil
	}
	if err := run(f, in.Delta); err != nil {
		return fmt.Errorf("with a memory, delta %.3g: %w", in.Delta, err)
	}
	return nil
}
