// Package pool has the kernels of maximum pooling over images with the channels
// last: one window at a time, all channels at once.
//
// A window is h rows of w pixels of c values, one row stride values behind the
// other; its pixels are numbered row by row.
package pool

import "fmt"

// MaxPixels is how many pixels a window may have: their numbers are bytes.
const MaxPixels = 256

// Max is the largest value of each channel under a window, and which pixel has
// it:
//
//	y[j] = max over i of x[pixel i, j];  at[j] = the first such i
//
// A NaN is larger than everything. With relu set, y[j] is then max(y[j], 0). It
// panics if at and y differ in length, the window is empty or has more than
// MaxPixels, or x is too short for it.
func Max(y []float32, at []uint8, x []float32, w, h, stride int, relu bool) {
	check(len(y), at, x, w, h, stride)
	n := 0
	if len(y) > 0 {
		n = maxAVX2(&y[0], &at[0], &x[0], len(y), len(y), w, h, stride, relu)
	}
	maxGo(n, y, at, x, w, h, stride, relu)
}

func maxGo(lo int, y []float32, at []uint8, x []float32, w, h, stride int, relu bool) {
	c := len(y)
	for j := lo; j < c; j++ {
		best, where := x[j], 0
		for i := 1; i < w*h; i++ {
			v := x[i/w*stride+i%w*c+j]
			if v > best || v != v && best == best {
				best, where = v, i
			}
		}
		if relu && best <= 0 {
			best = 0
		}
		y[j], at[j] = best, uint8(where)
	}
}

// MaxGrad brings gradients to where the maxima were:
//
//	dx[pixel i, j] = dy[j] if i = at[j], else 0
//
// With add set they are added to what is there. It panics as Max does.
func MaxGrad(dx, dy []float32, at []uint8, w, h, stride int, add bool) {
	check(len(dy), at, dx, w, h, stride)
	n := 0
	if len(dy) > 0 {
		n = maxGradAVX2(&dx[0], &dy[0], &at[0], len(dy), len(dy), w, h, stride, add)
	}
	maxGradGo(n, dx, dy, at, w, h, stride, add)
}

func maxGradGo(lo int, dx, dy []float32, at []uint8, w, h, stride int, add bool) {
	c := len(dy)
	for j := lo; j < c; j++ {
		for i := range w * h {
			v := float32(0)
			if i == int(at[j]) {
				v = dy[j]
			}
			to := &dx[i/w*stride+i%w*c+j]
			if !add {
				*to = 0
			}
			*to += v
		}
	}
}

func check(c int, at []uint8, x []float32, w, h, stride int) {
	if len(at) != c || w < 1 || h < 1 || w*h > MaxPixels || stride < 0 || len(x) < (h-1)*stride+w*c {
		panic(fmt.Sprintf("pool: a window of %d×%d pixels of %d channels, %d places, rows of %d in %d values", h, w, c, len(at), stride, len(x)))
	}
}
