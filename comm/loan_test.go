package comm

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A loan ends with its last reference, not before, and can be made again.
func TestLoan(t *testing.T) {
	var l Loan
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b := l.Lend([]byte("bytes"), nil, nil)
		f := NewFrame(Header{}, b.Retain())
		if string(f.Body) != "bytes" || f.Billed != 5 {
			t.Fatalf("%+v", f)
		}
		b.Release()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := l.Wait(ctx); err != why {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Millisecond, f.Release)
		if err := l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.Lend(nil, nil, nil)
	defer func() {
		if recover() == nil {
			t.Error("lent twice")
		}
	}()
	l.Lend(nil, nil, nil)
}

// holder is one that has ended.
type holder chan struct{}

var errHolder = errors.New("the holder has ended")

func (h holder) Gone() <-chan struct{} { return h }
func (h holder) Why() error            { return errHolder }

// Who holds a loan may end without giving it back, or give it back after all.
func TestLoanOfTheDead(t *testing.T) {
	h := make(holder)
	var l Loan
	b := l.Lend(nil, nil, h)
	time.AfterFunc(5*time.Millisecond, func() { close(h) })
	if err := l.Wait(t.Context()); err != errHolder {
		t.Fatal(err)
	}
	time.AfterFunc(5*time.Millisecond, b.Release)
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}
