package train

import (
	"context"
	"errors"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// pulls answers those who asked for parameters of a version that is there, or
// that worker 0, who warms up alone, is no longer there to reach.
func (s *server) pulls(ctx context.Context) error {
	keep := s.waiting[:0]
	for _, p := range s.waiting {
		if int(p.Version) > s.core.Version() && !s.core.Done() && !s.stop && s.core.Live(0) {
			keep = append(keep, p)
			continue
		}
		if err := s.answer(ctx, s.core.Pull(p.from, p.Step), onFetched); err != nil {
			return err
		}
	}
	s.waiting = keep
	return nil
}

func (s *server) reply(ctx context.Context, replies []ps.Reply) error {
	if s.stop && !s.job.synchronous() {
		replies = append(replies, s.core.ReleaseAll()...)
	}
	for _, r := range replies {
		if err := s.answer(ctx, r, onAnswer); err != nil {
			return err
		}
	}
	return nil
}

// answer sends a reply, with parameters unless the push was refused or is only
// to be acknowledged.
func (s *server) answer(ctx context.Context, r ps.Reply, on message.Channel[answerWord]) error {
	w := answerWord{Shard: s.id, Step: r.Step, Version: uint64(s.core.Version())}
	pushed, flags := on.Tag() == onAnswer.Tag(), message.Flags(0)
	// With a barrier all must hear of a wish behind the same step: with the answers
	// to their pushes, which leave together.
	together := pushed || !s.job.synchronous()
	if s.stop && together {
		flags |= FlagStop
	}
	if s.core.Done() {
		flags |= FlagDone
	} else if s.keeping && together {
		flags |= FlagKeep
	}
	switch bare := on.As(comm.Control); {
	case r.Kind == ps.Rejected:
		w.Code = codeRejected
		cause := comm.NewBuffer(len(r.Cause))
		copy(cause.B, r.Cause)
		return s.send(ctx, r.Worker, comm.NewFrame(bare.Header(s.job, w, flags), cause))
	case s.acks && pushed && r.Kind != ps.Void:
		return s.send(ctx, r.Worker, comm.NewFrame(bare.Header(s.job, w, flags), comm.NewBuffer(0)))
	case r.Kind == ps.Void:
		w.Code = codeVoid
		s.voids[r.Worker]++
	}
	return s.parameters(ctx, on.Header(s.job, w, flags), r.Worker)
}

// parameters sends a worker the present parameters behind hd.
func (s *server) parameters(ctx context.Context, hd comm.Header, worker int) error {
	return s.shardEnd.parameters(ctx, hd, worker, s.dispatch(worker), s.core.Version(), s.send)
}

// send sends a worker f. That it is dead is told in Recv.
func (s *server) send(ctx context.Context, worker int, f comm.Frame) error {
	if err := s.h.Send(ctx, worker, f); err != nil && (s.job.synchronous() || !isGone(err)) {
		return err
	}
	return nil
}

// isGone says whether err is the death of a peer.
func isGone(err error) bool {
	var p *comm.PeerError
	return errors.As(err, &p)
}

// dispatch is what worker w is to be sent now; it is noted down.
func (s *server) dispatch(w int) wire.Vector {
	v, out := uint64(s.core.Version()), s.store.outgoing()
	s.holds[w] = v
	s.store.sent.sent(w, v, out)
	s.meas.sent(w, v, s.h.Now())
	return out
}
