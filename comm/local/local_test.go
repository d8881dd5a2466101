package local_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/commtest"
	"github.com/gradlab/gradlab/comm/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNet(t *testing.T) {
	commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
		return (&local.Net{}).Run(ctx, ps)
	})
}

// A send that fails gives the body back, and says why.
func TestSendsThatFail(t *testing.T) {
	why := errors.New("why")
	err := (&local.Net{}).Run(t.Context(), []comm.Program{func(ctx context.Context, h comm.Host) error {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(why)
		for to, ctx := range map[int]context.Context{0: ended, 1: ctx} {
			buf := comm.NewBuffer(1).Retain()
			err := h.Send(ctx, to, comm.NewFrame(comm.Header{}, buf))
			if err == nil || (to == 0 && err != why) || !buf.Sole() {
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}
