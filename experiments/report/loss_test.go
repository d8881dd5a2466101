package report

import (
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Runs that are compared by their loss: less is better, everywhere.
func TestByLoss(t *testing.T) {
	t.Parallel()
	var runs []*store.Run
	for seed := range uint64(3) {
		bit := float64(seed) / 1000
		for codec, loss := range map[string]float64{"raw": 0.5, "bf16": 0.7, "sign": 1.2} {
			r := trial(codec, seed, store.Done, 0.9-loss/10)
			r.Config.Metric, r.Config.Target, r.Result.Loss = "loss", 0, loss+bit
			r.Result.BestLoss = r.Result.Loss
			if codec == "sign" { // the most accurate one has the largest loss
				r.Result.Accuracy, r.Result.BestAccuracy = 0.99, 0.99
			}
			runs = append(runs, r)
		}
	}
	report := mustNew(t, runs)
	task := report.Tasks[0]
	answer := strings.Join(task.Answer(), " ")
	for _, want := range []string{"Least loss, at the best evaluation: codec=raw", "Pareto front of time, bytes and least loss", "--target 'loss<=1.9' asks for one", "0.501"} {
		if !strings.Contains(answer, strings.ReplaceAll(want, "codec=raw", task.best().Label)) {
			t.Errorf("no %q in %s", want, answer)
		}
	}
	if task.best().Best.Max > 0.51 || task.Configs[0] != task.best() || task.Metric() != "loss" {
		t.Errorf("best is %s, of %v", task.best().Label, task.best().Score)
	}
	for _, c := range task.Configs {
		if c.AtChance {
			t.Errorf("%s is at chance", c.Label)
		}
	}
	page := html(t, report)
	for _, want := range []string{">last loss</th>", "behind the best</th>", "loss over updates", "best test loss"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s on the page", want)
		}
	}
	if strings.Contains(page, "Most accurate") {
		t.Error("the page speaks of accuracy")
	}
	r, err := New(runs, record.Goal{Loss: true, Value: 1e9}) // every first evaluation reaches it
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Tasks[0].Answer()[0]; !strings.Contains(s, "at loss 1e+09") {
		t.Error(s)
	}
	mixed := append([]*store.Run{trial("raw", 9, store.Done, 0.9)}, runs...)
	if task := mustNew(t, mixed).Tasks[0]; task.Metric() != "accuracy" {
		t.Error("runs that are not compared alike are compared by loss")
	} else if s := strings.Join(task.Answer(), " "); !strings.Contains(s, "all are compared by accuracy; --target 'loss<=1.9'") || strings.Contains(answer, "all are compared") {
		t.Error(s)
	}
}

// A seed that diverged makes a gap in a mean curve, and no peak.
func TestDivergedSeedsMakeGaps(t *testing.T) {
	t.Parallel()
	c := &Config{Group: &store.Group{}}
	for _, losses := range [][]float64{{2, 1, 0.5}, {2, math.MaxFloat64, 0.5}} {
		tr := &Trial{}
		for i, l := range losses {
			tr.Curve.Progress = append(tr.Curve.Progress, record.Progress{Step: i + 1, Loss: l})
		}
		c.Trials = append(c.Trials, tr)
	}
	y := c.curve(1, func(tr *Trial) (xs, ys []float64) { return thinned(tr.Curve.Progress) }, logarithmic).Y
	if len(y) != 3 || math.Abs(y[0]-2) > 1e-9 || !math.IsNaN(y[1]) || math.Abs(y[2]-0.5) > 1e-9 {
		t.Errorf("%v; want 2, a gap, 0.5", y)
	}
}
