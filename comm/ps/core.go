// Package ps is the core of a parameter-server shard: a pure state machine
// without clock, socket or goroutine. Pushes go in, replies come out; the loop
// around it is the same on every net.
package ps

import (
	"cmp"
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
	held    []comm.Frame
	batch   []comm.Frame // of the update being made
	replies []Reply      // of the call being made
	ledger  Ledger
	delays  []uint64 // histogram of staleness at application
	late    uint64   // their sum
	causes  map[string]uint64
	losses  uint64 // that the mean in view is made of
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
	l.Held = uint64(len(c.held))
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
		c.batch = append(c.batch[:0], f)
		var err error
		if out, err = c.update(out); err != nil {
			return nil, err
		}
	default:
		c.held = append(c.held, f)
		c.view.Held[w]++
	}
	return c.settle(out)
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
	return slices.ContainsFunc(c.held, func(f comm.Frame) bool { return f.Header.Version == version })
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

// ReleaseAll answers everybody who waits, whatever the policy says: the run is
// being stopped.
func (c *Core) ReleaseAll() []Reply { return c.release(true, nil) }

// settle flushes and releases until nothing moves.
func (c *Core) settle(out []Reply) ([]Reply, error) {
	for len(c.held) > 0 && !c.Done() && c.policy.Flush(c.view) {
		c.batch, c.held = c.held, c.batch[:0]
		clear(c.view.Held)
		slices.SortStableFunc(c.batch, func(a, b comm.Frame) int { return cmp.Compare(a.Header.From, b.Header.From) })
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
			u := Update{Version: c.view.Version, Pushes: len(c.batch), Taken: c.taken + len(c.batch), Delay: worst}
			if err := c.store.Step(u); err != nil {
				return nil, err
			}
			c.account()
			break
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
	for i, f := range c.batch {
		delay := c.view.Version - int(f.Header.Version)
		worst = max(worst, delay)
		past := staleness.Past{
			Delay: delay, Worker: int(f.Header.From), Update: c.view.Version, Mean: float64(c.late) / float64(max(1, c.taken)),
		}
		if err := c.store.Add(f, c.corr.Scale(past)/float64(len(c.batch)), past); err != nil {
			return 0, i, err
		}
	}
	return worst, 0, nil
}

// account books the batch as applied, and lets go of it.
func (c *Core) account() {
	for i := range c.batch {
		delay := c.view.Version - int(c.batch[i].Header.Version)
		for len(c.delays) <= delay {
			c.delays = append(c.delays, 0)
		}
		c.delays[delay]++
		c.late += uint64(delay)
		c.ledger.Applied++
		if c.Applied != nil {
			c.Applied(c.batch[i].Header, delay)
		}
		c.batch[i].Release()
	}
	c.taken += len(c.batch)
	c.view.Version++
}
