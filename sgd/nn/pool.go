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

func (g *poolGeometry) shape() sgd.Shape { return sgd.Shape{C: g.c, H: g.outH, W: g.outW} }

// window is the part lo..hi of window o that lies on a side of n, and how much
// of it lies on the padded side.
func (g *poolGeometry) window(o, n int) (lo, hi, padded int) {
	start := o*g.stride - g.pad
	end := min(start+g.k, n+g.pad)
	return max(start, 0), min(end, n), end - start
}
