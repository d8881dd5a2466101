package conv

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/cpu"
	"github.com/gradlab/gradlab/internal/portable"
)

// What assembly thinks of a job.
func TestAssemblyKnowsJobs(t *testing.T) {
	var j job
	got := []uintptr{
		unsafe.Offsetof(j.tiles), unsafe.Offsetof(j.at), unsafe.Offsetof(j.ct), unsafe.Offsetof(j.segs),
		unsafe.Offsetof(j.a), unsafe.Offsetof(j.b), unsafe.Offsetof(j.c), unsafe.Offsetof(j.sa), unsafe.Offsetof(j.sb),
		unsafe.Offsetof(j.pb), unsafe.Offsetof(j.pc), unsafe.Offsetof(j.reps), unsafe.Offsetof(j.arep), unsafe.Offsetof(j.brep),
		unsafe.Offsetof(j.bias), unsafe.Offsetof(j.add), unsafe.Offsetof(j.relu),
	}
	want := []uintptr{0, 8, 32, 56, 80, 104, 128, 152, 160, 168, 176, 184, 192, 200, 208, 232, 233}
	if !slices.Equal(got, want) {
		t.Errorf("fields of a job are at %v, the generator has them at %v", got, want)
	}
}

// What assembly thinks of a corner.
func TestAssemblyKnowsCorners(t *testing.T) {
	var c corner
	if unsafe.Offsetof(c.at) != 0 || unsafe.Offsetof(c.rows) != 4 || unsafe.Offsetof(c.cols) != 6 || unsafe.Sizeof(c) != 8 {
		t.Errorf("a corner has its fields at %d, %d and %d of %d bytes, the generator at 0, 4 and 6 of 8", unsafe.Offsetof(c.at), unsafe.Offsetof(c.rows), unsafe.Offsetof(c.cols), unsafe.Sizeof(c))
	}
}

// rowTest is job.row in another way, sum by sum.
func rowTest(t *job, k, i, p int) []float32 {
	s := make([]float32, tileCols)
	for j := range s {
		for r := range t.reps {
			for _, seg := range t.segs {
				for l := range int(seg.n) {
					v := float32(0)
					if seg.mask>>i&1 == 1 {
						v = t.a[int(t.at[k+i])+int(seg.a)+r*t.arep+l*t.sa]
					}
					s[j] = portable.FMA(v, t.b[int(seg.b)+p*t.pb+r*t.brep+l*t.sb+j], s[j])
				}
			}
		}
		if t.add {
			s[j] = t.c[int(t.ct[k+i])+p*t.pc+j] + s[j]
		}
		if t.bias != nil {
			s[j] += t.bias[p*tileCols+j]
		}
		if t.relu && s[j] <= 0 {
			s[j] = 0
		}
	}
	return s
}

// Tiles of every height and number of panels are, on every kind of processor, the sums of
// panelGo in their order, to the bit: NaN and −0 too.
func TestTilesAreAsSpecified(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		j := job{
			rows: []int{4, 6}[r.IntN(2)], panels: 1 + r.IntN(maxPanels), reps: 1 + r.IntN(3),
			sa: 1, sb: tileCols, add: r.IntN(2) == 0, relu: r.IntN(2) == 0,
		}
		if r.IntN(2) == 0 {
			j.sa, j.sb = 1+r.IntN(7), tileCols*(1+r.IntN(2))
		}
		terms := 0
		for range 1 + r.IntN(4) {
			s := segment{a: int32(r.IntN(20)), b: int32(terms * j.sb), n: int32(1 + r.IntN(20)), mask: int32(r.IntN(1 << tileRows))}
			j.segs = append(j.segs, s)
			terms += int(s.n)
		}
		j.arep, j.brep = r.IntN(40), terms*j.sb
		j.pb = j.reps*j.brep + 16*r.IntN(3)
		j.a = random(r, 20+30*j.sa*20+3*40+200)
		j.b = random(r, j.panels*j.pb+tileCols)
		if r.IntN(4) == 0 {
			j.a[r.IntN(len(j.a))] = float32(math.NaN())
		}
		tiles0 := 1 + r.IntN(6)
		j.pc = tileCols
		width := j.panels * tileCols
		if r.IntN(2) == 0 {
			j.pc = tiles0 * j.rows * tileCols
			width = tileCols
		}
		for i := range tiles0 * j.rows {
			j.at = append(j.at, int32(r.IntN(200)))
			j.ct = append(j.ct, int32(i*width))
		}
		// A place may fill up a tile.
		last := len(j.at) - 1
		j.at[last], j.ct[last] = j.at[last-1], j.ct[last-1]
		for i := range j.segs {
			m := &j.segs[i].mask
			*m = *m&^(1<<(j.rows-1)) | (*m>>(j.rows-2)&1)<<(j.rows-1)
		}
		c := random(r, tiles0*j.rows*j.panels*tileCols)
		if r.IntN(2) == 0 {
			j.bias = random(r, j.panels*tileCols)
		}
		if r.IntN(4) == 0 { // sums that are −0
			for i := range j.a {
				j.a[i] = float32(math.Copysign(0, -1))
			}
			clear(c)
		}
		want := slices.Clone(c)
		for p := range j.panels {
			for k := 0; k < len(j.at); k += j.rows {
				j.c = c
				for i := range j.rows {
					copy(want[int(j.ct[k+i])+p*j.pc:], rowTest(&j, k, i, p))
				}
			}
		}
		cpu.Each(func(set string) {
			j.c = slices.Clone(c)
			tiles(&j)
			for i, v := range j.c {
				if math.Float32bits(v) != math.Float32bits(want[i]) && (v == v || want[i] == want[i]) {
					rt.Fatalf("%s: %d rows, %d panels: c[%d] = %g, want %g", set, j.rows, j.panels, i, v, want[i])
				}
			}
		})
	})
}

// A product has the same bits on every kind of processor.
func TestProcessorsGiveTheSameBits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := geometry.Draw(rt, "geometry")
		if rapid.Bool().Draw(rt, "worth a transform") {
			g = rapid.SampledFrom(winogradShapes).Draw(rt, "shape")
			g.In, g.Out = min(g.In, 32), min(g.Out, 32)
		}
		n := rapid.SampledFrom([]int{1, 2, 7}).Draw(rt, "n")
		plain := rapid.Bool().Draw(rt, "plain sums")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 4))
		x, w, dy, bias := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen()), random(r, g.Out)
		var first all
		cpu.Each(func(kind string) {
			got := products(New(g, Options{NoWinograd: plain}), new(Space), x, w, bias, true, dy, n)
			if first.y == nil {
				first = got
			}
			if !slices.Equal(got.y, first.y) || !slices.Equal(got.dx, first.dx) || !slices.Equal(got.dw, first.dw) {
				rt.Fatalf("%+v, %s: other bits", g, kind)
			}
		})
	})
}

// BenchmarkSets times the products with AVX-512 beside AVX2, in turns, and reports
// medians: nominal GFLOP/s of the first, and the ratio of neighbouring turns.
// Iterations are turns: -benchtime 5x.
func BenchmarkSets(b *testing.B) {
	if !cpu.Has(cpu.AVX512F) {
		b.Skip("no AVX-512")
	}
	sets := func(f func()) {
		f()
		defer cpu.Hide(cpu.AVX512F)()
		f()
	}
	var logs [3]float64
	count := 0
	for _, c := range peerShapes {
		for k, op := range timed {
			b.Run(c.name+"/"+op, func(b *testing.B) {
				run := timer(New(c.g, Options{}), op, c.n, 1)
				flop := c.g.flop(c.n)
				repeats := max(1, int(0.005*80e9/flop))
				var rates, ratio []float64
				sets(run)
				for b.Loop() {
					var took []float64
					sets(func() {
						start := time.Now()
						for range repeats {
							run()
						}
						took = append(took, time.Since(start).Seconds())
					})
					rates, ratio = append(rates, flop*float64(repeats)/took[0]/1e9), append(ratio, took[1]/took[0])
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(rates), "GFLOP/s")
				b.ReportMetric(median(ratio), "ratio")
				logs[k] += math.Log(median(ratio))
				count++
			})
		}
	}
	for k, op := range timed {
		b.Logf("%s: geometric mean of ratios %.2f", op, math.Exp(logs[k]*float64(len(timed))/float64(max(count, 1))))
	}
}
