package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Dropout sets a share Rate of the values to zero in training and scales the
// others by 1/(1 − Rate), so that inference needs no scaling (Srivastava et
// al. 2014). The mask of value j of the sample at stream position p is draw j
// of the key (batch seed, "dropout", layer, p): a sample meets the same mask in
// any batch, on any rank.
type Dropout struct{ Rate float64 }

func (l Dropout) bind(b *builder, in sgd.Shape) (module, error) {
	if !(l.Rate >= 0 && l.Rate < 1) {
		return module{}, fmt.Errorf("nn: dropout must be in [0, 1), not %g", l.Rate)
	}
	layer := uint64(b.leaves)
	return b.leaf(
		leafInfo{in: in, out: in, elementwise: true},
		func() op[float32] { return newDropout[float32](in.Len(), layer, l.Rate) },
		func() op[float64] { return newDropout[float64](in.Len(), layer, l.Rate) }), nil
}

type dropout[T Float] struct {
	size     int
	layer    uint64
	rate     float64
	key      rng.Key
	first    uint64
	from, to []T

	maskImage func(i, slot int)
}

func newDropout[T Float](size int, layer uint64, rate float64) *dropout[T] {
	d := &dropout[T]{size: size, layer: layer, rate: rate}
	d.maskImage = d.doMask
	return d
}

func (d *dropout[T]) forward(r *run[T], x, y []T) { d.apply(r, x, y) }

func (d *dropout[T]) backward(r *run[T], x, y, dy, dx []T) {
	if dx != nil {
		d.apply(r, dy, dx)
	}
}

// apply masks from into to; the two may be one.
func (d *dropout[T]) apply(r *run[T], from, to []T) {
	if !r.train || d.rate == 0 {
		if &from[0] != &to[0] {
			copy(to, from)
		}
		return
	}
	d.key, d.first = rng.New(r.seed, "dropout").With(d.layer), r.first
	d.from, d.to = from, to
	r.each(r.n, len(to), d.maskImage)
}

func (d *dropout[T]) doMask(s, _ int) {
	key, scale := d.key.With(d.first+uint64(s)), T(1/(1-d.rate))
	from, to := d.from[s*d.size:(s+1)*d.size], d.to[s*d.size:(s+1)*d.size]
	for j, v := range from {
		if key.Float64(uint64(j)) < d.rate {
			to[j] = 0
		} else {
			to[j] = v * scale
		}
	}
}
