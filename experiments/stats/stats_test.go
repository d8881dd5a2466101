package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

var (
	fives = []float64{93.1, 92.6, 93.4, 92.9, 93.0}
	more  = []float64{93.5, 92.9, 93.7, 93.4, 93.3}
)

func bySeed(x []float64) map[uint64]float64 {
	out := map[uint64]float64{}
	for i, v := range x {
		out[uint64(i)+1] = v
	}
	return out
}

func TestSummarize(t *testing.T) {
	s := Summarize(fives)
	near(t, "mean", s.Mean, 93, 1e-12)
	near(t, "sd", s.SD, math.Sqrt(0.34/4), 1e-12)
	// t₄ at 97.5 % is 2.776445 in the tables.
	near(t, "half", s.Half, 2.776445*math.Sqrt(0.34/4)/math.Sqrt(5), 1e-6)
	near(t, "median", s.Median, 93, 0)
	near(t, "least", s.Min, 92.6, 0)
	near(t, "most", s.Max, 93.4, 0)
	near(t, "median of an even number", Summarize(fives[:4]).Median, 93, 1e-12) // of 92.9 and 93.1
	if one := Summarize(fives[:1]); one.N != 1 || one.Mean != 93.1 || !math.IsNaN(one.Half) {
		t.Errorf("of one value: %+v", one)
	}
	if none := Summarize(nil); none.N != 0 || !math.IsNaN(none.Mean) {
		t.Errorf("of none: %+v", none)
	}
}

func TestDifferences(t *testing.T) {
	d := Paired(bySeed(fives), bySeed(more))
	near(t, "paired mean", d.Mean, 0.36, 1e-12)
	// The differences are .4 .3 .3 .5 .3: sd 0.0894427, t = 0.36/(sd/√5) = 9.
	near(t, "half", d.Half, 2.776445*0.08944272/math.Sqrt(5), 1e-6)
	near(t, "p", d.P, studentTail4(9), 1e-9)

	a, b := bySeed(fives), bySeed(more)
	delete(a, 1)
	delete(b, 2)
	if d := Paired(a, b); d.N != 3 {
		t.Errorf("%d common seeds, want 3", d.N)
	}
	if d := Paired(map[uint64]float64{1: 1}, map[uint64]float64{2: 1}); d.N != 0 || !math.IsNaN(d.P) {
		t.Errorf("without common seeds: %+v", d)
	}
	if d := Paired(bySeed([]float64{1, 2, 3}), bySeed([]float64{1, 2, 3})); d.P != 1 || d.Mean != 0 {
		t.Errorf("equal samples: %+v", d)
	}
	// Pairing sees what pooling does not: the seeds differ more than the codecs.
	if w := Welch(fives, more); !(w.P > 10*d.P) {
		t.Errorf("Welch p %v is not far above the paired %v", w.P, d.P)
	}
	if w := Welch([]float64{1, 1}, []float64{1, 1}); w.P != 1 {
		t.Errorf("equal constants: %+v", w)
	}
	if w := Welch([]float64{1, 1}, []float64{2, 2}); w.P != 0 {
		t.Errorf("different constants: %+v", w)
	}
}

// Mean, interval and p of two samples that share no seeds have the values of a published
// table: t = 1.57 with 9.9 degrees of freedom, p = 0.149, and t = 2.22 with 24.5, p = 0.036.
// Further digits are an integral of Student's density. The third case has few and unequal
// counts, where n for n − 1 shows.
func TestWelch(t *testing.T) {
	for _, c := range []struct {
		a, b          []float64
		mean, half, p float64
	}{
		{[]float64{17.2, 20.9, 22.6, 18.1, 21.7, 21.4, 23.5, 24.2, 14.7, 21.8},
			[]float64{21.5, 22.8, 21.0, 23.0, 21.6, 23.6, 22.5, 20.7, 23.4, 21.8, 20.7, 21.7, 21.5, 22.5, 23.6, 21.5, 22.5, 23.5, 21.5, 21.8},
			1.525, 2.1734213254, 0.1488416966},
		{[]float64{19.8, 20.4, 19.6, 17.8, 18.5, 18.9, 18.3, 18.9, 19.5, 22.0},
			[]float64{28.2, 26.6, 20.1, 23.3, 25.2, 22.1, 17.7, 27.6, 20.6, 13.7, 23.2, 17.5, 20.6, 18.0, 23.9, 21.6, 24.3, 20.4, 24.0, 13.2},
			2.22, 2.0623935355, 0.0359722710},
		{[]float64{20, 22, 19, 23}, []float64{1, 2, 3}, -19, 2.8226159903, 1.6808043e-5},
	} {
		d := Welch(c.a, c.b)
		near(t, "mean", d.Mean, c.mean, 1e-12)
		near(t, "half", d.Half, c.half, 1e-6)
		near(t, "p", d.P, c.p, 1e-6*c.p)
		if want := min(len(c.a), len(c.b)); d.N != want {
			t.Errorf("N is %d, want %d", d.N, want)
		}
		if e := Welch(c.b, c.a); e.Mean != -d.Mean || e.N != d.N || math.Abs(e.Half-d.Half) > 1e-12 || math.Abs(e.P-d.P) > 1e-12 {
			t.Errorf("the other way round %+v, want %+v", e, d)
		}
	}
	if one := Welch([]float64{1}, []float64{2, 4}); one.N != 1 || one.Mean != 2 || !math.IsNaN(one.Half) || !math.IsNaN(one.P) {
		t.Errorf("of one value: %+v", one)
	}
}

// studentTail4 is the two-sided tail of t with four degrees of freedom, in
// closed form.
func studentTail4(t float64) float64 {
	y := t / math.Sqrt(4+t*t)
	return 1 - y*(3-y*y)/2
}

func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, math.NaN(), 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, math.NaN(), 0.06, 0.02} {
		if math.IsNaN(want) != math.IsNaN(got[i]) || math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("p %d is %v, want %v", i, got[i], want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "p")
		q := Holm(p)
		for i := range p {
			if q[i] < p[i] || q[i] > 1 || q[i] > min(1, p[i]*float64(len(p)))+1e-15 {
				t.Fatalf("%v became %v: outside [p, Bonferroni]", p[i], q[i])
			}
			for j := range p {
				if p[i] < p[j] && q[i] > q[j] {
					t.Fatalf("the order of %v and %v turned", p[i], p[j])
				}
			}
		}
	})
}

func TestReaching(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		x                []float64
		reached          int
		median, min, max float64
	}{
		{[]float64{3, 1, 2}, 3, 2, 1, 3},
		{[]float64{3, inf, 1}, 2, 3, 1, inf},
		{[]float64{1, nan, nan}, 1, inf, 1, inf},
		{[]float64{1, inf}, 1, inf, 1, inf},
		{[]float64{inf}, 0, inf, nan, inf},
		{nil, 0, nan, nan, nan},
	} {
		r := Reaching(c.x)
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if r.N != len(c.x) || r.Reached != c.reached || !same(r.Median, c.median) || !same(r.Min, c.min) || !same(r.Max, c.max) {
			t.Errorf("%v: %+v", c.x, r)
		}
	}
}

func TestScalingLawsAreRecovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Law{
			Lambda: rapid.Float64Range(0.1, 1000).Draw(t, "lambda"),
			Sigma:  rapid.SampledFrom([]float64{0, 0.01, 0.2}).Draw(t, "sigma"),
			Kappa:  rapid.SampledFrom([]float64{0, 0.001, 0.02}).Draw(t, "kappa"),
		}
		var p []Point
		for _, n := range []int{16, 1, 2, 4, 8} {
			p = append(p, Point{n, want.At(float64(n))})
		}
		got, err := USL(p)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Lambda/want.Lambda-1) > 1e-6 || math.Abs(got.Sigma-want.Sigma) > 1e-6 || math.Abs(got.Kappa-want.Kappa) > 1e-6 {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if n, x := got.Limit(); !math.IsInf(n, 1) && got.At(n*1.1) > x*(1+1e-9) {
			t.Fatalf("%v workers are no limit of %+v", n, got)
		}
	})
}

// Steps a second of asynchronous MNIST training on a published cluster, one to
// five workers.
func TestPublishedScaling(t *testing.T) {
	p := []Point{{1, 2.102}, {2, 3.125}, {3, 4.275}, {4, 4.841}, {5, 5.419}}
	l, err := USL(p)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "lambda", l.Lambda, 2.04, 0.05)
	near(t, "sigma", l.Sigma, 0.23, 0.02)
	near(t, "rms", l.RMS, 0.033, 0.005)
	if l.Kappa != 0 {
		t.Errorf("kappa %v", l.Kappa)
	}
	e := Efficiency(p)
	near(t, "efficiency of five", e[4], 5.419/2.102/5, 1e-12)
	slices.Reverse(p)
	if r := Efficiency(p); !slices.Equal(r, e) {
		t.Error("the order of points matters")
	}
}

// The most that a law allows, and the workers that give it, by hand.
func TestLimits(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		law           Law
		workers, most float64
	}{
		{Law{Lambda: 10, Sigma: 0.1, Kappa: 0.001}, 30, 300 / 4.77}, // √(0.9/0.001); 1 + 2.9 + 0.87
		{Law{Lambda: 10, Kappa: 0.01}, 10, 100 / 1.9},
		{Law{Lambda: 10, Sigma: 0.05}, inf, 200},
		{Law{Lambda: 10, Sigma: 0.5, Kappa: 0.9}, 1, 10},
		{Law{Lambda: 10, Sigma: 1.2, Kappa: 0.1}, 1, 10},
		{Law{Lambda: 10}, inf, inf},
	} {
		if n, x := c.law.Limit(); n != c.workers && math.Abs(n-c.workers) > 1e-9 || x != c.most && math.Abs(x-c.most) > 1e-9 {
			t.Errorf("%+v: %v workers and %v, want %v and %v", c.law, n, x, c.workers, c.most)
		}
	}
}

func TestScalingRefusals(t *testing.T) {
	for name, p := range map[string][]Point{
		"too few":     {{1, 1}, {2, 2}, {2, 2.1}},
		"no worker":   {{0, 1}, {1, 2}, {2, 3}},
		"not finite":  {{1, math.Inf(1)}, {2, 2}, {3, 3}},
		"standstill":  {{1, 0}, {2, 2}, {3, 3}},
		"not a value": {{1, math.NaN()}, {2, 2}, {3, 3}},
	} {
		if l, err := USL(p); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestGuessing(t *testing.T) {
	lo, hi := Guessing(0.1, 10000) // of MNIST's test set: ± 0.588 points
	if math.Abs(lo-0.09412) > 1e-5 || math.Abs(hi-0.10588) > 1e-5 {
		t.Errorf("%v to %v", lo, hi)
	}
	if lo, hi := Guessing(0.01, 10); lo != 0 || hi < 0.05 {
		t.Errorf("of ten samples %v to %v", lo, hi)
	}
	if lo, hi := Guessing(0.1, 0); lo != 0.1 || hi != 0.1 {
		t.Errorf("of none %v to %v", lo, hi)
	}
}

// Two common seeds make pairs; one does not.
func TestCompare(t *testing.T) {
	t.Parallel()
	a, b := map[uint64]float64{1: 1, 2: 5, 3: 9}, map[uint64]float64{1: 2, 2: 6.1, 4: 0}
	if d, paired := Compare(a, b); !paired || d != Paired(a, b) {
		t.Errorf("%+v, paired: %v", d, paired)
	}
	delete(b, 2)
	if d, paired := Compare(a, b); paired || d != Welch([]float64{1, 5, 9}, []float64{0, 2}) {
		t.Errorf("%+v, paired: %v", d, paired)
	}
}
