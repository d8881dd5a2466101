package compress_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

func on(d int) compress.Block {
	return compress.Block{Name: "w", Rows: 1, Cols: d, World: 2, Peer: -1, Seed: 1}
}

func gauss(d, n int) []float32 {
	k := rng.New(uint64(n), "test")
	x := make([]float32, d)
	for i := range x {
		x[i] = float32(k.Norm(uint64(i)))
	}
	return x
}

func TestRoads(t *testing.T) {
	for spec, want := range map[string]compress.Road{
		"raw": compress.RoadSum, "bf16": compress.RoadSum, "fp16": compress.RoadSum,
		"randomk": compress.RoadSum, "feedback(randomk)": compress.RoadSum, "feedback(bf16)": compress.RoadSum,
		"topk": compress.RoadGather, "qsgd": compress.RoadGather, "feedback(topk)": compress.RoadGather,
		"bysize(topk,raw,limit=100)": compress.RoadSum, "bysize(topk,raw,limit=10)": compress.RoadGather,
		"strom": compress.RoadGather, "adacomp": compress.RoadGather, "dgc": compress.RoadGather,
	} {
		f, err := compress.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		x, road, err := compress.NewExchange(f, on(50))
		if err != nil || road != want {
			t.Errorf("%s takes the road %q (%v), want %q", spec, road, err, want)
		}
		_, residual := x.(compress.Residualer)
		_, state := x.(compress.Stateful)
		name, _, _ := strings.Cut(spec, "(")
		if want := slices.Contains([]string{"feedback", "strom", "adacomp", "dgc"}, name); residual != want || state != want {
			t.Errorf("%s: residual %v, state %v, want %v", spec, residual, state, want)
		}
		if x, err = compress.NewGather(f, on(50)); err != nil {
			t.Errorf("%s: %v", spec, err)
		} else if op, err := x.Begin(gauss(50, 0), compress.Step{}); err != nil || op.Kind != compress.OpGather {
			t.Errorf("%s: NewGather asks for %v (%v)", spec, op.Kind, err)
		}
	}
	b := on(5)
	b.Rank = 2
	if _, _, err := compress.NewExchange(compress.Raw{}, b); err == nil {
		t.Error("took rank 2 of 2")
	}
}

// The wire format of a sum is the codec's own.
func TestWires(t *testing.T) {
	for spec, want := range map[string]compress.Wire{
		"raw": compress.F32, "bf16": compress.BF16, "fp16": compress.F16, "feedback(fp16)": compress.F16,
	} {
		x, _, err := compress.NewExchange(compress.Families.MustParse(spec), on(9))
		if err != nil {
			t.Fatal(err)
		}
		if op, err := x.Begin(gauss(9, 0), compress.Step{}); err != nil || op.Wire != want || len(op.Floats) != 9 {
			t.Errorf("%s asks for a sum of %d in format %d (%v)", spec, len(op.Floats), op.Wire, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for spec, want := range map[string]string{
		"topk(keep=0)":              `option "keep"`,
		"topk(keep=2)":              `option "keep"`,
		"topk(index=rise)":          `did you mean "rice"?`,
		"topk(values=f16)":          "fp16",
		"qsgd(bits=1)":              `option "bits"`,
		"qsgd(norm=l1)":             "l2",
		"feedback(topk,decay=0)":    `option "decay"`,
		"feedback(topk,decay=1.5)":  `option "decay"`,
		"bysize(topk,raw,limit=-1)": `option "limit"`,
		"sign(scale=max)":           "mean",
	} {
		if _, err := compress.Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	for _, f := range []compress.Family{
		compress.Feedback{}, compress.Feedback{In: compress.Raw{}}, compress.BySize{}, compress.TopK{}, compress.QSGD{},
		compress.Feedback{In: compress.IntSum{}, Decay: 1}, compress.EF21{In: compress.IntSum{}}, compress.Contraction{In: compress.IntSum{}},
		compress.Contraction{},
	} {
		if _, err := f.New(on(5)); err == nil {
			t.Errorf("%#v makes a codec", f)
		}
		if _, _, err := compress.NewExchange(f, on(5)); err == nil {
			t.Errorf("%#v makes an exchange", f)
		}
	}
}

// Options left out of a literal have their defaults.
func TestLiteral(t *testing.T) {
	a, b := compress.TopK{Keep: 0.1}, compress.TopK{Keep: 0.1, Index: "rice", Values: "f32"}
	if a.Claims(on(100)) != b.Claims(on(100)) {
		t.Error("TopK literal without words is not the default")
	}
	if got, want := compress.Spec(b), "topk(keep=0.1)"; got != want {
		t.Errorf("spec %q, want %q", got, want)
	}
}

func TestFeedbackRefusesNoContraction(t *testing.T) {
	for _, spec := range []string{"feedback(qsgd(bits=4,bucket=0,norm=l2))", "feedback(sign(scale=none))"} {
		f, err := compress.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.New(on(4096))
		if err == nil || !strings.Contains(err.Error(), "unchecked=true") {
			t.Errorf("%s: %v", spec, err)
		}
		if way := "contraction(qsgd(bits=4,bucket=0,norm=l2))"; strings.Contains(spec, "qsgd") != strings.Contains(err.Error(), way) {
			t.Errorf("%s: %v, want a way out for what has no bias: %s", spec, err, way)
		}
		if _, _, err := compress.NewExchange(f, on(4096)); err == nil {
			t.Errorf("%s has an exchange", spec)
		}
		fb := f.(compress.Feedback)
		fb.Unchecked = true
		if _, err := fb.New(on(4096)); err != nil {
			t.Error(err)
		}
		outer := compress.BySize{Large: fb, Small: compress.Raw{}}
		if compress.Unchecked(f) || !compress.Unchecked(fb) || !compress.Unchecked(outer) {
			t.Errorf("%s: Unchecked is wrong", spec)
		}
	}
}

// What the refusal is for: feedback over whole-layer QSGD diverges, over a
// contraction it does not.
func TestUncheckedFeedbackDiverges(t *testing.T) {
	norm := func(spec string) float64 {
		c, err := compress.Families.MustParse(spec).New(on(4096))
		if err != nil {
			t.Fatal(err)
		}
		var p []byte
		for n := range 60 {
			if p, err = c.Append(p[:0], gauss(4096, n), compress.Step{N: n}); err != nil {
				return math.Inf(1)
			}
		}
		return c.(compress.Residualer).ResidualNorm()
	}
	if bad, good := norm("feedback(qsgd(bits=3,bucket=0,norm=l2),unchecked=true)"), norm("feedback(sign)"); !(bad > 1e6) || !(good < 1e4) {
		t.Errorf("residuals after 60 steps: qsgd %.3g, sign %.3g", bad, good)
	}
}

// BenchmarkCodec is one row per spec, on a matrix of 64 MiB: the rates of
// encoding and of decoding and adding in MB/s of float32, both also as a share of
// the rate at which copy moves the same buffer between them, the bits an element,
// and the error ‖C(g)−g‖²/‖g‖² on normal data. With -cpu n, n cores work on a
// codec each, and copy together.
func BenchmarkCodec(b *testing.B) {
	x := gauss(benchRows*benchCols, 0)
	for _, spec := range benchSpecs() {
		b.Run(spec, func(b *testing.B) { benchmarkCodec(b, compress.Families.MustParse(spec), x) })
	}
}

// BenchmarkExchange is what a step of mode reduce has of a codec: all rounds of an exchange
// of two ranks on 535,552 parameters, those of the MLP. It reports the time of one rank,
// median over the steps and without what the network does, beside that of copy.
func BenchmarkExchange(b *testing.B) {
	const rows, cols = 1046, 512
	for _, spec := range benchSpecs() {
		b.Run(spec, func(b *testing.B) {
			f := compress.Families.MustParse(spec)
			var ranks [2]compress.Exchange
			var g [2][]float32
			for r := range ranks {
				x, _, err := compress.NewExchange(f, compress.Block{Name: "w", Rows: rows, Cols: cols, Rank: r, World: 2, Peer: -1, Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				ranks[r], g[r] = x, gauss(rows*cols, r)
			}
			sum := make([]float32, rows*cols)
			var steps, copies []float64
			for n := 0; b.Loop(); n++ {
				start := b.Elapsed()
				copy(sum, g[0])
				copies = append(copies, (b.Elapsed() - start).Seconds())
				clear(sum)
				if s := exchangeStep(b, ranks, g, sum, n); n > 0 { // the first is to warm up
					steps = append(steps, s)
				}
			}
			if len(steps) == 0 {
				return
			}
			slices.Sort(steps)
			slices.Sort(copies)
			step := steps[len(steps)/2]
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(1e3*step, "ms/step")
			b.ReportMetric(step/copies[len(copies)/2], "copies")
		})
	}
}

// exchangeStep takes two ranks through a step and returns the seconds of the first.
func exchangeStep(b *testing.B, ranks [2]compress.Exchange, g [2][]float32, sum []float32, n int) (seconds float64) {
	var ops [2]compress.Op
	call := func(r int, f func() error) {
		start := b.Elapsed()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		if r == 0 {
			seconds += (b.Elapsed() - start).Seconds()
		}
	}
	for r, x := range ranks {
		call(r, func() (err error) { ops[r], err = x.Begin(g[r], compress.Step{N: n, Seed: 1}); return })
	}
	for ops[0].Kind != compress.OpNone {
		compresstest.Perform(ops[:])
		for r, x := range ranks {
			call(r, func() (err error) { ops[r], err = x.Next(ops[r]); return })
		}
	}
	call(0, func() error { return ranks[0].Output(sum, 1) })
	return seconds
}

const benchRows, benchCols = 4096, 4096

// benchSpecs lists what the suite covers and what has a goal for speed beside.
func benchSpecs() []string {
	specs := append(compresstest.Specs(),
		"qsgd(bits=8)", "qsgd(bits=6)",
		"uniform(bits=4,round=stochastic)", "uniform(bits=8,round=stochastic)",
		"uniform(bits=4,range=symmetric,round=stochastic)", "uniform(bits=8,range=symmetric,round=stochastic)",
		"topk(keep=0.01,sampled=true)", "threshold(tau=2.6)", "strom(tau=2.6)",
		"eden(bits=2)", "eden(bits=4)", "topk(keep=0.015625,index=block,chunk=4096)",
	)
	slices.Sort(specs)
	return slices.Compact(specs)
}

func benchmarkCodec(b *testing.B, f compress.Family, x []float32) {
	type part struct {
		c       compress.Codec
		x, dst  []float32
		payload []byte
	}
	parts := make([]part, runtime.GOMAXPROCS(0))
	all := make([]float32, len(x))
	for i := range parts {
		lo, hi := benchRows*i/len(parts), benchRows*(i+1)/len(parts)
		c, err := f.New(compress.Block{Name: "w", Rows: hi - lo, Cols: benchCols, World: 2, Peer: -1, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		parts[i] = part{c: c, x: x[lo*benchCols : hi*benchCols], dst: all[lo*benchCols : hi*benchCols]}
	}
	// phase is how long all parts take.
	phase := func(run func(p *part) error) float64 {
		start := b.Elapsed()
		var wg sync.WaitGroup
		for i := range parts[1:] {
			wg.Go(func() {
				if err := run(&parts[i+1]); err != nil {
					b.Error(err)
				}
			})
		}
		if err := run(&parts[0]); err != nil {
			b.Error(err)
		}
		wg.Wait()
		return (b.Elapsed() - start).Seconds()
	}
	var times [3][]float64
	var missed float64
	for n := 0; b.Loop(); n++ {
		for i, run := range [3]func(p *part) error{
			func(p *part) error { copy(p.dst, p.x); return nil },
			func(p *part) (err error) {
				p.payload, err = p.c.Append(p.payload[:0], p.x, compress.Step{N: n})
				return
			},
			func(p *part) error { return p.c.AddTo(p.dst, -1, p.payload, compress.From{Step: n}) },
		} {
			if t := phase(run); n > 0 { // the first is to warm up
				times[i] = append(times[i], t)
			}
		}
		if n == 0 {
			b.StopTimer()
			missed = f32.SumSq(all) / f32.SumSq(x)
			b.StartTimer()
		}
	}
	if len(times[0]) == 0 {
		return
	}
	bytes := 0
	for _, p := range parts {
		bytes += len(p.payload)
	}
	var median [3]float64
	for i, t := range times {
		slices.Sort(t)
		median[i] = t[len(t)/2]
	}
	rate := func(t float64) float64 { return 4e-6 * float64(len(x)) / t }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate(median[1]), "enc-MB/s")
	b.ReportMetric(rate(median[2]), "dec-MB/s")
	b.ReportMetric(median[0]/median[1], "enc/copy")
	b.ReportMetric(median[0]/median[2], "dec/copy")
	b.ReportMetric(8*float64(bytes)/float64(len(x)), "bits/elem")
	b.ReportMetric(missed, "vNMSE")
}
