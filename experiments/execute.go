package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/external"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Execute makes one run: folder, job, net, record, result. On ErrStopped the
// result is that of the steps made.
func Execute(ctx context.Context, run config.Run, opt Options) (*Result, error) {
	e := &execution{run: run, opt: opt, config: run.Config, hash: run.Config.Hash(), recipe: opt.recipe(), base: opt.base(run)}
	defer e.close()
	if r, err := e.find(); r != nil || err != nil {
		return r, err
	}
	for _, step := range []func() error{e.build, e.claim, e.load, e.begin} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	e.announce()
	if err := e.make(ctx); err != nil {
		return nil, e.failed(ctx, err)
	}
	r, err := e.result()
	if err != nil {
		return nil, err
	}
	if err := e.keep(r); err != nil {
		return nil, inFolder(err)
	}
	e.rec.show.Done(summary(r))
	if r.Status == "stopped" {
		if e.job.Weightless {
			return r, Stopped("a run without weights keeps no checkpoint, --resume begins it anew")
		}
		return r, stopped(e.job, e.rec.virtual, r.Steps)
	}
	return r, nil
}

// execution is one run being made. Its steps, in the order of Execute, fill in the
// fields.
type execution struct {
	run    config.Run
	opt    Options
	config config.Config
	of     *config.Resolved // the configuration, once it is built
	hash   string           // of the configuration
	recipe string
	base   string // where its folder lies, but for a number behind it

	found   candidate // an earlier folder of the configuration; none: its path is ""
	f       *folder
	hold    *holding // of f
	resumed bool     // f is the folder found

	job    *train.Job
	prices *config.CodecPrices
	src    *source // that it is priced from; nil: it is trained

	state *checkpoint.State // that it goes on from; nil: it begins at step 0
	m     *manifest         // of state

	rec   *recorder
	obs   *train.Observer
	ended func(error) // tells workers here that the run has ended elsewhere; nil: they finish their updates

	behind error  // why the attempt before ended
	gone   string // who was lost in it, and why

	ends []func() // what is to be done at the end, the last first
}

func (e *execution) close() {
	for _, end := range slices.Backward(e.ends) {
		end()
	}
}

// inFolder says of an error that it is about the run's folder.
func inFolder(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("run folder: %w", err)
}

// title names the run on the display and in errors.
func (e *execution) title() string { return strings.TrimSpace(e.recipe + " " + e.run.Name) }

// find looks for an earlier folder of the configuration, to go on in where that is
// wanted. A run that is done there is the result.
func (e *execution) find() (*Result, error) {
	found, ok := furthestFolder(e.base, e.hash)
	e.found = found
	if !e.opt.Resume || !ok {
		return nil, nil
	}
	var d *damageError
	if found.damage != nil && !found.done && !(e.opt.AllowOlder && errors.As(found.damage, &d) && d.older > 0) {
		return nil, fmt.Errorf("%s: it cannot be gone on with: %w", e.title(), found.damage)
	}
	f := &folder{path: found.path}
	if err := describe(found.path, e.opt.About); err != nil {
		return nil, inFolder(err)
	}
	if found.done {
		r := f.finished(e.config)
		if r != nil && found.mended != "" {
			e.opt.Display.Logf("%s: %s", e.title(), found.mended)
			s := Status{Schema: Schema, State: "done", Recipe: e.recipe, Run: e.run.Name, Hash: e.hash, Step: r.Steps, Started: found.started, Updated: time.Now().UTC()}
			if err := writeJSON(f.file("status.json"), s); err != nil {
				return nil, inFolder(err)
			}
		}
		if r != nil {
			r.Name = e.run.Name // which may have units now
		}
		return r, nil // if there is none, it does not tell what is asked now
	}
	e.f, e.resumed = f, true
	return nil, nil
}

// build makes the job. A run that is gone on with is billed at the rates it was
// billed at before.
func (e *execution) build() error {
	of, err := e.run.Resolve()
	if err != nil {
		return fmt.Errorf("%s: %w", e.title(), err)
	}
	if e.of = of; e.config.OnNet().Ranks == config.RanksLed && e.opt.Lead == nil {
		return noMPIJob()
	}
	at := e.opt.Places
	if at.Warn == nil {
		at.Warn = func(s string) { e.opt.Display.Logf("%s: %s", e.config.Data, s) }
	}
	if e.resumed {
		rates, err := RecordedRates(e.f.path)
		if err != nil {
			return err
		}
		if rates != nil {
			at.Rates = rates
		}
	}
	if e.job, e.prices, e.src, err = e.opt.build(e.of, at); err != nil {
		return fmt.Errorf("%s: %w", e.title(), err)
	}
	if e.opt.Lead != nil {
		if err := e.opt.Lead.check(e.job); err != nil {
			return err
		}
	}
	// Before hours are spent: a column left out, or a label that was taken, may be a mistake.
	if note := e.job.Data.Note; note != "" {
		e.opt.Display.Once("%s: %s", e.config.Data, note)
	}
	return nil
}

// claim makes the folder, unless there is one to go on in, and takes hold of it. None
// is left behind where that cannot be.
func (e *execution) claim() (err error) {
	if e.f == nil {
		if e.f, err = createFolder(e.base, e.opt.perm()); err != nil {
			return inFolder(err)
		}
		defer func() {
			if err != nil {
				os.RemoveAll(e.f.path)
			}
		}()
		if err := describe(e.f.path, e.opt.About); err != nil {
			return inFolder(err)
		}
	}
	e.f.decides = decides(e.config, e.job)
	at := here
	if e.opt.at != nil {
		at = *e.opt.at
	}
	if e.hold, err = at.take(e.f.path, e.opt.Display.Logf); err != nil {
		return inFolder(err)
	}
	e.ends = append(e.ends, e.hold.release)
	return nil
}

// load reads the checkpoint to go on from, and lays down what the run is.
func (e *execution) load() (err error) {
	if e.resumed {
		if e.state, e.m, err = e.f.loadCheckpoint(e.hash, e.job.Model.Layout(), e.opt.AllowOlder); err != nil {
			return err
		}
	}
	e.ends = append(e.ends, func() { e.f.forgetStop(e.opt.asked) })
	_ = os.Remove(e.f.file(stopFile)) // asked of an earlier leg
	return inFolder(e.f.begin(e.config, e.opt.Args, e.prices))
}

// begin makes what hears of the run, and opens its record.
func (e *execution) begin() error {
	metrics := e.job.Model.Metrics()
	goal, err := e.config.Goal(metrics)
	if err != nil {
		return err
	}
	e.rec = &recorder{f: e.f, goal: goal, hold: e.hold, job: e.job, hash: e.hash, virtual: e.config.OnNet().Virtual, watch: e.opt.Watch,
		status: Status{Schema: Schema, State: "running", Started: time.Now().UTC(), Recipe: e.recipe, Run: e.run.Name, Hash: e.hash, Metrics: metrics}}
	e.hooks()
	e.ends = append(e.ends, e.shut)
	if err := e.open(); err != nil {
		return inFolder(err)
	}
	e.hold.keep(func() { e.rec.broken.Store(true) })
	seen := e.job.Data
	if e.src != nil {
		seen = e.src.data
	}
	return inFolder(writeJSON(e.f.file(dataFile), outlineOf(seen)))
}

// hooks tells the job when to write checkpoints and when to stop.
func (e *execution) hooks() {
	job, rec := e.job, e.rec
	job.KeepLast = keepsLast(job)
	rec.inTime = newInTime(CheckpointTime)
	if job.Due = rec.inTime.due; e.opt.due != nil {
		job.Due = e.opt.due
	}
	asked := e.f.stopping(e.opt.Stopping, e.opt.Requeue)
	if _, other := job.Model.(sgd.Printing); other {
		e.ends = append(e.ends, hurries(asked, e.opt.hurry))
	}
	var toMark sync.Once
	job.Stopping = func() bool {
		stop := rec.broken.Load() || asked()
		if stop && rec.virtual && job.StopRule(true, rec.status.Step) == train.StopAtMark {
			toMark.Do(func() { rec.show.Note("stopping at the next mark of checkpoint_every") })
		}
		return stop
	}
	if here := e.workersHere(); here > 0 && breaksOff(e.config, job) {
		u := newUpdates(job, here, e.requeued)
		u.long = cmp.Or(e.opt.hurry, u.long)
		u.note, u.show = func(s string) { rec.show.Note("%s", s) }, func(done, of int) { rec.show.Passes(done, of) }
		job.Between, e.ended = u.between, u.end
	}
}

// workersHere is how many workers are in this process.
func (e *execution) workersHere() int {
	switch {
	case e.opt.Lead != nil:
		return 1 // rank 0
	case e.config.OnNet().Ranks == config.RanksLaunched:
		return 0
	}
	return e.job.Workers
}

// requeued reports whether a stop asks that the run be started again.
func (e *execution) requeued() bool {
	if e.opt.Lead != nil {
		return e.opt.Lead.wantsRequeue()
	}
	return requeued(e.opt.Requeue)
}

// open makes the observer, which begins from the state that there is, opens the files that
// the run is told in, and removes those in which an earlier leg told its end.
func (e *execution) open() (err error) {
	settled := func(ev record.Eval) bool {
		return e.config.IsSettled(e.rec.goal, append(slices.Clone(e.rec.evals), ev))
	}
	e.obs = &train.Observer{Job: e.job, Sink: e.rec, Settled: settled}
	e.rec.obs, e.rec.from, e.rec.kept, e.rec.last, e.f.base = e.obs, 0, 0, nil, counters{}
	if e.src != nil {
		e.obs.Sink = learned{e.src, e.rec}
	}
	if e.state != nil && e.src == nil {
		e.obs.Start, e.f.base, e.rec.from, e.rec.kept = e.state, e.m.Counters, e.m.Version, e.m.Version
		e.f.base.Links = e.f.linksOf(e.m)
	}
	e.state = nil // large, and the observer's
	if e.rec.evals, err = e.f.appendMetrics(e.rec.from); err != nil {
		return err
	}
	if e.rec.events, err = openEvents(e.f, e.run, e.job, e.rec.from, e.resumed); err != nil {
		return err
	}
	for _, name := range []string{"result.json", "ranks.json"} {
		if err := os.Remove(e.f.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	e.rec.start = time.Now()
	return e.rec.setState("running", nil)
}

// shut closes the files that the run is told in.
func (e *execution) shut() {
	if e.f.metrics != nil {
		e.f.metrics.Close()
	}
	if e.rec.events != nil {
		e.rec.events.close()
	}
}

// announce shows the run, and says what is worth knowing before it begins.
func (e *execution) announce() {
	rec, job := e.rec, e.job
	rec.show = e.opt.Display.Run(e.title(), job.Updates, rec.from)
	for _, note := range e.run.Begins() {
		rec.show.Note("%s", note)
	}
	for _, idle := range e.of.Idle(job) {
		rec.show.Note("%s", idle)
	}
	if x := e.f.extends(); x != nil {
		rec.show.Note("it extends %s from step %d", x.Folder, x.Step)
	}
	for _, note := range begins(e.base, e.opt, e.f, e.m, e.found) {
		rec.show.Note("%s", note)
	}
	if n := job.CheckpointEvery; n > 0 && !job.MarkAhead(0) {
		rec.show.Note("checkpoint_every=%d is more than the steps that a worker makes in this run: no checkpoint is written on the way", n)
	}
	if u := job.Uncompressed(); u != nil {
		rec.show.Note("codec %s: %s", e.config.Codec, u)
	}
}

// errPricedStop ends a priced run that was stopped before what it is priced from
// had ended.
const errPricedStop = Stopped("what is priced keeps no checkpoint, --resume begins it anew")

// make lets the programs run to their end, and fills in what was learned elsewhere.
func (e *execution) make(ctx context.Context) error {
	err := e.runNet(ctx)
	if e.f.cut != "" {
		e.rec.show.Note("%s", e.f.cut)
	}
	if err == nil {
		err = e.rec.err
	}
	if taken := e.hold.err(); taken != nil {
		err = taken
	}
	switch {
	case e.src == nil || err != nil:
	case e.src.stopped(e.obs):
		err = errPricedStop
	default:
		err = e.src.complete(e.obs)
	}
	if e.rec.order != nil {
		err = errors.Join(err, e.rec.order.Close())
	}
	return err
}

// failed records a run that came to no result, and words why.
func (e *execution) failed(ctx context.Context, err error) error {
	off, again := brokenOff(err)
	if again && e.opt.Requeue != nil {
		e.opt.Requeue.Store(true)
	}
	switch {
	case errors.Is(err, train.ErrStoppedUnmarked):
		err = Stopped(unmarked(e.rec.kept))
	case off:
		err = Stopped(within(e.rec.kept))
	case errors.Is(err, external.ErrHurried):
		err = Stopped(hurried(err, e.rec.kept))
	}
	if errors.Is(err, ErrStopped) {
		_ = e.rec.setState("stopped", nil)
		_ = e.rec.events.end(nil, err)
		e.rec.show.Done(err.Error())
		return err
	}
	state := "failed"
	if ctx.Err() != nil { // it was ended, and has nothing to do with the configuration
		state = "stopped"
	}
	_ = e.rec.setState(state, err)
	_ = e.rec.events.end(nil, err)
	e.rec.show.Done("failed: " + firstLine(err.Error()))
	return fmt.Errorf("%s: %w", e.title(), err)
}

// result is what the run came to.
func (e *execution) result() (*Result, error) {
	f, obs, rec := e.f, e.obs, e.rec
	r := &Result{Recipe: e.recipe, Name: e.run.Name, Folder: f.path, Status: "done", Config: e.config.Map()}
	r.gather(obs, f.base, rec.clock(obs.Final.Seconds))
	r.links(f.carried, f.base.Links)
	if obs.Unjudged {
		rec.status.Step = r.Steps
		if n := len(rec.evals); n > 0 {
			last := rec.evals[n-1]
			r.AccuracyAt = last.Step
			r.Values = last.Values
		}
	}
	if e.src != nil {
		e.src.credit(r)
	}
	if r.Status == "stopped" && f.unsaved != nil {
		err := fmt.Errorf("stopped, but the checkpoint could not be written (--resume goes on from the one before, if there is one): %w", f.unsaved)
		_ = rec.setState("failed", err)
		_ = rec.events.end(nil, err)
		rec.show.Done("failed: " + err.Error())
		return nil, fmt.Errorf("%s: %w", e.title(), err)
	}
	r.WallSeconds = f.base.Wall + time.Since(rec.start).Seconds()
	if e.rec.virtual {
		r.VirtualSeconds, r.Network, r.CodecTime = obs.Final.Seconds, f.network, e.prices.String()
		if m := e.prices.Misfit(); m != "" {
			r.CodecTime += "; " + m
		}
	}
	r.Restarts = rec.status.Restarts
	r.TrainLoss, r.Extends = rec.trainLoss, f.extends()
	r.Reach(rec.goal, rec.evals)
	return r, nil
}

// keep writes what the run came to into its folder; status.json last, which says
// that all is there.
func (e *execution) keep(r *Result) error {
	if err := e.f.finish(r, e.obs, e.job); err != nil {
		return err
	}
	if err := e.f.keepSizes(e.job.Sizes, e.rec.from == 0 && r.Status == "done"); err != nil {
		return err
	}
	if e.rec.last != nil {
		if err := e.rec.last(); err != nil {
			return err
		}
	}
	if err := e.rec.events.end(r, nil); err != nil {
		return err
	}
	e.rec.status.Step = r.Steps // a stop evaluates nothing, so what was shown last may lie behind
	return e.rec.setState(r.Status, nil)
}

// runNet runs the job's programs where the configuration says.
func (e *execution) runNet(ctx context.Context) error {
	job, obs, f, opt := e.job, e.obs, e.f, e.opt
	if opt.Lead != nil {
		return e.lead(ctx)
	}
	if e.config.OnNet().Ranks == config.RanksLaunched {
		return e.launch(ctx)
	}
	start := time.Duration(0)
	if obs.Start != nil {
		start = time.Duration(obs.Start.Ints["nanoseconds"])
	}
	run := func(n comm.Net) error {
		ps, err := job.Programs(e.obs)
		if err != nil {
			return err
		}
		return n.Run(ctx, ps)
	}
	net, err := e.of.NewNet(job.World()-job.Workers, start)
	if err != nil {
		return err
	}
	switch n := net.(type) {
	case *sim.Net:
		if e.of.IsElastic() {
			n.Fixed = append(job.AllFixed(), job.Observer())
		}
		err := runSim(e.of, job, n, f, func(n comm.Net) error { return e.attempts(func() error { return run(n) }) })
		if gone := (*comm.PeerError)(nil); errors.As(err, &gone) {
			err = fmt.Errorf("the run cannot go on without %s: %w", job.RankName(gone.Rank), err)
		}
		return err
	default:
		return run(n)
	}
}
