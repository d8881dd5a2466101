package f32

import "sync"

// Blocking, after BLIS. The micro-kernel multiplies a panel of 6 rows of A by
// a panel of 16 columns of B, both packed so that it reads them from first to
// last. Around it:
//
//	for each block of columns (colBlock)         B's panels live in L3 or L2
//	  for each block of k (at most depth)        one panel of B lives in L1
//	    pack the block of B
//	    for each block of rows (rowBlock)        A's panels live in L2
//	      pack the block of A
//	      for each panel of B, each panel of A:  micro-kernel
//
// A is packed again for each block of columns unless all of it is small.

const (
	tileRows = 6
	tileCols = 16
	depth    = 256           // longest block of k: 16 KiB of B, 6 KiB of A
	rowBlock = 40 * tileRows // with depth: 240 KiB of A
	colBlock = 1024          // with depth: 1 MiB of B
	// With one block of rows a panel of B is used once: keep the block smaller.
	narrowBlock = 512
	keepA       = 1 << 18 // floats of packed A worth keeping for all columns
)

// workspace is the scratch memory of one running product.
type workspace struct {
	a, b []float32
	tile [tileRows * tileCols]float32
}

var spaces struct {
	sync.Mutex
	free []*workspace
}

// maxSpaces bounds the memory kept: at most about 2 MiB each.
const maxSpaces = 64

func getSpace() *workspace {
	spaces.Lock()
	defer spaces.Unlock()
	if n := len(spaces.free); n > 0 {
		w := spaces.free[n-1]
		spaces.free = spaces.free[:n-1]
		return w
	}
	return new(workspace)
}

func putSpace(w *workspace) {
	spaces.Lock()
	defer spaces.Unlock()
	if spaces.free == nil {
		spaces.free = make([]*workspace, 0, maxSpaces)
	}
	if len(spaces.free) < maxSpaces {
		spaces.free = append(spaces.free, w)
	}
}

func grow(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}

// run computes rows i0 to i1 and columns j0 to j1 of C. i0 must be a multiple
// of tileRows and j0 of tileCols.
func (p *product) run(i0, i1, j0, j1 int) {
	if p.k == 0 || p.beta != 0 && p.beta != 1 {
		p.scale(i0, i1, j0, j1)
	}
	if p.k == 0 {
		return
	}
	m, n := i1-i0, j1-j0
	kb := roundUp((p.k+depthBlocks(p.k)-1)/depthBlocks(p.k), 8)
	mb, nb := min(rowBlock, roundUp(m, tileRows)), min(colBlock, roundUp(n, tileCols))
	if m <= rowBlock {
		nb = min(nb, narrowBlock)
	}
	kd := min(kb, p.k)
	sizeA, keep := mb*kd, false
	if whole := roundUp(m, tileRows) * p.k; n > nb && whole <= keepA {
		sizeA, keep = whole, true
	}
	w := getSpace()
	w.a = grow(w.a, sizeA+8) // a transpose overshoots its panel by two
	w.b = grow(w.b, nb*kd)
	for j := j0; j < j1; j += nb {
		nj := min(nb, j1-j)
		for q := 0; q < p.k; q += kb {
			kq := min(kb, p.k-q)
			add := q > 0 || p.beta != 0
			pack(w.b, tileCols, !p.tb, p.b, p.ldb, j, nj, q, kq)
			for i := i0; i < i1; i += mb {
				mi := min(mb, i1-i)
				pa := w.a
				if keep {
					pa = w.a[roundUp(m, tileRows)*q+(i-i0)*kq:]
				}
				if !keep || j == j0 {
					pack(pa, tileRows, p.ta, p.a, p.lda, i, mi, q, kq)
				}
				for jr := 0; jr < nj; jr += tileCols {
					pb := w.b[jr*kq : (jr+tileCols)*kq]
					for ir := 0; ir < mi; ir += tileRows {
						p.tile(w, kq, pa[ir*kq:(ir+tileRows)*kq], pb, i+ir, j+jr, min(tileRows, mi-ir), min(tileCols, nj-jr), add)
					}
				}
			}
		}
	}
	putSpace(w)
}

// depthBlocks is the number of blocks k is cut into, all but the last of one
// length.
func depthBlocks(k int) int { return (k + depth - 1) / depth }

// scale multiplies a part of C by beta, or clears it.
func (p *product) scale(i0, i1, j0, j1 int) {
	if p.flip {
		i0, i1, j0, j1 = j0, j1, i0, i1
	}
	if p.beta == 1 {
		return
	}
	for i := i0; i < i1; i++ {
		row := p.c[i*p.ldc+j0 : i*p.ldc+j1]
		if p.beta == 0 {
			clear(row)
		} else {
			Scale(row, p.beta)
		}
	}
}

// tile computes one tile of C, rows×cols at (i, j), from its two panels.
// Tiles that the kernel cannot write in place go through w.tile.
func (p *product) tile(w *workspace, k int, a, b []float32, i, j, rows, cols int, add bool) {
	full := tileRows
	if rows <= 4 {
		full = 4
	}
	if rows == full && cols == tileCols && !p.flip {
		micro(full, k, a, b, p.alpha, p.c[i*p.ldc+j:], p.ldc, add)
		return
	}
	t := &w.tile
	micro(full, k, a, b, p.alpha, t[:], tileCols, false)
	if p.flip {
		for y := range cols {
			c := p.c[(j+y)*p.ldc+i:][:rows]
			for x := range c {
				if v := t[x*tileCols+y]; add {
					c[x] += v
				} else {
					c[x] = v
				}
			}
		}
		return
	}
	for x := range rows {
		c, r := p.c[(i+x)*p.ldc+j:][:cols], t[x*tileCols:][:cols]
		if add {
			Add(c, r)
		} else {
			copy(c, r)
		}
	}
}

// pack copies n vectors of length k, numbered from first and starting at
// element p0, into panels of width vectors each: dst[panel][p][i]. Vector i's
// element p is src[p*ld+i] if across, else src[i*ld+p]. What a last, narrow
// panel holds beyond n is arbitrary, and computed with to no effect.
func pack(dst []float32, width int, across bool, src []float32, ld, first, n, p0, k int) {
	if !across {
		for i := 0; i < n; i += width {
			packT(dst[i*k:], width, src[(first+i)*ld+p0:], ld, min(width, n-i), k)
		}
		return
	}
	// A few rows at a time over all panels: the parts of a row share lines.
	const rows = 16
	for p := 0; p < k; p += rows {
		s, r := src[(p0+p)*ld+first:], min(rows, k-p)
		for i := 0; i < n; i += width {
			copyRows(dst[i*k+p*width:], width, s[i:], ld, min(width, n-i), r)
		}
	}
}

// copyRowsGo copies n parts of rows, cnt long and ld apart, width apart.
func copyRowsGo(dst []float32, width int, src []float32, ld, cnt, n int) {
	for p := range n {
		copy(dst[p*width:][:cnt], src[p*ld:][:cnt])
	}
}

// packT packs one panel of vectors that lie along rows: the transpose of
// cnt×k into k×width.
func packT(d []float32, width int, src []float32, ld, cnt, k int) {
	done := 0
	if k >= 8 {
		for i := 0; i < cnt; i += 8 {
			done = transpose(d[i:], width, src[i*ld:], ld, min(8, cnt-i), k)
		}
	}
	for p := done; p < k; p++ {
		for i := range cnt {
			d[p*width+i] = src[i*ld+p]
		}
	}
}
