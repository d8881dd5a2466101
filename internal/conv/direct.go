package conv

// direct is the sum
//
//	c[place, o] = Σ over taps of the place, l < run:  a[place + tap, l] · w[tap, l, o]
//
// which both the convolution and its transpose by the data are: the kernel is
// told where each row of a tile begins and steps from tap to tap.
//
// The terms of a place are cut into blocks, a part of each tap's run, so that
// 16 columns of a block's weights stay in the first cache while tiles go by;
// partial sums wait in C. What the tiles read stays in the second: large images
// are done some rows at a time, and the block's channels copied together where
// there are others between them, because addresses that are a power of two apart
// share few places in a cache.
type direct struct {
	run, taps    int
	cols         int // channels of C
	sizeA, sizeC int // of an image
	blocks       []block
	gathered     int     // pixels of A are copied together this far apart; 0 if not
	single       []*view // make up an image
	wide         *view   // several small images, or nil
}

// shape is rows, columns and channels of an image.
type shape struct{ h, w, c int }

func (s shape) len() int { return s.h * s.w * s.c }

// block is a part of each tap's run.
type block struct{ from, n int }

// view is some rows of an image, or all of several small ones: places whose taps
// are the same in each image fill tiles without a rest.
type view struct {
	*tiling
	images       int
	from, pixels int           // what it reads of each image, if gathered
	segs         [][][]segment // for each block and group of tiles
}

const (
	// maxRun bounds a segment where rows may be excused, and channels where
	// pixels may be.
	maxRun = 2048
	// blockTerms is about the number of terms of a block: 20 KiB of weights.
	blockTerms = 320
	// viewFloats is about how much of a block is read together: 160 KiB.
	viewFloats = 40 << 10
	// A small image has at most so many places, and this many are done together.
	smallImage  = 64
	smallImages = tileRows
)

// newDirect plans a sum over places, which make rows of width, with cols channels.
// Tap k of a place lies shift[k] behind it and is run floats long, in images of
// a's shape: a pixel, or pixels if they are few.
func newDirect(places []place, width, cols int, shift []int32, run int, a shape) *direct {
	d := &direct{run: run, taps: len(shift), cols: cols, sizeA: a.len(), sizeC: len(places) * cols}
	sizeA := d.sizeA
	parts := 1
	if run == a.c {
		parts = (d.taps*run + blockTerms - 1) / blockTerms
	}
	step := min(((run+parts-1)/parts+7)&^7, maxRun)
	for from := 0; from < run; from += step {
		d.blocks = append(d.blocks, block{from, min(step, run-from)})
	}
	// Of one tap, half of each pixel finds places enough.
	if len(d.blocks) > 2 || len(d.blocks) > 1 && d.taps > 1 {
		d.gathered = step
	}
	lines := len(places) / width
	bands := min(lines, (sizeA/len(d.blocks)+viewFloats-1)/viewFloats)
	for i := range bands {
		d.single = append(d.single, d.view(places[i*lines/bands*width:(i+1)*lines/bands*width], shift, 1, a.w))
	}
	if len(places) <= smallImage && smallImages*sizeA/len(d.blocks) <= 2*viewFloats {
		d.wide = d.view(places, shift, smallImages, a.w)
	}
	return d
}

// view plans these places in a number of images.
func (d *direct) view(places []place, shift []int32, images, widthA int) *view {
	v := &view{images: images}
	stride, scale := d.sizeA, func(x int32) int32 { return x }
	if d.gathered > 0 {
		// Pixels from the first row read to the last.
		first, last := d.sizeA, 0
		for _, p := range places {
			for k := range p.taps {
				if p.taps[k] == 1 {
					at := int(p.at+shift[k]) / d.run
					first, last = min(first, at), max(last, at)
				}
			}
		}
		if first <= last {
			v.from = first / widthA * widthA
			v.pixels = (last/widthA+1)*widthA - v.from
		}
		stride = v.pixels * d.gathered
		scale = func(x int32) int32 { return x / int32(d.run) * int32(d.gathered) }
	}
	var all []place
	for i := range images {
		for _, p := range places {
			p.at = scale(p.at) - int32(v.from*d.gathered) + int32(i*stride)
			p.ct += int32(i * d.sizeC)
			all = append(all, p)
		}
	}
	v.tiling = newTiling(all)
	for _, b := range d.blocks {
		var segs [][]segment
		for _, g := range v.groups {
			s := make([]segment, 0, len(g.taps))
			for _, k := range g.taps {
				at := scale(shift[k.index])
				if d.gathered == 0 {
					at += int32(b.from)
				}
				s = append(s, segment{at, k.index * int32(b.n) * tileCols, int32(b.n), k.mask})
			}
			if len(s) == 0 {
				s = append(s, segment{})
			}
			segs = append(segs, s)
		}
		v.segs = append(v.segs, segs)
	}
	return v
}

func (d *direct) packLen() int { return panels(d.cols) * d.taps * d.run * tileCols }

// pack packs terms l0 to l1 of each tap for some panels: a panel has for each
// block, each tap, each l: 16 columns, where column o of term (k, l) is
// w[o·col + k·tap + l·row].
func (d *direct) pack(from, to, l0, l1 int, dst, w []float32, col, tap, row int) {
	for k := range d.taps {
		for p := from; p < to; p++ {
			for _, b := range d.blocks {
				lo, hi := max(l0, b.from), min(l1, b.from+b.n)
				if lo < hi {
					at := (p*d.run+b.from)*d.taps + k*b.n + lo - b.from
					interleave(dst[at*tileCols:], w[p*tileCols*col+k*tap+lo*row:], col, row, min(tileCols, d.cols-p*tileCols), hi-lo)
				}
			}
		}
	}
}

// views is the number of views of n images.
func (d *direct) views(n int) int {
	if d.wide == nil {
		return n * len(d.single)
	}
	return n/smallImages + n%smallImages
}

// at returns a view of n images and the first image it is of.
func (d *direct) at(i, n int) (v *view, image int) {
	if d.wide == nil {
		return d.single[i%len(d.single)], i / len(d.single)
	}
	if wide := n / smallImages; i >= wide {
		return d.single[0], wide*smallImages + i - wide
	}
	return d.wide, i * smallImages
}

// do computes n images of C from those of A.
func (d *direct) do(s *Space, packed, bias []float32, relu bool, a, c []float32, n int) {
	t := &s.job
	*t = job{sa: 1, sb: tileCols, pb: d.run * d.taps * tileCols, pc: tileCols, reps: 1}
	for from, total := 0, d.views(n); from < total; {
		// As many views as are read from the second cache.
		to, floats := from, 0
		for to < total && (to == from || floats < viewFloats) {
			v, _ := d.at(to, n)
			floats += v.images * d.sizeA / len(d.single) / len(d.blocks)
			to++
		}
		for j, b := range d.blocks {
			if d.gathered > 0 {
				d.gather(s, b, a, from, to, n)
			}
			t.add = j > 0
			last := j == len(d.blocks)-1
			t.relu = relu && last
			for p, count := 0, 0; p < panels(d.cols); p += count {
				// A panel that is not whole has a job of its own.
				count = 1
				if whole := d.cols/tileCols - p; whole > 0 {
					count = together(whole)
				}
				first := p * tileCols
				t.panels = count
				t.b = packed[(p*d.run+b.from)*d.taps*tileCols:]
				t.bias = nil
				if bias != nil && last {
					t.bias = s.biasOf(bias, first)
				}
				strip := s.strip
				for i := from; i < to; i++ {
					v, image := d.at(i, n)
					if d.gathered > 0 {
						t.a, strip = strip, strip[v.images*v.pixels*d.gathered:]
					} else {
						t.a = a[image*d.sizeA:]
					}
					t.c = c[image*d.sizeC+first:]
					for k := range v.groups {
						g := &v.groups[k]
						t.rows, t.segs = g.rows, v.segs[j][k]
						t.at, t.ct = v.at[g.lo:g.hi], v.ct[g.lo:g.hi]
						if d.cols-first >= tileCols {
							tiles(t)
						} else {
							s.narrow(d.cols - first)
						}
					}
				}
			}
		}
		from = to
	}
}

// gather copies a block's channels of what views read, one view behind the other.
func (d *direct) gather(s *Space, b block, a []float32, from, to, n int) {
	size := 0
	for i := from; i < to; i++ {
		v, _ := d.at(i, n)
		size += v.images * v.pixels * d.gathered
	}
	s.strip = grow(&s.strip, size+1)
	dst := s.strip
	for i := from; i < to; i++ {
		v, image := d.at(i, n)
		for k := range v.images {
			src := a[(image+k)*d.sizeA+v.from*d.run+b.from:]
			for p := range v.pixels {
				copy(dst[p*d.gathered:][:b.n], src[p*d.run:])
			}
			dst = dst[v.pixels*d.gathered:]
		}
	}
}
