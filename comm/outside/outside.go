// Package outside gives programs outside the engine, such as the ranks of a
// PyTorch script, the time that they would take on a virtual cluster. The
// programs compute, and move their numbers by means of their own. They tell what
// they do as events: so much computing, then an all-reduce of so many bytes. Each
// rank's events are played on comm/sim: computing takes what was told, operations
// move frames of their sizes with nothing in them.
//
// What programs do must not depend on the time. Then nobody needs to wait for
// the virtual clock, and the same events can be played again on another network.
package outside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/sim"
)

// Source gives the events of a rank.
type Source interface {
	// Next waits for the rank's next event; io.EOF says that the rank ended without
	// an event End.
	Next() (Event, error)
	// Tell answers an event Now.
	Tell(now time.Duration) error
}

// Cluster is what events are played on.
type Cluster struct {
	Net      *sim.Net
	Topology collective.Topology // of all-reduces
	PerHost  int                 // ranks of a host, for topologies that know it; 0: nobody knows
	Speed    float64             // how many times as fast as told devices compute
}

// Rank is what became of a rank.
type Rank struct {
	Seconds    float64   // until its end, on the virtual clock
	Computing  float64   // of its main thread
	Waiting    float64   // of its main thread, for operations and other threads
	Steps      []float64 // when each step ended
	BytesSent  uint64
	Operations map[string]*Count
}

// Count is how many operations of a kind a rank began, and the sum of their Bytes.
type Count struct{ Number, Bytes uint64 }

// Play plays ranks to their end, one source each. Of an error that a rank met
// before the end, what the others had done by then is still told.
func (c *Cluster) Play(ctx context.Context, sources []Source) ([]Rank, error) {
	if !(c.Speed > 0) {
		return nil, fmt.Errorf("outside: devices %v times as fast; want more than 0", c.Speed)
	}
	out := make([]Rank, len(sources))
	numbers, meet := map[string]int{}, pairs{}
	programs := make([]comm.Program, len(sources))
	for r, src := range sources {
		p := &player{
			cluster: c, src: src, out: &out[r], numbers: numbers, pairs: meet, size: len(sources),
			queues: map[int][]Event{}, done: map[int]bool{}, waiting: map[int]int{}, last: map[int]int{}, turns: map[int]uint64{},
		}
		out[r].Operations = map[string]*Count{}
		programs[r] = func(ctx context.Context, h comm.Host) error {
			err := p.act(ctx, h, 0)
			out[r].Seconds = h.Now().Seconds()
			return err
		}
	}
	err := c.Net.Run(ctx, programs)
	return out, err
}

// player plays a rank. All of its activities are coroutines of one clock, so no two
// of them use it at once.
type player struct {
	cluster *Cluster
	src     Source
	out     *Rank
	size    int
	numbers map[string]int // of groups, the same on all ranks
	pairs   pairs          // likewise

	queues  map[int][]Event // by activity: read, but not done yet
	over    bool            // no more will be read
	done    map[int]bool    // operations that are complete, activities that have ended
	waiting map[int]int     // how many activities wait for that
	last    map[int]int     // by group: the collective begun last
	turns   map[int]uint64  // by group: how many were begun
}

// next is the next event of an activity. While it is not known what that does next,
// the clock stands still.
func (p *player) next(act int) (Event, error) {
	for {
		if q := p.queues[act]; len(q) > 0 {
			p.queues[act] = q[1:]
			return q[0], nil
		}
		if p.over {
			return Event{Do: End}, nil
		}
		e, err := p.src.Next()
		if err == io.EOF {
			err = errors.New("the process ended without saying so; what it said last is on its standard error")
		}
		if err != nil {
			return e, err
		}
		if e.Do == End && e.Act == 0 {
			p.over = true
		}
		p.queues[e.Act] = append(p.queues[e.Act], e)
	}
}

// act plays an activity to its end.
func (p *player) act(ctx context.Context, h comm.Host, act int) error {
	for {
		e, err := p.next(act)
		if err != nil {
			return err
		}
		if d := e.Spent/p.cluster.Speed + e.Stated; d > 0 {
			if err := h.Sleep(ctx, time.Duration(d*1e9)); err != nil {
				return err
			}
			if act == 0 {
				p.out.Computing += d
			}
		}
		switch e.Do {
		case Hello:
			return errors.New("the rank said hello twice")
		case End:
			delete(p.queues, act)
			return p.complete(ctx, h, act)
		case Fork:
			h.Go(fmt.Sprintf("activity %d", e.ID), func(ctx context.Context, h comm.Host) error { return p.act(ctx, h, e.ID) })
		case Join, Wait:
			began := h.Now()
			if err := p.await(ctx, h, e.ID); err != nil {
				return err
			}
			if act == 0 {
				p.out.Waiting += (h.Now() - began).Seconds()
			}
		case Step:
			p.out.Steps = append(p.out.Steps, h.Now().Seconds())
		case Now:
			if err := p.src.Tell(h.Now()); err != nil {
				return err
			}
		default:
			if err := p.begin(h, e); err != nil {
				return err
			}
		}
	}
}

// await waits until what has this number is complete.
func (p *player) await(ctx context.Context, h comm.Host, id int) error {
	if p.done[id] {
		return nil
	}
	p.waiting[id]++
	f, err := h.Recv(ctx, h.Rank(), own|comm.Tag(id))
	f.Release()
	return err
}

// complete notes that what has this number is complete.
func (p *player) complete(ctx context.Context, h comm.Host, id int) error {
	p.done[id] = true
	p.out.BytesSent = h.Traffic().Count().SentBytes[comm.Gradient]
	for ; p.waiting[id] > 0; p.waiting[id]-- {
		if err := h.Send(ctx, h.Rank(), comm.NewFrame(comm.Header{Kind: comm.Control, Tag: own | comm.Tag(id)}, nil)); err != nil {
			return err
		}
	}
	return nil
}
