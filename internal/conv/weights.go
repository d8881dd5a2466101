package conv

import (
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// weights is the gradient of the weights: for each tap, the sum over positions
// of the outer product of the channels of x that it reads there and those of dy.
// A tile of it is 6 channels of the one, the left side, by 16 of the other, the
// right, which is copied in strips of 16 channels that stay in the first cache.
// The kernel walks along the output's rows as far as the tap is inside the image,
// so padding costs nothing.
//
// dw is cut into blocks that stay in the second cache, and a batch of a small dw
// into lanes besides, whose sums are added up in the end. Sums are kept tile by
// tile until then.
type weights struct {
	g Geom
	// flip puts dy on the left and x on the right, else it is the other way.
	flip bool
	// Where x has few channels the left side is all of a window, read from a
	// padded image, and there is one tap.
	window bool
	taps   int
	right  int // channels
	blocks []wblock
	sums   int // floats of all blocks
	strips []strip
	images int // of which the strips are packed together
}

// wblock is a part of dw: some left channels and some panels of right ones, for
// all taps.
type wblock struct {
	first, n   int     // of the left channels
	tall       int     // tiles of 6 rows; the others have 4
	height     int     // of all tiles
	rows       []int32 // where left channels of a window are, tile by tile
	from, to   int     // panels
	at, floats int     // in sums
}

// strip is some rows of the output, and the rows of both sides that they need.
type strip struct {
	left, right span
	segs        [][]segment // for each tap
}

// span is some rows of an image.
type span struct{ from, n int }

const (
	blockFloats    = 40 << 10 // about, of sums
	stripPositions = 256      // about, 16 KiB
	weightPieces   = 16       // at least, given as many images
)

// cover returns tiles of 6 and of 4 rows that hold n with the least to spare,
// and few short ones.
func cover(n int) (tall, short int) {
	best := math.MaxInt
	for i := range 3 {
		t := max(0, n-4*i+tileRows-1) / tileRows
		if c := tileRows*t + 4*i; c < best {
			best, tall, short = c, t, i
		}
	}
	return tall, short
}

func covered(n int) int {
	tall, short := cover(n)
	return 6*tall + 4*short
}

func newWeights(g Geom) *weights {
	w := &weights{g: g, taps: g.taps()}
	leftC := g.In
	w.right = g.Out
	switch {
	case g.In < fewChannels && g.Kernel > 1:
		w.window = true
		w.taps = 1
		leftC = g.depth()
	case covered(g.Out)*roundUp(g.In) <= covered(g.In)*roundUp(g.Out):
		w.flip = true
		leftC, w.right = g.Out, g.In
	}
	w.cut(leftC)
	w.plan()
	return w
}

// cut makes blocks, about as high as wide.
func (w *weights) cut(leftC int) {
	side := math.Sqrt(blockFloats / float64(w.taps))
	panels := panels(w.right)
	parts := func(n int, most float64) int { return max(1, int(math.Ceil(float64(n)/most-0.25))) }
	wide := parts(roundUp(w.right), max(side, blockFloats/float64(w.taps*leftC)))
	high := parts(leftC, blockFloats/float64(w.taps)/float64(roundUp(w.right)/wide))
	for i := range high {
		for j := range wide {
			b := wblock{first: i * leftC / high, from: j * panels / wide, to: (j + 1) * panels / wide, at: w.sums}
			b.n = (i+1)*leftC/high - b.first
			var short int
			b.tall, short = cover(b.n)
			b.height = 6*b.tall + 4*short
			if w.window {
				for r := range b.height {
					b.rows = append(b.rows, w.rowAt(b.first+min(r, b.n-1)))
				}
			}
			b.floats = (b.to - b.from) * w.taps * b.height * tileCols
			w.sums += b.floats
			w.blocks = append(w.blocks, b)
		}
	}
}

// rowAt is where a left channel of a window is.
func (w *weights) rowAt(c int) int32 {
	k, i := c/w.g.In, c%w.g.In
	return int32((k/w.g.Kernel*w.g.padded().W+k%w.g.Kernel)*w.g.In + i)
}

// plan makes the strips.
func (w *weights) plan() {
	g := w.g
	width, stride, halo := g.OutW(), 1, 0
	if w.flip {
		width, stride, halo = g.W, g.Stride, g.Kernel-1
	}
	most := max(1, (stripPositions/width-halo)/stride)
	count := (g.OutH() + most - 1) / most
	for i := range count {
		y0, y1 := i*g.OutH()/count, (i+1)*g.OutH()/count
		out := span{y0, y1 - y0}
		in := span{from: max(0, y0*g.Stride-g.Pad)}
		in.n = max(0, min(g.H, (y1-1)*g.Stride-g.Pad+g.Kernel)-in.from)
		st := strip{left: in, right: out}
		if w.flip {
			st = strip{left: out, right: in}
		}
		for k := range w.taps {
			st.segs = append(st.segs, w.segments(k, y0, y1, in.from))
		}
		w.strips = append(w.strips, st)
	}
	w.images = 1
	if count == 1 {
		w.images = max(1, stripPositions/max(1, w.strips[0].right.n*width))
	}
}

// segments is the walk of a tap over rows y0 to y1 of the output, where the
// strip's part of x begins with row x0.
func (w *weights) segments(tap, y0, y1, x0 int) []segment {
	g := w.g
	if w.window {
		g = g.padded()
		x0 = 0
	}
	ky, kx := tap/g.Kernel, tap%g.Kernel
	// Output columns the tap reads inside the image.
	lo := max(0, (g.Pad-kx+g.Stride-1)/g.Stride)
	hi := g.OutW()
	for hi > lo && (hi-1)*g.Stride+kx-g.Pad >= g.W {
		hi--
	}
	var out []segment
	unit := w.unit()
	sa, sb := w.steps()
	for oy := y0; oy < y1; oy++ {
		y := oy*g.Stride + ky - g.Pad
		if y < 0 || y >= g.H || lo >= hi {
			continue
		}
		left, right := (y-x0)*g.W+lo*g.Stride+kx-g.Pad, (oy-y0)*g.OutW()+lo
		if w.flip {
			left, right = right, left
		}
		s := segment{int32(left * unit), int32(right * tileCols), int32(hi - lo), allRows}
		if l := len(out) - 1; l >= 0 && int(s.a) == int(out[l].a)+int(out[l].n)*sa && int(s.b) == int(out[l].b)+int(out[l].n)*sb {
			out[l].n += s.n
			continue
		}
		out = append(out, s)
	}
	return out
}

// unit is the floats of the left side from one pixel to the next.
func (w *weights) unit() int {
	if w.window {
		return w.g.In
	}
	return tileRows
}

// steps is from one position to the next on the left and on the right.
func (w *weights) steps() (sa, sb int) {
	if w.flip {
		return w.unit(), w.g.Stride * tileCols
	}
	return w.g.Stride * w.unit(), tileCols
}

// lanes is the number of parts a batch of n is cut into.
func (w *weights) lanes(n int) int {
	return max(1, min(n, (weightPieces+len(w.blocks)-1)/len(w.blocks)))
}

// do adds up images i0 to i1 of one block in sums.
func (w *weights) do(s *Space, b *wblock, sums, x, dy []float32, i0, i1 int) {
	g := w.g
	leftShape, rightShape := shape{g.H, g.W, g.In}, shape{g.OutH(), g.OutW(), g.Out}
	left, right := x, dy
	if w.flip {
		left, right, leftShape, rightShape = right, left, rightShape, leftShape
	}
	clear(sums)
	t := &s.job
	*t = job{add: true, pc: w.taps * b.height * tileCols}
	t.sa, t.sb = w.steps()
	s.steps(b.height)
	for i := i0; i < i1; i += w.images {
		n := min(w.images, i1-i)
		t.reps = n
		var image []float32 // the left side as a whole
		if w.window {
			image = w.g.padAll(s, x[i*g.inLen():(i+n)*g.inLen()], n)
			t.arep = w.g.padded().inLen()
		}
		for k := range w.strips {
			st := &w.strips[k]
			panels, next := image, 0
			if !w.window {
				t.arep = st.left.n * leftShape.w * tileRows
				panels, next = w.packLeft(s, b, left, leftShape, st.left, i, n)
			}
			t.brep = st.right.n * rightShape.w * tileCols
			t.pb = n * t.brep
			s.strip = grow(&s.strip, min(abreast(), b.to-b.from)*t.pb)
			t.b = s.strip
			for p := b.from; p < b.to; p += t.panels {
				t.panels = together(b.to - p)
				for q := range t.panels {
					for j := range n {
						from := (i+j)*rightShape.len() + st.right.from*rightShape.w*rightShape.c + (p+q)*tileCols
						copySixteen(s.strip[q*t.pb+j*t.brep:][:t.brep], right[from:], rightShape.c, rightShape.c-(p+q)*tileCols)
					}
				}
				w.panel(s, b, st, sums[(p-b.from)*t.pc:], panels, next)
			}
		}
	}
}

// panel adds a strip's products with the right channels of a job to their sums, where the
// left sides of two tiles are next floats apart in panels, or all of it the image
// if w.window.
func (w *weights) panel(s *Space, b *wblock, st *strip, sums, panels []float32, next int) {
	t := &s.job
	for r, k := 0, 0; r < b.height; r, k = r+t.rows, k+1 {
		t.rows = tileRows
		if k >= b.tall {
			t.rows = 4
		}
		t.ct = s.rows[r:][:t.rows]
		if w.window {
			t.a, t.at = panels, b.rows[r:][:t.rows]
		} else {
			t.a, t.at = panels[k*next:], oneToSix[:t.rows]
		}
		for tap, segs := range st.segs {
			if len(segs) > 0 {
				t.segs, t.c = segs, sums[tap*b.height*tileCols:]
				tiles(t)
			}
		}
	}
}

// oneToSix is where the rows of a packed tile are.
var oneToSix = [tileRows]int32{0, 1, 2, 3, 4, 5}

// packLeft makes panels of the left side of a strip of n images from image i on,
// one a tile and next floats apart: of each pixel, 6 channels.
func (w *weights) packLeft(s *Space, b *wblock, src []float32, a shape, rows span, i, n int) (panels []float32, next int) {
	pixels := rows.n * a.w
	count := b.tall + (b.height-b.tall*tileRows)/4
	// Panels an odd number of lines apart share no places in the cache.
	next = (n*pixels*tileRows+15)/16*16 | 16
	s.left = grow(&s.left, count*next)
	for j := range n {
		from := src[(i+j)*a.len()+rows.from*a.w*a.c+b.first:]
		copySix(s.left[j*pixels*tileRows:], next, from, tileRows, a.c, pixels, b.tall)
		if short := count - b.tall; short > 0 {
			copySix(s.left[b.tall*next+j*pixels*tileRows:], next, from[b.tall*tileRows:], 4, a.c, pixels, short)
		}
	}
	return s.left, next
}

// store writes a block's sums to where they belong in dw.
func (w *weights) store(b *wblock, dw, sums []float32) {
	depth := w.g.depth()
	panel := w.taps * b.height * tileCols
	for r := range b.n {
		for tap := range w.taps {
			v := sums[(tap*b.height+r)*tileCols:]
			for p := b.from; p < b.to; p++ {
				cols := min(tileCols, w.right-p*tileCols)
				if w.flip {
					copy(dw[(b.first+r)*depth+tap*w.g.In+p*tileCols:][:cols], v)
				} else {
					d := dw[p*tileCols*depth+tap*w.g.In+b.first+r:]
					for j, v := range v[:cols] {
						d[j*depth] = v
					}
				}
				v = v[min(panel, len(v)):]
			}
		}
	}
}

// WeightPieces returns the number of pieces BackwardWeights is cut into for n
// images, and the floats of part they need together.
func (p *Plan) WeightPieces(n int) (pieces, floats int) {
	switch {
	case p.rounded.weights != nil:
		return p.rounded.pieces(n)
	case p.fastWeights != nil:
		return p.fastWeights.pieces(n)
	case p.pointwise != nil:
		return p.pointwise.pieces(n)
	}
	w := p.weights
	lanes := w.lanes(n)
	if lanes > 1 {
		floats = lanes * w.sums
	}
	return lanes * len(w.blocks), floats
}

// BackwardWeights computes one piece of the weights' gradient,
//
//	dw[o, ky, kx, i] = Σ_{n, oy, ox} dy[n, oy, ox, o] · x[n, oy·s + ky − p, ox·s + kx − p, i]
//
// in dw or, if WeightPieces asks for it, in part. When all pieces are done,
// which may be at the same time, SumWeights completes dw.
func (p *Plan) BackwardWeights(s *Space, piece int, dw, part, x, dy []float32, n int) {
	p.BackwardWeightsOf(s, piece, dw, part, f32.Values{Full: x}, f32.Values{Full: dy}, n)
}

// BackwardWeightsOf is BackwardWeights of x and dy in float32 or bfloat16.
func (p *Plan) BackwardWeightsOf(s *Space, piece int, dw, part []float32, ofX, ofDY f32.Values, n int) {
	check("BackwardWeights", n, ofX.Len(), p.g.inLen(), ofDY.Len(), p.g.outLen())
	if p.rounded.weights != nil {
		p.rounded.piece(s, piece, dw, part, ofX, ofDY, n)
		return
	}
	x, dy := floats(ofX), floats(ofDY)
	switch {
	case p.fastWeights != nil:
		p.fastWeights.piece(s, piece, dw, part, x, dy, n)
		return
	case p.pointwise != nil:
		p.pointwise.piece(s, piece, dw, part, x, dy, n)
		return
	}
	w := p.weights
	lanes := w.lanes(n)
	lane := piece % lanes
	b := &w.blocks[piece/lanes]
	i0, i1 := lane*n/lanes, (lane+1)*n/lanes
	if lanes > 1 {
		w.do(s, b, part[lane*w.sums+b.at:][:b.floats], x, dy, i0, i1)
		return
	}
	s.sums = grow(&s.sums, b.floats)
	w.do(s, b, s.sums, x, dy, i0, i1)
	w.store(b, dw, s.sums)
}

// SumWeights completes dw from part, which it spoils.
func (p *Plan) SumWeights(dw, part []float32, n int) {
	dw = dw[:p.g.Out*p.g.depth()]
	switch {
	case p.rounded.weights != nil:
		sumLanes(dw, part, p.rounded.lanes(n))
		return
	case p.fastWeights != nil:
		sumLanes(dw, part, p.fastWeights.lanes(n))
		return
	case p.pointwise != nil:
		sumLanes(dw, part, p.pointwise.lanes(n))
		return
	}
	w := p.weights
	lanes := w.lanes(n)
	if lanes == 1 {
		return
	}
	sum := part[:w.sums]
	for l := 1; l < lanes; l++ {
		f32.Add(sum, part[l*w.sums:][:w.sums])
	}
	for i := range w.blocks {
		b := &w.blocks[i]
		w.store(b, dw, sum[b.at:][:b.floats])
	}
}
