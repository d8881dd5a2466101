package nn

import "github.com/gradlab/gradlab/internal/f32"

// ReLU is y = max(x, 0), dx = dy where y > 0. NaN stays NaN, so that a net
// that has diverged shows it.
//
// Behind a layer that can do it in passing (a convolution, a dense layer, a
// batch norm, a sum, a maximum) it is no operation of its own.
type ReLU struct{}

// rectifier is an operation that can end in a ReLU.
type rectifier interface{ rectify() }

func (ReLU) bind(b *builder, x int) (int, error) {
	if f, ok := b.last(x).(rectifier); ok {
		f.rectify()
		return x, nil
	}
	return b.emit(reluBound{}, x, b.shape(x)), nil
}

type reluBound struct{}

func (reluBound) traits() traits   { return traits{readsY: true, spoils: true, passes: true} }
func (reluBound) instance([]op) op { return relu{} }

type relu struct{ noHooks }

func (relu) forward(_ *run, p *microbatch)  { f32.ReLU(p.y, p.x) }
func (relu) backward(_ *run, p *microbatch) { f32.ReLUGrad(p.dy, p.dy, p.y) }
