package train_test

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// examined tells of every piece of an evaluation, and of every gradient, before it is made.
type examined struct {
	sgd.Model
	piece func()
	pass  func(first uint64)
}

func (e examined) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	e.pass(b.First)
	return e.Model.Grad(ctx, p, b)
}

func (e examined) Eval(params []float32, s sgd.Scratch, b sgd.Batch) (sgd.Score, error) {
	e.piece()
	return e.Model.Eval(params, s, b)
}

// A stop evaluates nothing: neither what is under way nor the end. What is left undone
// is made by the leg that goes on, and the record is that of a run without a stop.
func TestStopEvaluatesNothing(t *testing.T) {
	// The evaluation holds a core while it waits for training to note the stop.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	for _, opts := range [][]option{{mode("reduce")}, {policy("bsp"), func(j *train.Job) { j.Servers = 2 }}, {mode("localsgd(h=2)")}} {
		run := func(more ...option) *train.Job {
			return job(t, append(append(slices.Clone(opts), func(j *train.Job) { j.Updates, j.EvalEvery, j.EvalBatch = 2000, 20, 16 }), more...)...)
		}
		_, all := runOn(t, &local.Net{}, run(), nil)
		var pieces, after atomic.Int32
		var stop atomic.Bool
		third := make(chan struct{})
		j := run(func(j *train.Job) {
			test := (j.Data.Test.Len() + 15) / 16
			// Training waits for the stop behind update 70: the third snapshot, of update 60, has
			// left, and there is room for those until 140.
			until := uint64(70 * j.Workers * j.Batch)
			var late atomic.Bool
			pass := func(first uint64) {
				if first >= until {
					late.Store(true)
				}
			}
			j.Stopping = func() bool {
				if late.Load() {
					<-third
				}
				return stop.Load()
			}
			j.Model = examined{j.Model, func() {
				switch n := int(pieces.Add(1)); {
				case n == 2*test+2: // in the third evaluation
					stop.Store(true)
					close(third)
					for !train.Asked(j) { // until the run has noted it, not only heard of it
						runtime.Gosched()
					}
				case n > 2*test+2:
					after.Add(1)
				}
			}, pass}
		})
		o, s := runOn(t, &local.Net{}, j, nil)
		name := train.Modes.Spec(j.Mode)
		if !o.Unjudged || o.Final.Step >= 2000 || o.SHA256 == "" || s.last == nil {
			t.Fatalf("%s: the run was not stopped: %+v", name, o.Final)
		}
		if n := after.Load(); n > 0 {
			t.Errorf("%s: %d pieces of the test set were evaluated after the stop", name, n)
		}
		if len(s.evals) != 2 {
			t.Errorf("%s: %d evaluations, want the two before the stop", name, len(s.evals))
		}
		_, again := runOn(t, &local.Net{}, run(), s.last)
		got := append(slices.Clone(s.evals), again.evals...)
		if len(got) != len(all.evals) {
			t.Fatalf("%s: %d evaluations in two legs, %d in one", name, len(got), len(all.evals))
		}
		for i, e := range got {
			if w := all.evals[i]; e.Step != w.Step || e.Values["accuracy"] != w.Values["accuracy"] || e.Values["loss"] != w.Values["loss"] || e.Last != w.Last {
				t.Errorf("%s: evaluation %d is %+v, want %+v", name, i, e, w)
			}
		}
	}
}
