package comm

import (
	"context"
	"time"
)

// Loan is memory that is sent from where it lies, without a copy. The zero value
// is ready for use, and again after Wait.
type Loan struct {
	buf    Buffer
	out    bool
	back   chan struct{} // has a token once nobody reads the bytes any more
	pays   *Traffic
	holder Holder // nil: none that could end
}

// Holder is who reads what was lent, and may end without giving it back.
type Holder interface {
	// Gone is closed when the holder has ended, for the reason that Why gives.
	Gone() <-chan struct{}
	Why() error
}

// lastCall is how long a holder that has ended may still give back what was lent.
const lastCall = 250 * time.Millisecond

// Lend returns a buffer with one reference over b. Nobody may write to b until
// Wait has returned. What Wait takes counts as t's time on the wire, unless t is
// nil. by is who will hold it; nil: nobody who could end.
func (l *Loan) Lend(b []byte, t *Traffic, by Holder) *Buffer {
	if l.out {
		panic("comm: Loan lent twice")
	}
	if l.back == nil {
		l.back = make(chan struct{}, 1)
	}
	l.out, l.buf.B, l.buf.loan, l.pays, l.holder = true, b, l, t, by
	l.buf.refs.Store(1)
	return &l.buf
}

// Wait waits until every reference to what was lent is gone. It returns at once
// if nothing was, and with the cause of ctx when that ends first, or the reason
// why who holds it has ended; then the bytes may still be read.
func (l *Loan) Wait(ctx context.Context) error {
	if !l.out {
		return nil
	}
	select {
	case <-l.back:
	default:
		began := time.Now()
		if err := l.wait(ctx); err != nil {
			return err
		}
		if l.pays != nil {
			l.pays.Block(time.Since(began), 0)
		}
	}
	l.out, l.buf.B, l.holder = false, nil, nil
	return nil
}

func (l *Loan) wait(ctx context.Context) error {
	var gone <-chan struct{}
	if l.holder != nil {
		gone = l.holder.Gone()
	}
	select {
	case <-l.back:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-gone:
	}
	t := time.NewTimer(lastCall)
	defer t.Stop()
	select {
	case <-l.back:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return l.holder.Why()
	}
}
