package f32

import (
	"slices"

	"github.com/gradlab/gradlab/internal/cpu"
	"github.com/gradlab/gradlab/internal/portable"
)

// A kernel multiplies a few rows of A by a panel of columns of B into a tile of
// C that it holds in registers. The tile says how operands are cut and packed,
// so it is a property of the kernel, which the machine chooses.
type kernel struct {
	name    string
	needs   cpu.Features
	rows    int   // of the highest tile
	cols    int   // of every tile
	heights []int // of the tiles there are: falling, down to 1
	// run does it by assembly and returns whether the processor can; nil if there is none.
	run func(rows int, x *call) bool
	// twin is the specification, and does what run does not.
	twin func(cols, rows int, x *call)
}

// multiply computes tiles of one height.
func (kr *kernel) multiply(rows int, x *call) {
	x.check(rows, kr.cols)
	if kr.run == nil || !kr.run(rows, x) {
		kr.twin(kr.cols, rows, x)
	}
}

// call is what a kernel is to do: tiles of one height, each below the other.
// Element (i, p) of tile t of A is a[t·aTile + i·aRow + p·aStep], so A may be
// packed or not; row p of B is b[p·bStep:], cols long. Assembly knows where the
// fields are.
type call struct {
	k, tiles    int // neither is 0
	a           []float32
	aRow, aStep int
	aTile       int
	b           []float32
	bStep       int
	packed      []float32 // if any: the first tile packs B here, for the others to read
	next        []float32 // rows of B, nextStep apart, that will be wanted soon
	nextStep    int
	c           []float32
	cRow        int
	mask        *int32 // nil if all columns of the tile exist, else words: -1 for those that do, then 0
	alpha       float32
	add         bool
	flush       bool // denormals count as 0, in operands and results
	//lint:ignore U1000 used on arm64 alone
	tiny  bool // what NEON answers with flush: a result may have become 0
	width int  // the columns that exist
}

// check panics if the kernel would touch memory outside the slices.
func (x *call) check(rows, cols int) {
	_ = x.a[(x.tiles-1)*x.aTile+(rows-1)*x.aRow+(x.k-1)*x.aStep]
	_ = x.b[(x.k-1)*x.bStep+cols-1]
	_ = x.c[(x.tiles*rows-1)*x.cRow+x.width-1]
	if len(x.packed) > 0 {
		_ = x.packed[x.k*cols-1]
	}
}

// microGo is the micro-kernel in plain Go: the specification of the assembly, and what
// runs where there is none. It computes, for each tile t of x,
//
//	for i < rows, j < width:
//	    s = 0; for p < k: s += a[t·aTile + i·aRow + p·aStep] * b[p·bStep + j], rounded once
//	    c[(t·rows+i)·cRow + j] = alpha*s, plus what was there if add
//
// or, if flush, what microFlushedGo says.
func microGo(cols, rows int, x *call) {
	if x.flush {
		microFlushedGo(cols, rows, x)
		return
	}
	x.pack(cols, func(b []float32, bStep int) {
		for t := range x.tiles {
			for i := range rows {
				a, c := x.a[t*x.aTile+i*x.aRow:], x.c[(t*rows+i)*x.cRow:][:x.width]
				for j := 0; j < x.width; j += 16 {
					var s [16]float32
					for p := range x.k {
						portable.AddScaled(&s, a[p*x.aStep], (*[16]float32)(b[p*bStep+j:]))
					}
					for y, s := range s[:min(16, x.width-j)] {
						if v := float32(x.alpha * s); x.add {
							c[j+y] += v
						} else {
							c[j+y] = v
						}
					}
				}
			}
		}
	})
}

// has reports whether there are tiles of h rows.
func (kr *kernel) has(h int) bool { return slices.Contains(kr.heights, h) }

// split says how m rows are cut into tiles: full ones of the greatest height,
// then one of each height that is not 0. Short tiles leave the adders of the
// machine idle, so the last full one shares its rows with what remains.
func (kr *kernel) split(m int) (full, h1, h2 int) {
	full, rest := m/kr.rows, m%kr.rows
	if rest == 0 {
		return full, 0, 0
	}
	if full > 0 {
		if h1, h2 := kr.halves(kr.rows + rest); h1 > 0 {
			return full - 1, h1, h2
		}
	}
	if kr.has(rest) {
		return full, rest, 0
	}
	h1, h2 = kr.halves(rest)
	return full, h1, h2
}

// halves cuts m rows into two tiles as even as there are; 0, 0 if it cannot.
func (kr *kernel) halves(m int) (h1, h2 int) {
	for h := (m + 1) / 2; h < m; h++ {
		if kr.has(h) && kr.has(m-h) {
			return h, m - h
		}
	}
	return 0, 0
}

// edges are the masks of all widths: a kernel reads as many words as its tile
// is wide from where it is told.
var edges = func() (e [2 * 48]int32) {
	for i := range 48 {
		e[i] = -1
	}
	return e
}()

// mask returns the mask of a tile cols wide of which width columns exist.
func mask(cols, width int) *int32 {
	if width == cols {
		return nil
	}
	return &edges[48-width]
}
