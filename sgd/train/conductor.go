package train

import (
	"context"

	"github.com/gradlab/gradlab/comm"
)

// conductor is the observer's side of pace. It calls for evaluations,
// checkpoints and the end of free runs, and for stops of any.
type conductor struct {
	o      *Observer
	h      comm.Host
	free   bool
	models int

	made  int // updates
	meter progressMeter
	up    []uint64 // bytes sent by each worker, as last told
	down  []uint64

	holding bool // a hold is under way
	over    bool // the updates are made
	stop    bool
	keep    bool // of states in passing, by the hold under way
	begun   map[int]int
	granted bool
	quiet   map[int]bool
	gone    map[int]bool // ended
}

func newConductor(o *Observer, h comm.Host) (c *conductor, err error) {
	j := o.Job
	t := j.traits()
	c = &conductor{o: o, h: h, free: t.Conduct == Free, models: t.Models, up: make([]uint64, j.Workers), down: make([]uint64, j.Workers), gone: map[int]bool{}}
	if o.Start != nil {
		c.made = int(o.Start.Ints["version"])
		err = c.meter.load(o.Start)
	}
	return c, err
}

// take hears from a worker.
func (c *conductor) take(ctx context.Context, hd comm.Header) error {
	from := int(hd.From)
	switch hd.Tag {
	case tagTick:
		return c.tick(ctx, from, hd)
	case tagBegun:
		c.begun[from] = int(hd.Step)
	case tagQuiet:
		c.quiet[from] = true
	}
	return c.advance(ctx)
}

// left hears that a worker has ended.
func (c *conductor) left(ctx context.Context, rank int) error {
	c.gone[rank] = true
	return c.advance(ctx)
}

func (c *conductor) tick(ctx context.Context, from int, hd comm.Header) error {
	j, before := c.o.Job, c.made
	c.up[from], c.down[from] = hd.Seq, hd.Version
	made := c.made
	if !c.free {
		made = int(hd.Step)
	}
	stop, err := j.stopsHere(c.h, made)
	if err != nil {
		return err
	}
	c.stop = c.stop || stop
	if c.free && !c.over {
		c.made++
		c.meter.add(hd)
		if err := c.update(ctx, before); err != nil {
			return err
		}
	}
	mark := c.free && crossed(j.CheckpointEvery*j.Workers, before, c.made)
	due := !c.holding && !c.over && j.keepsHere(c.h, j.isLast(made))
	if (c.over && c.free) || c.stop || mark || due {
		c.keep = c.keep || due && !c.free && !c.stop
		return c.hold(ctx)
	}
	return nil
}

// update does what is due at an update of a free run.
func (c *conductor) update(ctx context.Context, before int) error {
	j := c.o.Job
	c.over = c.made >= j.Updates
	if crossed(j.reportEvery(), before, c.made) || c.over {
		p := j.progress(c.made, c.made)
		m := Progress{Step: c.made, Samples: p.Samples, Epoch: p.Epoch, Seconds: c.h.Now().Seconds()}
		c.meter.fill(&m, nil)
		for r := range c.up {
			m.BytesUp += c.up[r]
			m.BytesDown += c.down[r]
		}
		if sched, err := j.schedule(); err == nil {
			m.LR = sched(p)
		}
		c.o.progress(m)
	}
	switch {
	case c.over:
		return c.call(ctx, callLast, c.models)
	case crossed(j.EvalEvery, before, c.made):
		return c.call(ctx, callShow, c.models)
	}
	return nil
}

// call calls the first n workers.
func (c *conductor) call(ctx context.Context, code uint8, n int) error {
	for r := range n {
		hd := c.o.Job.header(comm.Report, tagCall)
		hd.Code, hd.Step = code, uint64(c.made)
		if err := c.send(ctx, r, hd); err != nil {
			return err
		}
	}
	return nil
}

func (c *conductor) send(ctx context.Context, to int, hd comm.Header) error {
	if c.gone[to] {
		return nil
	}
	return c.h.Send(ctx, to, comm.NewFrame(hd, comm.NewBuffer(0)))
}

// hold lets the workers come to rest.
func (c *conductor) hold(ctx context.Context) error {
	if c.holding {
		return nil
	}
	c.holding, c.granted, c.begun, c.quiet = true, false, map[int]int{}, map[int]bool{}
	return c.call(ctx, callHold, c.o.Job.Workers)
}

// advance takes a hold further: limits once all have answered, and states, or
// the end, once all are quiet.
func (c *conductor) advance(ctx context.Context) error {
	if !c.holding {
		return nil
	}
	j := c.o.Job
	if !c.granted {
		most := 0
		for r := range j.Workers {
			n, ok := c.begun[r]
			if c.gone[r] {
				n, ok = j.Updates, true
			}
			if !ok {
				return nil
			}
			most = max(most, n)
		}
		c.granted = true
		for r := range j.Workers {
			hd := j.header(comm.Report, tagLimit)
			if hd.Step = uint64(most); c.free {
				hd.Step = uint64(c.begun[r])
			}
			if c.keep {
				hd.Flags = flagKeep
			}
			if err := c.send(ctx, r, hd); err != nil {
				return err
			}
		}
	}
	if c.keep { // all have gone on
		c.keep, c.holding = false, false
		return nil
	}
	for r := range j.Workers {
		if !c.quiet[r] {
			return nil // who ends without becoming quiet has made all steps, as will the others
		}
	}
	c.holding = false
	c.stop = c.stop || c.free && !c.over && j.stopsAtMark(c.h, c.made)
	for r := range j.Workers {
		hd := j.header(comm.Report, tagSave)
		hd.Step = uint64(c.made)
		switch {
		case c.over:
			hd.Flags = flagDone
		case c.stop:
			hd.Flags = flagStop
		}
		if err := c.send(ctx, r, hd); err != nil {
			return err
		}
	}
	return nil
}

// goOn ends a checkpoint.
func (c *conductor) goOn(ctx context.Context, flags uint16) error {
	for r := range c.o.Job.Workers {
		hd := c.o.Job.header(comm.Report, tagGo)
		hd.Flags = flags
		if err := c.send(ctx, r, hd); err != nil {
			return err
		}
	}
	return nil
}
