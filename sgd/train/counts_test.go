package train_test

import (
	"fmt"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

// What an evaluation says of bytes and time is that of all ranks, however unlike
// their parts in a topology are.
func TestEvaluationsCountAllRanks(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, top := range []string{"tree", "double_tree", "doubling", "pipelined", "ring"} {
		for _, workers := range []int{1, 4, 6} {
			for name, change := range map[string]option{
				"reduce":   func(*train.Job) {},
				"overlap":  func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 1} },
				"priority": func(j *train.Job) { j.Overlap = train.Priority{Bytes: 1} },
				"localsgd": mode("localsgd(h=5)"),
			} {
				t.Run(fmt.Sprintf("%s/%d/%s", top, workers, name), func(t *testing.T) {
					o, s := runOn(t, simulated(0), job(t, mode("reduce"), topology(top), optimizer("sgd"), change, func(j *train.Job) {
						j.Workers, j.Updates, j.EvalEvery = workers, 20, 10
					}), nil)
					var up, down uint64
					for _, r := range o.Reports {
						up, down = up+r.Traffic.SentBytes[comm.Gradient], down+r.Traffic.RecvBytes[comm.Gradient]
					}
					if len(s.evals) != 2 || s.evals[0].Step != 10 || workers > 1 && up == 0 {
						t.Fatalf("%d bytes, %+v", up, s.evals)
					}
					half, whole := s.evals[0], s.evals[1]
					if whole.BytesUp != up || whole.BytesDown != down || 2*half.BytesUp != up || 2*half.BytesDown != down {
						t.Errorf("%d and %d bytes halfway, %d and %d at the end, where the ranks have %d and %d",
							half.BytesUp, half.BytesDown, whole.BytesUp, whole.BytesDown, up, down)
					}
					if !(whole.Seconds >= 1.9*half.Seconds) {
						t.Errorf("%g s halfway, %g in all", half.Seconds, whole.Seconds)
					}
				})
			}
		}
	}
}
