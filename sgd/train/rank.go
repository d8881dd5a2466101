package train

import (
	"context"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Rank is what every rank of a run has: the job, a host to talk and compute on, and
// the times it has spent.
type Rank struct {
	job   *Job
	rank  int
	h     comm.Host
	start *checkpoint.State // what was loaded; nil: the run begins from scratch
	times *record.Timer

	reported tells // of how the worker does, to the observer
	earlier  int   // steps of earlier legs of the run

	// Of ranks that compute.
	seat  seat
	step  int     // made
	loss  float64 // of the present step, for what is said of its gradient
	stats stats
	own   compute.Lengths // of the rank's own gradients of the present step, if they are measured

	pass     Pass            // under way
	passCtx  context.Context // of it
	gradwork comm.Work
	meeting  *meeting // of a pass that meets others; nil: none has

	lead  Meter // of the rank that leads; see Report
	ahead ahead

	sub    *within // of a job within the run; nil: the run's
	member *member // of an elastic run; nil: of another one
	again  bool    // it goes on in another epoch of membership
}

// Job is the run's job.
func (r *Rank) Job() *Job { return r.job }

// ID is the rank's number: workers first, then servers.
func (r *Rank) ID() int { return r.rank }

// Stamp implements message.Origin.
func (r *Rank) Stamp() comm.Header { return r.job.Stamp() }

// Host is what the rank runs on, from Run on.
func (r *Rank) Host() comm.Host { return r.h }

// Step is how many steps the rank has made.
func (r *Rank) Step() int { return r.step }

// Steps is how many of them it has made itself: those are left out that others made while it
// was not there.
func (r *Rank) Steps() int { return r.step - int(r.stats.missed) }

// StartAt lets a rank whose state was loaded go on behind so many steps.
func (r *Rank) StartAt(step int) { r.step = step }

// Loss is the mean loss of the last pass, or what SetLoss said.
func (r *Rank) Loss() float64 { return r.loss }

// SetLoss says the loss of a step that consists of several passes.
func (r *Rank) SetLoss(loss float64) { r.loss = loss }

// OwnLengths are the lengths of the rank's own gradients of its present step, if they are measured.
func (r *Rank) OwnLengths() compute.Lengths { return r.own }

// Times books where the rank's time goes.
func (r *Rank) Times() *record.Timer { return r.times }

// Rate makes what gives the learning rate of the rank's present step.
func (r *Rank) Rate() (func() float64, error) {
	sched, err := r.job.Rates()
	return func() float64 { return sched(r.job.ProgressOf(r.step)) }, err
}

// stats is what a worker counts beside its steps.
type stats struct {
	zeroed uint64
	voided uint64
	missed uint64 // steps of the run that were made while it was not there
	stale  int    // updates that others made between its last two answers

	lost float64 // squares of what codecs had yet to send when they began anew
}

// NewRank is a rank of a job that does not run yet: modes check with it that their
// parts can be made.
func NewRank(j *Job, rank int) *Rank {
	return &Rank{job: j, rank: rank, times: new(record.Timer), seat: seat{job: j}}
}

// Part is what one rank does.
type Part interface {
	// Run does the rank's share of the run, from what was loaded to the end or a
	// stop.
	Run(ctx context.Context) error
	// Keep names once what the rank keeps over a restart, for saving and loading.
	Keep(k *checkpoint.Keeper)
	// Final adds what the part knows to the rank's report at the end.
	Final(r *record.RankReport)
}

// besides is implemented by parts whose exchanges are activities beside the one that
// computes.
type besides interface{ Beside() bool }

// run is the program of a rank: the observer's word to begin, the state to begin
// from, the rank's part, its report.
func (r *Rank) run(ctx context.Context, h comm.Host, p Part) error {
	r.h = h
	start, over, err := invited(ctx, r)
	if err != nil || over {
		return err
	}
	b, ok := p.(besides)
	r.times.Begin(h, ok && b.Beside())
	if start != nil {
		k := checkpoint.Loading(start)
		if p.Keep(k); k.Err() != nil {
			return fmt.Errorf("%s: %w", r.job.RankName(r.rank), k.Err())
		}
		r.start, r.earlier = start, r.step
	}
	if err := p.Run(ctx); err != nil {
		return err
	}
	rep := record.RankReport{Rank: r.rank, Role: roleOf(r), Steps: r.Steps(), Residual: math.Sqrt(r.stats.lost), Zeroed: r.stats.zeroed, Voided: r.stats.voided}
	p.Final(&rep)
	return tellFinal(ctx, r, rep)
}

// roleOf is what the rank is in its report.
func roleOf(r *Rank) string {
	switch {
	case r.rank < r.job.Workers:
		return "worker"
	case r.rank < r.job.Coordinator():
		return "server"
	}
	return "coordinator"
}

// Resumes says whether the rank was loaded. The state stays for those who have more
// to take up of it.
func (r *Rank) Resumes() bool { return r.start != nil }

// CatchUp lets the virtual clock come to the instant at which the rank left, if it
// was loaded and the state knows of one.
func (r *Rank) CatchUp(ctx context.Context) (ok bool, err error) {
	if !r.Resumes() {
		return false, nil
	}
	return resumeAt(ctx, r.start, r.h, r.rank)
}

// state is what the rank keeps now: nothing in a run without weights.
func (r *Rank) state(p Part) (*checkpoint.State, error) {
	k := checkpoint.Saving(checkpoint.New())
	if !r.job.Weightless {
		p.Keep(k)
	}
	return k.Of, k.Err()
}
