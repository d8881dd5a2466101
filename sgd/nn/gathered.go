package nn

import (
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// gathered is a convolution whose windows are no squares, or whose channels come in
// groups. A sample's windows are gathered as the rows of a matrix, of ky, kx and
// channels of one group, and multiplied by the group's weights; dx scatters back what
// the transposed product leaves. dW is a product for each place in the window and
// each group, over all samples, so it needs no partial sums.
type gathered struct {
	Conv         // KernelW, PadW, Stride and Groups filled in
	in, out      sgd.Shape
	taps         int // columns of a group's weights
	weight, bias int // spans; bias is −1 without
	relu         bool
}

func (c *gathered) rectify() { c.relu = true }

func (c *gathered) traits() traits {
	return traits{
		readsX: !c.Frozen, readsY: c.relu, spoils: c.relu, holds: !c.Frozen,
		weights: c.Out * c.taps, rows: c.out.H * c.out.W,
	}
}

func (c *gathered) instance([]op) op {
	o := &gatheredOp{gathered: *c}
	o.weightPiece = o.weights
	if c.bias >= 0 {
		o.db.init(c.Out)
	}
	return o
}

type gatheredOp struct {
	gathered
	db          biasSums // if there is a bias
	run         *run
	all         *microbatch
	weightPiece func(i, slot int)
}

// rows is the windows of a sample, channels how many a group has in, outs out.
func (c *gathered) rows() int     { return c.out.H * c.out.W }
func (c *gathered) channels() int { return c.in.C / c.Groups }
func (c *gathered) outs() int     { return c.Out / c.Groups }

func (c *gatheredOp) begin(*run, *microbatch, direction) {}

func (c *gatheredOp) forward(r *run, p *microbatch) {
	rows, in, out := c.rows(), c.in.Len(), c.out.Len()
	windows, w := r.space(p.slot, rows*c.taps), r.weights(c.weight)
	for s := range p.n() {
		x, y := p.x[s*in:(s+1)*in], p.y[s*out:(s+1)*out]
		for g := range c.Groups {
			for ky := range c.Kernel {
				for kx := range c.KernelW {
					c.gather(windows[(ky*c.KernelW+kx)*c.channels():], c.taps, x, ky, kx, g)
				}
			}
			f32.GemmSerial(false, true, rows, c.outs(), c.taps, 1, windows, c.taps, c.of(w, g), c.taps, 0, y[g*c.outs():], c.Out)
		}
	}
	switch {
	case c.bias >= 0:
		f32.BiasReLU(p.y, r.param(c.bias), c.relu)
	case c.relu:
		f32.ReLU(p.y, p.y)
	}
}

// of is the weights of a group.
func (c *gathered) of(w []float32, group int) []float32 {
	size := c.outs() * c.taps
	return w[group*size : (group+1)*size]
}

// gather sets rows dst[0], dst[ld], … to what x has at place ky, kx of each window in
// a group's channels, 0 beyond the edges.
func (c *gathered) gather(dst []float32, ld int, x []float32, ky, kx, group int) {
	n := c.channels()
	c.each(ky, kx, group, func(row, at int) {
		to := dst[row*ld : row*ld+n]
		if at < 0 {
			clear(to)
		} else {
			copy(to, x[at:at+n])
		}
	})
}

// each calls fn for every window, a row of the product, with where a group's channels
// of the pixel at ky, kx of it begin, −1 beyond the edges.
func (c *gathered) each(ky, kx, group int, fn func(row, at int)) {
	row := 0
	for oy := range c.out.H {
		y := oy*c.Stride + ky - c.Pad
		for ox := range c.out.W {
			x, at := ox*c.Stride+kx-c.PadW, -1
			if y >= 0 && y < c.in.H && x >= 0 && x < c.in.W {
				at = (y*c.in.W+x)*c.in.C + group*c.channels()
			}
			fn(row, at)
			row++
		}
	}
}

func (c *gatheredOp) backward(r *run, p *microbatch) {
	switch {
	case c.bias >= 0:
		c.db.add(p, c.relu)
	case c.relu:
		f32.ReLUGrad(p.dy, p.dy, p.y)
	}
	if !p.wanted {
		return
	}
	rows, in, out, n := c.rows(), c.in.Len(), c.out.Len(), c.channels()
	windows, w := r.space(p.slot, rows*c.taps), r.weights(c.weight)
	clear(p.dx)
	for s := range p.n() {
		dx, dy := p.dx[s*in:(s+1)*in], p.dy[s*out:(s+1)*out]
		for g := range c.Groups {
			f32.GemmSerial(false, false, rows, c.taps, c.outs(), 1, dy[g*c.outs():], c.Out, c.of(w, g), c.taps, 0, windows, c.taps)
			for ky := range c.Kernel {
				for kx := range c.KernelW {
					from := windows[(ky*c.KernelW+kx)*n:]
					c.each(ky, kx, g, func(row, at int) {
						if at >= 0 {
							f32.Add(dx[at:at+n], from[row*c.taps:row*c.taps+n])
						}
					})
				}
			}
		}
	}
}

// end of the backward pass: all of dy is there now.
func (c *gatheredOp) end(r *run, all *microbatch, d direction) {
	if d == ahead {
		return
	}
	if c.Frozen {
		clear(r.slope(c.weight))
	} else {
		c.run, c.all = r, all
		r.share(c.Kernel*c.KernelW*c.Groups, r.n*r.at.cost, c.weightPiece)
	}
	if c.bias >= 0 {
		c.db.sum(r.slope(c.bias), r.lanes)
	}
}

// weights sets dW of one place in the window and one group.
func (c *gatheredOp) weights(i, slot int) {
	place, g := i/c.Groups, i%c.Groups
	rows, in, out, n := c.rows(), c.in.Len(), c.out.Len(), c.channels()
	pixels := c.run.space(slot, rows*n)
	dw := c.of(c.run.slope(c.weight), g)[place*n:]
	keep := float32(0)
	for s := range c.run.n {
		x, dy := c.all.x[s*in:(s+1)*in], c.all.dy[s*out:(s+1)*out]
		c.gather(pixels, n, x, place/c.KernelW, place%c.KernelW, g)
		f32.GemmSerial(true, false, c.outs(), n, rows, 1, dy[g*c.outs():], c.Out, pixels, n, keep, dw, c.taps)
		keep = 1
	}
}
