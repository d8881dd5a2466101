package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

// Processes that are gone are replaced by others, which speak with all who live, those too
// that came late themselves, and are gone once more. Who was replaced is told of as of a
// death, by its incarnation.
func TestComeAgain(t *testing.T) {
	const hello, word = 5, 6
	deaths := make(chan error, 8)
	say := func(ctx context.Context, h comm.Host, to int, tag comm.Tag) error {
		return h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Control, Tag: tag}, comm.NewBuffer(0)))
	}
	began := make(chan uint32, 16) // of a rank, its incarnation
	cfg := func(ranks ...int) Config {
		c := quick(4, ranks...)
		c.Late = true
		return c
	}
	lead, err := New(cfg(0))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(over)
		err := lead.Run(t.Context(), []comm.Program{func(ctx context.Context, h comm.Host) error {
			gone := map[string]bool{}
			for hellos := 0; hellos < 3+3; { // three at first, and three that come again
				f, err := h.Recv(comm.Idle(ctx), comm.AnyRank, hello)
				if p := new(comm.PeerError); errors.As(err, &p) {
					gone[fmt.Sprint(p.Rank, ".", p.Incarnation)] = true
					deaths <- p
					continue
				} else if err != nil {
					return err
				}
				hellos++
				began <- f.Header.Incarnation
				f.Release()
			}
			for _, want := range []string{"2.0", "3.0", "3.1"} {
				if !gone[want] {
					t.Errorf("the lead heard of %v, not of rank and incarnation %s", gone, want)
				}
			}
			for r := 1; r < 4; r++ { // all are there: they speak with one another
				if err := say(ctx, h, r, word); err != nil {
					return err
				}
			}
			for r := 1; r < 4; r++ {
				f, err := h.Recv(comm.Idle(ctx), r, word)
				if err != nil {
					return err
				}
				f.Release()
			}
			return nil
		}})
		if err != nil {
			t.Errorf("the lead: %v", err)
		}
	})
	start := func(rank int) (end func()) {
		c := cfg(rank)
		c.Coordinator = lead.Addr()
		n, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		wg.Go(func() {
			defer close(done)
			err := n.Run(ctx, []comm.Program{func(ctx context.Context, h comm.Host) error {
				if err := say(ctx, h, 0, hello); err != nil {
					return err
				}
				f, err := h.Recv(comm.Idle(ctx), 0, word)
				if err != nil {
					return err
				}
				f.Release()
				for to := range 4 {
					if to != rank {
						if err := say(ctx, h, to, word); err != nil {
							return err
						}
					}
				}
				for from := 1; from < 4; from++ {
					if from == rank {
						continue
					}
					f, err := h.Recv(ctx, from, word)
					if err != nil {
						return fmt.Errorf("rank %d: %w", rank, err)
					}
					f.Release()
				}
				return nil
			}})
			if err != nil && ctx.Err() == nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
		return func() { cancel(&comm.PeerError{Rank: rank, Cause: "killed", Lost: true}); <-done }
	}
	next := func(want uint32) {
		t.Helper()
		select {
		case life := <-began:
			if life != want {
				t.Errorf("a rank of incarnation %d has begun, want %d", life, want)
			}
		case <-over:
			t.Fatal("the lead has ended")
		}
	}
	start(1)
	two, three := start(2), start(3)
	for range 3 {
		next(0)
	}
	three()
	three = start(3)
	next(1)
	two()
	three()
	start(2)
	next(1)
	start(3)
	next(2)
	wg.Wait()
	if len(deaths) != 3 {
		t.Errorf("%d deaths", len(deaths))
	}
}

// Nobody takes the place of a process that lives, nor comes into a run that takes none.
func TestComeAgainRefused(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		late  bool
		joins func(c *Config)
	}{
		"rank 1 has joined already":              {false, func(c *Config) {}},
		"and lives":                              {true, func(c *Config) {}},
		"are not those of a process that may":    {true, func(c *Config) { c.Ranks = c.Ranks[:1] }},
		"seed: 1 at the coordinator, 2 at the j": {true, func(c *Config) { c.Identity = []Field{{Name: "model", Value: "mlp"}, {Name: "seed", Value: "2"}} }},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			end := make(chan struct{})
			lead := func(ctx context.Context, h comm.Host) error {
				defer close(end)
				again := *h.(*host).run.cfg
				again.Ranks, again.Listen, again.Coordinator = []int{1, 2}, "", h.(*host).run.addr
				c.joins(&again)
				n, err := New(again)
				if err != nil {
					return err
				}
				if err = n.Run(ctx, make([]comm.Program, len(again.Ranks))); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q, got %v", want, err)
				}
				return nil
			}
			waits := func(context.Context, comm.Host) error { <-end; return nil }
			for _, err := range together(t.Context(), []comm.Program{lead, waits, waits}, [][]int{{0}, {1, 2}}, func(_ int, o *Config) {
				o.Late, o.Lease, o.ConnectTimeout = c.late, patience.Stretch(time.Second), patience.Stretch(200*time.Millisecond)
			}) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}
