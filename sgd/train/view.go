package train

import (
	"context"
	"errors"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// view is a host as the members of an epoch see it: workers are its ranks 0, 1, …, servers
// and the observer those behind them, and frames carry the epoch. What waits for a member that
// is gone waits for the end of the epoch, and so does what is sent to one.
type view struct {
	comm.Host // among the members
	epoch     context.Context
	of        Membership
	m         *member
	started   int // activities
}

func newView(epoch context.Context, m *member, of Membership) viewed {
	v := &view{Host: comm.Among(m.h, append(of.ranks(m.job), m.job.Observer())), epoch: epoch, of: of, m: m}
	if s, ok := v.Host.(comm.Streamer); ok {
		return &streamView{v, s}
	}
	return v
}

type viewed interface {
	comm.Host
	// settle waits for the end of the activities that were started.
	settle(ctx context.Context)
}

// gone is what becomes of a wait that ended with err, if any: where a member is gone it goes on
// until the epoch is over.
func (v *view) gone(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var p *comm.PeerError
	if !errors.As(err, &p) || p.Rank == v.m.job.Observer() {
		return err
	}
	if err := v.m.misses(ctx, p); err != nil {
		return err
	}
	_, err = v.m.h.Recv(comm.Idle(ctx), v.m.rank, onNever.Tag())
	return err
}

// Send implements comm.Endpoint.
func (v *view) Send(ctx context.Context, to int, f comm.Frame) error {
	f.Header.Epoch = uint32(v.of.Epoch)
	return v.gone(ctx, v.Host.Send(ctx, to, f))
}

// Recv implements comm.Endpoint.
func (v *view) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	for {
		f, err := v.Host.Recv(ctx, from, tag)
		if err == nil {
			f.Header.Incarnation = 0 // epochs tell a rank's processes apart
			return f, nil
		}
		if p, ok := err.(*comm.PeerError); ok && from == comm.AnyRank && p.Rank < v.m.job.Workers {
			if err := v.m.misses(ctx, p); err != nil { // it may have left in an earlier epoch
				return f, err
			}
			continue
		}
		return f, v.gone(ctx, err)
	}
}

// Go implements comm.Host.
func (v *view) Go(name string, p comm.Program) { v.start(name, p, v) }

func (v *view) start(name string, p comm.Program, as comm.Host) {
	v.started++
	v.m.h.Go(name, func(ctx context.Context, _ comm.Host) error {
		err := p(v.epoch, as)
		if context.Cause(v.epoch) == errVoid {
			err = nil
		}
		if wound := onWound.Send(ctx, v.m.self, v.m.rank, message.Nothing{}, 0); err == nil {
			err = wound
		}
		return err
	})
}

func (v *view) settle(ctx context.Context) {
	for ; v.started > 0; v.started-- {
		if _, _, err := onWound.Wait(ctx, v.m.self); err != nil {
			return
		}
	}
}

// streamView is a view of a host that streams.
type streamView struct {
	*view
	comm.Streamer
}

// Go implements comm.Host.
func (v *streamView) Go(name string, p comm.Program) { v.start(name, p, v) }

// SendFrom implements comm.Streamer.
func (v *streamView) SendFrom(ctx context.Context, to int, h comm.Header, size int, src comm.Filler) error {
	h.Epoch = uint32(v.of.Epoch)
	return v.gone(ctx, v.Streamer.SendFrom(ctx, to, h, size, src))
}

// SendLent implements comm.Streamer.
func (v *streamView) SendLent(ctx context.Context, to int, h comm.Header, b []byte, l *comm.Loan) error {
	h.Epoch = uint32(v.of.Epoch)
	return v.gone(ctx, v.Streamer.SendLent(ctx, to, h, b, l))
}

// RoundTrip implements comm.Remote.
func (v *streamView) RoundTrip(to int) time.Duration {
	if r, ok := v.Streamer.(comm.Remote); ok {
		return r.RoundTrip(to)
	}
	return 0
}

// Await implements comm.Streamer.
func (v *streamView) Await(ctx context.Context, r *comm.Receipt) (comm.Header, error) {
	h, err := v.Streamer.Await(ctx, r)
	return h, v.gone(ctx, err)
}
