package compute

import (
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Noise is the gradient noise scale, estimated from two batch sizes (McCandlish et al.
// 2018, "An empirical model of large-batch training", appendix A.1). Of gradients g of b
// samples and G of B samples
//
//	|𝒢|² ≈ (B·|G|² − b·|g|²)/(B − b),   S ≈ (|g|² − |G|²)/(1/b − 1/B)
//
// are estimates without bias of the squared length of the true gradient and of the trace
// of the covariance of a sample's. Each is averaged over updates by itself, as the
// paper does, and B_simple = S/|𝒢|². Buffers are no part of a gradient.
type Noise struct {
	Square, Trace float64 // moving averages of |𝒢|² and S
	Weight        float64 // what a constant 1 would have come to: they begin at 0
}

// noiseDecay is the share of the averages that an update leaves.
const noiseDecay = 0.99

// Lengths is what one batch size tells: the mean of |g|², and that of 1/b.
type Lengths struct{ Square, Inverse float64 }

// Add takes the gradients of an update. One with NaN or Inf, or of one batch size only,
// is left out.
func (n *Noise) Add(small, big Lengths) {
	d := small.Inverse - big.Inverse
	square, trace := (float64(big.Square*small.Inverse)-float64(small.Square*big.Inverse))/d, (small.Square-big.Square)/d
	if x := square + trace; math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	for _, m := range []struct {
		of *float64
		x  float64
	}{{&n.Square, square}, {&n.Trace, trace}, {&n.Weight, 1}} {
		*m.of += float64((1 - noiseDecay) * (m.x - *m.of))
	}
}

// Fill tells the averages.
func (n *Noise) Fill(p *record.Progress) {
	if n.Weight > 0 {
		p.NoiseSquare, p.NoiseTrace = n.Square/n.Weight, n.Trace/n.Weight
	}
}

// SquareOver is |x|² over some ranges.
func SquareOver(x []float32, over []sgd.Range) (sum float64) {
	for _, r := range over {
		sum += f32.SumSq(x[r.Lo:r.Hi])
	}
	return sum
}

// hearing is what a pass tells of the lengths of its gradients: of those of its
// micro-batches, if there are several.
type hearing struct {
	Measured bool
	passes   int
	Lengths
}

// begin begins a pass.
func (h *hearing) begin() { h.passes, h.Lengths = 0, Lengths{} }

// hear takes spans [lo, hi) of a gradient of so many samples; it is whole with the
// first span.
func (h *hearing) hear(l sgd.Layout, grad []float32, samples, lo, hi int) {
	if !h.Measured {
		return
	}
	for i := lo; i < hi; i++ {
		if l.Spans[i].Role != sgd.Buffer {
			h.Square += f32.SumSq(l.View(grad, i))
		}
	}
	if lo == 0 {
		h.passes++
		h.Inverse += 1 / float64(samples)
	}
}

// MeanLengths is the mean over the micro-batches.
func (h *hearing) MeanLengths() Lengths {
	n := float64(max(1, h.passes))
	return Lengths{h.Square / n, h.Inverse / n}
}
