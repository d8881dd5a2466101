package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Links are a worker's side of parameter servers: the parameters that they sent last,
// a link to every shard, the codec of what is pushed with its memory, and what happens
// at marks. What the worker pushes, and when, is the business of the mode around it.
type Links struct {
	*Rank
	w        *worker
	fetching bool // beside
}

// NewLinks makes the links of a worker.
func NewLinks(r *Rank) (*Links, error) {
	w, err := newWorker(r, r.job.shards())
	if err != nil {
		return nil, err
	}
	return &Links{Rank: r, w: w}, nil
}

// Pass is a pass at the parameters that came last. Its gradient is what Push sends next.
func (l *Links) Pass() Pass {
	return Pass{On: l.w.on, Then: func() error { l.w.finish(); return nil }}
}

// Params is the parameters that came last, to be read only.
func (l *Links) Params() ([]float32, error) {
	err := l.w.up()
	return l.w.params.F(), err
}

// Write is the same parameters, to be changed in place: after a pass, and until others
// come.
func (l *Links) Write() []float32 {
	l.w.params.Own()
	return l.w.params.F()
}

// Leave gives up the parameters after a pass, where others take their place before they
// are read again: ranks of a process share them so for a shorter time.
func (l *Links) Leave() { l.w.holding.done() }

// Gradient is that of the last pass, which is the caller's from now on.
func (l *Links) Gradient() (g wire.Vector) {
	g, l.w.grad = l.w.grad, g
	return g
}

// Saying is what a worker says of a push: its number, by the worker's steps or by what
// else the mode counts, and the loss that servers tell.
type Saying struct {
	Number uint64
	Loss   float64
}

// Push sends every shard its part of the last gradient, as number of.
func (l *Links) Push(ctx context.Context, of uint64) error {
	if err := l.Encode(ctx, l.w.grad, Saying{of, l.loss}); err != nil {
		return err
	}
	l.w.grad.Release()
	return l.Send(ctx)
}

// Encode makes a push of a vector as long as the model, which Send sends.
func (l *Links) Encode(ctx context.Context, v wire.Vector, say Saying) error {
	w := l.w
	for i := range w.order {
		if err := w.times.Encoding(ctx, w.order[i].encoding()); err != nil {
			return err
		}
		if err := w.encode(i, v); err != nil {
			return err
		}
		w.order[i].says(say)
	}
	return nil
}

// Echo adds to sum what servers will make of what was encoded.
func (l *Links) Echo(ctx context.Context, sum []float32) error {
	for i := range l.w.order {
		p := &l.w.order[i]
		if err := l.times.Decoding(ctx, p.link.out.Decoding(p.part())); err != nil {
			return err
		}
		from := compress.From{Rank: l.rank, Step: l.step}
		if err := p.link.out.AddTo(p.part(), sum, true, 1, p.next.Body, from); err != nil {
			return fmt.Errorf("worker %d, step %d: its own push: %w", l.rank, l.step, err)
		}
	}
	return nil
}

// Send sends every shard what was encoded.
func (l *Links) Send(ctx context.Context) error {
	for i := range l.w.order {
		if err := l.w.push(ctx, i); err != nil {
			return err
		}
	}
	l.w.told = false
	return nil
}

// Await waits for the answers to what was pushed, and takes up the parameters that they
// bring. Where the mode's Traits say Acked, they bring none.
func (l *Links) Await(ctx context.Context) error { return l.w.awaitAll(ctx) }

// Fetch asks every shard for parameters of a version, or of one that the mode's servers
// send in its place, and takes them up.
func (l *Links) Fetch(ctx context.Context, version uint64) error {
	w := l.w
	for _, k := range w.links {
		if err := OnPull.Send(ctx, w.Rank, k.rank, Pulled{k.id, uint64(w.step), version}, w.passed()); err != nil {
			return err
		}
	}
	for _, k := range w.links {
		for part, more := 0, true; more; part++ {
			f, err := onFetched.Recv(ctx, w.Rank, k.rank)
			if err != nil {
				return fmt.Errorf("worker %d, fetch from server %d: %w", w.rank, k.id, err)
			}
			w.hear(k, f.Flags)
			more = f.Flags&flagMore != 0
			if part < len(k.shard.Parts) {
				err = w.take(k, part, f.Frame)
			} else {
				err = fmt.Errorf("worker %d, step %d: server %d sent more than the %d parts of its shard", w.rank, w.step, k.id, len(k.shard.Parts))
			}
			f.Release()
			if err == nil {
				err = w.times.Decoding(ctx, k.in.taking(part))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Shards is the number of shards.
func (l *Links) Shards() int { return len(l.w.links) }

// Version is the version of a shard's parameters that the worker has.
func (l *Links) Version(shard int) uint64 { return l.w.links[shard].version }

// Over says whether the servers have made all updates, or the run is stopped, or the worker
// has left it.
func (l *Links) Over() bool { return l.w.flags&(FlagDone|FlagStop) != 0 || l.w.visit.gone() }

// Ended says whether the servers have made all updates, or the worker has left the run.
func (l *Links) Ended() bool { return l.w.flags&FlagDone != 0 || l.w.visit.gone() }

// Asked says whether the servers want a checkpoint at the worker's next step.
func (l *Links) Asked() bool { return l.w.asked }

// Checkpoint comes to rest with all others and tells the state of the worker's part p.
// Mark does so where it is due; this is for modes that have marks of their own, all of
// whose workers come to them, and have nothing under way there.
func (l *Links) Checkpoint(ctx context.Context, p Part) error {
	err := l.w.checkpoint(ctx, p)
	l.w.asked = false
	return err
}

// Mark comes to rest with all others where a checkpoint is due after the worker's
// present step, and tells the state of its part p. What was pushed must be answered.
func (l *Links) Mark(ctx context.Context, p Part) error {
	every := l.job.CheckpointEvery
	return l.w.marks(ctx, every > 0 && l.step%every == 0, p)
}

// Resume takes up what the servers had sent when the run was stopped, if the worker was
// loaded. In a run that workers come into it waits until this one is there. Nothing comes
// before it.
func (l *Links) Resume(ctx context.Context) error { return l.w.begin(ctx, l.w.resume) }

// Enter is called first by workers of modes that claim Admits and whose servers decide by
// themselves. One whose process comes into a run that goes on says so to all of them, and
// what they had sent the process before comes to nobody. over says that one has ended.
func (l *Links) Enter(ctx context.Context) (over bool, err error) {
	if !l.again {
		return false, nil
	}
	for _, k := range l.w.links {
		if err := OnEnter.Send(ctx, l.Rank, k.server, message.Nothing{}, 0); err != nil {
			return isEnded(err), onlyLost(err)
		}
	}
	for _, k := range l.w.links {
		f, err := l.w.anew(ctx, k.server, onWelcome.Tag())
		if f.Release(); err != nil {
			return isEnded(err), onlyLost(err)
		}
	}
	return false, nil
}

// Turn is called before a step by workers of modes that claim Admits, where all that they
// have to push is pushed. The worker leaves the run there if that is due by plan, and comes
// back when that is. anew says that it has come, then or in Resume: it has the parameters
// that the servers sent last, and nothing of before.
func (l *Links) Turn(ctx context.Context) (anew bool, err error) {
	if l.w.visit == nil {
		return false, nil
	}
	if !l.Over() {
		err = l.w.departs(ctx, l.settle)
	}
	anew, l.w.visit.came = l.w.visit.came, false
	return anew && !l.Over(), err
}

// settle waits for the answers to what was pushed, and what is under way beside.
func (l *Links) settle(ctx context.Context) error {
	if !l.times.Beside {
		return l.Await(ctx)
	}
	if err := l.Sent(ctx); err != nil {
		return err
	}
	return l.Fetched(ctx)
}

// Bye tells the servers that the worker pushes no more, which ends them when all have
// said so. After a stop at a mark they know, and of one that has left.
func (l *Links) Bye(ctx context.Context) error {
	if l.w.flags&(FlagStop|FlagDone) == FlagStop || l.w.visit.gone() {
		return nil
	}
	return l.w.sayBye(ctx)
}

// Keep keeps the worker's step and what its codecs remember.
func (l *Links) Keep(k *checkpoint.Keeper) { l.w.Keep(k) }

// Final adds the pushes that were made.
func (l *Links) Final(r *record.RankReport) { l.w.Final(r) }
