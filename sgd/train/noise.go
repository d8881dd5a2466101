package train

import (
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
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
