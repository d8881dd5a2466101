// Package soak runs small random jobs of every mode on the virtual cluster under random
// faults, and checks after each that nothing broke: gradients are accounted for, versions
// rise, the dead are not heard, workers in step agree, what a mode says it survives it
// survives, what it does not ends with an error that says who died, and the same seed makes
// the same run again, bit for bit. A seed that fails is cut down to the shortest schedule of
// faults that still fails, and printed as a recipe.
//
// It is the test that FoundationDB and TigerBeetle made known: the programs are those of
// every other run, only time, network and deaths are simulated.
package soak

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Soak is how seeds are tried. The zero value is ready for use.
type Soak struct {
	Places config.Places
	Modes  []string // nil: Modes()

	// Beside, if set, stands between each rank and its net: what a test plants there has
	// to be found.
	Beside func(comm.Host) comm.Host
}

// Trial is what became of a seed.
type Trial struct {
	Seed   uint64
	Config config.Config // faults included
	World  nemesis.World
	Took   time.Duration // on its clock, with faults
	Ended  error         // of the run, with faults; nil: it was done
	Deaths int           // ranks that did not come to their end
	Backs  int           // how often all went back to a checkpoint, for one that came back
	Wrong  []string      // what broke; none: all held
}

// run is one run, and what was seen of it.
type run struct {
	job    *train.Job
	w      *witness
	result *experiments.Result
	err    error
	took   time.Duration
	resent uint64
	ended  map[int]bool // ranks that came to their end
	lost   []string     // what its result says, and before all went back
	backs  int          // how often all went back to a checkpoint
}

// Try makes the run of a seed without faults, with them, and with them again. The error
// is that no run could be made of the seed, which says nothing about faults.
func (s *Soak) Try(ctx context.Context, seed uint64) (*Trial, error) {
	if s.Modes == nil {
		s.Modes = Modes()
	}
	if s.Places.Shelf == nil {
		s.Places.Shelf = new(config.Shelf)
	}
	c, job, err := Draw(seed, s.Places, s.Modes)
	if err != nil {
		return nil, err
	}
	plain, err := s.run(ctx, c, job)
	if err != nil {
		return nil, err
	}
	if plain.err != nil {
		return nil, fmt.Errorf("seed %d: without any fault: %w\n%s", seed, plain.err, (&Trial{Seed: seed, Config: c}).Recipe())
	}
	w := config.World(job)
	faults := Faults(seed, w, plain.took)
	if job.Elastic {
		faults = returning(seed, faults)
		faults = returningFixed(seed, fixed(job), w, faults, plain.took)
		c = marked(c, every(seed), s.Places)
	}
	c = beside(c, faults)
	t, err := s.judge(ctx, c, plain)
	if t != nil {
		t.Seed = seed
	}
	return t, err
}

// fixed are the ranks without which those of an elastic run do not go on.
func fixed(j *train.Job) []int { return append(j.AllFixed(), j.Observer()) }

// build makes the job of a configuration.
func build(c config.Config, at config.Places) (*train.Job, error) {
	r, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	return r.Build(at, nil)
}

// marked is a configuration with checkpoints, if it can have them so often.
func marked(c config.Config, every int, at config.Places) config.Config {
	with := c
	_ = with.Set("checkpoint_every", fmt.Sprint(every))
	if _, err := build(with, at); err != nil {
		return c
	}
	return with
}

// beside returns the configuration with faults at instants in place of those that it has, and
// with the moves of workers that it plans.
func beside(c config.Config, timed nemesis.Schedule) config.Config {
	s, _ := nemesis.Parse(c.Faults) // it was checked
	moves, _ := s.Split()
	c.Faults = slices.Concat(moves, timed).String()
	return c
}

// Again makes the trial of a configuration, whatever its faults are.
func (s *Soak) Again(ctx context.Context, c config.Config) (*Trial, error) {
	calm := beside(c, nil)
	job, err := build(calm, s.Places)
	if err != nil {
		return nil, err
	}
	plain, err := s.run(ctx, calm, job)
	if err != nil {
		return nil, err
	}
	return s.judge(ctx, c, plain)
}

// Minimise is the trial of the shortest schedule under which the trial's run still fails. The
// moves that it plans stay.
func (s *Soak) Minimise(ctx context.Context, t *Trial) (*Trial, error) {
	all, err := nemesis.Parse(t.Config.Faults)
	if err != nil {
		return nil, err
	}
	_, all = all.Split()
	if all, err = all.Drawn(t.World); err != nil {
		return nil, err
	}
	least := t
	nemesis.Minimise(all, func(some nemesis.Schedule) bool {
		again, err := s.Again(ctx, beside(t.Config, some))
		if err != nil || len(again.Wrong) == 0 || ctx.Err() != nil {
			return false
		}
		again.Seed = t.Seed
		least = again
		return true
	})
	return least, ctx.Err()
}

// judge makes the run of c twice, and says what broke.
func (s *Soak) judge(ctx context.Context, c config.Config, plain *run) (*Trial, error) {
	var twice [2]*run
	for i := range twice {
		job, err := build(c, s.Places)
		if err != nil {
			return nil, err
		}
		if twice[i], err = s.run(ctx, c, job); err != nil {
			return nil, err
		}
	}
	r := twice[0]
	t := &Trial{Config: c, World: config.World(r.job), Took: r.took, Ended: r.err, Deaths: r.job.World() - len(r.ended), Backs: r.backs, Wrong: r.w.wrong}
	blame := func(format string, a ...any) { t.Wrong = append(t.Wrong, fmt.Sprintf(format, a...)) }
	r.differs(twice[1], blame)
	r.accounts(blame)
	schedule, err := nemesis.Parse(c.Faults)
	if err != nil {
		return nil, err
	}
	plan, err := schedule.Plan(t.World)
	if err != nil {
		return nil, err
	}
	r.keepsItsWord(plain, plan, t.World, blame)
	return t, nil
}

// run makes a run. The error is that it could not be made, not what became of it.
func (s *Soak) run(ctx context.Context, c config.Config, job *train.Job) (*run, error) {
	r := &run{job: job, w: newWitness(job), ended: map[int]bool{}}
	job.Model = witnessed{job.Model, r.w}
	of, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	net, err := of.VirtualNet(job.World()-job.Workers, 0)
	if err != nil {
		return nil, err
	}
	net.Cores = 1
	if job.Elastic {
		net.Fixed = fixed(job)
	}
	last := new(lastCheckpoint)
	for again := true; again; {
		job.Prepare()
		last.obs = &train.Observer{Job: job, Sink: last, Start: last.state}
		programs, err := job.Programs(last.obs)
		if err != nil {
			return nil, err
		}
		for rank, p := range programs {
			programs[rank] = r.w.on(p, s.Beside)
		}
		r.err = net.Run(ctx, programs)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if again = errors.As(r.err, new(*comm.AgainError)); again {
			r.backs++
			last.before = last.dead
			r.w.meets()
		}
	}
	r.took, r.resent, r.result = net.Now(), net.Resent(), experiments.ResultOf(last.obs)
	r.lost = slices.Concat(last.before, r.result.Lost)
	for _, rep := range last.obs.Reports {
		r.ended[rep.Rank] = true
	}
	return r, nil
}

// lastCheckpoint is all that is kept of a run that goes on.
type lastCheckpoint struct {
	state        *checkpoint.State
	obs          *train.Observer // of the run up to now
	before, dead []string        // who had died when that began, and at the checkpoint
}

func (*lastCheckpoint) Progress(record.Progress) {}
func (*lastCheckpoint) Eval(record.Eval)         {}

// Checkpoint implements train.Sink.
func (l *lastCheckpoint) Checkpoint(_ int, s *checkpoint.State) error {
	l.state, l.dead = s, slices.Concat(l.before, l.obs.Dead)
	return nil
}

// differs: the same seed makes the same run again.
func (r *run) differs(o *run, blame func(string, ...any)) {
	switch {
	case fmt.Sprint(r.err) != fmt.Sprint(o.err):
		blame("made again it ends otherwise: %v, then %v", r.err, o.err)
	case r.took != o.took || r.resent != o.resent:
		blame("made again it takes other times: %v and %d bytes resent, then %v and %d", r.took, r.resent, o.took, o.resent)
	case r.w.heard != o.w.heard:
		blame("made again ranks hear other frames")
	case r.result.ParamsSHA256 != o.result.ParamsSHA256 || fmt.Sprint(r.result.Ledger) != fmt.Sprint(o.result.Ledger):
		blame("made again it learns something else")
	}
}

// accounts: gradients sent are applied, rejected or lost, and what was learned is finite.
func (r *run) accounts(blame func(string, ...any)) {
	if r.err != nil {
		return // no result says anything
	}
	l := r.result.Ledger
	if l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 && l.Sent > 0 {
		blame("the ledger does not balance: %d sent, %d applied, %d rejected, %d lost", l.Sent, l.Applied, l.Rejected, l.Lost)
	}
	if loss := r.result.Values["loss"]; math.IsNaN(loss) || math.IsInf(loss, 0) {
		blame("the loss is %v", loss)
	}
}

// harms says whether a plan ends ranks, or parts them from one another, and whether the job's
// run cannot go on without one of them, which does not come back.
func harms(plan []nemesis.Act, w nemesis.World, j *train.Job) (deadly, others bool) {
	const lease = sim.Lease
	for _, a := range plan {
		switch {
		case a.What == nemesis.Killing && slices.ContainsFunc(plan, func(o nemesis.Act) bool {
			return j.Elastic && o.What == nemesis.Joining && o.Rank == a.Rank && o.At >= a.At
		}):
			deadly = true
		case a.What == nemesis.Killing, a.What == nemesis.Pausing && a.For >= lease/2: // pauses add up
			deadly, others = true, others || j.Fixed(a.Rank)
		case a.What == nemesis.Cutting && (a.For == 0 || a.For >= lease):
			deadly = true
			for rank := range w.Ranks() {
				cutOff := a.From.Has(rank) && len(a.From) > 0                 // it is what was cut off
				relays := rank < w.Workers && a.To.Has(rank) && len(a.To) > 0 // or it loses another relay
				others = others || j.Fixed(rank) && (cutOff || relays)
			}
		}
	}
	return deadly, others
}

// keepsItsWord: a run whose faults only take time is what it was without them, and the
// workers of one in step agree.
func (r *run) keepsItsWord(plain *run, plan []nemesis.Act, w nemesis.World, blame func(string, ...any)) {
	traits := r.job.Mode.Traits(r.job)
	deadly, others := harms(plan, w, r.job)
	died := r.job.World() - len(r.ended)
	switch {
	case deadly && r.err != nil && traits.Tree > 0 && resends(plan):
	case deadly:
		r.outlives(traits, died, others, blame)
		r.sameAs(plain, blame)
	case r.err != nil && traits.Tree > 0 && resends(plan): // a sum cannot be taken apart
	case r.err != nil:
		blame("nobody dies, and the run ends with: %v", r.err)
	case len(r.job.Leaves) == 0 && (died > 0 || r.result.Degraded):
		blame("nobody dies, and it has lost %d ranks, %q", died, r.result.Lost)
	case r.job.Timeless() && r.result.ParamsSHA256 != plain.result.ParamsSHA256:
		blame("faults that only take time change what a run learns whose bits no time decides")
	}
	if r.job.Timeless() && !r.job.Elastic && traits.PerPush == 0 && (traits.Sums || traits.Servers > 0) {
		if where := r.w.apart(); where != "" {
			blame("workers in step are apart: %s", where)
		}
	}
}

// sameAs: an elastic run in step of which the same workers took part in the same steps as in
// another one, whoever had died and come back in between, has the bits of that.
func (r *run) sameAs(o *run, blame func(string, ...any)) {
	same := slices.EqualFunc(r.result.Members, o.result.Members, func(a, b train.Membership) bool {
		return a.Step == b.Step && slices.Equal(a.Workers, b.Workers)
	})
	if r.err == nil && same && r.job.Elastic && r.job.Timeless() && r.result.ParamsSHA256 != o.result.ParamsSHA256 {
		blame("who takes part is as without faults, and it learns something else")
	}
}

// resends says whether servers may get pushes twice.
func resends(plan []nemesis.Act) bool {
	return slices.ContainsFunc(plan, func(a nemesis.Act) bool { return a.What == nemesis.Resending })
}

// outlives: where somebody may die, a run whose mode outlives its workers does, if no other
// rank dies, nor a worker that relays what others send. Any other ends with an error that
// says who is gone.
func (r *run) outlives(traits train.Traits, died int, others bool, blame func(string, ...any)) {
	switch {
	case r.err != nil && !named(r.err):
		blame("it ends with an error that names no rank: %v", r.err)
	case r.err != nil && (traits.Outlives || r.job.Elastic) && !others && !nobodyLeft(r.err):
		blame("its mode says that it outlives its workers, of which some die, and it ends with: %v", r.err)
	case r.err == nil && died > 0 && !traits.Outlives && !r.job.Elastic:
		blame("%d ranks have not come to their end, its mode does not say that it outlives any, and it says that it is done", died)
	case r.err == nil && died > len(r.job.Leaves) && len(r.lost) == 0:
		blame("%d ranks have not come to their end, and the result says that nothing is lost", died)
	}
}

// nobodyLeft says whether a run ended as its last worker had, or the last one that had
// parameters which others could begin with.
func nobodyLeft(err error) bool {
	text := err.Error()
	return strings.Contains(text, "all workers are gone") || strings.Contains(text, " 0 workers are left") || strings.Contains(text, "nobody else has the parameters")
}

// named says whether an error says which rank is gone.
func named(err error) bool {
	var gone *comm.PeerError
	text := err.Error()
	if strings.Contains(text, "deadlock at virtual") || strings.Contains(text, "panic") {
		return false
	}
	return errors.As(err, &gone) || strings.Contains(text, "is gone") || strings.Contains(text, "are gone")
}

// Recipe is the trial's run as a recipe: keys that differ from their defaults.
func (t *Trial) Recipe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "about: soak seed %d\n", t.Seed)
	for _, k := range config.Keys() {
		if t.Config.Said(k.Name) {
			fmt.Fprintf(&b, "%s: %q\n", k.Name, t.Config.Get(k.Name))
		}
	}
	return b.String()
}
