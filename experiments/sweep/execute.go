package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
)

// Runner makes the run of a job.
type Runner interface {
	// Run makes one run on so many cores. It calls watch as updates are made,
	// and ends early with experiments.ErrStopped once stop is closed.
	Run(ctx context.Context, j Job, cores int, stop <-chan struct{}, watch func(done, total int)) (*experiments.Result, error)
}

// Plan is a sweep about to be run.
type Plan struct {
	Jobs    []Job
	Costs   []Cost // of the jobs, for the order and the time left
	Cores   int    // of the machine
	AtOnce  int    // jobs at a time; 0: as many as there are cores
	Runner  Runner
	Display *progress.Display
	Stop    <-chan struct{} // closed at the first Ctrl-C: running jobs write checkpoints, no more begin
}

// Outcome is what became of a job: a result, or an error that says why there is
// none. A stopped job may have both.
type Outcome struct {
	Job    Job
	Result *experiments.Result
	Err    error
}

// Failed are the outcomes of jobs that failed; stopped ones did not.
func Failed(all []Outcome) []Outcome {
	var out []Outcome
	for _, o := range all {
		if o.Err != nil && !errors.Is(o.Err, experiments.ErrStopped) {
			out = append(out, o)
		}
	}
	return out
}

// errNotBegun is the outcome of jobs that a stop came before.
var errNotBegun = fmt.Errorf("not begun: %w", experiments.ErrStopped)

// slots shares the cores of a machine out among so many jobs at a time: the
// sum is the number of cores, unless there are more jobs than that.
func slots(cores, jobs int) []int {
	out := make([]int, jobs)
	for i := range out {
		out[i] = max(1, cores/jobs)
		if i < cores%jobs && cores > jobs {
			out[i]++
		}
	}
	return out
}

// Execute runs the jobs, the longest first, and returns what became of each, in
// the order of the plan. One that fails leaves the others alone. Jobs on the wall
// clock run after the others, one at a time with all cores: two measurements at
// once would measure each other. Jobs that share the training of others (Share)
// run once these are trained.
func (p Plan) Execute(ctx context.Context) []Outcome {
	out := make([]Outcome, len(p.Jobs))
	var together, priced, alone []int
	for i, j := range p.Jobs {
		out[i] = Outcome{Job: j, Err: errNotBegun}
		switch {
		case p.Costs[i].Err != nil:
			out[i].Err = p.Costs[i].Err
		case p.Costs[i].Priced:
			priced = append(priced, i)
		case j.Config.OnNet().Virtual:
			together = append(together, i)
		default:
			alone = append(alone, i)
		}
	}
	view := p.view(out)
	defer view.Done()
	atOnce := p.AtOnce
	if atOnce <= 0 {
		atOnce = p.Cores
	}
	trained := experiments.Trained{}
	for _, jobs := range [][]int{together, priced} {
		for _, i := range jobs {
			if j := &out[i].Job; p.Costs[i].Priced && j.From == "" { // trained after all, if that failed
				j.From = trained.From(j.Config)
			}
		}
		slices.SortStableFunc(jobs, func(a, b int) int { return cmp.Compare(p.Costs[b].Seconds, p.Costs[a].Seconds) })
		p.phase(ctx, out, jobs, slots(p.Cores, max(1, min(atOnce, len(jobs)))), view)
		for _, i := range jobs {
			if o := out[i]; o.Err == nil && o.Result != nil {
				trained.Add(o.Job.Config, o.Result.Folder)
			}
		}
	}
	p.phase(ctx, out, alone, []int{p.Cores}, view)
	return out
}

// view opens the display of the sweep's jobs that can run.
func (p Plan) view(out []Outcome) *progress.Sweep {
	var weights []float64
	for i, c := range p.Costs {
		if out[i].Err == errNotBegun {
			weights = append(weights, c.Seconds)
		}
	}
	return p.Display.Sweep(weights)
}

// phase runs jobs over slots, each of so many cores.
func (p Plan) phase(ctx context.Context, out []Outcome, jobs, slots []int, view *progress.Sweep) {
	next := make(chan int)
	var wg sync.WaitGroup
	for _, cores := range slots {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				p.one(ctx, &out[i], p.Costs[i], cores, view)
			}
		}()
	}
	for _, i := range jobs {
		if p.stopped(ctx) {
			break
		}
		select {
		case next <- i:
		case <-p.Stop:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
}

func (p Plan) stopped(ctx context.Context) bool {
	select {
	case <-p.Stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func (p Plan) one(ctx context.Context, o *Outcome, c Cost, cores int, view *progress.Sweep) {
	show := view.Begin(o.Job.Name, c.Seconds)
	start := time.Now()
	o.Result, o.Err = p.Runner.Run(ctx, o.Job, cores, p.Stop, show.Update)
	switch {
	case errors.Is(o.Err, experiments.ErrStopped):
		show.End("stopped; its checkpoint is written", false)
	case o.Err != nil:
		show.End("failed: "+o.Err.Error(), true)
	default:
		m := o.Result.Goal().Metric
		what := m.Head() + " " + progress.Value(m, o.Result.Values[m.Name])
		if o.Result.Weightless() {
			what = fmt.Sprintf("%.4g samples/s", float64(o.Result.Samples)/o.Result.VirtualSeconds)
		}
		show.End(what+" in "+progress.Seconds(time.Since(start).Seconds()), false)
	}
}
