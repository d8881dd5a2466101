package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/conv"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// Conv is a two-dimensional convolution: with x zero beyond the edges and W one
// output channel a row, its columns in the order ky, kx, i (so for codecs of matrices
// a span of Out rows and k·k·in columns),
//
//	y[h, w, o] = b[o] + Σ_{ky, kx, i} W[o, ky, kx, i] · x[h·s + ky − p, w·s + kx − p, i]
//
// dW, db and dx are its transposes. A ReLU behind it is done in the same pass.
//
// Windows are squares of Kernel×Kernel unless KernelW says otherwise. With Groups,
// channels in and out are cut into as many equal runs, and run g of the output sees
// run g of the input alone (Krizhevsky et al. 2012). Neither of the two is done by
// the kernels of internal/conv, but as products of gathered windows (see gathered).
type Conv struct {
	Out     int
	Kernel  int
	Stride  int // 0 is 1
	Pad     int // zeros on each side
	KernelW int // columns of a window that is no square; 0: Kernel, and PadW is Pad
	PadW    int // zeros left and right, with KernelW
	Groups  int // 0 is 1
	NoBias  bool
	// Frozen weights are never trained: a span of role Buffer whose gradient is 0.
	Frozen bool
	Init   Init // nil is He
}

func (l Conv) bind(b *builder, x int) (int, error) {
	name := b.name("conv")
	x = b.images(x)
	in := b.shape(x)
	l.Stride, l.Groups = max(l.Stride, 1), max(l.Groups, 1)
	if l.KernelW == 0 {
		l.KernelW, l.PadW = l.Kernel, l.Pad
	}
	switch {
	case l.Out < 1 || l.Kernel < 1 || l.Pad < 0 || l.KernelW < 1 || l.PadW < 0:
		return 0, fmt.Errorf("nn: %s needs out ≥ 1, kernel ≥ 1 and pad ≥ 0: %+v", name, l)
	case in.H+2*l.Pad < l.Kernel || in.W+2*l.PadW < l.KernelW:
		return 0, fmt.Errorf("nn: %s (kernel %d, pad %d) needs an input of at least %dx%d, not %dx%d",
			name, l.Kernel, l.Pad, l.Kernel-2*l.Pad, l.KernelW-2*l.PadW, in.H, in.W)
	case in.C%l.Groups != 0 || l.Out%l.Groups != 0:
		return 0, fmt.Errorf("nn: %s cuts %d channels in and %d out into %d groups; both must be multiples of it", name, in.C, l.Out, l.Groups)
	}
	out := sgd.Shape{C: l.Out, H: (in.H+2*l.Pad-l.Kernel)/l.Stride + 1, W: (in.W+2*l.PadW-l.KernelW)/l.Stride + 1}
	channels, pixels := in.C/l.Groups, l.Kernel*l.KernelW
	taps, fanOut := pixels*channels, l.Out/l.Groups*pixels
	role := sgd.Weight
	if l.Frozen {
		role = sgd.Buffer
	}
	weight := b.claim(name+".weight", role, l.Out, taps, l.Init.fans(taps, fanOut), 2*float64(out.Len())*float64(taps))
	b.places[weight] = rowShape{Shape: sgd.Shape{C: channels, H: l.Kernel, W: l.KernelW}}
	spans, bias := []int{weight}, -1
	if !l.NoBias {
		bias = b.claim(name+".bias", sgd.Bias, 1, l.Out, constant(0), 0)
		spans = append(spans, bias)
	}
	if l.KernelW != l.Kernel || l.PadW != l.Pad || l.Groups > 1 {
		return b.emit(&gathered{Conv: l, in: in, out: out, taps: taps, weight: weight, bias: bias}, x, out, spans...), nil
	}
	c := &convolution{
		Plan: conv.New(conv.Geom{
			H: in.H, W: in.W, In: in.C, Out: l.Out, Kernel: l.Kernel, Stride: l.Stride, Pad: l.Pad,
		}, conv.Options{NoWinograd: b.options.NoWinograd, Rounded: b.options.Precision == BFloat16}),
		weight: weight, bias: bias, frozen: l.Frozen,
	}
	return b.emit(c, x, out, spans...), nil
}

type convolution struct {
	*conv.Plan
	weight, bias int // spans; bias is −1 without
	relu, frozen bool
}

func (c *convolution) rectify() { c.relu = true }

func (c *convolution) traits() traits {
	g := c.Geom()
	forward, data, weights := c.Halves()
	return traits{
		readsX: !c.frozen, readsY: c.relu, spoils: c.relu, holds: !c.frozen,
		weights: g.Out * g.Kernel * g.Kernel * g.In, rows: g.OutH() * g.OutW(),
		rounds: forward && data, halvesX: forward, halvesXDY: weights,
		halvesDY: data && !c.relu && c.bias < 0,
	}
}

func (c *convolution) instance([]op) op {
	o := &convOp{convolution: *c}
	o.packPiece, o.weightPiece = o.pack, o.weights
	if c.bias >= 0 {
		o.db.init(c.Geom().Out)
	}
	return o
}

type convOp struct {
	convolution
	ahead, back []float32 // packed weights: one of these, in use
	part        []float32 // partial sums of dW
	db          biasSums  // if there is a bias
	run         *run
	all         *microbatch

	packPiece, weightPiece func(i, slot int)
}

// begin packs the weights for the pass.
func (c *convOp) begin(r *run, all *microbatch, d direction) {
	forward, backward := c.PackLen()
	c.ahead, c.back = nil, nil
	switch {
	case d == ahead:
		c.ahead = grow(&r.packed, forward)
	case all.wanted:
		c.back = grow(&r.packed, backward)
	default:
		return
	}
	c.run = r
	r.share(c.PackPieces(), forward, c.packPiece)
}

func (c *convOp) pack(i, slot int) {
	w := c.run.param(c.weight)
	if forward, data, _ := c.Halves(); !forward || !data {
		w = c.run.weights(c.weight)
	}
	c.Pack(&c.run.slots[slot].conv, i, c.ahead, c.back, w)
}

func (c *convOp) forward(r *run, p *microbatch) {
	var bias []float32
	if c.bias >= 0 {
		bias = r.param(c.bias)
	}
	c.ForwardOf(&r.slots[p.slot].conv, c.ahead, bias, c.relu, f32.Values{Full: p.x, Half: p.xHalf}, p.y, p.n())
}

func (c *convOp) backward(r *run, p *microbatch) {
	switch {
	case c.bias >= 0:
		c.db.add(p, c.relu)
	case c.relu:
		f32.ReLUGrad(p.dy, p.dy, p.y)
	}
	if p.wanted {
		c.BackwardDataOf(&r.slots[p.slot].conv, c.back, f32.Values{Full: p.dy, Half: p.dyHalf}, p.dx, p.n())
	}
}

// end of the backward pass: all of dy is there now.
func (c *convOp) end(r *run, all *microbatch, d direction) {
	if d == ahead {
		return
	}
	if c.frozen {
		clear(r.slope(c.weight))
	} else {
		pieces, floats := c.WeightPieces(r.n)
		c.part = grow(&r.partial, floats)
		c.run, c.all = r, all
		r.share(pieces, r.n*r.at.cost, c.weightPiece)
		c.SumWeights(r.slope(c.weight), c.part, r.n)
	}
	if c.bias >= 0 {
		c.db.sum(r.slope(c.bias), r.lanes)
	}
}

func (c *convOp) weights(i, slot int) {
	x, dy := f32.Values{Full: c.all.x, Half: c.all.xHalf}, f32.Values{Full: c.all.dy, Half: c.all.dyHalf}
	c.BackwardWeightsOf(&c.run.slots[slot].conv, i, c.run.slope(c.weight), c.part, x, dy, c.run.n)
}

// biasSums is the gradient of a bias while it is added up, by lanes.
type biasSums [maxLanes][]float64

func (s *biasSums) init(channels int) {
	for i := range s {
		s[i] = make([]float64, channels)
	}
}

// add takes dy of a microbatch back through a ReLU, if there was one, and adds it up.
func (s *biasSums) add(p *microbatch, relu bool) {
	if p.fresh {
		clear(s[p.lane])
	}
	biasGrad(s[p.lane], p, relu)
}

// sum sets db to the sums over all lanes.
func (s *biasSums) sum(db []float32, lanes int) {
	for i := range db {
		sum := 0.0
		for _, lane := range s[:lanes] {
			sum += lane[i]
		}
		db[i] = float32(sum)
	}
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
