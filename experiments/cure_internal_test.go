package experiments

import (
	"strings"
	"testing"
)

// Runs whose gradients became NaN fail with the keys that learned beside them, and a stopped
// run says of which update its accuracy is.
func TestNaNNamesWhatLearned(t *testing.T) {
	t.Parallel()
	runs := mustRuns(t, small, "net=local", "mode=server", "policy=asp", "schedule=constant(lr=0.1),constant(lr=1e30),constant(lr=0.2)", "optimizer=sgd", "codec=raw", "nonfinite=fail")
	made, err := ExecuteAll(t.Context(), runs, Options{Recipe: "test", Out: t.TempDir()})
	if err == nil || len(made) != 2 || !strings.Contains(err.Error(), "has NaN or Inf") || strings.Contains(err.Error(), "again") ||
		!strings.Contains(err.Error(), "schedule=constant(lr=1e30): its gradient became NaN or Inf; in the same table schedule=constant(lr=0.") {
		t.Errorf("%d runs made, %v", len(made), err)
	}
	if say := Cure([]Failure{{runs[1], err}}, nil); !strings.Contains(say, "run again it does the same: try a lower rate") {
		t.Errorf("with none that learned: %q", say)
	}
	if say := Cure([]Failure{{runs[1], ErrStopped}}, made); say != "" {
		t.Errorf("of another error: %q", say)
	}
	r, err := Execute(t.Context(), mustRuns(t, small, "net=local", "eval_every=4", "steps=4000")[0], Options{Recipe: "test", Out: t.TempDir(), Stopping: stopAfter(30)})
	if err == nil || r == nil || r.AccuracyAt == 0 || r.AccuracyAt > r.Steps || !strings.Contains(summary(r), " of update ") {
		t.Errorf("stopped: %v, %+v", err, r)
	}
}
