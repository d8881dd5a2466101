package nn

// Convolution as a matrix product: column (oy, ox) of the unfolded image holds
// the patch under output (oy, ox), and row (c·k + i)·k + j the tap (i, j) of
// channel c,
//
//	cols[(c·k + i)·k + j, oy·OW + ox] = img[c, oy·s + i − p, ox·s + j − p]
//
// with zeros outside. fold is the transpose: it adds columns back.

// patches is the geometry of a sliding window over c planes of h×w.
type patches struct {
	c, h, w         int
	k, stride, pad  int
	outH, outW      int
	rows, positions int // c·k·k taps, outH·outW positions
}

func newPatches(c, h, w, k, stride, pad int) patches {
	p := patches{c: c, h: h, w: w, k: k, stride: stride, pad: pad}
	p.outH, p.outW = (h+2*pad-k)/stride+1, (w+2*pad-k)/stride+1
	p.rows, p.positions = c*k*k, p.outH*p.outW
	return p
}

// trivial says that the unfolded image is the image.
func (p *patches) trivial() bool { return p.k == 1 && p.stride == 1 && p.pad == 0 }

// same says that the output has the shape of the input, tap by tap a shift.
func (p *patches) same() bool { return p.stride == 1 && p.outH == p.h && p.outW == p.w }

// unfold fills cols, rows×positions, from one image.
func unfold[T Float](p *patches, cols, img []T) {
	row := 0
	for c := range p.c {
		plane := img[c*p.h*p.w : (c+1)*p.h*p.w]
		for i := range p.k {
			for j := range p.k {
				dst := cols[row*p.positions : (row+1)*p.positions]
				if p.same() {
					shift(p, dst, plane, i-p.pad, j-p.pad)
				} else {
					gather(p, dst, plane, i-p.pad, j-p.pad)
				}
				row++
			}
		}
	}
}

// fold adds cols to img, which the caller has cleared. It spoils cols.
func fold[T Float](p *patches, cols, img []T) {
	row := 0
	for c := range p.c {
		plane := img[c*p.h*p.w : (c+1)*p.h*p.w]
		for i := range p.k {
			for j := range p.k {
				src := cols[row*p.positions : (row+1)*p.positions]
				if p.same() {
					unshift(p, src, plane, i-p.pad, j-p.pad)
				} else {
					scatter(p, src, plane, i-p.pad, j-p.pad)
				}
				row++
			}
		}
	}
}

// span1 is the range lo..hi of outputs o < out with 0 ≤ o·stride + d < n.
func span1(d, n, stride, out int) (lo, hi int) {
	if d < 0 {
		lo = (-d + stride - 1) / stride
	}
	if n > d {
		hi = min(out, (n-1-d)/stride+1)
	}
	return min(lo, hi), hi
}

// frame is the part of a plane that stays inside it when shifted by (dy, dx):
// rows y0..y1, columns x0..x1, and the run a..b that one copy can move. What
// the copy drags along lies outside columns x0..x1.
func (p *patches) frame(dy, dx int) (y0, y1, x0, x1, a, b int) {
	y0, y1 = span1(dy, p.h, 1, p.h)
	x0, x1 = span1(dx, p.w, 1, p.w)
	if x0 == x1 {
		y0, y1 = 0, 0
	}
	d := dy*p.w + dx
	a, b = max(y0*p.w, -d), min(y1*p.w, p.h*p.w-d)
	return y0, y1, x0, x1, a, max(a, b)
}

// edges clears the columns of rows y0..y1 outside x0..x1: a few short strided
// runs, for which calls of clear would be too dear.
func edges[T Float](p *patches, v []T, y0, y1, x0, x1 int) {
	column := func(x int) {
		for i := y0*p.w + x; i < y1*p.w; i += p.w {
			v[i] = 0
		}
	}
	for x := range x0 {
		column(x)
	}
	for x := x1; x < p.w; x++ {
		column(x)
	}
}

// shift sets dst to the plane moved by (dy, dx): one copy, then its edges.
func shift[T Float](p *patches, dst, plane []T, dy, dx int) {
	y0, y1, x0, x1, a, b := p.frame(dy, dx)
	if y0 == y1 {
		clear(dst)
		return
	}
	d := dy*p.w + dx
	copy(dst[a:b], plane[a+d:b+d])
	clear(dst[:y0*p.w])
	clear(dst[y1*p.w:])
	edges(p, dst, y0, y1, x0, x1)
}

// unshift adds src, moved back, to the plane.
func unshift[T Float](p *patches, src, plane []T, dy, dx int) {
	y0, y1, x0, x1, a, b := p.frame(dy, dx)
	if y0 == y1 {
		return
	}
	d := dy*p.w + dx
	edges(p, src, y0, y1, x0, x1)
	addTo(plane[a+d:b+d], src[a:b])
}

// gather is shift for any stride and padding.
func gather[T Float](p *patches, dst, plane []T, dy, dx int) {
	y0, y1 := span1(dy, p.h, p.stride, p.outH)
	x0, x1 := span1(dx, p.w, p.stride, p.outW)
	if y0 == y1 || x0 == x1 {
		clear(dst)
		return
	}
	clear(dst[:y0*p.outW])
	clear(dst[y1*p.outW:])
	for y := y0; y < y1; y++ {
		row, from := dst[y*p.outW:(y+1)*p.outW], (y*p.stride+dy)*p.w+dx
		clear(row[:x0])
		clear(row[x1:])
		if p.stride == 1 {
			copy(row[x0:x1], plane[from+x0:])
			continue
		}
		for x := x0; x < x1; x++ {
			row[x] = plane[from+x*p.stride]
		}
	}
}

// scatter is unshift for any stride and padding.
func scatter[T Float](p *patches, src, plane []T, dy, dx int) {
	y0, y1 := span1(dy, p.h, p.stride, p.outH)
	x0, x1 := span1(dx, p.w, p.stride, p.outW)
	for y := y0; y < y1; y++ {
		row, to := src[y*p.outW:(y+1)*p.outW], (y*p.stride+dy)*p.w+dx
		for x := x0; x < x1; x++ {
			plane[to+x*p.stride] += row[x]
		}
	}
}
