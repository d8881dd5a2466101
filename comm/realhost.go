package comm

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// RealHost is what hosts of every net on the real clock have in common: a rank with an
// inbox, its activities, and the bytes it sends and receives. A net's host embeds one, and
// adds Size, Now, Go and Send.
type RealHost struct {
	Box *Mailbox

	rank       int
	activities sync.WaitGroup
	err        FirstError
	traffic    Traffic
}

// Init makes the inbox of a rank, whose waits last no longer than deadline.
func (h *RealHost) Init(rank int, deadline time.Duration) {
	h.rank, h.Box = rank, NewMailbox(rank, deadline)
	h.Box.Meter(&h.traffic)
}

// Rank implements Endpoint.
func (h *RealHost) Rank() int { return h.rank }

// Traffic implements Host.
func (h *RealHost) Traffic() *Traffic { return &h.traffic }

// Virtual implements Clock.
func (h *RealHost) Virtual() bool { return false }

// Start runs p as an activity of the rank on self, the host that embeds h. An error or a
// panic in it ends the rank's other activities, and no other rank.
func (h *RealHost) Start(ctx context.Context, name string, self Host, p Program) {
	h.activities.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				h.fail(fmt.Errorf("rank %d, %s: panic: %v\n%s", h.rank, name, r, debug.Stack()))
			}
		}()
		if err := p(ctx, self); err != nil {
			h.fail(fmt.Errorf("rank %d, %s: %w", h.rank, name, err))
		}
	})
}

// fail ends the rank's other activities too.
func (h *RealHost) fail(err error) {
	h.err.Add(err)
	h.Box.Close(err)
}

// Wait waits for the end of all activities, and returns the error that explains the rank's.
func (h *RealHost) Wait() error {
	h.activities.Wait()
	return h.err.Err()
}

// Recv implements Endpoint.
func (h *RealHost) Recv(ctx context.Context, from int, tag Tag) (Frame, error) {
	f, err := h.Box.Recv(ctx, from, tag)
	if err == nil && int(f.Header.From) != h.rank {
		h.traffic.Recv(f)
	}
	return f, err
}

// Post is that of a Streamer.
func (h *RealHost) Post(r *Receipt, from int, tag Tag, sink Sink) { h.Box.Post(r, from, tag, sink) }

// Await is that of a Streamer.
func (h *RealHost) Await(ctx context.Context, r *Receipt) (Header, error) {
	f, err := h.Box.Await(ctx, r)
	if err == nil && int(f.Header.From) != h.rank {
		h.traffic.Recv(f)
	}
	return f.Header, err
}

// Cancel is that of a Streamer.
func (h *RealHost) Cancel(r *Receipt) { h.Box.Cancel(r) }

// Do implements Clock: the work is done at once.
func (h *RealHost) Do(ctx context.Context, w Work) error { return h.Box.Do(ctx, w) }

// Sleep implements Clock.
func (h *RealHost) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
