package experiments

import (
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
)

// A run that is to reach a loss ends where it does, and its record says when.
func TestUntilALoss(t *testing.T) {
	t.Parallel()
	whole := mustExecute(t, "model=mlp", "data=digits", "workers=2", "epochs=0", "steps=60", "eval_every=5")
	goal := train.Goal{Loss: true, Value: whole.Evals[4].Loss}
	want, ok := FirstAt(whole.Evals, goal)
	if !ok || want.Step < 10 || want.Step > 25 {
		t.Fatalf("first at %+v", want)
	}
	got := mustExecute(t, "model=mlp", "data=digits", "workers=2", "epochs=0", "steps=60", "eval_every=5", "target="+goal.String(), "until=target")
	if got.Steps != want.Step || got.Loss != want.Loss || got.Ended != "target" || got.Metric != "loss" || got.Target != goal.Value || !got.TargetReached || got.TargetSeconds != want.Seconds {
		t.Errorf("it ended with step %d, loss %v, %q; the evaluation of the whole run is %+v", got.Steps, got.Loss, got.Ended, want)
	}
	for text, want := range map[string]train.Goal{"0.5": {Value: 0.5}, " loss<=2 ": {Loss: true, Value: 2}, "accuracy>=1": {Value: 1}} {
		if g, err := train.ParseGoal(text); err != nil || g != want {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
}
