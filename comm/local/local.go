// Package local runs ranks as goroutines of one process: frames are handed
// over without a copy and time is the wall clock.
package local

import (
	"context"
	"errors"
	"fmt"
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
		hosts[r] = &host{all: hosts, start: start, ctx: ctx}
		hosts[r].Init(r, deadline)
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
			err := h.Wait()
			first.Add(err)
			cause, quiet := "has finished", err == nil
			if err != nil {
				cause = err.Error()
			}
			for _, o := range hosts {
				if o != h {
					o.Box.Gone(&comm.PeerError{Rank: h.Rank(), Cause: cause, Ended: quiet}, quiet)
				}
			}
		}()
	}
	wg.Wait()
	for _, h := range hosts {
		h.Box.Close(errEnded)
	}
	return first.Err()
}

var errEnded = errors.New("the net has ended")

var _ comm.Elastic = (*host)(nil)

type host struct {
	comm.RealHost
	all   []*host
	start time.Time
	ctx   context.Context
}

func (h *host) Size() int          { return len(h.all) }
func (h *host) Now() time.Duration { return time.Since(h.start) }

// Go starts an activity.
func (h *host) Go(name string, p comm.Program) { h.Start(h.ctx, name, h, p) }

func (h *host) Send(ctx context.Context, to int, f comm.Frame) error {
	if ctx.Err() != nil {
		f.Release()
		return context.Cause(ctx)
	}
	if to < 0 || to >= len(h.all) {
		f.Release()
		return fmt.Errorf("rank %d: no rank %d to send to", h.Rank(), to)
	}
	f.Header.From, f.Header.To = int32(h.Rank()), int32(to)
	if to != h.Rank() {
		h.Traffic().Sent(f)
	}
	h.all[to].Box.Put(f)
	return nil
}

// Enter implements comm.Elastic.
func (h *host) Enter(epoch uint32) { h.Box.Enter(epoch) }

// Rouse implements comm.Elastic: waits see by themselves that their context has ended.
func (h *host) Rouse() {}
