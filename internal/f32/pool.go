package f32

import "github.com/gradlab/gradlab/internal/par"

// Threads: a large product is cut into a grid of parts of C; one with a small
// C and a long k into blocks of k, whose sums are added up in order. Whoever is free
// takes the next piece.

// SetThreads is par.SetThreads.
func SetThreads(n int) { par.SetThreads(n) }

const (
	minParallel = 1 << 20 // multiply-adds below which waking a helper does not pay
	piecesEach  = 4       // pieces a thread, at most, for balance
	maxPartial  = 1 << 20 // floats of partial sums: 4 MiB
)

// job is a product on several threads.
type job struct {
	product
	gm, gn int // the grid

	sums   []float32 // of each block of k
	blocks int       // of k
	pieces int       // that share them

	// The methods as values, which are not to be allocated at every call.
	doPart, doSums func(piece, slot int)
}

var (
	team par.Team
	jobs pool[job]
)

func getJob(p *product) *job {
	j := jobs.get()
	if j == nil {
		j = new(job)
		j.doPart, j.doSums = j.part, j.sumBlocks
	}
	j.product = *p
	return j
}

func putJob(j *job) {
	j.product = product{} // keep no matrix alive
	jobs.put(j)
}

// parallel computes p on several threads.
func parallel(p *product, threads int) {
	j := getJob(p)
	if j.blocks = j.narrow(threads); j.blocks > 0 {
		j.pieces = min(j.blocks, piecesEach*threads)
		j.sums = grow(j.sums, j.blocks*j.m*j.n)
		team.Run(j.pieces, threads, j.doSums)
		j.addUp()
	} else {
		j.grid(threads)
		team.Run(j.gm*j.gn, threads, j.doPart)
	}
	putJob(j)
}

// tiles is the size of C in tiles.
func (j *job) tiles() (um, un int) {
	return (j.m + j.kr.rows - 1) / j.kr.rows, (j.n + j.kr.cols - 1) / j.kr.cols
}

// grid chooses the cheapest grid of as many parts as threads, or a few times
// that: more parts balance better, fewer pack less.
func (j *job) grid(threads int) {
	um, un := j.tiles()
	j.gm, j.gn = min(um, threads), 1
	least := -1
	for each := 1; each <= piecesEach; each *= 2 {
		parts := each * threads
		for gm := 1; gm <= min(um, parts); gm++ {
			gn := parts / gm
			if gm*gn != parts || gn > un {
				continue
			}
			m, n := (um+gm-1)/gm*j.kr.rows, (un+gn-1)/gn*j.kr.cols
			cost := each * j.cost(m, n)
			cost += cost / (16 * each) // waiting for the last one
			if least < 0 || cost < least {
				j.gm, j.gn, least = gm, gn, cost
			}
		}
	}
}

// part computes part t of the grid.
func (j *job) part(t, _ int) {
	um, un := j.tiles()
	x, y := t/j.gn, t%j.gn
	w := getSpace()
	j.run(w, um*x/j.gm*j.kr.rows, min(j.m, um*(x+1)/j.gm*j.kr.rows), un*y/j.gn*j.kr.cols, min(j.n, un*(y+1)/j.gn*j.kr.cols))
	putSpace(w)
}

// narrow returns the number of blocks of k if their sums are to be shared out,
// because C has too few tiles for the threads, else 0. Add does not flush denormals.
func (j *job) narrow(threads int) int {
	um, un := j.tiles()
	blocks := (j.k + j.depth() - 1) / j.depth()
	if j.flush || um*un >= 4*threads || blocks < 2*threads || blocks*j.m*j.n > maxPartial {
		return 0
	}
	return blocks
}

// sumBlocks computes the sums of a piece of the blocks of k.
func (j *job) sumBlocks(t, _ int) {
	w := getSpace()
	kb := j.depth()
	for block := j.blocks * t / j.pieces; block < j.blocks*(t+1)/j.pieces; block++ {
		q := block * kb
		p := j.product
		p.k, p.beta = min(kb, p.k-q), 0
		p.a, p.b = p.a[along(q, !p.ta, p.lda):], p.b[along(q, p.tb, p.ldb):]
		p.blocks(w, 0, p.m, 0, p.n, j.sums[block*p.m*p.n:], p.n)
	}
	putSpace(w)
}

// along is where element q of k begins in an operand that has k along its rows
// or not.
func along(q int, rows bool, ld int) int {
	if rows {
		return q
	}
	return q * ld
}

// addUp adds the sums to C, block by block, as a single thread would have.
func (j *job) addUp() {
	w := getSpace()
	m, n, c, ldc := j.m, j.n, j.c, j.ldc
	if j.flip {
		w.c = grow(w.c, m*n)
		c, ldc = w.c, n
		if j.beta != 0 {
			Transpose(c, n, j.c, j.ldc, n, m)
		}
	}
	if j.beta != 0 {
		scale(c, ldc, m, n, j.beta)
	}
	for block := range j.blocks {
		for i := range m {
			row, sum := c[i*ldc:][:n], j.sums[(block*m+i)*n:][:n]
			if block == 0 && j.beta == 0 {
				copy(row, sum)
			} else {
				Add(row, sum)
			}
		}
	}
	if j.flip {
		Transpose(j.c, j.ldc, c, n, m, n)
	}
	putSpace(w)
}
