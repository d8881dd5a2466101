package sim

import (
	"context"

	"github.com/gradlab/gradlab/comm"
)

var _ comm.Elastic = (*host)(nil)

// Enter implements comm.Elastic.
func (h *host) Enter(epoch uint32) {
	h.epoch = epoch
	var keep []queued
	for q, ok := h.inbox.pop(); ok; q, ok = h.inbox.pop() {
		if q.frame.Header.Before(epoch) {
			q.frame.Release()
		} else {
			keep = append(keep, q)
		}
	}
	for _, q := range keep {
		h.inbox.push(q)
	}
}

// Rouse implements comm.Elastic.
func (h *host) Rouse() {
	h.roused = true
	for _, t := range h.tasks {
		if !t.done && t != h.loop.cur {
			t.gen++ // whatever it slept for
			t.waiting, t.stirred = false, true
			h.loop.wake(t)
		}
	}
}

// over is why a wait need not go on: its context has ended, as far as Rouse has said so.
func (h *host) over(ctx context.Context) error {
	if h.roused && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
