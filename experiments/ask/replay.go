package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Replayed is what came of a replay.
type Replayed struct {
	Folder string `json:"folder"`
	Steps  int    `json:"steps"`
	Was    string `json:"was"` // SHA-256 of the run's parameters
	Is     string `json:"is"`  // and of the replay's
	Equal  bool   `json:"equal"`
}

// Replay makes a finished run again on the virtual cluster, with gradients
// reaching the servers in the order that the run's folder tells, wherever the
// run took place. The parameters come out with the same bits.
func Replay(ctx context.Context, folder string, at config.Places) (*Replayed, error) {
	text, err := regular.ReadFile(filepath.Join(folder, "config.yaml"), regular.Any)
	if err != nil {
		return nil, err
	}
	recipe, err := config.ParseRecipe("replay", "config.yaml", text)
	if err != nil {
		return nil, err
	}
	runs, err := recipe.Runs(nil, false)
	if err != nil {
		return nil, err
	}
	was, err := experiments.ReadResult(folder)
	if err != nil {
		return nil, fmt.Errorf("only a finished run can be replayed: %w", err)
	}
	c := runs[0].Config
	switch {
	case was.Status != "done":
		return nil, fmt.Errorf("the run is %s; only a finished run can be replayed", was.Status)
	case len(was.Lost) > 0 && !onlyZeroed(was):
		return nil, fmt.Errorf("the run lost something, which the order log does not tell: %s", was.Lost[0])
	}
	c.Net, c.Observe = "sim", "none"
	if at.Rates, err = experiments.RecordedRates(folder); err != nil {
		return nil, err
	}
	of, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	job, err := of.Build(at, nil)
	if err != nil {
		return nil, err
	}
	if n := job.World() - job.Workers; n > 0 {
		f, err := os.Open(filepath.Join(folder, "order.log"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("the run has no order log: it was made without observe=order_log, or was resumed")
		}
		if err != nil {
			return nil, err
		}
		job.Replay, err = train.ParseOrder(f, n)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	job.Prepare()
	obs := &train.Observer{Job: job, Sink: deaf{}}
	programs, err := job.Programs(obs)
	if err != nil {
		return nil, err
	}
	net, err := of.NewNet(job.World()-job.Workers, 0)
	if err != nil {
		return nil, err
	}
	if err := net.Run(ctx, programs); err != nil && !errors.Is(err, train.ErrReached) {
		return nil, err
	}
	return &Replayed{folder, obs.Final.Step, was.ParamsSHA256, obs.SHA256, was.ParamsSHA256 == obs.SHA256}, nil
}

// onlyZeroed says whether all that was lost are gradients with NaN or Inf, which
// are lost again.
func onlyZeroed(r *experiments.Result) bool { return len(r.Lost) == 1 && r.Ledger.Zeroed > 0 }

// deaf is a sink that wants to hear nothing.
type deaf struct{}

func (deaf) Progress(record.Progress)                {}
func (deaf) Eval(record.Eval)                        {}
func (deaf) Checkpoint(int, *checkpoint.State) error { return nil }
