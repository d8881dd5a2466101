// Package resize scales parts of decoded JPEGs with the tent filter, to the bits of
// BiLinear of golang.org/x/image/draw: rows first, then columns, in float64, every
// product rounded.
//
// A kernel xxx has a twin xxxGo in plain Go, which is its specification and does what
// assembly does not.
package resize

import (
	"image"
	"math"
)

// channels is the values of a pixel: red, green, blue, and one that is 0.
const channels = 4

// Scaler holds memory that is used again by the next picture. The zero value is
// ready; it is not for concurrent use.
type Scaler struct {
	across, down taps
	pixels       []float64 // a row of the part
	rows         []float64 // rows that are scaled across, the last ones
	grey         []uint8
}

// ahead is how many rows are scaled before those that are still of use are moved.
const ahead = 16

// Scale scales the part of img to w×h pixels and writes these to pix, red, green and
// blue, plane by plane: 3·w·h bytes. img is an *image.YCbCr or an *image.Gray; false
// says that it is neither, or has a subsampling that is not for here, or that the part
// is empty or not within it.
func (s *Scaler) Scale(pix []uint8, w, h int, img image.Image, part image.Rectangle) bool {
	if box := img.Bounds(); part.Empty() || !part.In(box) || box.Min.X < 0 || box.Min.Y < 0 || w < 1 || h < 1 {
		return false
	}
	src, ok := s.planes(img)
	if !ok {
		return false
	}
	from := part.Min.X &^ int(src.half) // pairs of pixels share their colour
	n := part.Max.X - from
	s.across.make(w, part.Dx(), part.Min.X-from)
	s.down.make(h, part.Dy(), 0)
	s.pixels = grow(s.pixels, channels*(n+s.across.n))
	clear(s.pixels[channels*n:])
	s.rows = grow(s.rows, channels*w*(s.down.n+ahead))
	first, next := 0, 0 // rows of the part that s.rows has
	plane := w * h
	for y := range h {
		top, deep := s.down.from[y], s.down.count[y]
		for ; next < top+deep; next++ {
			if (next-first+1)*channels*w > len(s.rows) {
				copy(s.rows, s.rows[(top-first)*channels*w:(next-first)*channels*w])
				first = top
			}
			src.row(s.pixels[:channels*n], from, part.Min.Y+next)
			across(s.rows[(next-first)*channels*w:][:channels*w], s.pixels, &s.across)
		}
		at := y * w
		down(pix[at:at+w], pix[plane+at:plane+at+w], pix[2*plane+at:2*plane+at+w], s.rows[(top-first)*channels*w:], s.down.weights[y*s.down.n:][:deep], s.down.inverse[y])
	}
	return true
}

// planes is a picture of luma and colours.
type planes struct {
	y, cb, cr       []uint8
	stride, cstride int
	rect            image.Rectangle
	half, low       uint // subsampling across and down: 1 of colours of two pixels
}

// planes takes a picture apart. A grey one has the colours of grey.
func (s *Scaler) planes(img image.Image) (planes, bool) {
	switch m := img.(type) {
	case *image.Gray:
		if n := m.Rect.Dx(); len(s.grey) < n {
			s.grey = make([]uint8, n)
			for i := range s.grey {
				s.grey[i] = 128
			}
		}
		return planes{m.Pix, s.grey, s.grey, m.Stride, 0, m.Rect, 0, 0}, true
	case *image.YCbCr:
		p := planes{m.Y, m.Cb, m.Cr, m.YStride, m.CStride, m.Rect, 0, 0}
		switch m.SubsampleRatio {
		case image.YCbCrSubsampleRatio444:
		case image.YCbCrSubsampleRatio422:
			p.half = 1
		case image.YCbCrSubsampleRatio420:
			p.half, p.low = 1, 1
		case image.YCbCrSubsampleRatio440:
			p.low = 1
		default:
			return p, false
		}
		return p, p.half == 0 || m.Rect.Min.X%2 == 0
	}
	return planes{}, false
}

// row writes the pixels from x on of row y to dst, as many as it holds.
func (p *planes) row(dst []float64, x, y int) {
	n := len(dst) / channels
	luma := p.y[(y-p.rect.Min.Y)*p.stride+x-p.rect.Min.X:][:n]
	at := (y>>p.low-p.rect.Min.Y>>p.low)*p.cstride + x>>p.half - p.rect.Min.X>>p.half
	c := (n + int(p.half)) >> p.half
	colours(dst, luma, p.cb[at:][:c], p.cr[at:][:c], p.half)
}

// colours writes pixels of len(luma), red, green and blue from 0 to 65535 and a 0; with
// half set two neighbours share their colour.
func colours(dst []float64, luma, cb, cr []uint8, half uint) {
	n := whole(len(luma), 8)
	if n > 0 {
		if half == 0 {
			coloursAVX2(&dst[0], &luma[0], &cb[0], &cr[0], n)
		} else {
			coloursHalfAVX2(&dst[0], &luma[0], &cb[0], &cr[0], n)
		}
	}
	coloursGo(n, dst, luma, cb, cr, half)
}

func coloursGo(lo int, dst []float64, luma, cb, cr []uint8, half uint) {
	full := func(v int32) float64 { return float64(min(max(v>>8, 0), 0xffff)) }
	for i := lo; i < len(luma); i++ {
		y, b, r := int32(luma[i])*0x10101, int32(cb[i>>half])-128, int32(cr[i>>half])-128
		to := dst[channels*i:][:channels]
		to[0], to[1], to[2], to[3] = full(y+91881*r), full(y-22554*b-46802*r), full(y+116130*b), 0
	}
}

// across scales a row of pixels: dst_x = (Σ_k src[from_x+k]·w_xk)·inverse_x/65535.
func across(dst, src []float64, t *taps) {
	n := len(dst) / channels
	if whole(n, 1) > 0 {
		_ = src[channels*(t.end+t.n)-1]
		acrossAVX2(&dst[0], &src[0], &t.from[0], &t.weights[0], &t.full[0], n, t.n)
		return
	}
	acrossGo(dst, src, t)
}

func acrossGo(dst, src []float64, t *taps) {
	for x := range len(dst) / channels {
		var sum [channels]float64
		for k, w := range t.weights[x*t.n:][:t.count[x]] {
			p := src[channels*(t.from[x]+k):][:channels]
			for c := range sum {
				sum[c] += float64(p[c] * w)
			}
		}
		for c := range sum {
			dst[channels*x+c] = sum[c] * t.full[x]
		}
	}
}

// down makes a row of samples of rows that are scaled across:
//
//	v = min(Σ_k rows_k·w_k, Σ_k w_k)·inverse, from 0 to 1; the sample is ⌊⌊65535·v + ½⌋/256⌋
func down(r, g, b []uint8, rows, w []float64, inverse float64) {
	most := 0.0
	for _, v := range w {
		most += v
	}
	n := whole(len(r), 4)
	if n > 0 {
		_ = rows[channels*len(r)*len(w)-1]
		downAVX2(&r[0], &g[0], &b[0], &rows[0], &w[0], n, len(w), 8*channels*len(r), most, inverse)
	}
	downGo(n, r, g, b, rows, w, most, inverse)
}

func downGo(lo int, r, g, b []uint8, rows, w []float64, most, inverse float64) {
	sample := func(v float64) uint8 {
		v = min(v, most) * inverse
		return uint8(min(max(int32(float64(0xffff*v)+0.5), 0), 0xffff) >> 8)
	}
	for x := lo; x < len(r); x++ {
		var sum [channels]float64
		for k, w := range w {
			p := rows[channels*(k*len(r)+x):][:channels]
			for c := range 3 {
				sum[c] += float64(p[c] * w)
			}
		}
		r[x], g[x], b[x] = sample(sum[0]), sample(sum[1]), sample(sum[2])
	}
}

// taps says what the pixels along one side are made of.
type taps struct {
	n       int       // taps a pixel at most
	from    []int     // first source pixel of each
	count   []int     // how many it has
	weights []float64 // n for each, 0 behind the last
	inverse []float64 // of the sum of its weights
	full    []float64 // the same over 65535
	end     int       // the largest of from
}

// make sets the taps of the tent filter from so many source pixels to size, the first
// of which is pixel offset. A tent is as wide as two source pixels, or as two pixels.
func (t *taps) make(size, source, offset int) {
	scale := float64(source) / float64(size)
	width, slope := 1.0, 1.0
	if scale > 1 {
		width, slope = scale, 1/scale
	}
	t.n, t.end = 2*int(math.Ceil(width))+2, 0
	t.from, t.count = grow(t.from, size), grow(t.count, size)
	t.inverse, t.full = grow(t.inverse, size), grow(t.full, size)
	t.weights = grow(t.weights, size*t.n)
	clear(t.weights)
	most := 0
	for x := range size {
		centre := float64((float64(x)+0.5)*scale) - 0.5
		lo, hi := max(0, int(math.Floor(centre-width))), min(source, int(math.Ceil(centre+width)))
		w, n, sum := t.weights[x*t.n:][:t.n], 0, 0.0
		for i := lo; i < hi; i++ {
			d := math.Abs((centre - float64(i)) * slope)
			if d >= 1 {
				continue
			}
			if n == 0 {
				t.from[x] = i + offset
			}
			w[n] = 1 - d
			sum += w[n]
			n++
		}
		sum = 1 / sum
		t.count[x], t.inverse[x], t.full[x] = n, sum, sum/0xffff
		most, t.end = max(most, n), max(t.end, t.from[x])
	}
	t.squeeze(most)
}

// squeeze leaves no more taps than some pixel has.
func (t *taps) squeeze(n int) {
	for x := range t.count {
		copy(t.weights[x*n:(x+1)*n], t.weights[x*t.n:])
	}
	t.n = n
}

func grow[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	return v[:n]
}
