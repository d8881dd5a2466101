package experiments

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gradlab/gradlab/experiments/config"
)

// Trained holds folders of runs, by trajectory: what they have learned is taken over by
// runs that learn the same on other networks and devices.
type Trained map[string]string

// Learner is a [config.Config], or one that is resolved.
type Learner interface {
	Timeless() bool
	Trajectory() string
}

// Add adds the folder of a run, if others can be priced from it.
func (t Trained) Add(c Learner, folder string) {
	if c.Timeless() && Priceable(folder) {
		t[c.Trajectory()] = folder
	}
}

// From returns the folder that a run can be priced from; "": it must be trained.
func (t Trained) From(c Learner) string {
	if !c.Timeless() {
		return ""
	}
	return t[c.Trajectory()]
}

// ExecuteAll makes runs one after the other. A run that fails does not keep the
// others from being made; a stop or a configuration that cannot run does. What a
// run has learned is taken over by those that learn the same on other networks and
// devices, unless Options.TrainAll says otherwise. It returns the results there are and the first error.
func ExecuteAll(ctx context.Context, runs []config.Run, opt Options) ([]*Result, error) {
	var out []*Result
	var first error
	var asked atomic.Bool
	opt.asked = &asked
	var failed []Failure
	trained := Trained{}
	for i, run := range runs {
		if i > 0 && (asked.Load() || opt.Stopping != nil && opt.Stopping()) { // asked for when the one before had no step left
			if first == nil {
				first = Stopped(fmt.Sprintf("%d of %d runs were not begun, --resume goes on with them", len(runs)-i, len(runs)))
			}
			break
		}
		of, wrong := run.Resolve()
		if opt.From = ""; !opt.TrainAll && wrong == nil {
			opt.From = trained.From(of)
		}
		r, err := Execute(ctx, run, opt)
		if r != nil {
			out = append(out, r)
			if err == nil {
				trained.Add(of, r.Folder)
			}
		}
		if err != nil && first == nil {
			first = err
		}
		if err != nil {
			failed = append(failed, Failure{run, err})
		}
		var bad *config.Error
		if errors.Is(err, ErrStopped) || errors.As(err, &bad) || ctx.Err() != nil {
			break
		}
	}
	if cure := Cure(failed, out); cure != "" && len(runs) > 1 {
		first = fmt.Errorf("%w\n%s", first, cure)
	}
	return out, first
}
