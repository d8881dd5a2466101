package sim_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
)

// Results of works that come to an end one by one do not pile up, on however many
// cores, and all are computed once.
func TestFewResultsAreAhead(t *testing.T) {
	for _, cores := range []int{1, 2, 4} {
		var made, ahead, most atomic.Int32
		run(t, &sim.Net{Cores: cores}, 200, func(ctx context.Context, h comm.Host) error {
			for range 3 {
				w := comm.Work{
					// Those that begin first do not end first.
					Cost: []time.Duration{time.Duration(1000-h.Rank()*37%200) * time.Millisecond},
					Run: func(func(int) error) error {
						made.Add(1)
						for n, m := ahead.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						return nil
					},
					Then: func(int) error { ahead.Add(-1); return nil },
				}
				if err := h.Do(ctx, w); err != nil {
					return err
				}
			}
			return nil
		})
		if n := made.Load(); n != 600 {
			t.Errorf("%d cores: %d works were computed, want 600", cores, n)
		}
		if n := most.Load(); int(n) > 2*cores+1 {
			t.Errorf("%d cores: %d results at once", cores, n)
		}
	}
}

// What is broken off before its turn is not computed.
func TestBrokenWorkIsNotComputed(t *testing.T) {
	const halt comm.Tag = 7
	for _, cores := range []int{1, 2} {
		var made atomic.Int32
		run(t, &sim.Net{Cores: cores}, 65, func(ctx context.Context, h comm.Host) error {
			if h.Rank() == 0 {
				if err := h.Sleep(ctx, time.Second); err != nil {
					return err
				}
				for r := 1; r < h.Size(); r++ {
					if err := h.Send(ctx, r, comm.NewFrame(comm.Header{Kind: comm.Control, Tag: halt}, comm.NewBuffer(0))); err != nil {
						return err
					}
				}
				return nil
			}
			err := h.Do(ctx, comm.Work{
				Cost:  []time.Duration{time.Minute},
				Run:   func(func(int) error) error { made.Add(1); return nil },
				Break: halt,
			})
			if !errors.Is(err, comm.ErrBroken) {
				return fmt.Errorf("got %v, want ErrBroken", err)
			}
			return nil
		})
		if n := made.Load(); n != 0 {
			t.Errorf("%d cores: %d works were computed for nothing", cores, n)
		}
	}
}
