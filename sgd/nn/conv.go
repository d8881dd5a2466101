package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Conv is a two-dimensional convolution with square windows. With U the image
// unfolded to patches (see patches), Y of Out×positions and W of Out×(in·k·k),
// one output channel a row, per image
//
//	Y = W·U + b·1ᵀ,  dW = Σ dY·Uᵀ,  db = Σ dY·1,  dX = fold(Wᵀ·dY)
//
// U is made again in the backward pass: cheaper than keeping it.
type Conv struct {
	Out    int
	Kernel int
	Stride int // 0 is 1
	Pad    int // zeros on each side
	NoBias bool
	Init   Init // nil is He
}

func (l Conv) bind(b *builder, in sgd.Shape) (module, error) {
	name := b.name("conv")
	l.Stride = max(l.Stride, 1)
	switch {
	case l.Out < 1 || l.Kernel < 1 || l.Pad < 0:
		return module{}, fmt.Errorf("nn: %s needs out ≥ 1, kernel ≥ 1 and pad ≥ 0: %+v", name, l)
	case in.H+2*l.Pad < l.Kernel || in.W+2*l.Pad < l.Kernel:
		least := l.Kernel - 2*l.Pad
		return module{}, fmt.Errorf("nn: %s (kernel %d, pad %d) needs an input of at least %dx%d, not %dx%d",
			name, l.Kernel, l.Pad, least, least, in.H, in.W)
	}
	p := newPatches(in.C, in.H, in.W, l.Kernel, l.Stride, l.Pad)
	fanOut := l.Out * l.Kernel * l.Kernel
	w := b.claim(name+".weight", sgd.Weight, l.Out, p.rows, l.Init.fans(p.rows, fanOut),
		2*float64(l.Out)*float64(p.rows)*float64(p.positions))
	spans, bias := []int{w}, -1
	if !l.NoBias {
		bias = b.claim(name+".bias", sgd.Bias, 1, l.Out, constant(0), 0)
		spans = append(spans, bias)
	}
	return b.leaf(
		leafInfo{in: in, out: sgd.Shape{C: l.Out, H: p.outH, W: p.outW}, spans: spans},
		func() op[float32] { return newConv[float32](p, l.Out, w, bias) },
		func() op[float64] { return newConv[float64](p, l.Out, w, bias) }), nil
}

// convLanes is how many partial sums of dW a batch is cut into: images l·N/16
// to (l+1)·N/16 are added in order in lane l, then the lanes in order.
const convLanes = 16

type conv[T Float] struct {
	patches
	out          int
	weight, bias int // spans; bias is −1 without
	r            *run[T]
	x, y, dy, dx []T
	lanes        int
	dw, db       [convLanes][]T

	forwardImage, backwardLane func(i, slot int)
}

func newConv[T Float](p patches, out, w, b int) *conv[T] {
	c := &conv[T]{patches: p, out: out, weight: w, bias: b}
	c.forwardImage, c.backwardLane = c.doForward, c.doBackward
	return c
}

func (c *conv[T]) forward(r *run[T], x, y []T) {
	c.r, c.x, c.y = r, x, y
	r.reserve(c.rows * c.positions)
	r.each(r.n, r.n*c.out*c.rows*c.positions, c.forwardImage)
}

// columns returns image s unfolded, in slot's workspace.
func (c *conv[T]) columns(s, slot int) []T {
	size := c.c * c.h * c.w
	img := c.x[s*size : (s+1)*size]
	if c.trivial() {
		return img
	}
	cols := c.r.work[slot][:c.rows*c.positions]
	unfold(&c.patches, cols, img)
	return cols
}

func (c *conv[T]) doForward(s, slot int) {
	y := c.y[s*c.out*c.positions : (s+1)*c.out*c.positions]
	beta := T(0)
	if c.bias >= 0 {
		beta = 1
		for o, v := range c.r.param(c.bias) {
			fill(y[o*c.positions:(o+1)*c.positions], v)
		}
	}
	gemm(c.r.n > 1, false, false, c.out, c.positions, c.rows, c.r.param(c.weight), c.rows,
		c.columns(s, slot), c.positions, beta, y, c.positions)
}

func (c *conv[T]) backward(r *run[T], x, y, dy, dx []T) {
	c.r, c.x, c.dy, c.dx = r, x, dy, dx
	c.lanes = min(convLanes, r.n)
	for l := range c.lanes {
		grow(&c.dw[l], c.out*c.rows)
		grow(&c.db[l], c.out)
	}
	r.reserve(c.rows * c.positions)
	r.each(c.lanes, r.n*c.out*c.rows*c.positions, c.backwardLane)
	total(r.gradient(c.weight), c.dw[:c.lanes])
	if c.bias >= 0 {
		total(r.gradient(c.bias), c.db[:c.lanes])
	}
}

func (c *conv[T]) doBackward(lane, slot int) {
	size, outSize := c.c*c.h*c.w, c.out*c.positions
	dw, db := c.dw[lane], c.db[lane]
	clear(db)
	beta := T(0) // the lane's first image overwrites
	for s := lane * c.r.n / c.lanes; s < (lane+1)*c.r.n/c.lanes; s++ {
		dy := c.dy[s*outSize : (s+1)*outSize]
		gemm(c.lanes > 1, false, true, c.out, c.rows, c.positions, dy, c.positions,
			c.columns(s, slot), c.positions, beta, dw, c.rows)
		beta = 1
		if c.bias >= 0 {
			for o := range db {
				db[o] += T(sum(dy[o*c.positions : (o+1)*c.positions]))
			}
		}
		if c.dx != nil {
			c.input(dy, c.dx[s*size:(s+1)*size], slot)
		}
	}
}

// input fills dx of one image.
func (c *conv[T]) input(dy, dx []T, slot int) {
	cols := dx
	if !c.trivial() {
		cols = c.r.work[slot][:c.rows*c.positions]
	}
	gemm(c.lanes > 1, true, false, c.rows, c.positions, c.out, c.r.param(c.weight), c.rows, dy, c.positions, 0, cols, c.positions)
	if !c.trivial() {
		clear(dx)
		fold(&c.patches, cols, dx)
	}
}

// total sets dst to the sum of the lanes, in order.
func total[T Float](dst []T, lanes [][]T) {
	copy(dst, lanes[0])
	for _, l := range lanes[1:] {
		addTo(dst, l)
	}
}
