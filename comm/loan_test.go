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
		b := l.Lend([]byte("bytes"), nil)
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
	l.Lend(nil, nil)
	defer func() {
		if recover() == nil {
			t.Error("lent twice")
		}
	}()
	l.Lend(nil, nil)
}
