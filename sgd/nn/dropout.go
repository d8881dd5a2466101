package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Dropout sets a share Rate of the values to zero in training and scales the
// others by 1/(1 − Rate), so that inference needs no scaling (Srivastava et
// al. 2014). Rate is rounded to a multiple of 2⁻¹⁶.
//
// The mask of value j of the sample at stream position p is in bits 16·(j mod
// 4) and up of draw j/4 of the key (batch seed, "dropout", layer, p): a sample
// meets the same mask in any batch, on any rank. Values are in the order of the
// activation, h, w, c.
type Dropout struct{ Rate float64 }

func (l Dropout) bind(b *builder, x int) (int, error) {
	if !(l.Rate >= 0 && l.Rate < 1) {
		return 0, fmt.Errorf("nn: dropout must be in [0, 1), not %g", l.Rate)
	}
	b.name("dropout")
	d := newDropout(l.Rate, b.counts["dropout"])
	if d == nil {
		return x, nil
	}
	d.size = b.shape(x).Len()
	if f, ok := b.last(x).(*dense); ok && f.relu && f.drop == nil {
		f.drop = d
		return x, nil
	}
	return b.emit(d, x, b.shape(x)), nil
}

type dropout struct {
	layer uint64
	size  int    // values of a sample
	below uint64 // 16 bits below this are a value dropped
	scale float32
}

// newDropout is one of a layer; nil if it drops nothing.
func newDropout(rate float64, layer int) *dropout {
	d := &dropout{layer: uint64(layer), below: uint64(min(math.Round(rate*(1<<16)), 1<<16-1))}
	if d.below == 0 {
		return nil
	}
	d.scale = float32((1 << 16) / float64(1<<16-d.below))
	return d
}

func (*dropout) traits() traits     { return traits{spoils: true, passes: true} }
func (d *dropout) instance([]op) op { return dropoutOp{dropout: d} }

// mask drops values of from on the way to to, which may be the same.
func (d *dropout) mask(r *run, p *microbatch, from, to []float32) {
	layer := rng.New(r.seed, "dropout").With(d.layer)
	for s := p.lo; s < p.hi; s++ {
		key := layer.With(r.first + uint64(s))
		at := (s - p.lo) * d.size
		d.drop(key, to[at:at+d.size], from[at:at+d.size])
	}
}

// drop drops values of x on the way to y, which may be the same.
func (d *dropout) drop(key rng.Key, y, x []float32) {
	for j := 0; j < len(x); j += 4 {
		bits := key.Uint64(uint64(j / 4))
		for k := j; k < min(j+4, len(x)); k++ {
			// keep is all ones if the value stays: no branch, which chance
			// would mispredict.
			keep := uint32(int64(bits&0xffff-d.below)>>63) ^ math.MaxUint32
			y[k] = math.Float32frombits(math.Float32bits(x[k]*d.scale) & keep)
			bits >>= 16
		}
	}
}

type dropoutOp struct {
	noHooks
	*dropout
}

func (d dropoutOp) forward(r *run, p *microbatch) {
	if r.train {
		d.mask(r, p, p.x, p.y)
	} else {
		copy(p.y, p.x)
	}
}

func (d dropoutOp) backward(r *run, p *microbatch) { d.mask(r, p, p.dy, p.dy) }
