package experiments

import (
	"context"
	"errors"
	"time"
)

// ErrStopped is returned, beside the result, by a run that was stopped and has
// written a checkpoint.
var ErrStopped = errors.New("stopped; the checkpoint is written, --resume goes on")

// Stopped is an error that is ErrStopped, and says how to go on in words of its
// own.
type Stopped string

func (s Stopped) Error() string { return "stopped; " + string(s) }

// Is implements what errors.Is asks for.
func (Stopped) Is(target error) bool { return target == ErrStopped }

// UntilStopped is a context that also ends once stopping says so (nil never does), for
// work that has no steps at which to ask. end must be called.
func UntilStopped(ctx context.Context, stopping func() bool) (_ context.Context, end context.CancelFunc) {
	ctx, end = context.WithCancel(ctx)
	if stopping == nil {
		return ctx, end
	}
	go func() {
		poll := time.NewTicker(50 * time.Millisecond)
		defer poll.Stop()
		for !stopping() {
			select {
			case <-ctx.Done():
				return
			case <-poll.C:
			}
		}
		end()
	}()
	return ctx, end
}
