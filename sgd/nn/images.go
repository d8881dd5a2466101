package nn

import "github.com/gradlab/gradlab/sgd"

// toImages turns samples of C×H×W, as batches come, to H×W×C.
type toImages sgd.Shape

func (toImages) traits() traits     { return traits{} }
func (t toImages) instance([]op) op { return &turn{shape: sgd.Shape(t)} }

type turn struct {
	noHooks
	shape sgd.Shape
}

func (t *turn) forward(_ *run, p *microbatch) {
	c, plane := t.shape.C, t.shape.H*t.shape.W
	for s := range p.n() {
		x, y := p.x[s*c*plane:(s+1)*c*plane], p.y[s*c*plane:(s+1)*c*plane]
		for i := range c {
			at := i
			for _, v := range x[i*plane : (i+1)*plane] {
				y[at] = v
				at += c
			}
		}
	}
}

func (t *turn) backward(*run, *microbatch) {} // nothing before it learns
