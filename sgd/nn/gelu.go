package nn

import "github.com/gradlab/gradlab/internal/f32"

// GELU is the Gaussian error linear unit (Hendrycks and Gimpel 2016), with the
// normal distribution Φ itself and not one of its approximations by tanh:
//
//	y = x·Φ(x),  dx = dy·(Φ(x) + x·φ(x)),  φ(x) = exp(−x²/2)/√(2π)
type GELU struct{}

func (GELU) bind(b *builder, x int) (int, error) {
	return b.emit(geluBound{}, x, b.shape(x)), nil
}

type geluBound struct{}

func (geluBound) traits() traits   { return traits{readsX: true, spoils: true, passes: true} }
func (geluBound) instance([]op) op { return gelu{} }

type gelu struct{ noHooks }

func (gelu) forward(_ *run, p *microbatch)  { f32.GELU(p.y[:len(p.x)], p.x) }
func (gelu) backward(_ *run, p *microbatch) { f32.GELUGrad(p.dy[:len(p.x)], p.x) }
