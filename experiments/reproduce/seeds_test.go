package reproduce

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/stats"
)

// A sample says of its runs what their results say, seed by seed.
func TestSamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lab := &Lab{Out: dir, Runs: experiments.Options{Recipe: "samples", Out: dir}}
	p := lab.plan(2)
	keys := []string{"data=digits", "model=logistic", "workers=2", "batch=8", "epochs=0", "steps=20", "eval_every=10", "schedule=constant(lr=0.1)"}
	a, b := p.add("two workers", keys...), p.add("four", append(keys[:len(keys):len(keys)], "workers=4")...)
	if err := p.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	var accuracy []float64
	for i, r := range a.Runs {
		if r.Config.Seed != uint64(i+1) || r.Config.Workers != 2 || len(r.Result.Evals) != 2 {
			t.Fatalf("run %d: seed %d, %d workers, %d evaluations", i, r.Config.Seed, r.Config.Workers, len(r.Result.Evals))
		}
		accuracy = append(accuracy, 100*r.Result.Values["accuracy"])
		if got := a.bySeed()[uint64(i+1)]; got != accuracy[i] {
			t.Errorf("seed %d: %v, want %v", i+1, got, accuracy[i])
		}
	}
	if got, want := a.accuracy(), stats.Summarize(accuracy); got != want || accuracy[0] == 0 {
		t.Errorf("accuracy %+v, want %+v", got, want)
	}
	if a.first() != a.Runs[0].Result || b.first().Steps != 20 || b.Runs[1].Config.Workers != 4 {
		t.Errorf("first %p, second sample %+v", a.first(), b.Runs[1].Config)
	}
	if got := a.of(func(r *experiments.Result) float64 { return float64(r.Steps) }); got.Mean != 20 || got.N != 2 {
		t.Errorf("steps %+v", got)
	}
	x, y, err := a.curve()
	if err != nil || len(x) != 2 || len(y) != 2 {
		t.Fatalf("curve %v over %v, %v", y, x, err)
	}
	for i := range y {
		e, f := a.Runs[0].Result.Evals[i], a.Runs[1].Result.Evals[i]
		if math.Abs(y[i]-50*(e.Values["accuracy"]+f.Values["accuracy"])) > 1e-9 || math.Abs(x[i]-(e.Seconds+f.Seconds)/2) > 1e-12 {
			t.Errorf("evaluation %d: %v after %v", i, y[i], x[i])
		}
	}
}

// What is no configuration over seeds is no sample.
func TestSamplesAreOneConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lab := &Lab{Out: dir, Runs: experiments.Options{Recipe: "samples", Out: dir}}
	var results []*experiments.Result
	for _, workers := range []string{"workers=1", "workers=2"} {
		r, err := lab.run(t.Context(), workers, "data=digits", "model=logistic", "batch=8", "epochs=0", "steps=2", workers)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	if err := (&sample{name: "mixed"}).group(results); err == nil {
		t.Error("two configurations are taken for two seeds of one")
	}
	if err := (&sample{name: "one"}).group(results[:1]); err != nil {
		t.Error(err)
	}
}
