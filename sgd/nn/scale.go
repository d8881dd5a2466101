package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// Scale multiplies every value by a constant: y = By·x, dx = By·dy.
type Scale struct{ By float64 }

func (l Scale) bind(b *builder, x int) (int, error) {
	if math.IsNaN(l.By) || math.IsInf(l.By, 0) {
		return 0, fmt.Errorf("nn: %s needs a finite factor, not %g", b.name("scale"), l.By)
	}
	return b.emit(scaleBound{float32(l.By)}, x, b.shape(x)), nil
}

type scaleBound struct{ by float32 }

func (scaleBound) traits() traits     { return traits{spoils: true, passes: true} }
func (s scaleBound) instance([]op) op { return scaleOp{by: s.by} }

type scaleOp struct {
	noHooks
	by float32
}

func (o scaleOp) forward(_ *run, p *microbatch) {
	copy(p.y, p.x)
	f32.Scale(p.y, o.by)
}

func (o scaleOp) backward(_ *run, p *microbatch) { f32.Scale(p.dy, o.by) }
