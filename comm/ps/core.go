// Package ps is the core of a parameter-server shard: a pure state machine
// without clock, socket or goroutine. Pushes go in, replies come out; the loop
// around it is the same on every net.
package ps

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/staleness"
)

// Store holds a shard's parameters and optimizer. The core tells it what to
// apply and when.
type Store interface {
	// Add accumulates weight · decoded(f) towards the next Step; past says how
	// late f is. After an error the core calls Reset and begins again without
	// that push.
	Add(f comm.Frame, weight float64, past staleness.Past) error
	// Step applies what was added as one update; Reset forgets it.
	Step(u Update) error
	Reset()
}

// Update describes one update of the parameters.
type Update struct {
	Version int // updates applied before this one
	Pushes  int // gradients in it
	Taken   int // gradients applied so far, these included
	Delay   int // largest staleness among them
}

// ReplyKind says what a reply means for the worker.
type ReplyKind uint8

const (
	Answer   ReplyKind = iota // the parameters, as they are now
	Rejected                  // the push was not taken; Cause says why
	Void                      // the gradient now being computed is void: start over on the parameters as they are now
)

// Reply is something to say to a worker.
type Reply struct {
	Worker int
	Kind   ReplyKind
	Step   uint64 // the worker's step that is answered
	Cause  string
}

// Ledger accounts for every push that reached the shard.
type Ledger struct {
	Applied  uint64 `json:"applied"`
	Rejected uint64 `json:"rejected"`
	Held     uint64 `json:"held"` // taken, waiting for a flush
}

// Core decides. Not safe for concurrent use.
type Core struct {
	policy staleness.Policy
	corr   staleness.Corrector
	store  Store
	limit  int // updates after which nothing more is applied

	// Applied, if set, is told of every gradient that went into an update, and
	// how stale it was.
	Applied func(h comm.Header, delay int)

	member  []bool // not left; those that do not rest are live to the policy
	view    staleness.View
	taken   int // gradients applied
	inc     []uint32
	seq     []uint64 // next sequence number expected of each worker
	pending []uint64 // step of the unanswered push of each worker
	held    []push
	batch   []push  // of the update being made
	replies []Reply // of the call being made
	ledger  Ledger
	delays  []uint64 // histogram of staleness at application
	late    uint64   // their sum
	causes  map[string]uint64
	losses  uint64 // that the mean in view is made of
}

// push is a frame with a gradient, or with the sum of several.
type push struct {
	comm.Frame
	of []comm.Header // the gradients in a sum; nil: the frame is one
}

// gradients is how many there are in p, and at the header of one of them.
func (p *push) gradients() int { return max(1, len(p.of)) }

func (p *push) at(i int) *comm.Header {
	if p.of == nil {
		return &p.Header
	}
	return &p.of[i]
}

// count is the number of gradients in a list of pushes.
func count(list []push) (n int) {
	for i := range list {
		n += list[i].gradients()
	}
	return n
}

// New makes the core of a shard that serves workers workers (all of them
// members) and stops applying after limit updates.
func New(workers, limit int, policy staleness.Policy, corr staleness.Corrector, store Store) *Core {
	c := &Core{
		policy: policy, corr: corr, store: store, limit: limit,
		member: make([]bool, workers),
		inc:    make([]uint32, workers), seq: make([]uint64, workers), pending: make([]uint64, workers),
		causes: map[string]uint64{},
	}
	c.view = staleness.View{
		Live: make([]bool, workers), Pushed: make([]int, workers),
		Held: make([]int, workers), Waiting: make([]bool, workers),
	}
	for w := range c.view.Live {
		c.view.Live[w], c.member[w] = true, true
	}
	return c
}

// Version is the number of updates applied.
func (c *Core) Version() int { return c.view.Version }

// Taken is the number of gradients applied.
func (c *Core) Taken() int { return c.taken }

// Done says whether the planned number of updates has been applied: the server
// ends a run, by versions.
func (c *Core) Done() bool { return c.view.Version >= c.limit }

// Live says whether worker w is a member.
func (c *Core) Live(w int) bool { return c.member[w] }

// NumLive counts members.
func (c *Core) NumLive() int {
	n := 0
	for _, m := range c.member {
		if m {
			n++
		}
	}
	return n
}

// Ledger returns the account so far.
func (c *Core) Ledger() Ledger {
	l := c.ledger
	l.Held = uint64(count(c.held))
	return l
}

// Received counts the pushes of each worker that reached the shard. Do not
// modify.
func (c *Core) Received() []uint64 { return c.seq }

// CauseDropped is the cause of pushes that the policy did not take.
const CauseDropped = "dropped by the policy"

// Causes counts rejections by cause.
func (c *Core) Causes() map[string]uint64 { return c.causes }

// Delays is the histogram of staleness: Delays()[τ] gradients were applied τ
// updates after the parameters they were computed on. Do not modify.
func (c *Core) Delays() []uint64 { return c.delays }

// Push takes a gradient. The frame's header says which worker (From), its
// incarnation, sequence number and the version it was computed on; the core
// keeps or releases the frame. A gradient is applied at most once: a sequence
// number seen before is rejected.
//
// The replies of Push and Leave are good until the next call of either.
func (c *Core) Push(f comm.Frame) ([]Reply, error) {
	h := f.Header
	w := int(h.From)
	if w < 0 || w >= len(c.seq) {
		f.Release()
		return nil, fmt.Errorf("ps: push from rank %d, which is no worker", w)
	}
	reject := func(cause string) ([]Reply, error) {
		f.Release()
		c.ledger.Rejected++
		c.causes[cause]++
		return append(c.begin(), Reply{Worker: w, Kind: Rejected, Step: h.Step, Cause: cause}), nil
	}
	switch {
	case !c.member[w]:
		return reject("the worker has left")
	case h.Incarnation != c.inc[w]:
		return reject(fmt.Sprintf("incarnation %d, not %d", h.Incarnation, c.inc[w]))
	case h.Seq < c.seq[w]:
		return reject("sequence number seen before")
	case h.Version > uint64(c.view.Version):
		return reject(fmt.Sprintf("computed on version %d, but the shard is at %d", h.Version, c.view.Version))
	}
	c.seq[w] = h.Seq + 1
	c.pending[w], c.view.Waiting[w] = h.Step, true
	if c.Done() {
		c.view.Waiting[w] = false
		f.Release()
		c.ledger.Rejected++
		c.causes["the run is over"]++
		return append(c.begin(), Reply{Worker: w, Kind: Answer, Step: h.Step}), nil
	}
	c.view.Pushed[w]++
	c.hear(h.Value)
	c.view.Delay = c.view.Version - int(h.Version)
	out := c.begin()
	switch c.policy.Admit(c.view, w) {
	case staleness.Drop:
		f.Release()
		c.ledger.Rejected++
		c.causes[CauseDropped]++
	case staleness.Apply:
		c.batch = append(c.batch[:0], push{Frame: f})
		var err error
		if out, err = c.update(out); err != nil {
			return nil, err
		}
	default:
		c.held = append(c.held, push{Frame: f})
		c.view.Held[w]++
	}
	return c.settle(out)
}

// PushSum takes a frame that holds the sum of several gradients, made by several
// workers on any versions: of says which, as headers of their pushes. Each of
// them counts, to the policy, the corrector and the ledger, as if it had come
// alone; but a sum cannot be taken apart. It is held, applied or rejected as a
// whole: an update may take more gradients than the policy waits for, and all in
// a sum are scaled by the mean of their corrections. Gradients of workers that
// have left meanwhile still count.
//
// The workers get no replies, nobody is waiting for one; a sum that is refused
// is an error. A policy that may drop a push is the caller's error.
func (c *Core) PushSum(f comm.Frame, of []comm.Header) ([]Reply, error) {
	refuse := func(err error) ([]Reply, error) {
		f.Release()
		return nil, err
	}
	if len(of) == 0 {
		return refuse(errors.New("ps: a sum of no gradients"))
	}
	for i := range of {
		h := &of[i]
		switch w := int(h.From); {
		case w < 0 || w >= len(c.seq):
			return refuse(fmt.Errorf("ps: a gradient of rank %d, which is no worker", w))
		case h.Incarnation != c.inc[w]:
			return refuse(fmt.Errorf("ps: a gradient of worker %d of incarnation %d, not %d", w, h.Incarnation, c.inc[w]))
		case h.Seq != c.seq[w]:
			return refuse(fmt.Errorf("ps: gradient %d of worker %d, where its gradient %d is due", h.Seq, w, c.seq[w]))
		case h.Version > uint64(c.view.Version):
			return refuse(fmt.Errorf("ps: a gradient of worker %d computed on version %d, but the shard is at %d", w, h.Version, c.view.Version))
		}
		c.seq[h.From] = h.Seq + 1
	}
	if c.Done() {
		f.Release()
		c.ledger.Rejected += uint64(len(of))
		c.causes["the run is over"] += uint64(len(of))
		return nil, nil
	}
	now := false
	for i := range of {
		w := int(of[i].From)
		c.view.Pushed[w]++
		c.hear(of[i].Value)
		c.view.Delay = c.view.Version - int(of[i].Version)
		switch c.policy.Admit(c.view, w) {
		case staleness.Drop:
			return refuse(fmt.Errorf("ps: the policy drops a gradient of worker %d, which is in a sum", w))
		case staleness.Apply:
			now = true
		}
	}
	p := push{Frame: f, of: of}
	if !now {
		c.held = append(c.held, p)
		c.hold(&p)
		return c.settle(c.begin())
	}
	c.batch = append(c.batch[:0], p)
	out, err := c.update(c.begin())
	if err != nil {
		return nil, err
	}
	return c.settle(out)
}

// hold tells the policy of a push that is held.
func (c *Core) hold(p *push) {
	for i := range p.gradients() {
		c.view.Held[p.at(i).From]++
	}
}

// hear takes up the loss that came with a push: the first from each worker, and
// a mean that forgets all but the latest ten from each.
func (c *Core) hear(loss float64) {
	if !(loss > 0 && loss <= math.MaxFloat64) {
		return
	}
	c.losses++
	workers := uint64(len(c.seq))
	c.view.Loss += (loss - c.view.Loss) / float64(min(c.losses, 10*workers))
	if c.losses <= workers {
		c.view.First = c.view.Loss
	}
}

// begin returns the list of replies, empty.
func (c *Core) begin() []Reply { return c.replies[:0] }

// Pull answers a worker that asks for parameters without pushing.
func (c *Core) Pull(w int, step uint64) Reply { return Reply{Worker: w, Kind: Answer, Step: step} }

// Leave removes a worker; what it had pushed before stays. The others may be
// released by it.
func (c *Core) Leave(w int) ([]Reply, error) {
	if w < 0 || w >= len(c.seq) || !c.member[w] {
		return nil, nil
	}
	c.member[w] = false
	c.view.Live[w], c.view.Waiting[w] = false, false
	return c.settle(c.begin())
}

// Rest says that a member pushes no more until Wake: nobody need wait for it.
func (c *Core) Rest(w int) ([]Reply, error) {
	c.view.Live[w] = false
	return c.settle(c.begin())
}

// Wake ends the rest of a member.
func (c *Core) Wake(w int) { c.view.Live[w] = c.member[w] }

// Holds says whether a push that was computed on a version waits for a flush.
func (c *Core) Holds(version uint64) bool {
	return slices.ContainsFunc(c.held, func(p push) bool {
		for i := range p.gradients() {
			if p.at(i).Version == version {
				return true
			}
		}
		return false
	})
}

// Join makes a worker a member again under a new incarnation; sequence numbers
// start over, and its clock is set to the slowest member's, so that it holds
// nobody back.
func (c *Core) Join(w int, incarnation uint32) []Reply {
	c.view.Pushed[w] = max(c.view.Pushed[w], c.view.MinClock())
	c.member[w] = true
	c.view.Live[w], c.view.Waiting[w] = true, false
	c.inc[w], c.seq[w] = incarnation, 0
	return []Reply{{Worker: w, Kind: Answer}}
}

// Come is Join for a worker that comes into a run that goes on: its clock is that of the
// slowest member who is not at rest, even if it was ahead before it left.
func (c *Core) Come(w int, incarnation uint32) {
	if slices.Contains(c.view.Live, true) {
		c.view.Pushed[w] = c.view.MinClock()
	}
	c.Join(w, incarnation)
}

// Restart says that a worker's process is of another incarnation, and goes on where the
// one before it had come to.
func (c *Core) Restart(w int, incarnation uint32) { c.inc[w] = incarnation }

// CauseForgone is the cause of pushes that Forgo rejects.
const CauseForgone = "its worker died, and its codec has begun anew"

// Forgo rejects what is held of a worker's pushes, which can be decoded no more, and lists
// them. Sums stay.
func (c *Core) Forgo(w int) (of []comm.Header) {
	c.held = slices.DeleteFunc(c.held, func(p push) bool {
		if p.of != nil || int(p.Header.From) != w {
			return false
		}
		of = append(of, p.Header)
		p.Release()
		return true
	})
	c.view.Held[w] -= len(of)
	if n := uint64(len(of)); n > 0 {
		c.ledger.Rejected += n
		c.causes[CauseForgone] += n
	}
	return of
}

// Clock is a worker's clock.
func (c *Core) Clock(w int) int { return c.view.Pushed[w] }

// ReleaseAll answers everybody who waits, whatever the policy says: the run is
// being stopped.
func (c *Core) ReleaseAll() []Reply { return c.release(true, nil) }

// settle flushes and releases until nothing moves.
func (c *Core) settle(out []Reply) ([]Reply, error) {
	for len(c.held) > 0 && !c.Done() && c.policy.Flush(c.view) {
		c.batch, c.held = c.held, c.batch[:0]
		clear(c.view.Held)
		slices.SortStableFunc(c.batch, func(a, b push) int { return cmp.Compare(a.Header.From, b.Header.From) })
		var err error
		if out, err = c.update(out); err != nil {
			return nil, err
		}
	}
	c.replies = c.release(c.Done(), out)
	return c.replies, nil
}

// void tells those whose running gradient an update has made void.
func (c *Core) void(out []Reply) []Reply {
	for _, w := range c.policy.Cancel(c.view) {
		out = append(out, Reply{Worker: w, Kind: Void, Step: c.pending[w]})
	}
	return out
}

func (c *Core) release(all bool, out []Reply) []Reply {
	for w, waiting := range c.view.Waiting {
		if waiting && (all || c.policy.Release(c.view, w)) {
			c.view.Waiting[w] = false
			out = append(out, Reply{Worker: w, Kind: Answer, Step: c.pending[w]})
		}
	}
	return out
}

// update applies the mean of the batch as one update. A push that cannot be
// decoded is rejected and the update made of the others.
func (c *Core) update(out []Reply) ([]Reply, error) {
	for len(c.batch) > 0 {
		worst, failed, err := c.add()
		if err == nil {
			n := count(c.batch)
			u := Update{Version: c.view.Version, Pushes: n, Taken: c.taken + n, Delay: worst}
			if err := c.store.Step(u); err != nil {
				return nil, err
			}
			c.account()
			break
		}
		if p := &c.batch[failed]; p.of != nil {
			return nil, fmt.Errorf("ps: the sum that rank %d sent: %w", p.Header.From, err)
		}
		w := int(c.batch[failed].Header.From)
		out = append(out, Reply{Worker: w, Kind: Rejected, Step: c.pending[w],
			Cause: fmt.Sprintf("payload of worker %d refused: %v", w, err)})
		c.view.Waiting[w] = false
		c.ledger.Rejected++
		c.causes["corrupt payload"]++
		c.batch[failed].Release()
		c.batch = slices.Delete(c.batch, failed, failed+1)
	}
	return c.void(out), nil
}

// add adds up the batch: worst is the largest staleness in it. With an error
// comes the place of the push at fault.
func (c *Core) add() (worst, failed int, err error) {
	c.store.Reset()
	total := float64(count(c.batch))
	for i := range c.batch {
		p, n := &c.batch[i], c.batch[i].gradients()
		scale := 0.0
		var past staleness.Past
		for k := range n {
			h := p.at(k)
			delay := c.view.Version - int(h.Version)
			worst = max(worst, delay)
			past = staleness.Past{
				Delay: delay, Worker: int(h.From), Update: c.view.Version, Mean: float64(c.late) / float64(max(1, c.taken)),
			}
			scale += c.corr.Scale(past)
		}
		if err := c.store.Add(p.Frame, scale/float64(n)/total, past); err != nil {
			return 0, i, err
		}
	}
	return worst, 0, nil
}

// account books the batch as applied, and lets go of it.
func (c *Core) account() {
	for i := range c.batch {
		p := &c.batch[i]
		for k := range p.gradients() {
			h := p.at(k)
			delay := c.view.Version - int(h.Version)
			for len(c.delays) <= delay {
				c.delays = append(c.delays, 0)
			}
			c.delays[delay]++
			c.late += uint64(delay)
			c.ledger.Applied++
			if c.Applied != nil {
				c.Applied(*h, delay)
			}
		}
		c.taken += p.gradients()
		p.Release()
	}
	c.view.Version++
}
