package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// link is a worker's side of one shard.
type link struct {
	id      int
	rank    int // pushes and pulls go there
	server  int // of the shard
	shard   *wire.Shard
	out     *wire.Packer
	in      *uplink
	version uint64
	seq     uint64
	before  uint64       // pushes before the worker came last
	waiting bool         // a push, or a pull, is unanswered
	due     comm.Tag     // of the answer
	got     int          // parts of the answer that are there
	done    bool         // the shard has made its updates
	voids   uint64       // taken from it
	fresh   []comm.Frame // by part: parameters not taken up yet, of a worker that shares
	early   []comm.Frame // words to go on, of a shard whose turn it is not: while all rest the loss of any is noticed
	fetched comm.Frame   // downpour: parameters that no one has waited for yet
}

// errEnded ends a pass in which the answer that is waited for says that the run
// is over.
var errEnded = errors.New("the run is over")

func (l *link) expect(tag comm.Tag) { l.waiting, l.due, l.got = true, tag, 0 }

// lacks says whether parameters of a span are still on their way.
func (w *worker) lacks(span int) bool {
	return slices.ContainsFunc(w.spans[span], func(p parcel) bool { return p.link.waiting && p.link.got <= p.k })
}

// need waits for the parts that hold a span.
func (w *worker) need(ctx context.Context, span int) error {
	for _, p := range w.spans[span] {
		if err := w.await(ctx, p.link, p.k); err != nil {
			return err
		}
	}
	if w.flags != 0 {
		return errEnded
	}
	return nil
}

func (w *worker) awaitAll(ctx context.Context) error {
	for _, l := range w.links {
		if err := w.await(ctx, l, math.MaxInt); err != nil {
			return err
		}
	}
	return nil
}

// await takes the answer that a shard still owes, up to part k.
func (w *worker) await(ctx context.Context, l *link, k int) error {
	for l.waiting && l.got <= k {
		f, err := w.next(ctx, l)
		if err != nil {
			return fmt.Errorf("worker %d, step %d, waiting for shard %d: %w", w.rank, w.step, l.id, err)
		}
		if l.due == onSaved.Tag() {
			err = w.takeVoids(ctx, l, onSaved.Open(f).Word.Voids)
		}
		if err == nil {
			err = w.answer(l, f)
		}
		f.Release()
		if err != nil {
			return err
		}
		if f.Header.Kind == comm.Parameters && f.Header.Code != codeVoid {
			if err := w.times.Decoding(ctx, l.in.taking(l.got-1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// next is the answer of a shard that comes next.
func (w *worker) next(ctx context.Context, l *link) (comm.Frame, error) {
	switch {
	case l.due != onSaved.Tag():
		return w.h.Recv(ctx, l.rank, l.due)
	case w.visit == nil || w.job.Fixed(w.rank): // beside a relay, which hears of deaths
		return w.h.Recv(ctx, l.server, l.due)
	}
	for len(l.early) == 0 {
		f, err := w.h.Recv(ctx, comm.AnyRank, l.due)
		p := new(comm.PeerError)
		if errors.As(err, &p) && p.Rank < w.job.Workers && p.Rank != l.rank {
			continue
		}
		if err != nil {
			return f, err
		}
		of := w.links[int(f.Header.From)-w.job.Workers]
		of.early = append(of.early, f)
	}
	f := l.early[0]
	l.early = l.early[1:]
	return f, nil
}

// pull asks all shards for parameters once they have all taken the push.
func (w *worker) pull(ctx context.Context) error {
	if err := w.awaitAll(ctx); err != nil || w.flags&FlagDone != 0 {
		return err
	}
	for _, l := range w.links {
		if err := OnPull.Send(ctx, w.Rank, l.rank, Pulled{Shard: l.id, Step: uint64(w.step)}, 0); err != nil {
			return err
		}
		l.expect(onFetched.Tag())
	}
	return nil
}

// answer takes the parameters of an answer and notes what it says.
func (w *worker) answer(l *link, f comm.Frame) error {
	w.hear(l, f.Header.Flags)
	if f.Header.Code == codeVoid { // beside what is waited for
		l.voids++
		return w.take(l, 0, f)
	}
	k := l.got
	if l.got++; f.Header.Flags&flagMore == 0 {
		l.waiting = false
	}
	switch {
	case f.Header.Code == codeRejected:
		return fmt.Errorf("worker %d, step %d: server %d refused the push: %s", w.rank, w.step, l.id, f.Body)
	case f.Header.Kind != comm.Parameters:
		return nil
	case k >= len(l.shard.Parts):
		return fmt.Errorf("worker %d, step %d: server %d sent more than the %d parts of its shard", w.rank, w.step, l.id, len(l.shard.Parts))
	}
	return w.take(l, k, f)
}

// hear notes what a frame's flags say. The run is over when all shards have made
// their updates.
func (w *worker) hear(l *link, flags message.Flags) {
	w.flags |= flags &^ (flagMore | FlagDone | FlagKeep)
	w.asked = w.asked || flags&FlagKeep != 0
	l.done = l.done || flags&FlagDone != 0
	if !slices.ContainsFunc(w.links, func(l *link) bool { return !l.done }) {
		w.flags |= FlagDone
	}
}

// renewed notes the version that a shard's parameters now have.
func (w *worker) renewed(l *link, version uint64) {
	if l.id == 0 && version > l.version {
		w.stats.stale = int(version-l.version) - 1
	}
	l.version = version
}

// take takes part k of a shard's parameters.
func (w *worker) take(l *link, k int, f comm.Frame) error {
	w.renewed(l, f.Header.Version)
	return w.holding.take(l, k, f)
}

// up makes what has come the parameters, before they are read.
func (w *worker) up() error {
	if err := w.holding.up(); err != nil {
		return fmt.Errorf("worker %d, step %d: %w", w.rank, w.step, err)
	}
	return nil
}
