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
	"github.com/gradlab/gradlab/comm/commtest"
	"github.com/gradlab/gradlab/internal/patience"
)

// testToken is the secret of the runs of the tests, and otherToken that of another run.
const (
	testToken  = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	otherToken = "00112233445566778899aabbccddeeff"
)

// testLinks is what the processes of a test move frames through.
var testLinks = LinksGRPC

// quick is a configuration with short timers.
func quick(world int, ranks ...int) Config {
	return Config{
		World: world, Ranks: ranks, Run: 42, Token: testToken,
		Heartbeat: 50 * time.Millisecond, Lease: patience.Stretch(time.Minute),
		JoinTimeout: patience.Stretch(5 * time.Second), ConnectTimeout: patience.Stretch(2 * time.Second), Deadline: patience.Stretch(20 * time.Second),
		Identity: []Field{{Name: "model", Value: "mlp"}, {Name: "seed", Value: "1"}}, Links: testLinks,
	}
}

// split gives each process per ranks of a world of n.
func split(n, per int) [][]int {
	var out [][]int
	for r := 0; r < n; r += per {
		var ranks []int
		for i := r; i < min(n, r+per); i++ {
			ranks = append(ranks, i)
		}
		out = append(out, ranks)
	}
	return out
}

// together runs processes in this one, over real sockets. tune may change each
// configuration. It returns every process's error.
func together(ctx context.Context, ps []comm.Program, procs [][]int, tune func(i int, c *Config)) []error {
	_, errs := netsOf(ctx, ps, procs, tune)
	return errs
}

// netsOf is together, with the nets that ran.
func netsOf(ctx context.Context, ps []comm.Program, procs [][]int, tune func(i int, c *Config)) (nets []*Net, errs []error) {
	errs = make([]error, len(procs))
	nets = make([]*Net, len(procs))
	var coordinator string
	for i, ranks := range procs {
		c := quick(len(ps), ranks...)
		c.Coordinator = coordinator
		if tune != nil {
			tune(i, &c)
		}
		n, err := New(c)
		if err != nil {
			errs[i] = err
			return nets, errs
		}
		nets[i] = n
		if i == 0 {
			coordinator = n.Addr()
		}
	}
	var wg sync.WaitGroup
	for i, n := range nets {
		wg.Go(func() {
			var mine []comm.Program
			for _, r := range procs[i] {
				mine = append(mine, ps[r])
			}
			errs[i] = n.Run(ctx, mine)
		})
	}
	wg.Wait()
	return nets, errs
}

func firstOf(errs []error) error {
	var f comm.FirstError
	for _, e := range errs {
		f.Add(e)
	}
	return f.Err()
}

func all(n int, p comm.Program) []comm.Program {
	ps := make([]comm.Program, n)
	for i := range ps {
		ps[i] = p
	}
	return ps
}

func TestConformance(t *testing.T) {
	for _, per := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d ranks a process", per), func(t *testing.T) {
			commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
				return firstOf(together(ctx, ps, split(len(ps), per), nil))
			})
		})
	}
}

func TestOneProcessHostsAll(t *testing.T) {
	commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
		return firstOf(together(ctx, ps, split(len(ps), len(ps)), nil))
	})
}

func body(n int, seed byte) *comm.Buffer {
	b := comm.NewBuffer(n)
	for i := range b.B {
		b.B[i] = byte(i*7) + byte(i>>8) + seed
	}
	return b
}

// Every pair of four ranks talks at once, by several activities with tags of
// their own, with sizes around every limit of the transport.
func TestManyConversations(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 1023, 1024, 1025, 16384, chunk - 1, chunk, chunk + 1, 2*chunk + 1025}
	const acts = 2
	p := func(ctx context.Context, h comm.Host) error {
		for a := range acts {
			h.Go(fmt.Sprint("reader ", a), func(ctx context.Context, h comm.Host) error {
				next := make([]int, h.Size())
				for range (h.Size() - 1) * len(sizes) {
					f, err := h.Recv(ctx, comm.AnyRank, comm.Tag(a))
					if err != nil {
						return err
					}
					from := int(f.Header.From)
					size := sizes[next[from]]
					want := body(size, byte(from+a))
					if f.Header.Seq != uint64(next[from]) || string(f.Body) != string(want.B) || f.Billed != size {
						return fmt.Errorf("from %d tag %d: frame %d of %d bytes, want %d of %d", from, a, f.Header.Seq, len(f.Body), next[from], size)
					}
					want.Release()
					f.Release()
					next[from]++
				}
				return nil
			})
			h.Go(fmt.Sprint("writer ", a), func(ctx context.Context, h comm.Host) error {
				for i, size := range sizes {
					b := body(size, byte(h.Rank()+a))
					for to := range h.Size() {
						if to != h.Rank() {
							f := comm.NewFrame(comm.Header{Tag: comm.Tag(a), Seq: uint64(i)}, b.Retain())
							if err := h.Send(ctx, to, f); err != nil {
								return err
							}
						}
					}
					b.Release()
				}
				return nil
			})
		}
		return nil
	}
	for _, per := range []int{1, 2} {
		if err := firstOf(together(context.Background(), all(4, p), split(4, per), nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// Trap: a receiver that sends by itself waits for ever when the windows of both
// sides are full. Two ranks flood each other before either reads: neither may
// wait for the other's program.
func TestTrapFloodBothWays(t *testing.T) {
	const n, size = 40, 3 << 20
	p := func(ctx context.Context, h comm.Host) error {
		for range n {
			if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, comm.NewBuffer(size))); err != nil {
				return err
			}
		}
		for range n {
			f, err := h.Recv(ctx, 1-h.Rank(), 0)
			if err != nil {
				return err
			}
			f.Release()
		}
		return nil
	}
	err := firstOf(together(context.Background(), all(2, p), split(2, 1), func(_ int, c *Config) { c.QueueBytes = 4 << 20 }))
	if err != nil {
		t.Fatal(err)
	}
}

func TestHeaderTravelsWhole(t *testing.T) {
	want := comm.Header{Run: 9, Epoch: 3, Incarnation: 4, Tag: 5, Kind: comm.Gradient, Code: 6, Flags: 7, Shard: 8,
		Step: 1 << 40, Seq: 11, Version: 12, Value: -1.5}
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			f := comm.Frame{Header: want, Billed: 123456} // a weightless frame
			return h.Send(ctx, 1, f)
		},
		func(ctx context.Context, h comm.Host) error {
			f, err := h.Recv(ctx, 0, comm.AnyTag)
			if err != nil {
				return err
			}
			got := f.Header
			w := want
			w.From, w.To = 0, 1
			if got != w || f.Billed != 123456 || len(f.Body) != 0 {
				return fmt.Errorf("got %+v billed %d, want %+v", got, f.Billed, w)
			}
			return nil
		},
	}
	if err := firstOf(together(context.Background(), ps, split(2, 1), nil)); err != nil {
		t.Fatal(err)
	}
}

func TestTooLargeAFrame(t *testing.T) {
	ps := all(2, func(ctx context.Context, h comm.Host) error {
		err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, comm.NewBuffer(2000)))
		if err == nil || !strings.Contains(err.Error(), "at most 1000") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	if err := firstOf(together(context.Background(), ps, split(2, 1), func(_ int, c *Config) { c.MaxFrame = 1000 })); err != nil {
		t.Fatal(err)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			_, err := h.Recv(ctx, 1, 7)
			if !errors.Is(err, comm.ErrDeadline) || !strings.Contains(err.Error(), "tag 7 from rank 1") {
				return fmt.Errorf("got %v", err)
			}
			return h.Send(ctx, 1, comm.NewFrame(comm.Header{}, nil))
		},
		func(ctx context.Context, h comm.Host) error {
			for {
				if _, err := h.Recv(ctx, 0, comm.AnyTag); !errors.Is(err, comm.ErrDeadline) {
					return err
				}
			}
		},
	}
	err := firstOf(together(context.Background(), ps, split(2, 1), func(_ int, c *Config) { c.Deadline = patience.Stretch(200 * time.Millisecond) }))
	if err != nil {
		t.Fatal(err)
	}
}

// A rank that waits for anybody learns that nobody is left; an orderly end
// before that does not disturb it.
func TestNobodyLeft(t *testing.T) {
	t.Parallel()
	ps := all(3, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 1 {
			return nil // ends first, unnoticed
		}
		if h.Rank() == 2 {
			if err := h.Sleep(ctx, 300*time.Millisecond); err != nil {
				return err
			}
			return h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: 1}, nil))
		}
		f, err := h.Recv(ctx, comm.AnyRank, comm.AnyTag)
		if err != nil {
			return fmt.Errorf("disturbed: %v", err)
		}
		f.Release()
		_, err = h.Recv(ctx, comm.AnyRank, comm.AnyTag)
		var p *comm.PeerError
		if !errors.As(err, &p) || p.Cause != "has finished" {
			return fmt.Errorf("got %v", err)
		}
		_, err = h.Recv(ctx, 1, comm.AnyTag)
		if !errors.As(err, &p) || p.Rank != 1 || p.Cause != "has finished" {
			return fmt.Errorf("got %v", err)
		}
		// To who has finished one may send as in every net.
		return h.Send(ctx, 1, comm.NewFrame(comm.Header{}, nil))
	})
	start := time.Now()
	if err := firstOf(together(context.Background(), ps, split(3, 1), nil)); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > patience.Stretch(5*time.Second) {
		t.Errorf("took %v", d)
	}
}

// With one activity busy, the other may wait for anybody: its own rank may
// still speak.
func TestNobodyLeftButOneself(t *testing.T) {
	t.Parallel()
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			h.Go("helper", func(ctx context.Context, h comm.Host) error {
				_, err := h.Recv(ctx, comm.AnyRank, 3)
				return err
			})
			if err := h.Sleep(ctx, 500*time.Millisecond); err != nil {
				return err
			}
			return h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: 3}, nil))
		},
		func(context.Context, comm.Host) error { return nil },
	}
	if err := firstOf(together(context.Background(), ps, split(2, 1), nil)); err != nil {
		t.Fatal(err)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, nil))
			for err == nil { // until the death has come round
				err = h.Sleep(ctx, time.Millisecond)
				if err == nil {
					err = h.Send(ctx, 1, comm.NewFrame(comm.Header{}, nil))
				}
			}
			var p *comm.PeerError
			if !errors.As(err, &p) || !strings.Contains(p.Cause, "ouch") {
				return fmt.Errorf("got %v", err)
			}
			return nil
		},
		func(context.Context, comm.Host) error { panic("ouch") },
	}
	errs := together(context.Background(), ps, split(2, 1), nil)
	if errs[0] != nil {
		t.Error(errs[0])
	}
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "panic: ouch") {
		t.Errorf("got %v", errs[1])
	}
}

func TestRunOnce(t *testing.T) {
	n, err := New(quick(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	p := all(1, func(ctx context.Context, h comm.Host) error { return nil })
	if err := n.Run(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if err := n.Run(context.Background(), p); err == nil {
		t.Error("ran twice")
	}
}

// Twenty runs leave no goroutine behind (TestMain looks), and no port.
func TestStartAndStop(t *testing.T) {
	for range 20 {
		var addr string
		errs := together(context.Background(), all(2, func(ctx context.Context, h comm.Host) error {
			if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, comm.NewBuffer(2000))); err != nil {
				return err
			}
			f, err := h.Recv(ctx, 1-h.Rank(), 0)
			f.Release()
			return err
		}), split(2, 1), func(i int, c *Config) { addr = c.Coordinator })
		if err := firstOf(errs); err != nil {
			t.Fatal(err)
		}
		c := quick(1, 0)
		c.Listen = addr
		n, err := New(c)
		if err != nil {
			t.Fatalf("the port is not free again: %v", err)
		}
		n.Close()
	}
}

// oneEach runs n processes of a rank each, the first of which coordinates. Each is
// configured by change, and known to begun before any runs.
func oneEach(t *testing.T, n int, change func(i int, c *Config), begun func(i int, n *Net), p comm.Program) {
	t.Helper()
	nets := make([]*Net, n)
	for i := range nets {
		c := quick(n, i)
		if i > 0 {
			c.Coordinator = nets[0].Addr()
		}
		change(i, &c)
		var err error
		if nets[i], err = New(c); err != nil {
			t.Fatal(err)
		}
		begun(i, nets[i])
	}
	var wg sync.WaitGroup
	for _, net := range nets {
		wg.Go(func() {
			if err := net.Run(t.Context(), all(1, p)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
