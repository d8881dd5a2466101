package ask

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Measured is what a run shows of time and bytes.
type Measured struct {
	Ends               []float64 // virtual seconds at which updates were made: all of up to 799, else some hundreds
	Updates            []int     // how many were made by then
	BytesUp, BytesDown uint64    // by and to all workers
	Reports            []record.RankReport
	Links              []sim.Link // how much of the network was used
}

// Rate is the number of samples a second, per samples in an update, from behind
// the first warm updates to the last.
func (m *Measured) Rate(warm, samples int) float64 {
	first, last := sort.SearchInts(m.Updates, warm), len(m.Updates)-1
	if warm < 1 || first >= last {
		return 0
	}
	return float64(samples*(m.Updates[last]-m.Updates[first])) / (m.Ends[last] - m.Ends[first])
}

// Watch is who looks on while a run is measured; either may be nil.
type Watch struct {
	Places   config.Places         // where rates of codecs are measured and kept
	Stopping func() bool           // once it says so, the run ends after the step it is in, with ErrStopped
	Steps    func(done, total int) // hears how many updates have been made, of how many, as often as Measured.Ends notes them
}

// Measure performs a run on the virtual cluster and keeps no folder for it: what
// a study of many short runs without weights wants.
func Measure(ctx context.Context, c config.Config, w Watch) (*Measured, error) {
	of, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	if !c.OnNet().Traces {
		return nil, fmt.Errorf("net=%s: only runs on a virtual cluster, such as net=sim, are measured", c.Net)
	}
	job, err := of.Build(w.Places, nil)
	if err != nil {
		return nil, err
	}
	job.Stopping = w.Stopping
	s := &instants{steps: w.Steps, total: job.Updates}
	obs := &train.Observer{Job: job, Sink: s}
	programs, err := job.Programs(obs)
	if err != nil {
		return nil, err
	}
	net, err := of.VirtualNet(job.World()-job.Workers, 0)
	if err != nil {
		return nil, err
	}
	err = net.Run(ctx, programs)
	stopped := errors.Is(err, train.ErrStoppedUnmarked)
	if err != nil && !stopped {
		return nil, err
	}
	for _, r := range obs.Reports {
		stopped = stopped || r.Stopped
	}
	if stopped {
		return nil, experiments.Stopped("what is measured in part is not kept")
	}
	return &Measured{Ends: s.at, Updates: s.made, BytesUp: obs.Final.BytesUp, BytesDown: obs.Final.BytesDown, Reports: obs.Reports, Links: net.Links()}, nil
}

// instants notes when updates were made.
type instants struct {
	at    []float64
	made  []int
	steps func(done, total int)
	total int
}

func (e *instants) Progress(p record.Progress) {
	e.at, e.made = append(e.at, p.Seconds), append(e.made, p.Step)
	if e.steps != nil {
		e.steps(p.Step, e.total)
	}
}
func (e *instants) Eval(record.Eval)                        {}
func (e *instants) Checkpoint(int, *checkpoint.State) error { return nil }
