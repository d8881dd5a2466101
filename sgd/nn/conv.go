package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/conv"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// Conv is a two-dimensional convolution with square windows: with x zero beyond
// the edges and W one output channel a row, its columns in the order ky, kx, i (so
// for codecs of matrices a span of Out rows and k·k·in columns),
//
//	y[h, w, o] = b[o] + Σ_{ky, kx, i} W[o, ky, kx, i] · x[h·s + ky − p, w·s + kx − p, i]
//
// dW, db and dx are its transposes. A ReLU behind it is done in the same pass.
type Conv struct {
	Out    int
	Kernel int
	Stride int // 0 is 1
	Pad    int // zeros on each side
	NoBias bool
	Init   Init // nil is He
}

func (l Conv) bind(b *builder, x int) (int, error) {
	name := b.name("conv")
	x = b.images(x)
	in := b.shape(x)
	l.Stride = max(l.Stride, 1)
	switch {
	case l.Out < 1 || l.Kernel < 1 || l.Pad < 0:
		return 0, fmt.Errorf("nn: %s needs out ≥ 1, kernel ≥ 1 and pad ≥ 0: %+v", name, l)
	case in.H+2*l.Pad < l.Kernel || in.W+2*l.Pad < l.Kernel:
		least := l.Kernel - 2*l.Pad
		return 0, fmt.Errorf("nn: %s (kernel %d, pad %d) needs an input of at least %dx%d, not %dx%d",
			name, l.Kernel, l.Pad, least, least, in.H, in.W)
	}
	c := &convolution{
		Plan: conv.New(conv.Geom{
			H: in.H, W: in.W, In: in.C, Out: l.Out, Kernel: l.Kernel, Stride: l.Stride, Pad: l.Pad,
		}, conv.Options{NoWinograd: b.options.NoWinograd}),
		bias: -1,
	}
	out := sgd.Shape{C: l.Out, H: c.Geom().OutH(), W: c.Geom().OutW()}
	taps, fanOut := l.Kernel*l.Kernel*in.C, l.Out*l.Kernel*l.Kernel
	c.weight = b.claim(name+".weight", sgd.Weight, l.Out, taps, l.Init.fans(taps, fanOut),
		2*float64(out.Len())*float64(taps))
	if l.NoBias {
		return b.emit(c, x, out, c.weight), nil
	}
	c.bias = b.claim(name+".bias", sgd.Bias, 1, l.Out, constant(0), 0)
	return b.emit(c, x, out, c.weight, c.bias), nil
}

type convolution struct {
	*conv.Plan
	weight, bias int // spans; bias is −1 without
	relu         bool
}

func (c *convolution) rectify() { c.relu = true }

func (c *convolution) traits() traits {
	g := c.Geom()
	return traits{
		readsX: true, readsY: c.relu, spoils: c.relu, holds: true,
		weights: g.Out * g.Kernel * g.Kernel * g.In, rows: g.OutH() * g.OutW(),
	}
}

func (c *convolution) instance([]op) op {
	o := &convOp{convolution: *c}
	o.packPiece, o.weightPiece = o.pack, o.weights
	if c.bias >= 0 {
		for i := range o.db {
			o.db[i] = make([]float64, c.Geom().Out)
		}
	}
	return o
}

type convOp struct {
	convolution
	packedAhead, packedBack []float32           // weights
	ahead, back             []float32           // one of these, in use
	part                    []float32           // partial sums of dW
	db                      [maxLanes][]float64 // and of db, if there is a bias
	run                     *run
	all                     *microbatch

	packPiece, weightPiece func(i, slot int)
}

// begin packs the weights for the pass.
func (c *convOp) begin(r *run, all *microbatch, d direction) {
	forward, backward := c.PackLen()
	c.ahead, c.back = nil, nil
	switch {
	case d == ahead:
		c.ahead = grow(&c.packedAhead, forward)
	case all.wanted:
		c.back = grow(&c.packedBack, backward)
	default:
		return
	}
	c.run = r
	r.share(c.PackPieces(), forward, c.packPiece)
}

func (c *convOp) pack(i, slot int) {
	c.Pack(&c.run.slots[slot].conv, i, c.ahead, c.back, c.run.weights(c.weight))
}

func (c *convOp) forward(r *run, p *microbatch) {
	var bias []float32
	if c.bias >= 0 {
		bias = r.param(c.bias)
	}
	c.Forward(&r.slots[p.slot].conv, c.ahead, bias, c.relu, p.x, p.y, p.n())
}

func (c *convOp) backward(r *run, p *microbatch) {
	switch {
	case c.bias >= 0:
		if p.fresh {
			clear(c.db[p.lane])
		}
		biasGrad(c.db[p.lane], p, c.relu)
	case c.relu:
		f32.ReLUGrad(p.dy, p.dy, p.y)
	}
	if p.wanted {
		c.BackwardData(&r.slots[p.slot].conv, c.back, p.dy, p.dx, p.n())
	}
}

// end of the backward pass: all of dy is there now.
func (c *convOp) end(r *run, all *microbatch, d direction) {
	if d == ahead {
		return
	}
	tasks, floats := c.WeightPieces(r.n)
	grow(&c.part, floats)
	c.run, c.all = r, all
	r.share(tasks, r.n*r.at.cost, c.weightPiece)
	c.SumWeights(r.slope(c.weight), c.part, r.n)
	if c.bias < 0 {
		return
	}
	for i, db := 0, r.slope(c.bias); i < len(db); i++ {
		sum := 0.0
		for _, lane := range c.db[:r.lanes] {
			sum += lane[i]
		}
		db[i] = float32(sum)
	}
}

func (c *convOp) weights(i, slot int) {
	c.BackwardWeights(&c.run.slots[slot].conv, i, c.run.slope(c.weight), c.part, c.all.x, c.all.dy, c.run.n)
}

// biasGrad takes dy back through a ReLU, if there was one, and adds up its
// columns.
func biasGrad(sum []float64, p *microbatch, relu bool) {
	if relu {
		f32.ReLUGradColSums(sum, p.dy, p.y)
	} else {
		f32.ColSums(sum, p.dy)
	}
}
