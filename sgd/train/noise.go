package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// noise is the gradient noise scale, estimated from two batch sizes (McCandlish et al.
// 2018, "An empirical model of large-batch training", appendix A.1). Of gradients g of b
// samples and G of B samples
//
//	|𝒢|² ≈ (B·|G|² − b·|g|²)/(B − b),   S ≈ (|g|² − |G|²)/(1/b − 1/B)
//
// are estimates without bias of the squared length of the true gradient and of the trace
// of the covariance of a sample's. Each is averaged over updates by itself, as the
// paper does, and B_simple = S/|𝒢|². Buffers are no part of a gradient.
type noise struct {
	Square, Trace float64 // moving averages of |𝒢|² and S
	Weight        float64 // what a constant 1 would have come to: they begin at 0
}

// noiseDecay is the share of the averages that an update leaves.
const noiseDecay = 0.99

// lengths is what one batch size tells: the mean of |g|², and that of 1/b.
type lengths struct{ square, inverse float64 }

// add takes the gradients of an update. One with NaN or Inf, or of one batch size only,
// is left out.
func (n *noise) add(small, big lengths) {
	d := small.inverse - big.inverse
	square, trace := (float64(big.square*small.inverse)-float64(small.square*big.inverse))/d, (small.square-big.square)/d
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

// fill tells the averages.
func (n *noise) fill(p *record.Progress) {
	if n.Weight > 0 {
		p.NoiseSquare, p.NoiseTrace = n.Square/n.Weight, n.Trace/n.Weight
	}
}

// sumSq is |x|² over some ranges.
func sumSq(x []float32, over []sgd.Range) (sum float64) {
	for _, r := range over {
		sum += f32.SumSq(x[r.Lo:r.Hi])
	}
	return sum
}

// hearing is what a pass tells of the lengths of its gradients: of those of its
// micro-batches, if there are several.
type hearing struct {
	on     bool
	passes int
	lengths
}

// begin begins a pass.
func (h *hearing) begin() { h.passes, h.lengths = 0, lengths{} }

// hear takes spans [lo, hi) of a gradient of so many samples; it is whole with the
// first span.
func (h *hearing) hear(l sgd.Layout, grad []float32, samples, lo, hi int) {
	if !h.on {
		return
	}
	for i := lo; i < hi; i++ {
		if l.Spans[i].Role != sgd.Buffer {
			h.square += f32.SumSq(l.View(grad, i))
		}
	}
	if lo == 0 {
		h.passes++
		h.inverse += 1 / float64(samples)
	}
}

// mean is the mean over the micro-batches.
func (h *hearing) mean() lengths {
	n := float64(max(1, h.passes))
	return lengths{h.square / n, h.inverse / n}
}

// noted has the first rank of a ring note the mean gradient of a part of the update.
func (r *reducer) noted(b *bucket) {
	if !r.job.NoiseScale || r.rank > 0 {
		return
	}
	for i := b.lo; i < b.hi; i++ {
		if p := &r.shard.Pieces[i]; r.job.Model.Layout().Spans[p.Span].Role != sgd.Buffer {
			r.mean.square += f32.SumSq(p.At(r.grad, true))
		}
	}
}

// notedAll ends the update's part in the noise scale.
func (r *reducer) notedAll() {
	if r.job.NoiseScale && r.rank == 0 && !r.job.Weightless {
		r.mean.inverse = 1 / float64(r.job.Workers*r.batch)
		r.prog.noise.add(r.own, r.mean)
		r.mean = lengths{}
	}
}

// noted has a shard note the gradient of a worker.
func (st *store) noted(in *wire.Packer, body []byte, from compress.From) error {
	if st.noise == nil {
		return nil
	}
	if st.one.F() == nil {
		st.one = wire.NewVector(len(st.params.F()))
	}
	if err := in.Set(in.Shard.Whole, st.one.F(), false, 1, body, from); err != nil {
		return err
	}
	st.small.square += sumSq(st.one.F(), st.trainable)
	st.pushes++
	return nil
}

// notedMean ends an update's part in the noise scale: grad is the mean of the pushes.
func (st *store) notedMean(grad []float32, version int) {
	if st.noise == nil || st.pushes == 0 {
		return
	}
	n, b := float64(st.pushes), float64(st.job.batchAt(version))
	st.noise.add(lengths{st.small.square / n, 1 / b}, lengths{sumSq(grad, st.trainable), 1 / (n * b)})
	st.small, st.pushes = lengths{}, 0
}

// checkNoise refuses to measure where there are no two batch sizes to compare.
func (j *Job) checkNoise() error {
	if !j.NoiseScale || j.Weightless {
		return nil
	}
	t, mode := j.traits(), Modes.Spec(j.Mode)
	served := t.Servers > 0 && j.synchronous() && t.PerPush == 0 && t.Tree == 0 && !t.Beside && !t.Coordinator
	switch {
	case !t.Sums && !served:
		return fmt.Errorf("noise_scale: mode %s with this policy makes no mean of all workers' gradients, with which one worker's could be compared; use mode=reduce, or mode=server policy=bsp", mode)
	case t.Sums && j.Workers*max(1, j.Accumulate) == 1, !t.Sums && j.Workers == 1:
		return errors.New("noise_scale compares gradients of two batch sizes, and there is one; use several workers, or in mode reduce accumulate=2")
	case !wire.IsCast(j.Codec):
		return fmt.Errorf("noise_scale: the mean that there is is of what codec %s leaves of gradients; use raw, fp16, bf16 or another cast", compress.Spec(j.Codec))
	}
	return nil
}
