package train_test

import (
	"context"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// slow is a model whose passes take their time.
type slow struct{ sgd.Model }

func (m slow) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	time.Sleep(20 * time.Millisecond)
	return m.Model.Grad(ctx, p, b)
}

// A deadline is for who waits for somebody: a run may last longer.
func TestRunsOutlastTheDeadline(t *testing.T) {
	for name, opts := range map[string][]option{
		"dpsgd": {mode("dpsgd"), graph("ring")}, "adpsgd": {mode("adpsgd"), graph("ring"), func(j *train.Job) { j.Updates *= 4 }}, "reduce": {mode("reduce")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(t, append(opts, func(j *train.Job) { j.Model = slow{j.Model} })...)
			o := &train.Observer{Job: j, Sink: &sink{}}
			programs, err := j.Programs(o)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			const deadline = time.Second
			if err := (&local.Net{Deadline: deadline}).Run(t.Context(), programs); err != nil || time.Since(began) < deadline {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}
