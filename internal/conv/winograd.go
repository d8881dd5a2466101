package conv

import "slices"

// Winograd's minimal filtering, F(4×4, 3×3) and F(2×2, 5×5): a tile of 4×4 outputs, which
// takes 144 products a channel pair, is made with 36, and one of 2×2, which takes 100, too.
// With d the 6×6 inputs of a tile and g the weights,
//
//	y = Aᵀ · [ Σ over input channels: (G·g·Gᵀ) ⊙ (Bᵀ·d·B) ] · A
//
// where the sums, one for each of 36 planes, are matrix products over the tiles
// of many images. The matrices are those of Toom and Cook for the points 0, ±a,
// ±b and infinity (Lavin and Gray 2015). They have a = 1, b = 2; with a = 5/8 and
// b = 3/2, near the best of Alam et al. 2022, rounding is 2.5 times less, and
// squares and products are exact still. For 16 to 64 channels it is 2.3 to 2.7 times that
// of a plain sum, and 3.4 to 4.6 times in gradients of weights.
//
// An error is relative to what passes through the transforms: with |·| entry by
// entry, for c input channels, at most about
//
//	(c + 40) · 2^-24 · |Aᵀ| · [ Σ (|G|·|g|·|Gᵀ|) ⊙ (|Bᵀ|·|d|·|B|) ] · |A|
//
// so an output has an error although its own inputs are 0, if others of the
// tile are not; and a NaN or infinity takes its whole tile with it.
type winograd struct {
	form     *form
	assembly int // which of the kernels do it
	h, w, in int // what is read
	oh, ow   int // what is written
	out      int
	tiles    int   // of an image
	from, to tiled // where they read and write
	chunk    int   // tiles done together
	rows     [2][]int32
}

// tiled is an image in tiles of side×side pixels, which may reach beyond it and overlap.
type tiled struct {
	side        int
	offs        []int32 // of each pixel of each tile; −1 beyond the image
	corners     []corner
	pixel, line int // floats from one to the next
}

// corner is the same in short: where the first pixel of a tile is or would be, and a bit for
// each of its rows and columns that are in the image. Assembly knows its fields.
type corner struct {
	at         int32
	rows, cols uint16
}

// add puts a tile whose first pixel is (y, x) of an h×w image.
func (t *tiled) add(y, x, h, w int) {
	c := corner{at: int32(y*t.line + x*t.pixel)}
	for i := range t.side {
		if y+i >= 0 && y+i < h {
			c.rows |= 1 << i
		}
		if x+i >= 0 && x+i < w {
			c.cols |= 1 << i
		}
	}
	for i := range t.side {
		for j := range t.side {
			off := int32(-1)
			if c.rows>>i&1 == 1 && c.cols>>j&1 == 1 {
				off = c.at + int32(i*t.line+j*t.pixel)
			}
			t.offs = append(t.offs, off)
		}
	}
	t.corners = append(t.corners, c)
}

// of are the offsets of tiles from one on.
func (t *tiled) of(tile int) []int32 { return t.offs[tile*t.side*t.side:] }

const (
	winoSide   = 6                   // of a tile that is read
	winoIn     = winoSide * winoSide // its pixels, and planes
	winoFloats = 36 * 16
)

// winogradGain is the least number of products a channel pair and image that
// must be saved: packing takes four times as long and memory.
const winogradGain = 50

// newWinograd plans the convolution of h×w images of in channels with kernel×kernel
// windows and this padding, or returns nil where it is not worth it: that
// depends on the geometry alone.
func newWinograd(kernel, h, w, in, out, pad int) *winograd {
	which := slices.IndexFunc(forms[:], func(f form) bool { return f.taps == kernel })
	if which < 0 || pad < 0 || pad >= kernel || in%8 != 0 || out%8 != 0 || max(in, out) > maxRun {
		return nil
	}
	f := &forms[which]
	oh, ow := h+2*pad-kernel+1, w+2*pad-kernel+1
	th, tw := (oh+f.side-1)/f.side, (ow+f.side-1)/f.side
	valid := func(n, on int) (sum int) {
		for o := range on {
			for k := range kernel {
				if i := o + k - pad; i >= 0 && i < n {
					sum++
				}
			}
		}
		return sum
	}
	if valid(h, oh)*valid(w, ow)-winoIn*th*tw < winogradGain {
		return nil
	}
	g := &winograd{form: f, assembly: which, h: h, w: w, in: in, oh: oh, ow: ow, out: out, tiles: th * tw}
	g.from = tiled{side: winoSide, pixel: in, line: w * in}
	g.to = tiled{side: f.side, pixel: out, line: ow * out}
	for ty := range th {
		for tx := range tw {
			g.from.add(f.side*ty-pad, f.side*tx-pad, h, w)
			g.to.add(f.side*ty, f.side*tx, oh, ow)
		}
	}
	g.chunk = min(max(chunkFloats/(winoIn*(in+g.width())), 4), 16) * tileRows
	for i := range g.chunk {
		g.rows[0] = append(g.rows[0], int32(i*in))
		g.rows[1] = append(g.rows[1], int32(i*g.width()))
	}
	return g
}

// chunkFloats is about how much of both sides of the products is worked on,
// over the rows of a tile: some 512 KiB.
const chunkFloats = 20 << 10

func (g *winograd) panels() int { return panels(g.out) }
func (g *winograd) width() int  { return roundUp(g.out) }

// Planes that follow on each other would be powers of two apart, where all 36 fall
// into one or two sets of the first cache. So some floats lie between them.
const (
	planeGap  = 16
	weightGap = 48
)

// planeW is from one plane of the transformed weights to the next.
func (g *winograd) planeW() int { return g.in*g.width() + weightGap }

// packLen is for planes of panels of the transformed weights.
func (g *winograd) packLen() int { return winoIn * g.planeW() }

// pack transforms the weights of inputs l0 to l1 for some panels, where that of
// output o, tap k and input i is w[o·col + k·tap + i·row]; turn takes the taps
// from last to first.
func (g *winograd) pack(s *Space, from, to, l0, l1 int, dst, w []float32, col, tap, row int, turn bool) {
	size := (l1 - l0) * tileCols
	taps := g.form.taps * g.form.taps
	s.strip = grow(&s.strip, taps*size)
	apart := func(step int) []int32 { // where taps are
		for k := range taps {
			s.offs[k] = int32(k * step)
			if turn {
				s.offs[k] = int32((taps - 1 - k) * step)
			}
		}
		return s.offs[:taps]
	}
	for p := from; p < to; p++ {
		v := dst[(p*g.in+l0)*tileCols:]
		// 16 outputs that lie together need not be brought together.
		if col == 1 && (p+1)*tileCols <= g.out && g.stridedWeightsIn(apart(tap), w[p*tileCols+l0*row:], v, g.planeW(), row, l1-l0) {
			continue
		}
		for k := range taps {
			interleave(s.strip[k*size:], w[p*tileCols*col+k*tap+l0*row:], col, row, min(tileCols, g.out-p*tileCols), l1-l0)
		}
		g.weightsIn(apart(size), s.strip, v, g.planeW(), size, s)
	}
}

// do computes n images.
func (g *winograd) do(s *Space, packed, bias []float32, relu bool, a, c []float32, n int) {
	sizeA, sizeC, width := g.h*g.w*g.in, g.oh*g.ow*g.out, g.width()
	total := n * g.tiles
	planeV, planeM := g.chunk*g.in+planeGap, g.chunk*width+planeGap
	s.strip = grow(&s.strip, winoIn*planeV)
	s.sums = grow(&s.sums, winoIn*planeM)
	v, m := s.strip, s.sums
	t := &s.job
	*t = job{sa: 1, sb: tileCols, pb: g.in * tileCols, pc: tileCols, reps: 1, segs: s.segs[:1]}
	for t0 := 0; t0 < total; t0 += g.chunk {
		count := min(g.chunk, total-t0)
		for i := 0; i < count; {
			img, k := (t0+i)/g.tiles, (t0+i)%g.tiles
			run := min(g.tiles-k, count-i)
			g.inputsIn(run, k, a[img*sizeA:(img+1)*sizeA], v[i*g.in:], planeV, g.in, g.in, s)
			i += run
		}
		// Rows behind the last hold what the chunk before left there.
		tall, short := cover(count)
		six := tall * tileRows
		for k := range winoIn {
			for p := 0; p < g.panels(); p += t.panels {
				t.panels = together(g.panels() - p)
				for from := 0; from < g.in; from += winoTerms {
					s.segs[0] = segment{int32(from), int32(from * tileCols), int32(min(winoTerms, g.in-from)), allRows}
					t.add = from > 0
					t.a, t.b, t.c = v[k*planeV:], packed[k*g.planeW()+p*g.in*tileCols:], m[k*planeM+p*tileCols:]
					t.rows, t.at, t.ct = tileRows, g.rows[0][:six], g.rows[1][:six]
					tiles(t)
					t.rows, t.at, t.ct = 4, g.rows[0][six:six+4*short], g.rows[1][six:six+4*short]
					tiles(t)
				}
			}
		}
		for i := 0; i < count; {
			img, k := (t0+i)/g.tiles, (t0+i)%g.tiles
			run := min(g.tiles-k, count-i)
			g.outputsOut(run, k, c[img*sizeC:(img+1)*sizeC], m[i*width:], planeM, width, g.out, s, bias, relu)
			i += run
		}
	}
}

// winoTerms is how many terms a panel of weights in the first cache has.
const winoTerms = 256
