package sandblaster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/lbfgs"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// coordinator is the rank of mode sandblaster that commands the shards, hands out
// portions and holds no vector.
type coordinator struct {
	*train.Rank
	mode     Sandblaster
	min      *lbfgs.Minimizer
	iter     int // iterations made
	stopped  bool
	eval     uint64 // evaluations begun
	samples  uint64 // that were evaluated
	up, down []uint64

	live    []bool
	away    []bool    // workers that are not there, by plan
	lives   []uint32  // of each worker: what is of incarnations before this one is nothing any more
	handed  uint64    // portions handed out in the run
	work    []errand  // of each worker
	idle    []int     // workers without work, in the order they asked
	waiting []uint64  // portions of this evaluation that nobody has, in order
	loss    []float64 // of the portions that are there, else NaN
	copies  []int     // of each portion: how many workers are at it
	first   uint64    // portion of the batch
	missing int
}

func newCoordinator(r *train.Rank, m Sandblaster) *coordinator {
	j := r.Job()
	c := &coordinator{Rank: r, mode: m, up: make([]uint64, j.Servers), down: make([]uint64, j.Servers),
		live: make([]bool, j.Workers), away: make([]bool, j.Workers), lives: make([]uint32, j.Workers), work: make([]errand, j.Workers)}
	for w := range c.live {
		c.live[w] = true
	}
	c.min = lbfgs.New(c, m.History)
	return c
}

// Run implements train.Part.
func (c *coordinator) Run(ctx context.Context) error {
	for w := range c.away {
		c.away[w] = c.Job().AwayAt(w, c.iter)
	}
	if c.Resumes() {
		if err := c.goOn(ctx, 0); err != nil {
			return err
		}
	}
	for c.iter < c.Job().Updates && !c.stopped {
		if err := c.moves(ctx); err != nil {
			return err
		}
		if c.mode.Portions > 0 {
			c.min.Changed()
		}
		st, err := c.min.Iterate(ctx)
		if errors.Is(err, lbfgs.ErrConverged) {
			break
		}
		if err != nil {
			return fmt.Errorf("iteration %d: %w", c.iter, err)
		}
		c.iter++
		if c.stopped, err = c.made(ctx, st); err != nil {
			return err
		}
	}
	if err := c.command(ctx, commandShow, train.FlagDone, nil); err != nil {
		return err
	}
	if !c.stopped {
		if err := c.rest(ctx); err != nil {
			return err
		}
		if err := c.tell(ctx, onEnd, 0); err != nil {
			return err
		}
	}
	if c.Job().Elastic {
		return c.command(ctx, commandEnd, 0, nil)
	}
	return nil
}

// Final implements train.Part.
func (c *coordinator) Final(r *record.RankReport) { r.Version, r.Stopped = c.iter, c.stopped }

// made does what is due after an iteration.
func (c *coordinator) made(ctx context.Context, st lbfgs.Step) (stopped bool, err error) {
	due := c.Due(c.iter)
	if due.Progress {
		p := record.Progress{Step: c.iter, Samples: c.samples, Epoch: float64(c.samples) / float64(c.Job().Data.Train.Len()), Loss: c.min.Loss, LR: st.Length}
		for i := range c.up {
			p.BytesUp, p.BytesDown = p.BytesUp+c.up[i], p.BytesDown+c.down[i]
		}
		if err := c.Report(ctx, p); err != nil {
			return false, err
		}
	}
	if due.Over {
		return false, nil
	}
	if due.Eval {
		if err := c.command(ctx, commandShow, 0, nil); err != nil {
			return false, err
		}
	}
	halt, err := c.Halts(c.iter)
	if err != nil || !halt.Mark {
		return false, err
	}
	return halt.Stop, c.checkpoint(ctx, halt.Stop)
}

// command sends every shard a command.
func (c *coordinator) command(ctx context.Context, code uint8, flags message.Flags, body []byte) error {
	for i := range c.up {
		buf := comm.NewBuffer(len(body))
		copy(buf.B, body)
		if err := onCommand.Carry(ctx, c.Rank, c.Job().Workers+i, commandWord{code, i, c.iter, c.samples, c.eval}, flags, buf); err != nil {
			return err
		}
	}
	return nil
}

// answers adds up what the shards answer, in their order.
func (c *coordinator) answers(ctx context.Context) (sum []float64, err error) {
	for i := range c.up {
		f, err := onDots.Recv(ctx, c.Rank, c.Job().Workers+i)
		if err != nil {
			return nil, fmt.Errorf("coordinator, answer of server %d: %w", i, err)
		}
		c.up[i], c.down[i] = f.Word.up, f.Word.down
		if i == 0 {
			sum = make([]float64, len(f.Body)/8)
		}
		if len(f.Body) != 8*len(sum) {
			f.Release()
			return nil, fmt.Errorf("coordinator: server %d answers %d bytes, want %d", i, len(f.Body), 8*len(sum))
		}
		for k := range sum {
			sum[k] += math.Float64frombits(binary.LittleEndian.Uint64(f.Body[8*k:]))
		}
		f.Release()
	}
	return sum, nil
}

// Do implements lbfgs.Space.
func (c *coordinator) Do(ctx context.Context, ops ...lbfgs.Op) ([]float64, error) {
	if err := c.command(ctx, commandDo, 0, lbfgs.AppendOps(nil, ops)); err != nil {
		return nil, err
	}
	return c.answers(ctx)
}

// Evaluate implements lbfgs.Space: it hands out the batch.
func (c *coordinator) Evaluate(ctx context.Context) (float64, error) {
	c.eval++
	if err := c.command(ctx, commandBegin, 0, nil); err != nil {
		return 0, err
	}
	if _, err := c.answers(ctx); err != nil {
		return 0, err
	}
	n := c.mode.portions(c.Job())
	if c.first = 0; c.mode.Portions > 0 {
		c.first = uint64(c.iter) * uint64(n)
	}
	c.waiting, c.loss, c.copies, c.missing = c.waiting[:0], c.loss[:0], c.copies[:0], n
	for p := range n {
		c.waiting, c.loss, c.copies = append(c.waiting, c.first+uint64(p)), append(c.loss, math.NaN()), append(c.copies, 0)
	}
	for c.missing > 0 {
		if err := c.assign(ctx); err != nil {
			return 0, err
		}
		loss, err := c.hear(ctx)
		if err != nil {
			return 0, err
		}
		if math.IsInf(loss, 1) { // no need to know the rest
			return loss, c.recall(ctx)
		}
	}
	c.samples += uint64(c.mode.samples(c.Job()))
	sum := 0.0
	for p, loss := range c.loss {
		_, weight := c.mode.draw(c.Job(), c.first+uint64(p))
		sum += float64(weight * loss)
	}
	return sum, nil
}

// hear takes what a worker says; loss is that of a portion of this evaluation, if
// it is the first to come.
func (c *coordinator) hear(ctx context.Context) (loss float64, err error) {
	f, err := c.Next(ctx)
	if err != nil {
		return 0, c.lose(err)
	}
	hd, word := f.Header, onIdle.Open(f).Word
	f.Release()
	w := int(hd.From)
	asked := hd.Tag == onIdle.Tag() && w >= 0 && w < len(c.work)
	if asked && c.Job().Elastic {
		if stale, err := c.visits(ctx, w, hd.Incarnation, word); stale || err != nil {
			return 0, err
		}
	}
	if !asked || word.code != idleNew && word.was.id != c.work[w].id {
		return 0, fmt.Errorf("rank %d sent the coordinator a frame with tag %d, which it did not ask for", w, hd.Tag)
	}
	if word.code == idleNew {
		if c.work[w].id == 0 && !slices.Contains(c.idle, w) { // else it asked before a mark, too
			return 0, c.rests(ctx, w)
		}
		return 0, nil
	}
	was, current := c.back(w)
	if err := c.rests(ctx, w); err != nil {
		return 0, err
	}
	if !current {
		return 0, nil
	}
	at := was.portion - c.first
	switch {
	case !math.IsNaN(c.loss[at]): // a copy
		return 0, nil
	case word.code == idleGaveUp:
		c.again(was)
		return 0, nil
	}
	c.loss[at] = word.loss
	c.missing--
	for o, e := range c.work {
		if c.copies[at] > 0 && e.id > 0 && e.eval == c.eval && e.portion == was.portion {
			if err := c.callOff(ctx, o); err != nil {
				return 0, err
			}
		}
	}
	return word.loss, nil
}

// back takes a worker from its errand; current says whether that is of this
// evaluation.
func (c *coordinator) back(w int) (was errand, current bool) {
	was, c.work[w] = c.work[w], errand{}
	if current = was.id > 0 && was.eval == c.eval; current {
		c.copies[was.portion-c.first]--
	}
	return was, current
}

// again puts a portion of this evaluation that a worker will not make back to
// those that nobody has, unless another makes it.
func (c *coordinator) again(was errand) {
	if at := was.portion - c.first; c.copies[at] == 0 && math.IsNaN(c.loss[at]) {
		c.waiting = slices.Insert(c.waiting, 0, was.portion)
	}
}

// lose copes with the death of a worker: its portion is for another one.
func (c *coordinator) lose(err error) error {
	var p *comm.PeerError
	if !errors.As(err, &p) || p.Rank >= c.Job().Workers {
		return err
	}
	if p.Incarnation < c.lives[p.Rank] {
		return nil
	}
	c.lives[p.Rank] = p.Incarnation + 1
	c.forget(p.Rank)
	return c.suffice(p)
}

// forget goes on without a worker.
func (c *coordinator) forget(worker int) {
	c.live[worker] = false
	c.idle = slices.DeleteFunc(c.idle, func(w int) bool { return w == worker })
	if was, current := c.back(worker); current {
		c.again(was)
	}
}

// suffice ends a run that has too few workers, the last of whom went as p says.
func (c *coordinator) suffice(p *comm.PeerError) error {
	n := 0
	for w, live := range c.live {
		if live && !c.away[w] {
			n++
		}
	}
	switch least := c.Job().MinWorkers; {
	case n == 0:
		return fmt.Errorf("all workers are gone; the last one: %w", p)
	case c.Job().Elastic && n < least:
		return fmt.Errorf("%d workers are left, and the run goes on with min_workers=%d or more: %w", n, least, p)
	}
	return nil
}

// assign gives those who are idle work, as long as there is any.
func (c *coordinator) assign(ctx context.Context) error {
	for len(c.idle) > 0 {
		portion, ok := c.next()
		if !ok {
			return nil
		}
		w := c.idle[0]
		c.idle = c.idle[1:]
		c.handed++
		c.work[w] = errand{c.handed, c.eval, portion}
		c.copies[portion-c.first]++
		if err := c.send(ctx, w, onPortion.Header(c.Job(), c.work[w], 0)); err != nil {
			return err
		}
	}
	return nil
}

// next is a portion that nobody has or, without any, one to copy: of those that
// are still out the one with the fewest copies, among these the one out longest.
func (c *coordinator) next() (portion uint64, ok bool) {
	if len(c.waiting) > 0 {
		portion, c.waiting = c.waiting[0], c.waiting[1:]
		return portion, true
	}
	fewest, oldest := 1+c.mode.Backup, uint64(math.MaxUint64)
	for _, e := range c.work {
		if e.id == 0 || e.eval != c.eval || !math.IsNaN(c.loss[e.portion-c.first]) {
			continue
		}
		if n := c.copies[e.portion-c.first]; n < fewest || n == fewest && ok && e.id < oldest {
			portion, ok, fewest, oldest = e.portion, true, n, e.id
		}
	}
	return portion, ok
}

// callOff tells a worker that its portion is no longer wanted.
func (c *coordinator) callOff(ctx context.Context, w int) error {
	return c.send(ctx, w, onRecall.Header(c.Job(), c.work[w], 0))
}

// recall calls off all that are at work.
func (c *coordinator) recall(ctx context.Context) error {
	for w, e := range c.work {
		if e.id == 0 {
			continue
		}
		if err := c.callOff(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// rest brings the workers to rest.
func (c *coordinator) rest(ctx context.Context) error {
	if err := c.recall(ctx); err != nil {
		return err
	}
	for slices.ContainsFunc(c.work, func(e errand) bool { return e.id > 0 }) {
		if _, err := c.hear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// send sends a worker a word. That it is dead is told in hear.
func (c *coordinator) send(ctx context.Context, w int, hd comm.Header) error {
	return c.Post(ctx, w, comm.NewFrame(hd, comm.NewBuffer(0)))
}

// tell sends all workers that live a word.
func (c *coordinator) tell(ctx context.Context, on message.Channel[message.Nothing], flags message.Flags) error {
	for w, live := range c.live {
		if !live {
			continue
		}
		if err := c.send(ctx, w, on.Header(c.Job(), message.Nothing{}, flags)); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint lets everybody tell their state, the workers being at rest.
func (c *coordinator) checkpoint(ctx context.Context, stop bool) error {
	if err := c.rest(ctx); err != nil {
		return err
	}
	flags := message.Flags(0)
	if stop {
		flags = train.FlagStop
	}
	for w, live := range c.live {
		if !live || c.away[w] {
			continue
		}
		if err := c.send(ctx, w, onKeep.Header(c.Job(), message.Nothing{}, 0)); err != nil {
			return err
		}
	}
	if err := c.command(ctx, commandSave, flags, nil); err != nil {
		return err
	}
	if _, err := c.Checkpoint(ctx, c); err != nil {
		return err
	}
	return c.goOn(ctx, flags)
}

// goOn lets the workers go on from a mark.
func (c *coordinator) goOn(ctx context.Context, flags message.Flags) error {
	c.idle = nil // they ask again
	return c.tell(ctx, onFree, flags)
}

// coordinatorState is what a coordinator keeps over a restart.
type coordinatorState struct {
	Iter      int
	Eval      uint64
	Samples   uint64
	Handed    uint64
	Minimizer *lbfgs.Minimizer
}

func (c *coordinator) record() *coordinatorState {
	return &coordinatorState{c.iter, c.eval, c.samples, c.handed, c.min}
}

// Keep keeps what the coordinator knows.
func (c *coordinator) Keep(k *checkpoint.Keeper) {
	s := c.record()
	if ok := k.Record(keyCoordinator, s); !ok {
		k.Fail(checkpoint.ErrNoState)
	} else if k.Loads() {
		c.iter, c.eval, c.samples, c.handed = s.Iter, s.Eval, s.Samples, s.Handed
	} else {
		k.Int(keyVersion, &c.iter)
	}
}
