package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// recorder is the sink of a run: everything it hears goes to the folder, to the
// display and into the result.
type recorder struct {
	f         *folder
	hold      *holding // of f
	events    *events
	job       *train.Job
	obs       *train.Observer
	hash      string
	goal      record.Goal // what the run is to reach and is compared by
	status    Status
	show      *progress.Run
	watch     func(done, total int)
	start     time.Time
	from      int  // step the run was resumed from
	kept      int  // step of the last checkpoint; 0: there is none
	virtual   bool // the clock goes on by itself over a resume
	evals     []record.Eval
	trainLoss float64
	order     *os.File // nil: nothing was logged yet
	err       error    // of the record itself
	broken    atomic.Bool
	inTime    *inTime
	last      func() error // writes the checkpoint behind the end of a run that has reached its target
}

var _ train.Sink = (*recorder)(nil)

func (r *recorder) Progress(p record.Progress) {
	p.BytesUp += r.f.base.Up
	p.BytesDown += r.f.base.Down
	p.Seconds = r.clock(p.Seconds)
	r.trainLoss, r.status.Step = p.Loss, p.Step
	r.keep(r.f.metric(Line{Kind: "progress", Progress: &p}))
	r.keep(r.events.progress(p))
	r.show.Progress(p)
	if r.watch != nil {
		r.watch(p.Step, r.job.Updates)
	}
}

func (r *recorder) Eval(e record.Eval) {
	e.BytesUp += r.f.base.Up
	e.BytesDown += r.f.base.Down
	e.Seconds = r.clock(e.Seconds)
	r.status.Step = e.Step
	r.evals = append(r.evals, e)
	r.keep(r.f.metric(Line{Kind: "eval", Eval: &e}))
	r.keep(r.events.eval(e))
	r.show.Eval(e, r.goal.Metric)
	if r.obs.Reached {
		why := "have reached the target: the run ends here (until=target)"
		if !r.job.Until.Reached(e) {
			why = fmt.Sprintf("are no new best, as %d evaluations in a row: the run ends here (until=plateau)", config.Plateau)
		}
		r.show.Note("%s at step %d %s", progress.Measured(r.job.Model.Metrics(), e.Values), e.Step, why)
	}
}

// Members implements train.MembersSink.
func (r *recorder) Members(m train.Membership) {
	m.Seconds = r.clock(m.Seconds)
	r.keep(r.f.metric(Line{Kind: "members", Members: &m}))
	for _, l := range m.Left {
		r.show.Note("worker %d: %s; the other %d go on from step %d", l.Worker, l.Why, len(m.Workers)-len(m.Joined), m.Step)
	}
	for _, w := range newcomers(r.obs.Members) {
		r.show.Note("worker %d has joined: %d workers go on from step %d", w, len(m.Workers), m.Step)
	}
}

// newcomers are those who have joined by the last membership and were not in the one before:
// a worker joins anew where another came before it had begun.
func newcomers(members []train.Membership) (joined []int) {
	m, there := members[len(members)-1], []int(nil)
	if len(members) > 1 {
		there = members[len(members)-2].Workers
	}
	for _, w := range m.Joined {
		gone := slices.ContainsFunc(m.Left, func(l train.Leave) bool { return l.Worker == w })
		if gone || !slices.Contains(there, w) {
			joined = append(joined, w)
		}
	}
	return joined
}

// clock adds what earlier legs took; a virtual clock goes on by itself.
func (r *recorder) clock(s float64) float64 {
	if r.virtual {
		return s
	}
	return s + r.f.base.Now
}

func (r *recorder) Checkpoint(version int, s *checkpoint.State) error {
	if r.err != nil { // a run must not go on behind a gap
		return r.err
	}
	if err := r.hold.err(); err != nil { // nor write where another does
		return err
	}
	c := r.f.base
	c.Up += uint64(s.Ints["bytes_up"])
	c.Down += uint64(s.Ints["bytes_down"])
	if c.Raw > 0 || r.f.base.Up == 0 { // else an earlier leg did not count them
		c.Raw += uint64(s.Ints["raw_bytes"])
		c.BF16 += uint64(s.Ints["bf16_bytes"])
	}
	n := linksAt(s)
	c.Links.Wire += n.Wire
	c.Links.Shared += n.Shared
	c.Links.Report += n.Report
	c.Links.Overhead += n.Overhead
	c.Wall += time.Since(r.start).Seconds()
	c.Lost = append(slices.Clone(c.Lost), r.obs.Dead...)
	c.Now = r.clock(float64(s.Ints["nanoseconds"]) / 1e9)
	write := func() error { return r.write(version, s, c) }
	if r.obs.Reached { // a resume must not begin behind the evaluation that ends the run
		r.last = write
		return nil
	}
	return write()
}

// write writes a checkpoint.
func (r *recorder) write(version int, s *checkpoint.State, c counters) error {
	began := time.Now()
	err := r.f.saveCheckpoint(version, r.hash, s, r.job.Model.Layout(), c)
	r.inTime.written(time.Since(began))
	if r.f.unsaved = err; err == nil {
		r.f.failed, r.kept = 0, version
		if r.job.CheckpointEvery > 0 || r.inTime.told() || !r.obs.Reached && r.job.IsStopping() { // else it is the one before the end
			r.show.Note("checkpoint at step %d", version)
		}
		return nil
	}
	// The old checkpoint stands; the run goes on, but not for ever without one.
	r.f.failed++
	r.show.Note("checkpoint at step %d could not be written: %v", version, err)
	if r.f.failed >= 3 {
		return fmt.Errorf("three checkpoints in a row could not be written: %w", err)
	}
	return nil
}

// keep notes that the record has a gap. The run ends at the next step: made to its
// end it could not be told, and it can go on from its last checkpoint.
func (r *recorder) keep(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("metrics: %w", err)
		r.broken.Store(true)
	}
}

func (r *recorder) setState(state string, err error) error {
	r.status.State, r.status.Updated = state, time.Now().UTC()
	r.status.Error = ""
	if err != nil {
		r.status.Error = err.Error()
	}
	return r.hold.write(r.status)
}

// Order implements train.OrderSink: the log is kept beside the run. A resumed
// run has none, as it would lack its beginning.
func (r *recorder) Order(lines []byte) error {
	path := r.f.file("order.log")
	if r.from > 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if r.order == nil {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, permOf(r.f.path))
		if err != nil {
			return err
		}
		r.order = f
	}
	_, err := r.order.Write(lines)
	return err
}
