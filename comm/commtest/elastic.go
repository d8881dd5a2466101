package commtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// epochs: of ranks that can change epochs, inboxes refuse what is of earlier ones, and
// waits end with their context.
func epochs(t *testing.T, run Run) {
	errOver := errors.New("it is over")
	say := func(ctx context.Context, h comm.Host, to int, tag comm.Tag, epoch uint32) error {
		return h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Control, Tag: tag, Epoch: epoch}, comm.NewBuffer(0)))
	}
	speaks := func(ctx context.Context, h comm.Host) error {
		if _, ok := h.(comm.Elastic); !ok {
			t.Log("its ranks cannot change epochs")
			return nil
		}
		for _, epoch := range []uint32{1, 2, 0} {
			if err := say(ctx, h, 1, 5, epoch); err != nil {
				return err
			}
		}
		if err := say(ctx, h, 1, 6, 0); err != nil {
			return err
		}
		if f, err := h.Recv(ctx, 1, 6); err != nil { // it is in epoch 2
			return err
		} else {
			f.Release()
		}
		if err := say(ctx, h, 1, 5, 1); err != nil {
			return err
		}
		return say(ctx, h, 1, 6, 0)
	}
	hears := func(ctx context.Context, host comm.Host) error {
		h, ok := host.(comm.Elastic)
		if !ok {
			return nil
		}
		f, err := h.Recv(ctx, 0, 6) // so all before it is there
		if err != nil {
			return err
		}
		f.Release()
		h.Enter(2)
		for _, want := range []uint32{2, 0} {
			f, err := h.Recv(ctx, 0, 5)
			if err != nil {
				return err
			}
			if f.Header.Epoch != want {
				t.Errorf("in epoch 2 came a frame of epoch %d, want %d", f.Header.Epoch, want)
			}
			f.Release()
		}
		if err := say(ctx, h, 0, 6, 0); err != nil {
			return err
		}
		if f, err = h.Recv(ctx, 0, 6); err != nil {
			return err
		}
		f.Release()
		epoch, cancel := context.WithCancelCause(ctx)
		h.Go("caller-off", func(ctx context.Context, _ comm.Host) error {
			f, err := h.Recv(ctx, 1, 7)
			f.Release()
			cancel(errOver)
			h.Rouse()
			return err
		})
		if err := say(ctx, h, 1, 7, 0); err != nil {
			return err
		}
		if f, err := h.Recv(epoch, 1, 5); !errors.Is(err, errOver) {
			t.Errorf("a wait whose context ended gave a frame of epoch %d, %v", f.Header.Epoch, err)
		}
		if err := h.Sleep(epoch, time.Minute); !errors.Is(err, errOver) {
			t.Errorf("who sleeps when its context has ended hears %v", err)
		}
		return nil
	}
	run.must(t, []comm.Program{speaks, hears})
}
