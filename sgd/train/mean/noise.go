package mean

import (
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// noted has the first rank of a ring note the mean gradient of a part of the update.
func (r *reducer) noted(b *bucket) {
	if !r.Job().NoiseScale || r.ID() > 0 {
		return
	}
	for i := b.lo; i < b.hi; i++ {
		if p := &r.mean.shard.Pieces[i]; r.Job().Model.Layout().Spans[p.Span].Role != sgd.Buffer {
			r.lengths.Square += f32.SumSq(p.At(r.grad, true))
		}
	}
}

// notedAll ends the update's part in the noise scale.
func (r *reducer) notedAll() {
	if r.Job().NoiseScale && r.ID() == 0 && !r.Job().Weightless {
		r.lengths.Inverse = 1 / float64(r.Job().Workers*r.batch)
		r.prog.Noise.Add(r.OwnLengths(), r.lengths)
		r.lengths = compute.Lengths{}
	}
}
