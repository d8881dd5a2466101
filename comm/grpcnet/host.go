package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
)

// host is what the programs of one rank run on.
type host struct {
	comm.RealHost
	run *run

	// To tell a rank that waits for anybody when there is nobody left.
	live, waiting atomic.Int32
	moves         atomic.Uint64 // deliveries and ended waits
	lastMoves     uint64
	anyMu         sync.Mutex
	anyone        map[*context.CancelCauseFunc]struct{}
}

var (
	_ comm.Elastic  = (*host)(nil)
	_ comm.Streamer = (*host)(nil)
	_ comm.Remote   = (*host)(nil)
)

func newHost(r *run, rank int) *host {
	h := &host{run: r, anyone: map[*context.CancelCauseFunc]struct{}{}}
	h.Init(rank, r.cfg.Deadline)
	h.Box.FetchBy(r)
	return h
}

func (h *host) Size() int          { return h.run.cfg.World }
func (h *host) Now() time.Duration { return monotonic() - h.run.start }

// Go starts an activity.
func (h *host) Go(name string, p comm.Program) {
	h.live.Add(1)
	h.Start(h.run.ctx, name, h, func(ctx context.Context, on comm.Host) error {
		defer h.live.Add(-1)
		return p(ctx, on)
	})
}

// put delivers a frame, of which the first bytes were seen at an instant. It
// never waits.
func (h *host) put(f comm.Frame, since time.Time) {
	h.moves.Add(1)
	h.Box.PutSince(f, since)
}

// Send implements comm.Endpoint. It takes the frame over even when it fails.
// Frames to a rank that has finished are dropped; to one that is dead, they are
// an error.
func (h *host) Send(ctx context.Context, to int, f comm.Frame) error {
	err := h.send(ctx, to, f)
	if err != nil {
		f.Release()
	}
	return err
}

func (h *host) send(ctx context.Context, to int, f comm.Frame) error {
	there, err := h.address(ctx, to, &f, len(f.Body))
	switch {
	case err != nil:
		return err
	case there.host == h:
		h.put(f, time.Time{})
		return nil
	case there.gone != nil:
		return h.refused(there.gone, f)
	case there.host != nil:
		h.Traffic().SentBody(f, 0) // no link carries it
		there.host.put(f, time.Time{})
		return nil
	}
	counted := f // the frame may be released as soon as it is sent
	if n := there.link.lane; n != nil && n.Send(f) {
		h.Traffic().Sent(counted)
		return nil
	}
	err = there.link.order.Push(ctx, f, h.run.cfg.Deadline, h.Traffic())
	if err != nil {
		return h.unsent(err, to, f, len(f.Body))
	}
	h.Traffic().Sent(counted)
	if len(counted.Body) <= 128<<10 {
		runtime.Gosched() // the stream's sender runs at once, not when this rank next waits
	}
	return nil
}

// SendFrom implements comm.Streamer.
func (h *host) SendFrom(ctx context.Context, to int, hd comm.Header, size int, src comm.Filler) error {
	f := comm.Frame{Header: hd, Billed: size}
	if hd.Kind == comm.Control || hd.Kind == comm.Report {
		f.Billed = 0
	}
	there, err := h.address(ctx, to, &f, size)
	if err != nil {
		return err
	}
	if !there.fills() {
		return h.Send(ctx, to, comm.Filled(f.Header, size, src))
	}
	switch ok, err := there.link.lane.SendFrom(ctx, f, size, src, h.Traffic()); {
	case ok:
		h.Traffic().SentBody(f, size)
		return nil
	case err != nil:
		return h.unsent(err, to, f, size)
	}
	return h.Send(ctx, to, comm.Filled(f.Header, size, src))
}

// SendLent implements comm.Streamer. Bytes are lent to the stream, or the socket, that they
// go by.
func (h *host) SendLent(ctx context.Context, to int, hd comm.Header, b []byte, l *comm.Loan) error {
	if to >= 0 && to < h.run.cfg.World && h.run.hosts[to] == nil {
		if p := h.run.links[h.run.owner[to]].Load(); p != nil && !(place{link: p}).fills() {
			return h.Send(ctx, to, comm.NewFrame(hd, l.Lend(b, h.Traffic(), p)))
		}
	}
	src := comm.Copied(b)
	return h.SendFrom(ctx, to, hd, len(b), &src)
}

// place is where a rank is: here, gone, or behind a link.
type place struct {
	host *host
	gone *goneRank
	link *link
}

// RoundTrip implements comm.Remote.
func (h *host) RoundTrip(to int) time.Duration {
	if to < 0 || to >= h.run.cfg.World || h.run.hosts[to] != nil {
		return 0
	}
	if l := h.run.links[h.run.owner[to]].Load(); l != nil {
		return l.trip
	}
	return 0
}

// fills says that bodies are written to what leads there as they are made.
func (p place) fills() bool { return p.link != nil && p.link.lane != nil && p.link.lane.Fills() }

// address checks a frame with a body of so many bytes, stamps it, and says where
// it goes.
func (h *host) address(ctx context.Context, to int, f *comm.Frame, size int) (place, error) {
	r := h.run
	if ctx.Err() != nil {
		return place{}, context.Cause(ctx)
	}
	if r.overslept() {
		return place{}, context.Cause(r.ctx)
	}
	if f.Header.Kind >= comm.Kind(comm.NumKinds) || f.Billed < 0 {
		return place{}, fmt.Errorf("rank %d: a frame of %v billed at %d bytes", h.Rank(), f.Header.Kind, f.Billed)
	}
	if to < 0 || to >= r.cfg.World {
		return place{}, fmt.Errorf("rank %d: no rank %d to send to", h.Rank(), to)
	}
	if size > r.cfg.MaxFrame {
		return place{}, fmt.Errorf("rank %d: a frame of %d bytes, at most %d are accepted", h.Rank(), size, r.cfg.MaxFrame)
	}
	f.Header.From, f.Header.To = int32(h.Rank()), int32(to)
	if f.Header.Run == 0 {
		f.Header.Run = r.cfg.Run
	}
	if f.Header.Incarnation == 0 {
		f.Header.Incarnation = r.cfg.Incarnation
	}
	if to == h.Rank() {
		return place{host: h}, nil
	}
	if g := r.gone[to].Load(); g != nil {
		return place{gone: g}, nil
	}
	if o := r.hosts[to]; o != nil {
		return place{host: o}, nil
	}
	return place{link: r.links[r.owner[to]].Load()}, nil
}

// unsent words why a frame could not be sent.
func (h *host) unsent(err error, to int, f comm.Frame, size int) error {
	switch {
	case errors.Is(err, lane.ErrClosed):
		return h.refused(h.run.gone[to].Load(), f)
	case errors.Is(err, lane.ErrFull):
		return fmt.Errorf("%w: rank %d waited %v to send %d bytes to rank %d", comm.ErrDeadline, h.Rank(), h.run.cfg.Deadline, size, to)
	}
	return err
}

// refused answers a send to a rank that is gone.
func (h *host) refused(g *goneRank, f comm.Frame) error {
	if g == nil {
		return errEnded
	}
	if g.quiet {
		h.Traffic().Sent(f)
		f.Release()
		return nil
	}
	return g.err
}

// Recv implements comm.Endpoint.
func (h *host) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	if from == comm.AnyRank && h.run.cfg.World > 1 {
		c, cancel := context.WithCancelCause(ctx)
		h.anyMu.Lock()
		h.anyone[&cancel] = struct{}{}
		h.anyMu.Unlock()
		defer func() {
			h.anyMu.Lock()
			delete(h.anyone, &cancel)
			h.anyMu.Unlock()
			cancel(nil)
		}()
		ctx = c
	}
	h.waiting.Add(1)
	f, err := h.RealHost.Recv(ctx, from, tag)
	h.waiting.Add(-1)
	h.moves.Add(1)
	return f, err
}

// Await implements comm.Streamer.
func (h *host) Await(ctx context.Context, r *comm.Receipt) (comm.Header, error) {
	h.waiting.Add(1)
	hd, err := h.RealHost.Await(ctx, r)
	h.waiting.Add(-1)
	h.moves.Add(1)
	return hd, err
}

// checkAlone ends waits for anybody when all other ranks are gone and every
// activity of this one waits. It must find the same twice in a row, with
// nothing delivered in between. Only the watcher calls it.
func (h *host) checkAlone() {
	moves := h.moves.Load()
	still := moves == h.lastMoves
	h.lastMoves = moves
	if live := h.live.Load(); !still || live == 0 || h.waiting.Load() < live {
		return
	}
	e := h.run.lastGone.Load()
	if e == nil || !h.run.alone(h.Rank()) {
		return
	}
	h.anyMu.Lock()
	defer h.anyMu.Unlock()
	for cancel := range h.anyone {
		(*cancel)(e)
	}
}

// Enter implements comm.Elastic.
func (h *host) Enter(epoch uint32) { h.Box.Enter(epoch) }

// Rouse implements comm.Elastic: waits see by themselves that their context has ended.
func (h *host) Rouse() {}
