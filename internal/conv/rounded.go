package conv

import (
	"github.com/gradlab/gradlab/internal/f32"
)

// floats are images for products that read nothing else.
func floats(v f32.Values) []float32 {
	if v.Half != nil {
		panic("conv: this product does not read bfloat16: see Plan.Halves")
	}
	return v.Full
}

// patches is a product of operands rounded to bfloat16 (see f32.GemmRounded),
//
//	c[place, o] = Σ over taps, l < run:  a[place + tap, l] · w[tap, l, o]
//
// in the order of taps and l, where a tap beyond the edge is 0. Rows of A are gathered
// from an image that is rounded once; where windows are one pixel the image itself is A.
// With an odd number of channels rows are gathered first and then rounded, as two
// neighbours along k share a word.
type patches struct {
	run, taps    int
	cols         int     // channels of C
	sizeA, sizeC int     // pixels of an image
	places       int     // of an image: rows of the product
	pieces       []piece // of a row, place by place
	first        []int32 // of its pieces; one more than there are places
	to           []int32 // the pixel of C that a place is; nil: they are all of them, in order
	whole        bool    // A is the image itself
	width        int     // columns of the weights that are packed together
}

// piece is a run of neighbouring pixels in A, or of zeros where it is negative.
type piece struct{ at, n int32 }

const (
	// patchWords is about how many words of A are gathered together: 192 KiB.
	patchWords = 48 << 10
	// roundedPanel is how many columns f32.GemmRounded reads together.
	roundedPanel = 32
)

// newPatches plans a product whose place i has the pixels at(i, k) for its taps k.
func newPatches(places, taps, run, cols, sizeA, sizeC int, at func(i, k int) int, to []int32) *patches {
	p := &patches{run: run, taps: taps, cols: cols, sizeA: sizeA, sizeC: sizeC, places: places, to: to, first: []int32{0}, width: cols}
	p.whole = taps == 1 && places == sizeA
	for i := range places {
		for k := range taps {
			x := int32(max(at(i, k), -1))
			p.whole = p.whole && int(x) == i
			if l := len(p.pieces) - 1; k > 0 && (x < 0 && p.pieces[l].at < 0 || x >= 0 && p.pieces[l].at >= 0 && x == p.pieces[l].at+p.pieces[l].n) {
				p.pieces[l].n++
			} else {
				p.pieces = append(p.pieces, piece{x, 1})
			}
		}
		p.first = append(p.first, int32(len(p.pieces)))
	}
	return p
}

func (p *patches) depth() int   { return p.taps * p.run }
func (p *patches) packLen() int { return f32.RoundedLen(p.depth()) * p.cols }

// gather writes the row of place i, where a pixel of src is unit long: what of it is from
// from to to.
func gather[E any](p *patches, dst, src []E, i, unit, from, to int) {
	at := 0
	for _, s := range p.pieces[p.first[i]:p.first[i+1]] {
		n := int(s.n) * unit
		lo, hi := max(from, at), min(to, at+n)
		if lo < hi {
			if s.at < 0 {
				clear(dst[lo-from : hi-from])
			} else {
				copy(dst[lo-from:hi-from], src[int(s.at)*unit+lo-at:][:hi-lo])
			}
		}
		at += n
	}
}

// do computes n images of C, or of what places are of it.
func (p *patches) do(s *Space, packed, bias []float32, relu bool, a f32.Values, c []float32, n int) {
	words, unit := f32.RoundedLen(p.depth()), f32.RoundedLen(p.run)
	stride := words
	if words%512 == 0 {
		stride += 16 // rows a power of two apart would share few places in a cache
	}
	early := p.run%2 == 0
	rows := max(patchWords/words/12, 2) * 12
	image, last := s.image, -1
	for from := 0; from < n*p.places; from += rows {
		count := min(rows, n*p.places-from)
		x := grow(&s.strip, count*stride)
		switch {
		case p.whole:
			p.round(x, stride, a.From(from*p.run), count)
		case early:
			for i := range count {
				if img := (from + i) / p.places; img != last {
					last = img
					image = grow(&s.image, p.sizeA*unit)
					a.From(img*p.sizeA*p.run).Along(image, p.sizeA*p.run)
				}
				gather(p, x[i*stride:], image, (from+i)%p.places, unit, 0, words)
			}
		default:
			for i := range count {
				p.rows(s, a, from+i, 1, 0, p.depth()).Along(x[i*stride:][:words], p.depth())
			}
		}
		y := c
		if p.to == nil {
			y = c[from*p.cols:][:count*p.cols]
		} else {
			s.sums = grow(&s.sums, count*p.cols)
			y = s.sums
		}
		for j := 0; j < p.cols; j += p.width {
			width := min(p.width, p.cols-j)
			f32.GemmRounded(1, false, false, count, width, p.depth(), x, stride, packed[j*words:], width, false, y[j:], p.cols)
		}
		if p.to == nil {
			finish(y, bias, relu)
			continue
		}
		for i := range count {
			img, place := (from+i)/p.places, (from+i)%p.places
			copy(c[(img*p.sizeC+int(p.to[place]))*p.cols:][:p.cols], y[i*p.cols:])
		}
	}
}

// rows are some rows of A, or columns from to to of them, as they are stored.
func (p *patches) rows(s *Space, a f32.Values, first, count, from, to int) f32.Values {
	n := to - from
	if a.Half == nil {
		rows := grow(&s.image, count*n)
		for i := range count {
			img, place := (first+i)/p.places, (first+i)%p.places
			gather(p, rows[i*n:][:n], a.Full[img*p.sizeA*p.run:], place, p.run, from, to)
		}
		return f32.Values{Full: rows}
	}
	if cap(s.halves) < 2*count*n {
		s.halves = make([]byte, 2*count*n)
	}
	rows := s.halves[:2*count*n]
	for i := range count {
		img, place := (first+i)/p.places, (first+i)%p.places
		gather(p, rows[2*i*n:][:2*n], a.Half[2*img*p.sizeA*p.run:], place, 2*p.run, 2*from, 2*to)
	}
	return f32.Values{Half: rows}
}

// round rounds n pixels, which are rows of A.
func (p *patches) round(dst []float32, stride int, a f32.Values, n int) {
	words := f32.RoundedLen(p.run)
	if stride == words && p.run%2 == 0 {
		a.Along(dst, n*p.run)
		return
	}
	for i := range n {
		a.From(i*p.run).Along(dst[i*stride:][:words], p.run)
	}
}

// finish is what a convolution does behind the product.
func finish(y, bias []float32, relu bool) {
	switch {
	case bias != nil:
		f32.BiasReLU(y, bias, relu)
	case relu:
		f32.ReLU(y, y)
	}
}

// rounded are the products of a convolution that are done with operands rounded to
// bfloat16; the others are nil, or false.
type rounded struct {
	g       Geom
	forward *patches
	// back has a product for each phase of a stride: the pixels that are as far from
	// where a window began, by the same taps. What no window read is of none.
	back    []phase
	weights *patches // of x, as forward
}

type phase struct {
	*patches
	windows []int // which tap of a window is a tap of the phase
}

const (
	// With fewer channels moving them costs more than multiplying them.
	roundedChannels = 32
	// With fewer terms a sum is over before the tile of C has been read and written.
	roundedTermsLeast = 64
	// Winograd's algorithm is faster unless weights are at least so large, and so many
	// positions of an image at most are there for each time that they are.
	roundedWeights, roundedPositions = 256 * 256, 64
)

// newRounded plans the products that are worth it. That depends on the geometry alone,
// and on whether it is one of those for Winograd's algorithm.
func newRounded(g Geom, winograd bool) *rounded {
	worth := min(g.In, g.Out) >= roundedChannels && g.depth() >= roundedTermsLeast
	if winograd {
		times := g.In * g.Out / roundedWeights
		worth = worth && times > 0 && g.OutH()*g.OutW() <= roundedPositions*times
	}
	// The phases of a stride have few taps each.
	return planRounded(g, worth, worth && (g.Stride == 1 || g.In >= 2*roundedChannels), worth)
}

// planRounded plans what is asked for. A gradient of the data from an odd number of
// outputs is not to be had: two neighbours along k share a word.
func planRounded(g Geom, forward, back, weights bool) *rounded {
	r := &rounded{g: g}
	if forward || weights {
		oh, ow := g.OutH(), g.OutW()
		p := newPatches(oh*ow, g.taps(), g.In, g.Out, g.H*g.W, oh*ow, func(i, k int) int {
			return pixel(i/ow*g.Stride-g.Pad+k/g.Kernel, i%ow*g.Stride-g.Pad+k%g.Kernel, g.H, g.W)
		}, nil)
		if p.width = roundedPanel; forward {
			r.forward = p
		}
		if weights {
			r.weights = p
		}
	}
	if back && g.Out%2 == 0 {
		r.back = phases(g)
	}
	return r
}

// phases plans the gradient of the data.
func phases(g Geom) (all []phase) {
	oh, ow := g.OutH(), g.OutW()
	for y0 := range min(g.Stride, g.H) {
		for x0 := range min(g.Stride, g.W) {
			var windows []int
			for k := g.taps() - 1; k >= 0; k-- { // neighbours in memory one behind the other
				if (y0+g.Pad-k/g.Kernel)%g.Stride == 0 && (x0+g.Pad-k%g.Kernel)%g.Stride == 0 {
					windows = append(windows, k)
				}
			}
			var to []int32
			for y := y0; y < g.H; y += g.Stride {
				for x := x0; x < g.W; x += g.Stride {
					to = append(to, int32(y*g.W+x))
				}
			}
			if len(windows) == 0 {
				continue
			}
			p := newPatches(len(to), len(windows), g.Out, g.In, oh*ow, g.H*g.W, func(i, k int) int {
				y, x := int(to[i])/g.W+g.Pad-windows[k]/g.Kernel, int(to[i])%g.W+g.Pad-windows[k]%g.Kernel
				if y < 0 || x < 0 {
					return -1
				}
				return pixel(y/g.Stride, x/g.Stride, oh, ow)
			}, to)
			if g.Stride == 1 {
				p.to = nil
			}
			all = append(all, phase{p, windows})
		}
	}
	return all
}

// pixel is the index of a pixel of an image, -1 beyond its edges.
func pixel(y, x, h, w int) int {
	if y < 0 || y >= h || x < 0 || x >= w {
		return -1
	}
	return y*w + x
}

// packForward rounds the weights of outputs o0 to o1, all in one panel, and puts them
// side by side.
func (r *rounded) packForward(s *Space, o0, o1 int, dst, w []float32) {
	depth, words := r.g.depth(), f32.RoundedLen(r.g.depth())
	s.strip = grow(&s.strip, (o1-o0)*words)
	for o := o0; o < o1; o++ {
		f32.RoundAlong(s.strip[(o-o0)*words:][:words], w[o*depth:][:depth])
	}
	panel := o0 / r.forward.width * r.forward.width
	f32.Transpose(dst[panel*words+o0-panel:], min(r.forward.width, r.g.Out-panel), s.strip, words, o1-o0, words)
}

func (r *rounded) backLen() (n int) {
	for _, p := range r.back {
		n += p.packLen()
	}
	return n
}

// packBack rounds the weights of outputs o0 to o1, where o0 is even, phase by phase and
// tap by tap.
func (r *rounded) packBack(o0, o1 int, dst, w []float32) {
	in, depth := r.g.In, r.g.depth()
	for _, p := range r.back {
		for _, k := range p.windows {
			f32.RoundAcross(dst[f32.RoundedLen(o0)*in:], in, w[o0*depth+k*in:], depth, in, o1-o0)
			dst = dst[f32.RoundedLen(r.g.Out)*in:]
		}
	}
}

// backward is as of Plan.BackwardData.
func (r *rounded) backward(s *Space, packed []float32, dy f32.Values, dx []float32, n int) {
	if r.g.Stride > 1 {
		clear(dx[:n*r.g.inLen()])
	}
	for _, p := range r.back {
		p.do(s, packed, nil, false, dy, dx, n)
		packed = packed[p.packLen():]
	}
}

const (
	// roundedPart is about how many weights are worth a product of their own, rather than
	// sums of some images that have to be added up.
	roundedPart = 1 << 15
	// roundedTerms is how many positions are added up without a break: those of a block
	// of f32.GemmRounded.
	roundedTerms = 320
)

// parts is how many pieces the weights' gradient is cut into, and whether along its
// rows, the outputs.
func (r *rounded) parts() (n int, rows bool) {
	return max(1, min(r.g.Out*r.g.depth()/roundedPart, weightPieces)), r.g.Out >= r.g.depth()
}

// lanes is the number of parts a batch of n is cut into.
func (r *rounded) lanes(n int) int {
	parts, _ := r.parts()
	return max(1, min(n, (weightPieces+parts-1)/parts))
}

// pieces is as of Plan.WeightPieces.
func (r *rounded) pieces(n int) (pieces, floats int) {
	parts, _ := r.parts()
	lanes := r.lanes(n)
	if lanes > 1 {
		floats = lanes * r.g.Out * r.g.depth()
	}
	return lanes * parts, floats
}

// piece is as of Plan.BackwardWeights: for each block of positions of a lane's images in
// turn, dw += dyᵀ·x.
func (r *rounded) piece(s *Space, piece int, dw, part []float32, x, dy f32.Values, n int) {
	p, out, depth := r.weights, r.g.Out, r.g.depth()
	parts, rows := r.parts()
	lanes := r.lanes(n)
	lane, k := piece%lanes, piece/lanes
	if lanes > 1 {
		dw = part[lane*out*depth:]
	}
	o0, o1, c0, c1 := 0, out, 0, depth
	if rows {
		o0, o1 = k*out/parts, (k+1)*out/parts
	} else {
		c0, c1 = k*depth/parts, (k+1)*depth/parts
	}
	outs, cols := o1-o0, c1-c0
	dw = dw[o0*depth+c0:]
	from, end := lane*n/lanes*p.places, (lane+1)*n/lanes*p.places
	if from == end {
		for o := range outs {
			clear(dw[o*depth:][:cols])
		}
	}
	for q := from; q < end; q += roundedTerms {
		count := min(roundedTerms, end-q)
		words := f32.RoundedLen(count)
		s.left, s.strip = grow(&s.left, words*outs), grow(&s.strip, words*cols)
		dy.From(q*out+o0).Across(s.left, outs, out, outs, count)
		if p.whole {
			x.From(q*p.run+c0).Across(s.strip, cols, p.run, cols, count)
		} else {
			for i := 0; i < count; i += 2 {
				both := min(2, count-i)
				p.rows(s, x, q+i, both, c0, c1).Across(s.strip[f32.RoundedLen(i)*cols:], cols, cols, cols, both)
			}
		}
		f32.GemmRounded(1, true, false, outs, cols, count, s.left, outs, s.strip, cols, q > from, dw, depth)
	}
}
