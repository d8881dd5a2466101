package train

import (
	"context"

	"github.com/gradlab/gradlab/sgd/train/record"
)

// tellEvery is how many steps of a worker lie between what it tells.
func (j *Job) tellEvery() int {
	return max(1, j.Updates*j.PerUpdate()/j.Workers/100)
}

// tells is what a worker told last.
type tells struct {
	yes  bool // it has: what it made before, in an earlier leg, is not its pace
	step int
	at   float64
	time record.Times
}

// Doing lets the observer know how the worker does after a step, if that is due.
func (r *Rank) Doing(ctx context.Context) error {
	j, t, step := r.job, r.times, r.step
	if j.Workers > record.MaxWorkerStates || r.reported.yes && !Crossed(j.tellEvery(), r.reported.step, step) {
		return nil
	}
	now := tells{true, step, r.h.Now().Seconds(), t.Times()}
	s := record.WorkerState{Rank: r.rank, State: record.StateComputing, Step: step, Staleness: r.stats.stale, Seconds: now.at, Lately: now.time.Minus(r.reported.time)}
	if s.Lately.Wire+s.Lately.Wait > s.Lately.Compute+s.Lately.Encode+s.Lately.Decode {
		s.State = record.StateWaiting
	}
	if d := now.at - r.reported.at; r.reported.yes && d > 0 {
		s.Rate = float64(step-r.reported.step) / d
	}
	r.reported = now
	return r.tellJSON(ctx, onWorker, s)
}

// census is what the observer knows of the workers.
type census struct {
	workers []record.WorkerState // by rank
	told    int                  // step of the last progress that came with them
}

// hear takes what a worker told.
func (c *census) hear(j *Job, s record.WorkerState) {
	if w := c.worker(j, s.Rank); w != nil {
		*w = s
	}
}

// left notes that a worker has ended, or is dead.
func (c *census) left(j *Job, rank int, state string) {
	if w := c.worker(j, rank); w != nil {
		w.State = state
	}
}

func (c *census) worker(j *Job, rank int) *record.WorkerState {
	if rank < 0 || rank >= j.Workers || j.Workers > record.MaxWorkerStates {
		return nil
	}
	for r := len(c.workers); r < j.Workers; r++ {
		c.workers = append(c.workers, record.WorkerState{Rank: r, State: record.StateComputing})
	}
	return &c.workers[rank]
}

// progress hands a report on, now and then with how the workers do.
func (o *Observer) progress(p record.Progress) {
	if o.Reached && p.Step > o.Final.Step { // of what was under way
		return
	}
	p.Scale()
	if o.Job.Grows() && p.Batch == 0 {
		p.Batch = int(o.Job.Drawn(p.Step) - o.Job.Drawn(p.Step-1))
	}
	if o.Job.Resizes() && p.Side == 0 {
		p.Side = o.Job.sideOfUpdate(p.Step - 1)
	}
	c := &o.census
	if len(c.workers) > 0 && (Crossed(max(1, o.Job.Updates/100), c.told, p.Step) || p.Step >= o.Job.Updates) {
		c.told = p.Step
		p.Workers = append([]record.WorkerState(nil), c.workers...)
	}
	o.Sink.Progress(p)
}
