// Package local runs ranks as goroutines of one process: frames are handed
// over without a copy and time is the wall clock.
package local

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Net is the net of goroutines. The zero value is ready to use.
type Net struct {
	// Deadline bounds every wait for a frame. Default 10 minutes.
	Deadline time.Duration
}

var _ comm.Net = (*Net)(nil)

// Run implements comm.Net. A rank that ends with an error is gone for the
// others, with that error as the cause.
func (n *Net) Run(ctx context.Context, programs []comm.Program) error {
	deadline := n.Deadline
	if deadline == 0 {
		deadline = 10 * time.Minute
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	hosts := make([]*host, len(programs))
	for r := range hosts {
		hosts[r] = &host{rank: r, all: hosts, start: start, ctx: ctx, box: comm.NewMailbox(r, deadline)}
		hosts[r].box.Meter(&hosts[r].traffic)
	}
	for r, p := range programs {
		hosts[r].Go("main", p)
	}
	var first comm.FirstError
	var wg sync.WaitGroup
	for _, h := range hosts {
		wg.Add(1)
		go func() {
			defer wg.Done()
			h.acts.Wait()
			err := h.err.Err()
			first.Add(err)
			cause, quiet := "has finished", err == nil
			if err != nil {
				cause = err.Error()
			}
			for _, o := range hosts {
				if o != h {
					o.box.Gone(&comm.PeerError{Rank: h.rank, Cause: cause, Ended: quiet}, quiet)
				}
			}
		}()
	}
	wg.Wait()
	for _, h := range hosts {
		h.box.Close(errEnded)
	}
	return first.Err()
}

var errEnded = errors.New("the net has ended")

var _ comm.Elastic = (*host)(nil)

type host struct {
	rank    int
	all     []*host
	start   time.Time
	ctx     context.Context
	box     *comm.Mailbox
	acts    sync.WaitGroup
	err     comm.FirstError
	traffic comm.Traffic
}

func (h *host) Rank() int              { return h.rank }
func (h *host) Size() int              { return len(h.all) }
func (h *host) Traffic() *comm.Traffic { return &h.traffic }
func (h *host) Now() time.Duration     { return time.Since(h.start) }
func (h *host) Virtual() bool          { return false }

// Go starts an activity; a panic in it ends the rank with an error instead of
// taking all other ranks along.
func (h *host) Go(name string, p comm.Program) {
	h.acts.Add(1)
	go func() {
		defer h.acts.Done()
		defer func() {
			if r := recover(); r != nil {
				err := fmt.Errorf("rank %d, %s: panic: %v\n%s", h.rank, name, r, debug.Stack())
				h.err.Add(err)
				h.box.Close(err)
			}
		}()
		if err := p(h.ctx, h); err != nil {
			h.err.Add(fmt.Errorf("rank %d, %s: %w", h.rank, name, err))
			h.box.Close(err) // the other activities of this rank end too
		}
	}()
}

func (h *host) Send(ctx context.Context, to int, f comm.Frame) error {
	if ctx.Err() != nil {
		f.Release()
		return context.Cause(ctx)
	}
	if to < 0 || to >= len(h.all) {
		f.Release()
		return fmt.Errorf("rank %d: no rank %d to send to", h.rank, to)
	}
	f.Header.From, f.Header.To = int32(h.rank), int32(to)
	if to != h.rank {
		h.traffic.Sent(f)
	}
	h.all[to].box.Put(f)
	return nil
}

func (h *host) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	f, err := h.box.Recv(ctx, from, tag)
	if err == nil && int(f.Header.From) != h.rank {
		h.traffic.Recv(f)
	}
	return f, err
}

// Enter implements comm.Elastic.
func (h *host) Enter(epoch uint32) { h.box.Enter(epoch) }

// Rouse implements comm.Elastic: waits see by themselves that their context has ended.
func (h *host) Rouse() {}

func (h *host) Do(ctx context.Context, w comm.Work) error { return h.box.Do(ctx, w) }

func (h *host) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
