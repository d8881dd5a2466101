package conv

// slopes is the gradient of the weights by Winograd's algorithm: the transpose of
// winograd by the weights. With d the 6×6 inputs of a tile and e the gradient of its
// outputs,
//
//	dw = Gᵀ · [ Σ over tiles of all images: (A·e·Aᵀ) ⊙ (Bᵀ·d·B) ] · G
//
// where the sums, one for each of 36 planes, are products of matrices of out × tiles
// and tiles × in. A plane of each side is dense, a tile a row, so that the kernel
// walks down columns of both.
//
// An error is at most about, with |·| entry by entry and for t tiles,
//
//	(t + 40) · 2^-24 · |Gᵀ| · [ Σ (|A|·|e|·|Aᵀ|) ⊙ (|Bᵀ|·|d|·|B|) ] · |G|
//
// A batch is cut into lanes, each with sums of its own, and the output channels into
// blocks: by the geometry and the number of images alone.
type slopes struct {
	*winograd         // forward, for where tiles are
	places    []int32 // of each output channel and tap, where it is in dw
	blocks    []span  // of output channels
	chunk     int     // tiles done together
	at, ct    []int32 // rows of the products
}

const (
	// Of larger weights the sums take more memory than the products save time.
	slopeWeights = 256 * 256
	// slopeBlock is about how many output channels are done together.
	slopeBlock = 64
	// A chunk has about so many floats of both sides a plane, and at most so many
	// tiles.
	slopeFloats, slopeTiles = 6 << 10, 96
	// slopeLane is about the number of tiles that are worth sums of their own.
	slopeLane, slopeLanes = 96, 16
)

// newSlopes plans the gradient of the weights of a convolution that w does, or
// returns nil where it is not worth it: that depends on the geometry alone.
func newSlopes(w *winograd) *slopes {
	if w == nil || w.in%tileCols != 0 || w.out%tileCols != 0 || w.in*w.out > slopeWeights {
		return nil
	}
	p := &slopes{winograd: w}
	count := (w.out + slopeBlock - 1) / slopeBlock
	units, most := w.out/8, 0
	for i := range count {
		from := i * units / count * 8
		b := span{from, (i+1)*units/count*8 - from}
		p.blocks, most = append(p.blocks, b), max(most, b.n)
	}
	p.chunk = min(slopeFloats/(w.in+most), slopeTiles)
	for o := range w.out {
		for k := range p.taps() {
			p.places = append(p.places, int32((o*p.taps()+k)*w.in))
		}
	}
	for i := range most {
		p.at, p.ct = append(p.at, int32(i)), append(p.ct, int32(i*w.in))
	}
	return p
}

// taps of a window.
func (p *slopes) taps() int { return p.form.taps * p.form.taps }

// lanes is the number of parts a batch of n is cut into.
func (p *slopes) lanes(n int) int {
	return max(1, min(n, slopeLanes, n*p.tiles/slopeLane))
}

// do computes rows of dw, those of one block of output channels, from images i0
// to i1.
func (p *slopes) do(s *Space, b span, dw, x, dy []float32, i0, i1 int) {
	sizeX, sizeY := p.h*p.w*p.in, p.oh*p.ow*p.out
	planeV, planeE, planeS := p.chunk*p.in+planeGap, p.chunk*b.n+planeGap, b.n*p.in+planeGap
	s.strip, s.left, s.sums = grow(&s.strip, winoIn*planeV), grow(&s.left, winoIn*planeE), grow(&s.sums, winoIn*planeS)
	t := &s.job
	*t = job{sa: b.n, sb: p.in, pb: tileCols, pc: tileCols, reps: 1, segs: s.segs[:1]}
	tall, short := cover(b.n)
	total := (i1 - i0) * p.tiles
	if total == 0 {
		clear(dw[b.from*p.taps()*p.in:][:b.n*p.taps()*p.in])
		return
	}
	for t0 := 0; t0 < total; t0 += p.chunk {
		count := min(p.chunk, total-t0)
		for i := 0; i < count; {
			img, k := i0+(t0+i)/p.tiles, (t0+i)%p.tiles
			run := min(p.tiles-k, count-i)
			p.inputsIn(run, k, x[img*sizeX:(img+1)*sizeX], s.strip[i*p.in:], planeV, p.in, p.in, s)
			p.gradientsIn(run, k, dy[img*sizeY+b.from:(img+1)*sizeY], s.left[i*b.n:], planeE, b.n, b.n, s)
			i += run
		}
		t.add = t0 > 0
		s.segs[0] = segment{n: int32(count), mask: allRows}
		for k := range winoIn {
			for j := 0; j < p.in/tileCols; j += t.panels {
				t.panels = together(p.in/tileCols - j)
				t.a, t.b, t.c = s.left[k*planeE:], s.strip[k*planeV+j*tileCols:], s.sums[k*planeS+j*tileCols:]
				six := tall * tileRows
				t.rows, t.at, t.ct = tileRows, p.at[:six], p.ct[:six]
				tiles(t)
				t.rows, t.at, t.ct = 4, p.at[six:six+4*short], p.ct[six:six+4*short]
				tiles(t)
			}
		}
	}
	p.slopesOut(b.n, p.places[b.from*p.taps():], dw, s.sums, planeS, p.in, p.in, s)
}

// pieces is as of Plan.WeightPieces.
func (p *slopes) pieces(n int) (pieces, floats int) {
	lanes := p.lanes(n)
	if lanes > 1 {
		floats = lanes * p.out * p.taps() * p.in
	}
	return lanes * len(p.blocks), floats
}

// piece is as of Plan.BackwardWeights.
func (p *slopes) piece(s *Space, piece int, dw, part, x, dy []float32, n int) {
	lanes := p.lanes(n)
	lane := piece % lanes
	if lanes > 1 {
		size := p.out * p.taps() * p.in
		dw = part[lane*size:][:size]
	}
	p.do(s, p.blocks[piece/lanes], dw, x, dy, lane*n/lanes, (lane+1)*n/lanes)
}
