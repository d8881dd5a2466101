package train

import (
	"context"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// conductor is the observer's side of pace. It calls for evaluations,
// checkpoints and the end of free runs, and for stops of any.
type conductor struct {
	*Rank
	o      *Observer
	free   bool
	models int
	all    []int // workers

	made   int    // updates
	beyond uint64 // gradients of a free run behind its last update
	meter  Meter
	bytes  crossings // as last told with a step
	door   *door     // of an open run; else nil

	holding bool // a hold is under way
	resting bool // all rest behind one, until their states are kept
	over    bool // the updates are made
	stop    bool
	keep    bool // of states in passing, by the hold under way
	begun   map[int]int
	granted bool
	quiet   map[int]bool
	gone    map[int]bool // ended
	dead    map[int]bool // of them, those that died
	hear    map[int]int  // who is to be told up to which of their steps they were heard
	rests   map[int]int  // of those who begin no more steps in this epoch: how many they have made
}

func newConductor(o *Observer) (c *conductor, err error) {
	j := o.Job
	t := j.Traits()
	r := NewRank(j, o.rank.rank)
	r.h = inEpoch{o.rank.h, o}
	c = &conductor{Rank: r, o: o, free: t.Conduct == Free, models: t.Models, bytes: crossings{}}
	for w := range j.Workers {
		c.all = append(c.all, w)
	}
	c.anew()
	if j.open() && c.free {
		c.door = newDoor(j, o.Start)
	}
	if o.Start != nil {
		c.made = int(o.Start.Ints[KeyVersion])
		k := checkpoint.Loading(o.Start)
		c.meter.Keep(k)
		err = k.Err()
	}
	return c, err
}

// inEpoch is a host that says of what it sends in which epoch of membership that is.
type inEpoch struct {
	comm.Host
	o *Observer
}

// Send implements comm.Endpoint.
func (h inEpoch) Send(ctx context.Context, to int, f comm.Frame) error {
	if n := len(h.o.Members); n > 0 && h.o.Job.inEpochs() {
		f.Header.Epoch = uint32(h.o.Members[n-1].Epoch)
	}
	return h.Host.Send(ctx, to, f)
}

// anew begins with other members, who know of nothing that is under way.
func (c *conductor) anew() {
	c.holding, c.keep = false, false
	c.gone, c.dead, c.rests, c.hear = map[int]bool{}, map[int]bool{}, map[int]int{}, map[int]int{}
}

// there is who is conducted: all workers, or those who take part.
func (c *conductor) there() []int {
	if c.job.Elastic {
		return c.o.members()
	}
	return c.all
}

// take hears from a worker.
func (c *conductor) take(ctx context.Context, hd comm.Header) error {
	if handled, err := c.guest(ctx, hd); handled {
		return err
	}
	from := int(hd.From)
	switch hd.Tag {
	case onTick.Tag():
		return c.tick(ctx, &hd, onTick.Read(hd))
	case onBegun.Tag():
		c.begun[from] = onBegun.Read(hd).N
	case onQuiet.Tag():
		c.quiet[from] = true
	case onRests.Tag():
		c.rests[from] = onRests.Read(hd).N
	case onBehind.Tag():
		return c.o.passes(ctx, onBehind.Read(hd).N+1)
	}
	return c.advance(ctx)
}

// died hears that a worker has died, without which the run goes on.
func (c *conductor) died(ctx context.Context, rank int) error {
	c.dead[rank] = true
	if err := c.left(ctx, rank); err != nil {
		return err
	}
	return c.lost(ctx, rank)
}

// say is the error of sending to a worker: that it is dead is told to the observer.
func (c *conductor) say(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// ended hears that a worker has ended. One that has left may have done so before it heard
// that it was to show its model.
func (c *conductor) ended(ctx context.Context, rank int) error {
	if err := c.left(ctx, rank); err != nil || c.door == nil {
		return err
	}
	c.o.unasked(rank)
	return c.o.completes(ctx)
}

// left hears that a worker has come to its end.
func (c *conductor) left(ctx context.Context, rank int) error {
	c.gone[rank] = true
	return c.advance(ctx)
}

func (c *conductor) tick(ctx context.Context, hd *comm.Header, w tickWord) error {
	j, before, from := c.job, c.made, int(hd.From)
	c.bytes.hear(hd, w.up, w.down)
	if c.door != nil {
		c.door.steps[from] = w.step
	}
	if !c.h.Virtual() && w.step%(j.lead()/2) == 0 {
		c.hear[from] = w.step
		if err := c.hears(ctx); err != nil {
			return err
		}
	}
	made := c.made
	if !c.free {
		made = w.step
	}
	stop, err := j.stopsHere(c.h, made)
	if err != nil {
		return err
	}
	c.stop = c.stop || stop
	if c.free && c.over {
		c.beyond++
	}
	if c.free && !c.over {
		c.made++
		c.meter.Add(from, w.loss)
		if err := c.update(ctx, before); err != nil {
			return err
		}
		if err := c.visits(ctx); err != nil {
			return err
		}
	}
	mark := c.free && Crossed(j.CheckpointEvery*j.Workers, before, c.made)
	due := !c.holding && !c.over && j.keepsHere(c.h, j.isLast(made))
	if (c.over && c.free) || c.stop || mark || due {
		c.keep = c.keep || due && !c.free && !c.stop
		return c.hold(ctx)
	}
	return nil
}

// hears tells workers up to which of their steps they were heard, unless evaluations are
// behind: then workers come to wait for those.
func (c *conductor) hears(ctx context.Context) error {
	if len(c.o.parts) > snapshotsAhead && !c.over && !c.o.Reached {
		return nil
	}
	for r, n := range c.hear {
		delete(c.hear, r)
		if err := c.say(onHeard.Send(ctx, c.Rank, r, message.Count{N: n}, 0)); err != nil {
			return err
		}
	}
	return nil
}

// update does what is due at an update of a free run.
func (c *conductor) update(ctx context.Context, before int) error {
	j := c.job
	c.over, c.o.step = c.made >= j.Updates, c.made
	if Crossed(j.ReportEvery(), before, c.made) || c.over {
		p := j.ProgressAt(c.made, c.made)
		m := record.Progress{Step: c.made, Samples: p.Samples, Epoch: p.Epoch, Seconds: c.h.Now().Seconds()}
		c.meter.Fill(&m, nil)
		all := c.bytes.beside(func(int) bool { return false })
		m.BytesUp, m.BytesDown = all.up, all.down
		if j.Elastic {
			m.World = len(c.there())
		}
		if sched, err := j.Rates(); err == nil {
			m.LR = sched(p)
		}
		c.o.progress(m)
	}
	switch {
	case c.over:
		return c.call(ctx, callLast, c.models)
	case Crossed(j.EvalEvery, before, c.made):
		return c.call(ctx, callShow, c.models)
	}
	return nil
}

// call calls the first n workers.
func (c *conductor) call(ctx context.Context, code uint8, n int) error {
	if code != callHold {
		e := c.o.part(evaluation(c.made, code == callLast))
		if c.door != nil { // who comes later is not asked
			e.wanted = slices.Clone(c.there())
		}
	}
	for i, r := range c.there() {
		if i >= n || c.gone[r] {
			continue
		}
		if err := c.say(onCall.Send(ctx, c.Rank, r, callWord{code: code, updates: c.made}, 0)); err != nil {
			return err
		}
	}
	return nil
}

// hold lets the workers come to rest.
func (c *conductor) hold(ctx context.Context) error {
	if c.holding {
		return nil
	}
	if c.door != nil && c.door.goes != nil && c.door.goes.called && !c.ends() {
		c.door.late = true // it would be granted steps that it does not make
		return nil
	}
	c.holding, c.granted, c.begun, c.quiet = true, false, map[int]int{}, map[int]bool{}
	return c.call(ctx, callHold, c.job.Workers)
}

// advance takes a hold further: limits once all have answered, and states, or
// the end, once all are quiet.
func (c *conductor) advance(ctx context.Context) error {
	if !c.holding {
		return nil
	}
	j := c.job
	if !c.granted {
		most := 0
		for _, r := range c.there() {
			n, ok := c.hasBegun(r)
			if !ok {
				return nil
			}
			most = max(most, n)
		}
		c.granted = true
		for _, r := range c.there() {
			if c.gone[r] {
				continue
			}
			limit, flags := message.Count{N: most}, message.Flags(0)
			if c.free {
				limit.N = c.begun[r]
			}
			if c.keep {
				flags = FlagKeep
			}
			if err := c.say(onLimit.Send(ctx, c.Rank, r, limit, flags)); err != nil {
				return err
			}
		}
	}
	if c.keep { // all have gone on
		c.keep, c.holding = false, false
		return nil
	}
	for _, r := range c.there() {
		if _, rests := c.rests[r]; !c.quiet[r] && !c.dead[r] && !rests {
			return nil // who ends without becoming quiet has made all steps, as will the others
		}
	}
	c.holding = false
	c.stop = c.stop || c.free && !c.over && j.stopsAtMark(c.h, c.made)
	flags := message.Flags(0)
	switch {
	case c.over:
		flags = FlagDone
	case c.stop:
		flags = FlagStop
	}
	c.resting = true
	for _, r := range c.there() {
		if c.gone[r] {
			continue
		}
		if err := c.say(onRest.Send(ctx, c.Rank, r, message.Count{N: c.made}, flags)); err != nil {
			return err
		}
	}
	return c.visits(ctx)
}

// hasBegun is how many steps a worker has begun in a hold, if that is known.
func (c *conductor) hasBegun(r int) (n int, ok bool) {
	if n, ok = c.rests[r]; ok {
		return n, true
	}
	switch {
	case c.dead[r]:
		return 0, true
	case c.gone[r]:
		return c.job.Updates, true
	}
	n, ok = c.begun[r]
	return n, ok
}

// goOn ends a checkpoint.
func (c *conductor) goOn(ctx context.Context, flags message.Flags) error {
	for _, r := range c.there() {
		if c.gone[r] {
			continue
		}
		if err := c.say(onGo.Send(ctx, c.Rank, r, message.Nothing{}, flags)); err != nil {
			return err
		}
	}
	c.resting = false
	return c.visits(ctx)
}
