package comm

import (
	"context"
	"time"
)

// among is a host as some of its net's ranks see it.
type among struct {
	Host
	ranks []int   // of the net, by number here
	mine  []int32 // the other way round; −1: it is none of them
	me    int
}

// Among is host h as ranks of its net see it that talk with each other alone: rank i of them
// is ranks[i] of the net, and h's own is one of them. It numbers the ranks that frames go to
// and come from; a frame of another rank is from −1. A [PeerError] has the net's number. The
// rank's activities see the same. It streams if h does.
func Among(h Host, ranks []int) Host {
	a := &among{Host: h, ranks: ranks, mine: make([]int32, h.Size())}
	for r := range a.mine {
		a.mine[r] = -1
	}
	for i, r := range ranks {
		a.mine[r] = int32(i)
	}
	a.me = int(a.mine[h.Rank()])
	if s, ok := h.(Streamer); ok {
		return &streamAmong{a, s}
	}
	return a
}

func (a *among) Rank() int { return a.me }
func (a *among) Size() int { return len(a.ranks) }

// real is the net's number of a rank.
func (a *among) real(rank int) int {
	if rank == AnyRank {
		return rank
	}
	return a.ranks[rank]
}

// Send implements Endpoint.
func (a *among) Send(ctx context.Context, to int, f Frame) error {
	return a.Host.Send(ctx, a.real(to), f)
}

// Recv implements Endpoint.
func (a *among) Recv(ctx context.Context, from int, tag Tag) (Frame, error) {
	f, err := a.Host.Recv(ctx, a.real(from), tag)
	if err == nil {
		f.Header.From = a.mine[f.Header.From]
	}
	return f, err
}

// Go implements Host.
func (a *among) Go(name string, p Program) { a.start(name, p, a) }

func (a *among) start(name string, p Program, as Host) {
	a.Host.Go(name, func(ctx context.Context, _ Host) error { return p(ctx, as) })
}

// streamAmong is one of a host that streams.
type streamAmong struct {
	*among
	under Streamer
}

// Go implements Host.
func (a *streamAmong) Go(name string, p Program) { a.start(name, p, a) }

// SendFrom implements Streamer.
func (a *streamAmong) SendFrom(ctx context.Context, to int, h Header, size int, src Filler) error {
	return a.under.SendFrom(ctx, a.real(to), h, size, src)
}

// SendLent implements Streamer.
func (a *streamAmong) SendLent(ctx context.Context, to int, h Header, b []byte, l *Loan) error {
	return a.under.SendLent(ctx, a.real(to), h, b, l)
}

// RoundTrip implements Remote.
func (a *streamAmong) RoundTrip(to int) time.Duration {
	if r, ok := a.under.(Remote); ok {
		return r.RoundTrip(a.real(to))
	}
	return 0
}

// Post implements Streamer.
func (a *streamAmong) Post(r *Receipt, from int, tag Tag, sink Sink) {
	a.under.Post(r, a.real(from), tag, sink)
}

// Await implements Streamer.
func (a *streamAmong) Await(ctx context.Context, r *Receipt) (Header, error) {
	h, err := a.under.Await(ctx, r)
	if err == nil {
		h.From = a.mine[h.From]
	}
	return h, err
}

// Cancel implements Streamer.
func (a *streamAmong) Cancel(r *Receipt) { a.under.Cancel(r) }
