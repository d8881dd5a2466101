package experiments

import (
	"maps"
	"math"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// A run that is to reach a loss ends where it does, and its record says when.
func TestUntilALoss(t *testing.T) {
	t.Parallel()
	whole := mustExecute(t, "model=mlp", "data=digits", "workers=2", "epochs=0", "steps=60", "eval_every=5")
	goal := record.Goal{Metric: sgd.Loss, Value: whole.Evals[4].Values["loss"]}
	want, ok := FirstAt(whole.Evals, goal)
	if !ok || want.Step < 10 || want.Step > 25 {
		t.Fatalf("first at %+v", want)
	}
	got := mustExecute(t, "model=mlp", "data=digits", "workers=2", "epochs=0", "steps=60", "eval_every=5", "target="+goal.String(), "until=target")
	if got.Steps != want.Step || got.Values["loss"] != want.Values["loss"] || got.Ended != "target" || got.Metric != "loss" || got.Target != goal.Value || !got.TargetReached || got.TargetSeconds != want.Seconds {
		t.Errorf("it ended with step %d, loss %v, %q; the evaluation of the whole run is %+v", got.Steps, got.Values["loss"], got.Ended, want)
	}
	for text, want := range map[string]record.Goal{"0.5": {Value: 0.5}, " loss<=2 ": {Metric: sgd.Loss, Value: 2}, "accuracy>=1": {Metric: sgd.Accuracy, Value: 1}, "mae <= 1.5best": {Metric: sgd.Metric{Name: "mae", LessIsBetter: true}, OfBest: true, Value: 1.5}} {
		if g, err := record.ParseGoal(text); err != nil || g != want {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
}

// The best evaluation is that of the largest accuracy, or of the least finite loss; the
// first of equals.
func TestBestOfAllEvaluations(t *testing.T) {
	t.Parallel()
	r := Result{Metrics: []sgd.Metric{sgd.Accuracy, sgd.Loss}}
	r.Reach(record.Goal{}, nil)
	if len(r.Best) > 0 {
		t.Error("a run without evaluations has a best one")
	}
	r.Reach(record.Goal{}, []record.Eval{
		{Step: 1, Values: record.Values{"accuracy": 0.5, "loss": math.MaxFloat64}}, {Step: 2, Values: record.Values{"accuracy": 0.9, "loss": 1}}, {Step: 3, Values: record.Values{"accuracy": 0.8, "loss": 0.5}},
		{Step: 4, Values: record.Values{"accuracy": 0.9, "loss": 0.5}}, {Step: 5, Values: record.Values{"accuracy": 0.7, "loss": 2}},
	})
	want := record.Bests{"accuracy": {Value: 0.9, Step: 2}, "loss": {Value: 0.5, Step: 3}}
	if !maps.Equal(r.Best, want) {
		t.Errorf("%v", r.Best)
	}
	run := mustExecute(t, "steps=30", "eval_every=5", "epochs=0")
	if run.Best["accuracy"].Value < run.Values["accuracy"] || len(run.Evals) < 6 || run.Best["loss"].Value > run.Values["loss"] {
		t.Errorf("best %v, at the end %v", run.Best, run.Values)
	}
}
