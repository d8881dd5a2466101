package experiments

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/sgd/train/record"
)

// A run that is to reach a loss ends where it does, and its record says when.
func TestUntilALoss(t *testing.T) {
	t.Parallel()
	whole := mustExecute(t, "model=mlp", "data=digits", "workers=2", "epochs=0", "steps=60", "eval_every=5")
	goal := record.Goal{Loss: true, Value: whole.Evals[4].Loss}
	want, ok := FirstAt(whole.Evals, goal)
	if !ok || want.Step < 10 || want.Step > 25 {
		t.Fatalf("first at %+v", want)
	}
	got := mustExecute(t, "model=mlp", "data=digits", "workers=2", "epochs=0", "steps=60", "eval_every=5", "target="+goal.String(), "until=target")
	if got.Steps != want.Step || got.Loss != want.Loss || got.Ended != "target" || got.Metric != "loss" || got.Target != goal.Value || !got.TargetReached || got.TargetSeconds != want.Seconds {
		t.Errorf("it ended with step %d, loss %v, %q; the evaluation of the whole run is %+v", got.Steps, got.Loss, got.Ended, want)
	}
	for text, want := range map[string]record.Goal{"0.5": {Value: 0.5}, " loss<=2 ": {Loss: true, Value: 2}, "accuracy>=1": {Value: 1}} {
		if g, err := record.ParseGoal(text); err != nil || g != want {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
}

// The best evaluation is that of the largest accuracy, or of the least finite loss; the
// first of equals.
func TestBestOfAllEvaluations(t *testing.T) {
	t.Parallel()
	var r Result
	if _, _, known := r.Best(record.Goal{}); known {
		t.Error("a run without evaluations has a best one")
	}
	r.Reach(record.Goal{}, []record.Eval{
		{Step: 1, Accuracy: 0.5, Loss: math.MaxFloat64}, {Step: 2, Accuracy: 0.9, Loss: 1}, {Step: 3, Accuracy: 0.8, Loss: 0.5},
		{Step: 4, Accuracy: 0.9, Loss: 0.5}, {Step: 5, Accuracy: 0.7, Loss: 2},
	})
	if v, at, known := r.Best(record.Goal{}); v != 0.9 || at != 2 || !known {
		t.Errorf("accuracy %v at %d", v, at)
	}
	if v, at, known := r.Best(record.Goal{Loss: true}); v != 0.5 || at != 3 || !known {
		t.Errorf("loss %v at %d", v, at)
	}
	run := mustExecute(t, "steps=30", "eval_every=5", "epochs=0")
	if v, _, _ := run.Best(record.Goal{}); v < run.Accuracy || len(run.Evals) < 6 || run.BestLoss > run.Loss {
		t.Errorf("best %v, at the end %v, least loss %v of %v", v, run.Accuracy, run.BestLoss, run.Loss)
	}
}
