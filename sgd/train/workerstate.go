package train

import "context"

// WorkerState is how a worker does, as it told the observer now and then: about
// a hundred times in a run.
type WorkerState struct {
	Rank      int     `json:"rank"`
	State     string  `json:"state"`     // computing or waiting, whichever took more of Lately; ended; dead
	Step      int     `json:"step"`      // steps it has made
	Staleness int     `json:"staleness"` // updates that others made between its last two answers, or while its last gradient was made
	Rate      float64 `json:"rate"`      // steps a second since it told before
	Seconds   float64 `json:"seconds"`   // when it told, on the net's clock
	Lately    Times   `json:"lately"`    // where its time went since it told before
}

// States of a worker.
const (
	StateComputing = "computing"
	StateWaiting   = "waiting"
	StateEnded     = "ended"
	StateDead      = "dead"
)

// MaxWorkerStates is up to how many workers tell how they do.
const MaxWorkerStates = 64

// tellEvery is how many steps of a worker lie between what it tells.
func (j *Job) tellEvery() int {
	return max(1, j.Updates*j.PerUpdate()/j.Workers/100)
}

// tells is what a worker told last.
type tells struct {
	yes  bool // it has: what it made before, in an earlier leg, is not its pace
	step int
	at   float64
	time Times
}

// Doing lets the observer know how the worker does after a step, if that is due.
func (r *Rank) Doing(ctx context.Context) error {
	j, t, step := r.job, &r.times, r.step
	if j.Workers > MaxWorkerStates || r.reported.yes && !crossed(j.tellEvery(), r.reported.step, step) {
		return nil
	}
	now := tells{true, step, t.h.Now().Seconds(), t.times()}
	s := WorkerState{Rank: r.rank, State: StateComputing, Step: step, Staleness: r.stats.stale, Seconds: now.at, Lately: now.time.minus(r.reported.time)}
	if s.Lately.Wire+s.Lately.Wait > s.Lately.Compute+s.Lately.Encode+s.Lately.Decode {
		s.State = StateWaiting
	}
	if d := now.at - r.reported.at; r.reported.yes && d > 0 {
		s.Rate = float64(step-r.reported.step) / d
	}
	r.reported = now
	return r.tellJSON(ctx, onWorker, s)
}

func (t Times) minus(o Times) Times {
	return Times{t.Compute - o.Compute, t.Encode - o.Encode, t.Decode - o.Decode, t.Wire - o.Wire, t.Wait - o.Wait, t.Rest - o.Rest}
}

// census is what the observer knows of the workers.
type census struct {
	workers []WorkerState // by rank
	told    int           // step of the last progress that came with them
}

// hear takes what a worker told.
func (c *census) hear(j *Job, s WorkerState) {
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

func (c *census) worker(j *Job, rank int) *WorkerState {
	if rank < 0 || rank >= j.Workers || j.Workers > MaxWorkerStates {
		return nil
	}
	for r := len(c.workers); r < j.Workers; r++ {
		c.workers = append(c.workers, WorkerState{Rank: r, State: StateComputing})
	}
	return &c.workers[rank]
}

// progress hands a report on, now and then with how the workers do.
func (o *Observer) progress(p Progress) {
	if o.Reached && p.Step > o.Final.Step { // of what was under way
		return
	}
	p.scale()
	if o.Job.Grows() && p.Batch == 0 {
		p.Batch = int(o.Job.Drawn(p.Step) - o.Job.Drawn(p.Step-1))
	}
	if o.Job.Resizes() && p.Side == 0 {
		p.Side = o.Job.sideOfUpdate(p.Step - 1)
	}
	c := &o.census
	if len(c.workers) > 0 && (crossed(max(1, o.Job.Updates/100), c.told, p.Step) || p.Step >= o.Job.Updates) {
		c.told = p.Step
		p.Workers = append([]WorkerState(nil), c.workers...)
	}
	o.Sink.Progress(p)
}
