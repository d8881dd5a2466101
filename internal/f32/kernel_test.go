package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/cpu"
	"github.com/gradlab/gradlab/internal/portable"
)

// shaped are kernels in plain Go with the tiles of AVX-512, which few machines
// have: so that what cuts and packs for them is tested everywhere.
var shaped = []*kernel{
	{name: "plain-12x32", rows: 12, cols: 32, heights: []int{12, 10, 8, 6, 4, 3, 2, 1}, twin: microGo},
	{name: "plain-8x48", rows: 8, cols: 48, heights: []int{8, 6, 5, 4, 3, 2, 1}, twin: microGo},
}

// runnable are the kernels of some families that this machine can run.
func runnable(families [][]*kernel) (all []*kernel) {
	for _, f := range families {
		if cpu.Has(f[0].needs) {
			all = append(all, f...)
		}
	}
	return all
}

// eachKernel runs a test with each kernel this machine can run and each shape
// of tile, and with a choice of shapes.
func eachKernel(t *testing.T, f func(t *testing.T)) {
	old := families
	defer func() { families = old }()
	for _, kr := range append(runnable(old), shaped...) {
		families = [][]*kernel{{kr}}
		t.Run(kr.name, f)
	}
	families = [][]*kernel{append([]*kernel{plain}, shaped...)}
	t.Run("plain-choice", f)
}

// Kernels of one family want one thing of the processor, at any height.
func TestFamiliesNeedOneThing(t *testing.T) {
	needs := map[string]cpu.Features{}
	for _, k := range cpu.Kernels()["f32"] {
		needs[k.Name] = k.Needs
	}
	for prefix, kr := range map[string]*kernel{"avx2x16x": avx2, "avx512x32x": avx512x32, "avx512x48x": avx512x48, "bf16x32x": bf16x32} {
		for _, h := range kr.heights {
			if n, ok := needs[fmt.Sprint(prefix, h)]; ok && n != kr.needs {
				t.Errorf("%s needs %v at %d rows, and %v at %d", kr.name, n, h, kr.needs, kr.rows)
			}
		}
	}
}

// microTest is microGo in another way: sum by sum, each by portable.FMA.
func microTest(cols, rows int, x *call) {
	if len(x.packed) > 0 {
		for p := range x.k {
			copy(x.packed[p*cols:][:cols], x.b[p*x.bStep:])
		}
	}
	for t := range x.tiles {
		for i := range rows {
			for j := range x.width {
				var s float32
				for p := range x.k {
					s = portable.FMA(x.a[t*x.aTile+i*x.aRow+p*x.aStep], x.b[p*x.bStep+j], s)
				}
				c := &x.c[(t*rows+i)*x.cRow+j]
				if v := float32(x.alpha * s); x.add {
					*c += v
				} else {
					*c = v
				}
			}
		}
	}
}

// newCall returns something to do for a kernel: operands packed or in place,
// whole tiles or edges, and what is not to be touched is NaN.
func newCall(r *rand.Rand, cols, rows int) *call {
	x := &call{k: 1 + r.IntN(20), tiles: 1 + r.IntN(4), alpha: []float32{1, -0.75}[r.IntN(2)], add: r.IntN(2) == 0, width: cols}
	switch r.IntN(3) {
	case 0: // packed
		x.aRow, x.aStep, x.aTile = 1, rows, rows*x.k
	case 1: // rows in place
		x.aRow, x.aStep = x.k+r.IntN(5), 1
		x.aTile = rows * x.aRow
	case 2: // columns in place
		x.aRow, x.aStep, x.aTile = 1, rows*x.tiles+r.IntN(5), rows
	}
	x.a = randVec(r, (x.tiles-1)*x.aTile+(rows-1)*x.aRow+(x.k-1)*x.aStep+1)
	x.bStep = cols
	if r.IntN(2) == 0 {
		x.bStep += r.IntN(40)
		if r.IntN(2) == 0 {
			x.packed = make([]float32, x.k*cols)
		}
	}
	x.b = randVec(r, (x.k-1)*x.bStep+cols)
	x.next, x.nextStep = x.b[len(x.b)-1:], r.IntN(2)*x.bStep
	if r.IntN(2) == 0 {
		x.width = 1 + r.IntN(cols)
		x.mask = mask(cols, x.width)
	}
	x.cRow = x.width + r.IntN(20)
	x.c = make([]float32, (x.tiles*rows-1)*x.cRow+x.width)
	Fill(x.c, float32(math.NaN()))
	if x.add {
		for i := range x.tiles * rows {
			copy(x.c[i*x.cRow:], randVec(r, x.width))
		}
	}
	return x
}

func (x *call) clone() *call {
	y := *x
	y.packed, y.c = slices.Clone(x.packed), slices.Clone(x.c)
	return &y
}

func (x *call) String() string {
	return fmt.Sprintf("k=%d tiles=%d a=%d,%d,%d bStep=%d packed=%d width=%d cRow=%d alpha=%v add=%v",
		x.k, x.tiles, x.aRow, x.aStep, x.aTile, x.bStep, len(x.packed), x.width, x.cRow, x.alpha, x.add)
}

func (x *call) equal(y *call) bool { return sameBits(x.c, y.c) && sameBits(x.packed, y.packed) }

// Every kernel of this machine, on the machine, at every height.
func TestKernelsAreWhatTheySay(t *testing.T) {
	r := newRand(21)
	for _, kr := range append(runnable(families), shaped...) {
		for _, rows := range kr.heights {
			for range 200 {
				x := newCall(r, kr.cols, rows)
				got, want := x.clone(), x.clone()
				kr.multiply(rows, got)
				microTest(kr.cols, rows, want)
				if !got.equal(want) {
					t.Fatalf("%s, %d rows, %v: other bits than specified", kr.name, rows, x)
				}
			}
		}
	}
}

// A kernel that the processor cannot run leaves its work to plain Go.
func TestKernelsThatCannotRun(t *testing.T) {
	r := newRand(22)
	defer cpu.Hide(cpu.Usable())()
	for _, kr := range []*kernel{avx2, avx512x32, avx512x48} {
		for _, rows := range kr.heights {
			x := newCall(r, kr.cols, rows)
			got, want := x.clone(), x.clone()
			kr.multiply(rows, got)
			if microTest(kr.cols, rows, want); !got.equal(want) {
				t.Fatalf("%s, %d rows, %v: other bits than specified", kr.name, rows, x)
			}
		}
	}
}

// However many rows: every row is in one tile, and there are such tiles.
func TestSplit(t *testing.T) {
	neon := &kernel{name: "6x16", rows: 6, heights: []int{6, 4, 2, 1}}
	for _, kr := range slices.Concat(runnable(families), shaped, []*kernel{neon}) {
		for m := 1; m < 100; m++ {
			full, h1, h2 := kr.split(m)
			if full*kr.rows+h1+h2 != m || h1 > 0 && !kr.has(h1) || h2 > 0 && !kr.has(h2) || full < 0 || h2 > h1 {
				t.Errorf("%s: %d rows are cut into %d·%d + %d + %d", kr.name, m, full, kr.rows, h1, h2)
			}
		}
	}
}

// Packing moves every element to its place, and touches nothing else.
func TestPacking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRand(rapid.Uint64().Draw(t, "seed"))
		heights := []int{1, 2, 3, 4, 5, 6, 8, 10, 12}
		h1, h2, k := rapid.SampledFrom(heights).Draw(t, "h1"), rapid.SampledFrom(heights).Draw(t, "h2"), rapid.IntRange(1, 40).Draw(t, "k")
		tiles, first := rapid.IntRange(1, 4).Draw(t, "tiles"), rapid.IntRange(0, 3).Draw(t, "first")
		m := first + tiles*h1 + h2
		ld := m + rapid.IntRange(0, 3).Draw(t, "ld")
		src := randVec(r, (k-1)*ld+m)

		var tall rows
		tall.cut[0].tiles, tall.cut[0].height = tiles, h1
		tall.cut[1].tiles, tall.cut[1].height = 1, h2
		const margin = 20
		dst := make([]float32, (m-first)*k+margin)
		Fill(dst, -77)
		tall.packTiles(dst, src, ld, first, k)
		at, i := 0, first
		for _, h := range append(slices.Repeat([]int{h1}, tiles), h2) {
			for p := range k {
				for y := range h {
					if dst[at] != src[p*ld+i+y] {
						t.Fatalf("element %d of column %d is not where it should be", p, i+y)
					}
					at++
				}
			}
			i += h
		}
		for _, v := range dst[at:] {
			if v != -77 {
				t.Fatal("wrote past the last tile")
			}
		}
	})
}
