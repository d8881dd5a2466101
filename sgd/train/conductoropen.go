package train

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// door is what the conductor of an open run knows of workers that come and go: it has the
// part that the first server has in other open runs. Who comes is let in when nobody comes
// to rest, and workers leave one at a time.
type door struct {
	plans  map[int]*visit // of all workers; of those who are there, when they leave
	steps  map[int]int    // made by each, as last told, or begun with
	lives  map[int]uint32 // incarnations of those who have come
	awaits map[int]int    // who comes when so many updates are made
	ready  []int          // who has a model, and is to be let in
	goes   *going         // who leaves
	late   bool           // a hold is due once it has left
}

// going is a worker that leaves by plan.
type going struct {
	rank   int
	epoch  int          // of membership, when the others were told
	waits  map[int]bool // others of whom something may be under way to it
	called bool         // nothing is, and it was told
}

func newDoor(j *Job, from *checkpoint.State) *door {
	d := &door{plans: map[int]*visit{}, steps: map[int]int{}, lives: map[int]uint32{}, awaits: map[int]int{}}
	version := 0
	if from != nil {
		version = int(from.Ints[KeyVersion])
	}
	for w := range j.Workers {
		d.plans[w] = &visit{plan: j.movesOf(w)}
		if away := j.AwayAt(w, version); away == j.isAway(w, from) { // else it is about to leave
			d.plans[w].pass(version)
		}
		if from != nil {
			d.steps[w] = int(from.Ints[checkpoint.Key(checkpoint.KeyStep, w)])
		}
	}
	return d
}

// guest hears from a worker that comes, or goes.
func (c *conductor) guest(ctx context.Context, hd comm.Header) (handled bool, err error) {
	w := int(hd.From)
	if c.door == nil {
		return false, nil
	}
	if hd.Incarnation < c.o.lives[w] {
		return true, nil
	}
	switch d := c.door; hd.Tag {
	case onAwait.Tag():
		d.awaits[w] = int(onAwait.Read(hd).Version)
		err = c.visits(ctx)
	case OnEnter.Tag():
		d.lives[w] = hd.Incarnation
		if hd.Flags&FlagDone == 0 {
			return true, c.tells(ctx, w, answerWord{}, c.o.members())
		}
		d.ready = append(d.ready, w)
		err = c.visits(ctx)
	case onDropped.Tag():
		if g, of := d.goes, onDropped.Read(hd); g != nil && g.rank == of.rank && g.epoch == of.updates {
			delete(g.waits, w)
			err = c.visits(ctx)
		}
	case onLeave.Tag():
		err = c.leaves(ctx, w, onLeave.Read(hd))
	default:
		return false, nil
	}
	return true, err
}

// ends says whether nobody comes any more.
func (c *conductor) ends() bool { return c.over || c.stop }

// halts says whether the workers come to rest, or rest.
func (c *conductor) halts() bool { return c.holding || c.resting }

// visits does what is due of coming and going.
func (c *conductor) visits(ctx context.Context) error {
	d := c.door
	if d == nil {
		return nil
	}
	for _, w := range slices.Sorted(maps.Keys(d.awaits)) {
		flags := message.Flags(0)
		if c.ends() {
			flags = FlagStop
		} else if c.made < d.awaits[w] {
			continue
		}
		delete(d.awaits, w)
		if err := c.say(onCome.As(comm.Report).Send(ctx, c.Rank, w, message.Nothing{}, flags)); err != nil {
			return err
		}
	}
	if c.halts() && !c.ends() {
		return nil
	}
	for len(d.ready) > 0 {
		w := d.ready[0]
		d.ready = d.ready[1:]
		if err := c.admits(ctx, w); err != nil {
			return err
		}
	}
	return c.parts(ctx)
}

// tells tells a worker that comes who is there, or that the run is over.
func (c *conductor) tells(ctx context.Context, w int, at answerWord, who []int) error {
	there, flags := present{Epoch: c.o.epoch(), Life: c.door.lives[w], Lives: map[int]uint32{}}, message.Flags(0)
	if c.ends() {
		flags = FlagStop
	}
	for _, r := range who {
		there.Lives[r] = c.door.lives[r]
	}
	b, err := json.Marshal(there)
	if err != nil {
		return err
	}
	buf := comm.NewBuffer(len(b))
	copy(buf.B, b)
	return c.say(onWelcome.As(comm.Report).Carry(ctx, c.Rank, w, at, flags, buf))
}

// admits lets a worker in, which begins where the slowest is. The others are told.
func (c *conductor) admits(ctx context.Context, w int) error {
	d, others := c.door, c.there()
	if c.ends() {
		return c.tells(ctx, w, answerWord{}, nil)
	}
	slowest := math.MaxInt
	for _, r := range others {
		slowest = min(slowest, d.steps[r])
	}
	delete(c.gone, w)
	delete(c.dead, w)
	d.steps[w] = slowest
	d.plans[w].pass(c.made)
	c.o.came(w, c.made)
	if err := c.news(ctx, callCame, w, others); err != nil {
		return err
	}
	if g := d.goes; g != nil {
		others = slices.DeleteFunc(slices.Clone(others), func(r int) bool { return r == g.rank })
	}
	return c.tells(ctx, w, answerWord{Step: uint64(slowest), Version: uint64(c.made)}, others)
}

// news tells others of a worker.
func (c *conductor) news(ctx context.Context, code uint8, w int, others []int) error {
	word := callWord{code, c.o.epoch(), w, c.door.lives[w]}
	for _, r := range others {
		if r == w {
			continue
		}
		if err := c.say(onCall.Send(ctx, c.Rank, r, word, 0)); err != nil {
			return err
		}
	}
	return nil
}

// parts takes the leaving of a worker by plan further. The last one stays.
func (c *conductor) parts(ctx context.Context) error {
	d, there := c.door, c.there()
	if c.ends() || c.halts() || len(there) < 2 {
		return nil
	}
	if d.goes == nil {
		for _, w := range there {
			if step, ok := d.plans[w].next(false); ok && step <= c.made {
				d.goes = &going{rank: w, epoch: c.o.epoch(), waits: map[int]bool{}}
				break
			}
		}
		if d.goes == nil {
			return nil
		}
		for _, r := range there {
			if r != d.goes.rank {
				d.goes.waits[r] = true
			}
		}
		if err := c.news(ctx, callGoes, d.goes.rank, there); err != nil {
			return err
		}
	}
	if g := d.goes; len(g.waits) == 0 && !g.called {
		g.called = true
		return c.say(onCall.Send(ctx, c.Rank, g.rank, callWord{code: callLeave, updates: c.o.epoch()}, 0))
	}
	return nil
}

// leaves hears that a worker has left by plan, or that it stays, as it has found nobody to
// leave anything to.
func (c *conductor) leaves(ctx context.Context, w int, why rollWord) error {
	c.door.goes = nil
	if why.code == rollLeaves {
		c.door.plans[w].pass(c.made)
		text := fmt.Sprintf("left by plan after update %d", c.made)
		c.o.went(Leave{Worker: w, Why: text, Planned: true, Residual: math.Sqrt(why.left)}, c.made)
		if err := c.o.fewer(&comm.PeerError{Rank: w, Lost: true, Cause: text}); err != nil {
			return err
		}
	} else if err := c.news(ctx, callCame, w, c.there()); err != nil {
		return err
	}
	return c.settles(ctx)
}

// lost hears that a worker has died.
func (c *conductor) lost(ctx context.Context, w int) error {
	d := c.door
	if d == nil {
		return nil
	}
	delete(d.awaits, w)
	d.ready = slices.DeleteFunc(d.ready, func(r int) bool { return r == w })
	if g := d.goes; g != nil {
		if delete(g.waits, w); g.rank == w {
			d.goes = nil
		}
	}
	return c.settles(ctx)
}

// settles goes on now that nobody leaves, if that is so.
func (c *conductor) settles(ctx context.Context) error {
	if d := c.door; d.goes == nil && d.late {
		d.late = false
		if err := c.hold(ctx); err != nil {
			return err
		}
	}
	if err := c.visits(ctx); err != nil {
		return err
	}
	return c.advance(ctx)
}
