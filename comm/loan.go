package comm

import (
	"context"
	"time"
)

// Loan is memory that is sent from where it lies, without a copy. The zero value
// is ready for use, and again after Wait.
type Loan struct {
	buf  Buffer
	out  bool
	back chan struct{} // has a token once nobody reads the bytes any more
	pays *Traffic
}

// Lend returns a buffer with one reference over b. Nobody may write to b until
// Wait has returned. What Wait takes counts as t's time on the wire, unless t is
// nil.
func (l *Loan) Lend(b []byte, t *Traffic) *Buffer {
	if l.out {
		panic("comm: Loan lent twice")
	}
	if l.back == nil {
		l.back = make(chan struct{}, 1)
	}
	l.out, l.buf.B, l.buf.loan, l.pays = true, b, l, t
	l.buf.refs.Store(1)
	return &l.buf
}

// Wait waits until every reference to what was lent is gone. It returns at once
// if nothing was, and with the cause of ctx when that ends first.
func (l *Loan) Wait(ctx context.Context) error {
	if !l.out {
		return nil
	}
	select {
	case <-l.back:
	default:
		began := time.Now()
		select {
		case <-l.back:
			if l.pays != nil {
				l.pays.Block(time.Since(began), 0)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.out, l.buf.B = false, nil
	return nil
}
