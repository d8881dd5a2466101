package traintest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// lead: ranks on a real clock wait for an observer that takes long to evaluate. What they
// told it would fill memory otherwise, and a stop would wait behind it. They may make as many
// passes as there are to ten evaluations.
func lead(m train.Mode) error {
	j, err := World(m)
	if err != nil {
		return err
	}
	j.Updates *= 40
	slow := &slowlyEvaluated{Model: j.Model}
	j.Model = slow
	if _, err := run(j, &local.Net{}, nil); err != nil {
		return err
	}
	if all, evals := slow.passes.Load(), slow.evals.Load(); slow.ahead*evals > 10*all {
		return fmt.Errorf("while update %d was evaluated, workers made %d of %d passes, and there were %d evaluations", j.EvalEvery, slow.ahead, all, evals)
	}
	return nil
}

// slowlyEvaluated is a model whose first evaluation lasts until workers make no more passes.
type slowlyEvaluated struct {
	sgd.Model
	passes atomic.Int64
	evals  atomic.Int64
	ahead  int64 // passes up to the end of the first evaluation
}

// Grad implements sgd.Model.
func (s *slowlyEvaluated) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	s.passes.Add(1)
	return s.Model.Grad(ctx, p, b)
}

// Eval implements sgd.Model.
func (s *slowlyEvaluated) Eval(params []float32, to sgd.Scratch, b sgd.Batch) (sgd.Score, error) {
	if s.evals.Add(1) == 1 {
		for still := 0; still < 20; still++ {
			time.Sleep(time.Millisecond)
			if n := s.passes.Load(); n != s.ahead {
				s.ahead, still = n, 0
			}
		}
	}
	return s.Model.Eval(params, to, b)
}
