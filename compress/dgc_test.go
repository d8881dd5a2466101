package compress

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// The paper's fractions in the warm-up, and what follows; then a warm-up within an
// epoch, one in steps, and one of more stages.
func TestDGCWarmup(t *testing.T) {
	paper := DGC{Keep: 0.001, Warmup: 4}
	half := DGC{Keep: 0.01, Warmup: 0.5, Stages: 4}
	steps := DGC{Keep: 0.001, Warmup: 200, Unit: "steps"}
	for _, c := range []struct {
		f    DGC
		at   Step
		want float64
	}{
		{paper, Step{}, 0.2512}, {paper, Step{Epoch: 1.5}, 0.0631}, {paper, Step{Epoch: 2}, 0.01585}, {paper, Step{Epoch: 3.9}, 0.00398},
		{paper, Step{Epoch: 4}, 0.001}, {paper, Step{Epoch: 50}, 0.001}, {paper, Step{N: 1000}, 0.2512},
		{half, Step{Epoch: 0.1}, 0.3981}, {half, Step{Epoch: 0.125}, 0.1585}, {half, Step{Epoch: 0.49}, 0.02512}, {half, Step{Epoch: 0.5}, 0.01},
		{DGC{Keep: 0.01, Warmup: 0.5}, Step{Epoch: 0.4}, 0.1}, {DGC{Keep: 0.01, Warmup: 2.5}, Step{Epoch: 2.4}, 0.0316},
		{steps, Step{}, 0.2512}, {steps, Step{N: 49}, 0.2512}, {steps, Step{N: 50}, 0.0631}, {steps, Step{N: 199, Epoch: 9}, 0.00398}, {steps, Step{N: 200}, 0.001},
		{DGC{Keep: 0.001}, Step{}, 0.001},
	} {
		if got := c.f.keep(c.at); math.Abs(got-c.want) > 0.001*c.want {
			t.Errorf("%+v keeps %v at %+v, want %v", c.f, got, c.at, c.want)
		}
	}
	for _, bad := range []DGC{{Keep: 0.1, Warmup: -1}, {Keep: 0.1, Warmup: math.NaN()}, {Keep: 0.1, Stages: -1}, {Keep: 0.1, Unit: "days"}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is allowed", bad)
		}
	}
}

// Against the algorithm in its plainest form, float64 and a full sort.
func TestDGCIsThePaper(t *testing.T) {
	const d, m = 50, 0.9
	c, err := DGC{Keep: 0.1, Momentum: m, Clip: 6}.New(Block{Name: "w", Rows: 1, Cols: d, World: 4, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var u, v [d]float64
	key := rng.New(5, "dgc test")
	for step := range 40 {
		g, got := make([]float32, d), make([]float32, d)
		var square float64
		for i := range g {
			g[i] = float32(key.With(uint64(step)).Norm(uint64(i)))
			square += float64(g[i]) * float64(g[i])
		}
		p, err := c.Append(nil, g, Step{N: step})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddTo(got, 1, p, From{Step: step}); err != nil {
			t.Fatal(err)
		}
		scale := min(1, 6/math.Sqrt(4)/math.Sqrt(square))
		for i := range g {
			u[i] = m*u[i] + scale*float64(g[i])
			v[i] += u[i]
		}
		sent := 0
		for i := range v {
			larger := 0
			for _, w := range v {
				if math.Abs(w) > math.Abs(v[i]) {
					larger++
				}
			}
			want := 0.0
			if larger < 5 {
				want = v[i]
			}
			if math.Abs(want-float64(got[i])) > 1e-4 {
				t.Fatalf("step %d, element %d: sent %v, want %v", step, i, got[i], want)
			}
			if want != 0 {
				sent++
			}
		}
		for i := range v {
			if got[i] != 0 {
				u[i], v[i] = 0, 0
			}
		}
		if sent != 5 {
			t.Fatalf("step %d: %d sent", step, sent)
		}
	}
}

// Where magnitudes alone do not tell that sums stay finite, a step is tried out first:
// one that does not leaves the state as it was.
func TestDGCNearOverflow(t *testing.T) {
	c, err := DGC{Keep: 0.1}.New(Block{Name: "w", Rows: 1, Cols: 100, World: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	g := make([]float32, 100)
	g[3], g[4] = 1e38, -1
	if _, err := c.Append(nil, g, Step{}); err != nil {
		t.Fatal(err)
	}
	g[3] = 3e38 // the first one has been sent
	for i := 10; i < 30; i++ {
		g[i] = 2e38
	}
	p, err := c.Append(nil, g, Step{N: 1})
	if err != nil || len(p) == 0 {
		t.Fatalf("a finite step: %v", err)
	}
	before, _ := c.(Stateful).AppendBinary(nil)
	if _, err := c.Append(nil, g, Step{N: 2}); !errors.Is(err, ErrNotFinite) {
		t.Fatalf("sums beyond float32: %v", err)
	}
	if after, _ := c.(Stateful).AppendBinary(nil); !bytes.Equal(before, after) {
		t.Fatal("a step that was refused changed the state")
	}
}
