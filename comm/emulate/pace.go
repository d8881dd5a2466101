package emulate

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/gradlab/gradlab/comm"
)

// Do implements comm.Clock: w is computed at once, and passes each mark when it
// has taken as long as it is said to cost, or longer if it has to.
func (h *host) Do(ctx context.Context, w comm.Work) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	paced := w
	paced.Run = func(at func(int) error) error {
		c := compute(ctx, w)
		err := h.pace(ctx, w, c, at)
		cancel()
		for range c.marks { // until it has ended
		}
		if err != nil {
			return err
		}
		return c.err
	}
	paced.Abort = func() {
		cancel()
		if w.Abort != nil {
			w.Abort()
		}
	}
	return h.box.Do(ctx, paced)
}

// computation is work that is being computed.
type computation struct {
	marks chan struct{} // has a token for each mark that was passed; closed at the end
	err   error         // to be read behind that
}

// compute begins to compute w beside its clock.
func compute(ctx context.Context, w comm.Work) *computation {
	c := &computation{marks: make(chan struct{}, len(w.Cost))}
	go func() {
		defer close(c.marks)
		defer func() {
			if r := recover(); r != nil {
				c.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		c.err = w.Run(func(mark int) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if mark < len(w.Cost) {
				c.marks <- struct{}{}
			}
			return nil
		})
	}()
	return c
}

// pace passes the marks of w in time. One that the computation has not come to by
// then moves all that follow.
func (h *host) pace(ctx context.Context, w comm.Work, c *computation, at func(int) error) error {
	due, over := now(), instant(0)
	for i, cost := range w.Cost {
		due += cost
		if err := h.until(ctx, due); err != nil {
			return err
		}
		passed, late := false, false
		select {
		case _, passed = <-c.marks:
		default:
			late = true
			_, passed = <-c.marks
		}
		if !passed && c.err != nil { // ended, which is as good as passed
			return nil
		}
		if late {
			over += max(now()-due, 0)
			due = max(due, now())
		}
		if err := at(i); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.strain.Works++
	if over > 0 {
		h.strain.Overruns++
		h.strain.OverSeconds += over.Seconds()
	}
	return nil
}
