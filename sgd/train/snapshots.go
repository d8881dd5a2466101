package train

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

type evalKey struct {
	version int
	last    bool
}

type evalParts struct {
	params wire.Vector
	eval   record.Eval
	n      int           // shards, or models, that are there
	models []wire.Vector // of workers that keep apart
	from   map[int]bool  // who has told of it
	wanted []int         // who is to, where workers come and go; nil: all who are there
}

// shown takes a snapshot, and tells the rank that it is taken.
func (o *Observer) shown(ctx context.Context, h comm.Host, from int, f comm.Frame) error {
	m := o.marks[from]
	if err := o.snapshot(ctx, h, from, f); err != nil || h.Virtual() {
		return err
	}
	if !m.Last {
		if err := onTaken.Send(ctx, o.rank, from, message.Count{N: m.Version}, 0); err != nil && !isGone(err) {
			return err
		}
	}
	if o.conduct != nil {
		return o.conduct.hears(ctx)
	}
	return nil
}

// snapshot takes a shard's parameters; the evaluation is made once all shards
// are there, and without servers the counts of all workers. They reach a version
// at different instants: time is that of the latest.
func (o *Observer) snapshot(ctx context.Context, h comm.Host, from int, f comm.Frame) error {
	m, ok := o.marks[from]
	if !ok || m.Shard < 0 || m.Shard >= len(o.shards) || !m.Bare && len(f.Body) != 4*o.shards[m.Shard].Size() {
		return fmt.Errorf("rank %d sent a snapshot of %d bytes that was not announced or does not fit", from, len(f.Body))
	}
	delete(o.marks, from)
	if o.Reached { // what was under way
		return nil
	}
	k := evaluation(m.Version, m.Last)
	e := o.part(k)
	e.from[from] = true
	switch e.n++; {
	case m.Bare:
	case o.conduct != nil && o.conduct.models > 1:
		o.keep(e, from, f)
	default:
		o.fill(e, o.shards[m.Shard], f)
	}
	e.eval.Step, e.eval.Samples = max(e.eval.Step, m.Version), max(e.eval.Samples, m.Samples)
	e.eval.Epoch, e.eval.Seconds = max(e.eval.Epoch, m.Epoch), max(e.eval.Seconds, m.Seconds)
	e.eval.BytesUp += m.Up
	e.eval.BytesDown += m.Down
	if !o.isWhole(e) {
		return nil
	}
	switch {
	case !o.defers():
	case m.Last:
		if err := o.passes(ctx, math.MaxInt); err != nil {
			return err
		}
	case m.Version >= o.beyond:
		return nil
	}
	return o.complete(ctx, k, e)
}

// evaluation is the key of one at an update.
func evaluation(update int, last bool) evalKey {
	if last {
		update = -1 // shards may end at different versions
	}
	return evalKey{update, last}
}

// part is what has been told for an evaluation.
func (o *Observer) part(k evalKey) *evalParts {
	e := o.parts[k]
	if e == nil {
		e = &evalParts{from: map[int]bool{}}
		o.parts[k] = e
	}
	return e
}

// complete judges what an evaluation was waiting for.
func (o *Observer) complete(ctx context.Context, k evalKey, e *evalParts) error {
	delete(o.parts, k)
	if e.n == 0 { // all who were asked have died
		return nil
	}
	gone := o.crossed.beside(func(w int) bool { return e.from[w] })
	e.eval.BytesUp += gone.up
	e.eval.BytesDown += gone.down
	e.eval.Averaged = o.Job.EMA > 0 && !o.Job.Weightless
	if e.eval.Last = k.last; o.Job.Weightless {
		if o.Final = e.eval; o.Job.Sizes != nil {
			o.Sink.Eval(e.eval)
		}
		return nil
	}
	for r := range e.models {
		if e.models[r].F() == nil && !o.conduct.dead[r] && !o.Job.Elastic {
			return fmt.Errorf("worker %d, which lives, has told no parameters to evaluate", r)
		}
	}
	e.average()
	return o.judge(ctx, e.eval, e.params)
}

// isWhole says whether all have told what they have to: shards, workers that keep apart, or,
// as they count bytes, all workers.
func (o *Observer) isWhole(e *evalParts) bool {
	switch {
	case o.conduct != nil:
		return !o.waits(e)
	case o.servers > 0:
		return e.n >= len(o.shards)
	case o.Job.Elastic:
		return e.n >= len(o.members())
	}
	return e.n >= o.Job.Workers
}

// waits says whether workers that keep apart have yet to tell their models.
func (o *Observer) waits(e *evalParts) bool {
	who := e.wanted
	if who == nil {
		who = o.conduct.there()
	}
	for i, r := range who {
		if i < o.conduct.models && !e.from[r] && !o.conduct.dead[r] {
			return true
		}
	}
	return false
}

// without goes on without a worker that died, where workers keep apart: what it will
// not tell is not waited for.
func (o *Observer) without(ctx context.Context, rank int) error {
	if o.conduct == nil {
		return nil
	}
	delete(o.marks, rank)
	o.unasked(rank)
	if err := o.conduct.died(ctx, rank); err != nil {
		return err
	}
	return o.completes(ctx)
}

// unasked takes a worker that is gone off the lists of those who are to tell their models,
// where workers come and go: another process in its place is not asked.
func (o *Observer) unasked(rank int) {
	for _, e := range o.parts {
		e.wanted = slices.DeleteFunc(e.wanted, func(r int) bool { return r == rank && !e.from[r] })
	}
}

// completes judges the evaluations of workers that keep apart that wait for nobody any more.
func (o *Observer) completes(ctx context.Context) error {
	keys := slices.SortedFunc(maps.Keys(o.parts), func(a, b evalKey) int {
		if a.last != b.last { // the last one last
			return map[bool]int{false: -1, true: 1}[a.last]
		}
		return a.version - b.version
	})
	for _, k := range keys {
		if e := o.parts[k]; !o.waits(e) {
			if err := o.complete(ctx, k, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill puts a shard's parameters in their place. Those of a shard that is the
// whole vector are read where they arrived.
func (o *Observer) fill(e *evalParts, sh *wire.Shard, f comm.Frame) {
	if sh.Whole.From == 0 && sh.Size() == o.layout.Size() {
		if v, ok := wire.Received(f); ok {
			e.params = v
			return
		}
	}
	if e.params.F() == nil {
		e.params = wire.NewVector(o.layout.Size())
	}
	for _, p := range sh.Pieces {
		f32.FromBytes(e.params.F()[p.Off:p.Off+p.Len], f.Body[4*p.Local:4*(p.Local+p.Len)])
	}
}

// keep holds a worker's model until those of all are there.
func (o *Observer) keep(e *evalParts, from int, f comm.Frame) {
	if e.models == nil {
		e.models = make([]wire.Vector, o.Job.Workers)
	}
	var ok bool
	if e.models[from], ok = wire.Received(f); !ok {
		e.models[from] = wire.NewVector(o.layout.Size())
		f32.FromBytes(e.models[from].F(), f.Body)
	}
}

// average makes the mean of workers' models, in rank order, and tells how far
// they are from it.
func (e *evalParts) average() {
	if e.models == nil {
		return
	}
	e.models = slices.DeleteFunc(e.models, func(m wire.Vector) bool { return m.F() == nil }) // of the dead
	e.params = wire.NewVector(len(e.models[0].F()))
	mean := e.params.F()
	copy(mean, e.models[0].F())
	for _, m := range e.models[1:] {
		f32.Add(mean, m.F())
	}
	f32.Scale(mean, 1/float32(len(e.models)))
	apart, diff := 0.0, make([]float32, len(mean))
	for i := range e.models {
		f32.AxpyTo(diff, e.models[i].F(), -1, mean)
		apart += f32.SumSq(diff)
		e.models[i].Release()
	}
	if norm := f32.SumSq(mean); norm > 0 {
		e.eval.Spread = math.Sqrt(apart / float64(len(e.models)) / norm)
	}
	e.models = nil
}
