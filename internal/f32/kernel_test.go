package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// shaped are kernels in plain Go with the tiles of AVX-512, which few machines
// have: so that what cuts and packs for them is tested everywhere.
var shaped = []*kernel{
	{
		name: "plain-12x32", rows: 12, cols: 32, heights: []int{12, 10, 8, 6, 4, 3, 2, 1},
		run: func(rows int, x *call) { microGo(32, rows, x) },
	},
	{
		name: "plain-8x48", rows: 8, cols: 48, heights: []int{8, 6, 5, 4, 3, 2, 1},
		run: func(rows int, x *call) { microGo(48, rows, x) },
	},
}

// eachKernel runs a test with each kernel this machine can run and each shape
// of tile, and with a choice of shapes.
func eachKernel(t *testing.T, f func(t *testing.T)) {
	old := usable
	defer func() { usable = old }()
	for _, kr := range append(slices.Clone(available), shaped...) {
		usable = []*kernel{kr}
		t.Run(kr.name, f)
	}
	usable = append([]*kernel{plain}, shaped...)
	t.Run("plain-choice", f)
}

// fma returns x*y+z with one rounding: the exact product and the sum rounded to
// odd in float64, which a second rounding cannot upset.
func fma(x, y, z float32) float32 {
	return float32(oddSum(float64(x)*float64(y), float64(z)))
}

func TestFMA(t *testing.T) {
	r := newRand(20)
	for range 100000 {
		x, y, z := r.Float32()-0.5, r.Float32()-0.5, (r.Float32()-0.5)*float32(math.Exp2(float64(r.IntN(40)-30)))
		exact := math.FMA(float64(x), float64(y), float64(z)) // wrong only if a tie was made
		if got := fma(x, y, z); got != float32(exact) && math.Abs(float64(got)-exact) > math.Abs(float64(float32(exact))-exact) {
			t.Fatalf("fma(%v, %v, %v) = %v, want %v", x, y, z, got, exact)
		}
	}
	// A tie of float32 that float64 makes out of something above it.
	if got := fma(1+0x1p-23, 1+0x1p-23, 0x1p24); got != 0x1p24+2 {
		t.Errorf("fma = %v, want %v", got, float32(0x1p24+2))
	}
}

// microFused is microGo with fused multiply-adds: what assembly computes, bit
// for bit.
func microFused(cols, rows int, x *call) {
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
					s = fma(x.a[t*x.aTile+i*x.aRow+p*x.aStep], x.b[p*x.bStep+j], s)
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
	for _, kr := range available {
		for _, rows := range kr.heights {
			for range 200 {
				x := newCall(r, kr.cols, rows)
				got, want := x.clone(), x.clone()
				kr.run(rows, got)
				if kr == plain {
					microGo(kr.cols, rows, want)
				} else {
					microFused(kr.cols, rows, want)
				}
				if !got.equal(want) {
					t.Fatalf("%s, %d rows, %v: other bits than specified", kr.name, rows, x)
				}
			}
		}
	}
}

// Fused or not, results agree within the bound of kernel.go.
func TestTwinsAgree(t *testing.T) {
	r := newRand(22)
	for range 300 {
		rows := 1 + r.IntN(6)
		x := newCall(r, 16, rows)
		fused, twice, size := x.clone(), x.clone(), x.clone()
		microFused(16, rows, fused)
		microGo(16, rows, twice)
		size.a, size.b = absolute(x.a), absolute(x.b)
		size.alpha, size.add = max(x.alpha, -x.alpha), false
		microFused(16, rows, size)
		for i, v := range fused.c {
			if i%x.cRow >= x.width {
				continue
			}
			slack := 2 * 0x1p-23 * math.Abs(float64(v)) // of adding to C
			if d := math.Abs(float64(v - twice.c[i])); !(d <= float64(x.k)*0x1p-23*float64(size.c[i])+slack) {
				t.Fatalf("%v: fused %v, twice rounded %v", x, v, twice.c[i])
			}
		}
	}
}

func absolute(x []float32) []float32 {
	x = slices.Clone(x)
	for i, v := range x {
		x[i] = max(v, -v)
	}
	return x
}

// However many rows: every row is in one tile, and there are such tiles.
func TestSplit(t *testing.T) {
	neon := &kernel{name: "6x16", rows: 6, heights: []int{6, 4, 2, 1}}
	for _, kr := range slices.Concat(available, shaped, []*kernel{neon}) {
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
