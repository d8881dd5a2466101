package f32

import "fmt"

// Unfolding an image so that convolution is a matrix product. With
// oh = (h+2·pad-kh)/stride+1 and ow likewise, the unfolded image is the
// (c·kh·kw)×(oh·ow) matrix
//
//	col[(ch·kh+ky)·kw+kx][y·ow+x] = img[ch][y·stride+ky-pad][x·stride+kx-pad]
//
// with zeros outside the image. For a given (ky, kx) the columns x inside the
// image are one interval, so rows are copied, not picked.

// window is the geometry shared by both directions.
type window struct{ c, h, w, kh, kw, stride, pad, oh, ow int }

func newWindow(op string, col, img []float32, c, h, w, kh, kw, stride, pad int) window {
	if c < 0 || h < 0 || w < 0 || kh < 1 || kw < 1 || stride < 1 || pad < 0 || h+2*pad < kh || w+2*pad < kw {
		panic(fmt.Sprintf("f32: %s: image %d×%d×%d, kernel %d×%d, stride %d, pad %d", op, c, h, w, kh, kw, stride, pad))
	}
	g := window{c, h, w, kh, kw, stride, pad, (h+2*pad-kh)/stride + 1, (w+2*pad-kw)/stride + 1}
	same(op+" image", len(img), c*h*w)
	same(op+" matrix", len(col), c*kh*kw*g.oh*g.ow)
	return g
}

// inside returns the interval [lo, hi) of outputs, of n, whose input
// out·stride+k-pad lies in [0, size).
func (g *window) inside(k, size, n int) (lo, hi int) {
	if d := g.pad - k; d > 0 {
		lo = min((d+g.stride-1)/g.stride, n)
	}
	if d := size - 1 + g.pad - k; d >= 0 {
		hi = min(d/g.stride+1, n)
	}
	return lo, max(lo, hi)
}

// Im2col unfolds one image of c planes of h×w into dst, the matrix above. It
// panics unless len(img) is c·h·w and len(dst) is c·kh·kw·oh·ow, or if the
// kernel exceeds the padded image.
func Im2col(dst, img []float32, c, h, w, kh, kw, stride, pad int) {
	g := newWindow("Im2col", dst, img, c, h, w, kh, kw, stride, pad)
	for ch := range c {
		plane := img[ch*h*w:][:h*w]
		for ky := range kh {
			y0, y1 := g.inside(ky, h, g.oh)
			for kx := range kw {
				x0, x1 := g.inside(kx, w, g.ow)
				g.unfold(dst[:g.oh*g.ow], plane, ky, kx, y0, y1, x0, x1)
				dst = dst[g.oh*g.ow:]
			}
		}
	}
}

// unfold writes one row of the matrix.
func (g *window) unfold(d, plane []float32, ky, kx, y0, y1, x0, x1 int) {
	ow := g.ow
	clear(d[:y0*ow])
	clear(d[y1*ow:])
	if y0 == y1 || x0 == x1 {
		clear(d)
		return
	}
	if g.stride == 1 && ow == g.w {
		// Input and output rows are equally long: one copy of all rows, then
		// zeros over what it carried across the margins.
		from := (y0+ky-g.pad)*ow + x0 + kx - g.pad
		n := (y1-1-y0)*ow + x1 - x0
		copy(d[y0*ow+x0:][:n], plane[from:])
		for y := y0; y < y1; y++ {
			r := d[y*ow:][:ow]
			for x := range x0 {
				r[x] = 0
			}
			for x := x1; x < ow; x++ {
				r[x] = 0
			}
		}
		return
	}
	for y := y0; y < y1; y++ {
		r, s := d[y*ow:][:ow], plane[(y*g.stride+ky-g.pad)*g.w:][:g.w]
		clear(r[:x0])
		clear(r[x1:])
		s = s[x0*g.stride+kx-g.pad:]
		if g.stride == 1 {
			copy(r[x0:x1], s)
			continue
		}
		for x := range r[x0:x1] {
			r[x0+x] = s[x*g.stride]
		}
	}
}

// Col2im is the adjoint of Im2col: it adds each element of the matrix col to
// the element of img it came from, in the order of col's rows; what came from
// the padding is dropped. It panics as Im2col does.
func Col2im(img, col []float32, c, h, w, kh, kw, stride, pad int) {
	g := newWindow("Col2im", col, img, c, h, w, kh, kw, stride, pad)
	for ch := range c {
		plane := img[ch*h*w:][:h*w]
		for ky := range kh {
			y0, y1 := g.inside(ky, h, g.oh)
			for kx := range kw {
				x0, x1 := g.inside(kx, w, g.ow)
				src := col[:g.oh*g.ow]
				col = col[g.oh*g.ow:]
				if x0 == x1 {
					continue
				}
				for y := y0; y < y1; y++ {
					r := src[y*g.ow+x0 : y*g.ow+x1]
					d := plane[(y*stride+ky-pad)*w+x0*stride+kx-pad:]
					if stride == 1 {
						d = d[:len(r)]
						for x, v := range r {
							d[x] += v
						}
						continue
					}
					for x, v := range r {
						d[x*stride] += v
					}
				}
			}
		}
	}
}
