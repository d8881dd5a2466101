package comm

import (
	"context"
	"errors"
	"sync"
)

// DoNow is Clock.Do on a real clock: it runs w at once and passes its marks as
// the computation reaches them.
func DoNow(ctx context.Context, w Work) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if w.Then == nil {
		return w.Run(nothing)
	}
	return w.Run(w.Then)
}

// Do is Clock.Do of a rank with this inbox.
func (m *Mailbox) Do(ctx context.Context, w Work) error {
	if w.Break == 0 {
		return DoNow(ctx, w)
	}
	broken := make(chan struct{})
	forget := m.watch(w.Break, func() {
		close(broken)
		if w.Abort != nil {
			w.Abort()
		}
	})
	err := error(nil)
	select {
	case <-broken: // before it began
	default:
		err = DoNow(ctx, w)
	}
	forget()
	select {
	case <-broken:
		return ErrBroken
	default:
		return err
	}
}

// nothing is a Work's Then that it does not have.
func nothing(int) error { return nil }

// FirstError keeps the error that explains a failed run: the first one that is
// not itself the consequence of a peer's death or of a cancelled context. Safe
// for concurrent use.
type FirstError struct {
	mu       sync.Mutex
	err      error
	followed bool // err is only a consequence
}

// Add considers err; nil is ignored.
func (f *FirstError) Add(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := consequence(err)
	if f.err == nil || (f.followed && !c) {
		f.err, f.followed = err, c
	}
}

// Err returns the error kept, nil if there was none.
func (f *FirstError) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func consequence(err error) bool {
	var p *PeerError
	return errors.As(err, &p) || errors.Is(err, context.Canceled)
}
