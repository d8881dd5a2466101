package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Servers of an elastic run are in every epoch of membership. One holds at a boundary what
// it keeps in a checkpoint, and in the next epoch begins with that and a core for other
// workers. Workers hold no parameters: servers send them, when an epoch begins, to all.

// renew takes up what the server held in the epoch before.
func (s *server) renew(k *checkpoint.Keeper) {
	of := s.job.joined
	var was []int // who was a worker then
	k.Record(checkpoint.Key(keyWorkers, s.id), &was)
	from := make([]int, len(of.m.Workers))
	for i, w := range of.m.Workers {
		from[i] = slices.Index(was, w)
	}
	got, err := s.core.Renew(k.Of.Bytes[checkpoint.Key(keyCore, s.id)], from)
	if err != nil {
		k.Fail(err)
		return
	}
	for i, w := range was {
		s.made[w] += got[i]
	}
	for _, l := range of.m.Left {
		switch {
		case !l.Planned: // it will not tell what it sent
			s.forget(l.Worker)
		case !of.m.expects(s.member.plan, l.Worker): // for good: it has told
			s.told[l.Worker] = s.made[l.Worker]
		}
	}
	for _, w := range of.m.Anew { // the process before it may have ended while it was away
		s.forget(w)
	}
	s.keepMeasures(k, true)
}

// forget counts what a worker sent and has not told as that of one that died: whoever comes
// in its place does not know of it.
func (s *server) forget(worker int) {
	s.past[worker] += s.made[worker] - s.told[worker]
	s.made[worker] = s.told[worker]
}

// keepMade keeps how many pushes of each worker of the run there were before the epoch.
func (s *server) keepMade(k *checkpoint.Keeper) {
	if s.made == nil {
		return
	}
	var workers []int
	if s.guests == nil {
		workers = s.job.joined.m.Workers
	}
	for w := range s.made {
		k.Count(checkpoint.Key(keyMade, s.id, w), &s.made[w])
		if k.Loads() || s.told[w] > 0 {
			k.Count(checkpoint.Key(keyTold, s.id, w), &s.told[w])
		}
		if s.guests != nil {
			k.Count(checkpoint.Key(keyCounts, s.id, w), &s.guests.counts[w])
		} else if k.Loads() && !k.Own { // last reports of before are gone
			gone := s.told[w]
			if !slices.Contains(workers, w) {
				gone = s.made[w]
			}
			s.past[w], s.made[w], s.told[w] = s.past[w]+gone, s.made[w]-gone, 0
		}
	}
	if k.Own && !k.Loads() {
		k.Record(checkpoint.Key(keyWorkers, s.id), workers)
	}
}

// taken is how many pushes of each worker of the run reached the shard, but for those in
// past.
func (s *server) taken() []uint64 {
	if s.made == nil {
		return s.core.Received()
	}
	sum := slices.Clone(s.made)
	if s.guests != nil {
		for w, n := range s.core.Received() {
			sum[w] += n - s.guests.counts[w]
		}
		return sum
	}
	for i, w := range s.job.joined.m.Workers {
		sum[w] += s.core.Received()[i]
	}
	return sum
}

// forms sends all workers the parameters that an epoch begins with. Those who were there
// before had them, and are told beside; to those who come they are billed.
func (s *server) forms(ctx context.Context) error {
	for w := range s.job.Workers {
		flags, on := message.Flags(0), onRestored
		if s.core.Done() {
			flags |= FlagDone
		}
		if m := &s.job.joined.m; slices.Contains(m.Joined, m.Workers[w]) {
			on = on.As(comm.Parameters)
		}
		if err := s.present(ctx, w, on, answerWord{Shard: s.id, Version: uint64(s.core.Version())}, flags); err != nil {
			return err
		}
	}
	return nil
}

// present sends a worker that begins the parameters as they are.
func (s *server) present(ctx context.Context, w int, on message.Channel[answerWord], word answerWord, flags message.Flags) error {
	v, out := s.core.Version(), s.dispatch(w)
	hd := on.Header(s.job, word, flags)
	if !s.down.cast {
		return s.send(ctx, w, s.down.begins(hd, w, out))
	}
	for k := range s.shard.Parts {
		f, err := s.down.frame(hd, w, k, out, v)
		if err != nil {
			return fmt.Errorf("parameters for worker %d: %w", w, err)
		}
		if err := s.send(ctx, w, f); err != nil {
			return err
		}
	}
	return nil
}

// begins is a frame with a shard's parameters as they are, from which differences begin
// anew.
func (d *downlink) begins(hd comm.Header, worker int, params wire.Vector) comm.Frame {
	if d.job.Weightless {
		return comm.Frame{Header: hd, Billed: 4 * d.shard.Size()}
	}
	copy(d.held[worker], params.F())
	f := comm.NewFrame(hd, comm.NewBuffer(4*len(params.F())))
	f32.AppendBytes(f.Body[:0], params.F())
	return f
}

// formed takes up the parameters that an epoch begins with.
func (w *worker) formed(ctx context.Context) error {
	cast := wire.IsCast(w.job.DownCodec)
	for _, l := range w.links {
		parts := 1
		if cast {
			parts = len(l.shard.Parts)
		}
		for k := range parts {
			f, err := onRestored.Recv(ctx, w.Rank, l.server)
			if err != nil {
				return err
			}
			l.version = f.Word.Version
			switch w.hear(l, f.Flags); {
			case cast:
				err = w.take(l, k, f.Frame)
			case !w.job.Weightless:
				err = l.begin(w.params.F(), f.Body)
			}
			f.Release()
			if err != nil {
				return fmt.Errorf("worker %d, before step %d: %w", w.rank, w.step, err)
			}
		}
	}
	return nil
}

// begin takes a shard's parameters into the vector of all.
func (l *link) begin(params []float32, body []byte) error {
	if len(body) != 4*l.shard.Size() {
		return fmt.Errorf("server %d sent %d bytes of parameters, want %d", l.id, len(body), 4*l.shard.Size())
	}
	held := make([]float32, l.shard.Size())
	f32.FromBytes(held, body)
	l.shard.Scatter(params, held)
	return nil
}

// starting is the boundary before the first step of an epoch.
func (s *server) starting() error {
	if s.member != nil {
		s.step = s.core.Version()
	}
	return s.Boundary(s)
}

// boundary is that behind the answers to an update. It ends the server's part where a
// worker leaves or joins by plan; at a mark, or where the run is to stop, behind that.
// The wish for states that the answers told is heeded then, as no push comes with which
// it would be.
func (s *server) boundary(ctx context.Context, asked bool) error {
	if s.member == nil {
		return nil
	}
	s.step = s.core.Version()
	if every := s.job.CheckpointEvery; s.stop || every > 0 && s.step%every == 0 {
		return s.member.hold(s.Rank, s)
	}
	rests := s.Boundary(s)
	if rests == nil || !asked {
		return rests
	}
	st, err := s.state(s)
	if err != nil {
		return err
	}
	st.Ints[keyGoing] = 1
	if err := s.sendState(ctx, st); err != nil {
		return err
	}
	return rests
}
