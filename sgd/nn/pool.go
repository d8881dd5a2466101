package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// poolGeometry is a window of k×k moved by stride over padded planes. The
// number of positions rounds down, or up with ceil, where then the last window
// must still begin inside the image or its left padding (Caffe's rule).
type poolGeometry struct {
	c, h, w, k, stride, pad int
	outH, outW              int
}

func newPool(name string, in sgd.Shape, k, stride, pad int, ceil bool) (poolGeometry, error) {
	if stride == 0 {
		stride = k
	}
	g := poolGeometry{c: in.C, h: in.H, w: in.W, k: k, stride: stride, pad: pad}
	least := k - 2*pad
	if ceil {
		least = max(least-stride+1, 1)
	}
	switch {
	case k < 1 || stride < 1 || pad < 0 || 2*pad > k:
		return g, fmt.Errorf("nn: %s needs kernel ≥ 1, stride ≥ 1 and 0 ≤ pad ≤ kernel/2, not %d, %d, %d", name, k, stride, pad)
	case in.H < least || in.W < least:
		return g, fmt.Errorf("nn: %s (kernel %d, stride %d, pad %d) needs an input of at least %dx%d, not %dx%d",
			name, k, stride, pad, least, least, in.H, in.W)
	}
	g.outH, g.outW = g.positions(in.H, ceil), g.positions(in.W, ceil)
	return g, nil
}

// positions counts the windows along a side of n.
func (g *poolGeometry) positions(n int, ceil bool) int {
	free := n + 2*g.pad - g.k
	if !ceil {
		return free/g.stride + 1
	}
	out := (free+g.stride-1)/g.stride + 1
	if (out-1)*g.stride >= n+g.pad {
		out--
	}
	return out
}

// tiles says that every pixel lies in exactly one window.
func (g *poolGeometry) tiles() bool {
	return g.stride == g.k && g.pad == 0 && g.outH*g.k >= g.h && g.outW*g.k >= g.w
}

func (g *poolGeometry) shape() sgd.Shape { return sgd.Shape{C: g.c, H: g.outH, W: g.outW} }

// window is the part of a window that lies on the image: h×w pixels from pixel
// at of the batch. padded is the number of pixels with those of the padding.
type window struct{ at, h, w, padded int }

// each calls fn for the windows of n images, in the order of output pixels o.
func (g *poolGeometry) each(n int, fn func(o int, w window)) {
	o := 0
	for s := range n {
		for oy := range g.outH {
			y, h, rows := g.span(oy, g.h)
			for ox := range g.outW {
				x, w, cols := g.span(ox, g.w)
				fn(o, window{(s*g.h+y)*g.w + x, h, w, rows * cols})
				o++
			}
		}
	}
}

// span is the part of window o that lies on a side of n, from lo, and how much
// of it lies on the padded side.
func (g *poolGeometry) span(o, n int) (lo, size, padded int) {
	start := o*g.stride - g.pad
	end := min(start+g.k, n+g.pad)
	lo = max(start, 0)
	return lo, min(end, n) - lo, end - start
}
