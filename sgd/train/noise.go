package train

import (
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// noted has the first rank of a ring note the mean gradient of a part of the update.
func (r *reducer) noted(b *bucket) {
	if !r.job.NoiseScale || r.rank > 0 {
		return
	}
	for i := b.lo; i < b.hi; i++ {
		if p := &r.shard.Pieces[i]; r.job.Model.Layout().Spans[p.Span].Role != sgd.Buffer {
			r.mean.Square += f32.SumSq(p.At(r.grad, true))
		}
	}
}

// notedAll ends the update's part in the noise scale.
func (r *reducer) notedAll() {
	if r.job.NoiseScale && r.rank == 0 && !r.job.Weightless {
		r.mean.Inverse = 1 / float64(r.job.Workers*r.batch)
		r.prog.noise.Add(r.own, r.mean)
		r.mean = compute.Lengths{}
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
	st.small.Square += compute.SquareOver(st.one.F(), st.trainable)
	st.pushes++
	return nil
}

// notedMean ends an update's part in the noise scale: grad is the mean of the pushes.
func (st *store) notedMean(grad []float32, version int) {
	if st.noise == nil || st.pushes == 0 {
		return
	}
	n, b := float64(st.pushes), float64(st.job.batchAt(version))
	st.noise.Add(compute.Lengths{Square: st.small.Square / n, Inverse: 1 / b}, compute.Lengths{Square: compute.SquareOver(grad, st.trainable), Inverse: 1 / (n * b)})
	st.small, st.pushes = compute.Lengths{}, 0
}
