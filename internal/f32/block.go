package f32

// Blocking. A kernel multiplies tiles of A, one below the other, by a panel of
// columns of B. Around it:
//
//	for each block of columns             C's part stays in L2 or L3
//	  for each block of k (at most depth) one panel of B lives in L1
//	    for each block of rows            A's part lives in L2
//	      for each panel of B:            kernels
//
// A is read where it lies, unless it lies the wrong way or its rows displace
// each other in the caches. A panel of B is packed by the first kernel that
// reads it, which at the same time asks for the next panel.

const (
	depth  = 320      // longest block of k: with it a panel of 16 columns is 20 KiB
	blockA = 60 << 10 // floats of A: 240 KiB of L2
	blockB = 1 << 18  // floats of B kept for several blocks of rows: 1 MiB
	blockC = 1024     // columns come back to for another block of k, or packed ahead
)

// depthBlock is the length of the blocks of k, but for the last: a function of
// k alone, so that bits depend on nothing else.
func depthBlock(k int) int {
	blocks := (k + depth - 1) / depth
	return min(roundUp((k+blocks-1)/blocks, 8), k)
}

// depth is the length of the blocks of k of a product: that of pairs is as of the
// elements that they are made of.
func (p *product) depth() int {
	if p.pairs {
		return (depthBlock(2*p.k) + 1) / 2
	}
	return depthBlock(p.k)
}

// run computes rows i0 to i1 and columns j0 to j1 of C.
func (p *product) run(w *workspace, i0, i1, j0, j1 int) {
	m, n := i1-i0, j1-j0
	if p.flip {
		// In scratch memory, where it lies as the kernels write it.
		w.c = grow(w.c, m*n)
		c := p.c[j0*p.ldc+i0:]
		if p.beta != 0 {
			Transpose(w.c, n, c, p.ldc, n, m)
		}
		p.blocks(w, i0, i1, j0, j1, w.c, n)
		Transpose(c, p.ldc, w.c, n, m, n)
	} else {
		p.blocks(w, i0, i1, j0, j1, p.c[i0*p.ldc+j0:], p.ldc)
	}
}

// scale multiplies an m×n matrix by beta: with beta 0, it clears what it may
// not read.
func scale(c []float32, ld, m, n int, beta float32) {
	if beta == 1 {
		return
	}
	for i := range m {
		if row := c[i*ld:][:n]; beta == 0 {
			clear(row)
		} else {
			Scale(row, beta)
		}
	}
}

// blocks computes a part of C: c, whose first element is (i0, j0).
func (p *product) blocks(w *workspace, i0, i1, j0, j1 int, c []float32, ldc int) {
	m, n := i1-i0, j1-j0
	if p.k == 0 || p.beta != 0 {
		scale(c, ldc, m, n, p.beta)
	}
	if p.k == 0 {
		return
	}
	s := p.shape(m, n)
	w.a = grow(w.a, s.floatsA)
	w.b = grow(w.b, s.floatsB)
	x := &w.call
	x.alpha, x.cRow, x.flush = p.alpha, ldc, p.flush
	for j := j0; j < j1; j += s.n {
		nj := min(s.n, j1-j)
		for q := 0; q < p.k; q += s.k {
			x.k, x.add = min(s.k, p.k-q), q > 0 || p.beta != 0
			packed := 0 // columns of B packed so far
			if s.ahead {
				packed = nj / p.kr.cols * p.kr.cols
				packPanels(w.b, p.kr.cols, p.b[q*p.ldb+j:], p.ldb, packed, x.k)
			}
			for i := i0; i < i1; i += s.m {
				mi := min(s.m, i1-i)
				rows := p.rows(w, i, mi, q, x.k)
				for jr := 0; jr < nj; jr += p.kr.cols {
					x.width = min(p.kr.cols, nj-jr)
					x.mask = mask(p.kr.cols, x.width)
					panel := w.b
					if s.keep {
						panel = w.b[jr*x.k:]
					}
					if i > i0 || jr < packed {
						x.packedB(panel, p.kr.cols)
					} else {
						p.freshB(x, panel, j+jr, q, mi)
					}
					rows.run(p.kr, x, c[(i-i0)*ldc+j-j0+jr:])
				}
			}
		}
	}
}

// shape is the size of the blocks of a product, and of its scratch memory.
type shape struct {
	m, n, k          int
	ahead            bool // B is packed a block at a time
	keep             bool // all packed panels of a block of B are kept, not just one
	floatsA, floatsB int
}

func (p *product) shape(m, n int) shape {
	s := shape{k: p.depth(), n: roundUp(n, p.kr.cols)}
	s.m = max(blockA/s.k/p.kr.rows, 1) * p.kr.rows
	if blocks := (m + s.m - 1) / s.m; blocks == 1 {
		s.m = m
	} else {
		s.m = roundUp((m+blocks-1)/blocks, p.kr.rows)
	}
	s.ahead = m > p.kr.rows && p.clashB()
	s.keep = s.ahead || s.m < m
	switch {
	case s.m < m:
		s.n = min(s.n, max(blockB/s.k/p.kr.cols, 1)*p.kr.cols)
	case s.ahead || s.k < p.k:
		s.n = min(s.n, roundUp(blockC, p.kr.cols))
	}
	if !p.inPlaceA() {
		s.floatsA = s.m*s.k + 8 // packRows writes over the end
	}
	s.floatsB = p.kr.cols * s.k
	if s.keep {
		s.floatsB = s.n * s.k
	}
	return s
}

// inPlaceA reports whether kernels read A where it lies.
func (p *product) inPlaceA() bool {
	return !p.ta && (p.lda%1024 != 0 || p.m <= p.kr.rows)
}

// l2Sets is how many sets of lines of 64 bytes the second cache has: a power of two.
var l2Sets = 1024

// clashB reports whether rows of B, as stored, fall into so few sets of L2 that
// those of one panel displace each other, 16 or more in a set.
func (p *product) clashB() bool {
	if p.tb || p.ldb%16 != 0 {
		return false
	}
	sets := l2Sets
	for lines := p.ldb / 16; lines%2 == 0 && sets > 1; lines /= 2 {
		sets /= 2
	}
	return 16*sets <= min(p.k, depth)
}

// rows is a block of rows of A: where it lies and how it is cut into tiles.
type rows struct {
	a         []float32
	row, step int // between elements; row 0: packed, for each tile its own
	cut       [3]struct{ tiles, height int }
}

// rows prepares rows i to i+m and k elements from q on.
func (p *product) rows(w *workspace, i, m, q, k int) rows {
	var r rows
	full, h1, h2 := p.kr.split(m)
	r.cut[0].tiles, r.cut[0].height = full, p.kr.rows
	r.cut[1].tiles, r.cut[1].height = min(h1, 1), h1
	r.cut[2].tiles, r.cut[2].height = min(h2, 1), h2
	if p.inPlaceA() {
		r.a, r.row, r.step = p.a[i*p.lda+q:], p.lda, 1
		return r
	}
	r.a = w.a
	if p.ta {
		r.packTiles(w.a, p.a[q*p.lda:], p.lda, i, k)
		return r
	}
	dst := w.a
	for _, c := range r.cut {
		for range c.tiles {
			packRows(dst, c.height, p.a[i*p.lda+q:], p.lda, c.height, k)
			dst, i = dst[c.height*k:], i+c.height
		}
	}
	return r
}

// run multiplies the rows by the panel of B in x, into c.
func (r *rows) run(kr *kernel, x *call, c []float32) {
	at := 0
	for _, t := range r.cut {
		if t.tiles == 0 {
			continue
		}
		if r.row > 0 {
			x.a, x.aRow, x.aStep, x.aTile = r.a[at*r.row:], r.row, r.step, t.height*r.row
		} else {
			x.a, x.aRow, x.aStep, x.aTile = r.a[at*x.k:], 1, t.height, t.height*x.k
		}
		x.tiles, x.c = t.tiles, c[at*x.cRow:]
		kr.multiply(t.height, x)
		if len(x.packed) > 0 {
			x.packedB(x.packed, kr.cols)
		}
		at += t.tiles * t.height
	}
}

// packedB has the kernels read a packed panel of B.
func (x *call) packedB(panel []float32, cols int) {
	x.b, x.bStep, x.packed = panel, cols, nil
	x.next, x.nextStep = panel, 0
}

// freshB has the kernels read the panel of B from column j and row q on, which
// m rows of A are multiplied by. The first one packs it, if it is to be packed
// and lies as it should.
func (p *product) freshB(x *call, panel []float32, j, q, m int) {
	cols := p.kr.cols
	switch {
	case p.tb:
		packRows(panel, cols, p.b[j*p.ldb+q:], p.ldb, x.width, x.k)
		x.packedB(panel, cols)
	case x.width < cols:
		copyRuns(x.width, panel, cols, p.b[q*p.ldb+j:], p.ldb, x.k, 0)
		x.packedB(panel, cols)
	default:
		x.b, x.bStep, x.packed = p.b[q*p.ldb+j:], p.ldb, nil
		if m > p.kr.rows {
			x.packed = panel[:x.k*cols]
		}
		next := x.b[cols-1:]
		if j+cols < p.n {
			next = next[1:]
		} else { // the first panel of the rows behind these, of this product or of another one
			next = p.b[min((q+x.k)*p.ldb, len(p.b)-1):]
		}
		x.next, x.nextStep = next[min(cols, len(next))-1:], p.ldb
	}
}
