package sim_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/commtest"
	"github.com/gradlab/gradlab/comm/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func networks() map[string]func() sim.Network {
	return map[string]func() sim.Network{
		"fair": func() sim.Network { return &sim.Fair{Bandwidth: 1e9, Latency: time.Millisecond} },
		"fifo": func() sim.Network { return &sim.FIFO{Bandwidth: 1e9, Latency: time.Millisecond} },
	}
}

func TestNet(t *testing.T) {
	for name, mk := range networks() {
		t.Run(name, func(t *testing.T) {
			commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
				return (&sim.Net{Network: mk()}).Run(ctx, ps)
			})
		})
	}
}

// send returns a program in which rank r sends sizes[r] bytes to rank to at
// virtual time 0, and to notes when each arrives.
func incast(sizes map[int]int, to int, at map[int]time.Duration) comm.Program {
	return func(ctx context.Context, h comm.Host) error {
		if h.Rank() != to {
			if n, ok := sizes[h.Rank()]; ok {
				return h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(n)))
			}
			return nil
		}
		for range sizes {
			f, err := h.Recv(ctx, comm.AnyRank, comm.AnyTag)
			if err != nil {
				return err
			}
			at[int(f.Header.From)] = h.Now()
			f.Release()
		}
		return nil
	}
}

func run(t *testing.T, n *sim.Net, ranks int, p comm.Program) {
	t.Helper()
	ps := make([]comm.Program, ranks)
	for i := range ps {
		ps[i] = p
	}
	if err := n.Run(context.Background(), ps); err != nil {
		t.Fatal(err)
	}
}

func near(t *testing.T, what string, got time.Duration, want float64) {
	t.Helper()
	if math.Abs(got.Seconds()-want) > 1e-6 {
		t.Errorf("%s at %v, want %.6f s", what, got, want)
	}
}

// Three senders into one NIC: closed forms of both models.
func TestIncast(t *testing.T) {
	sizes := map[int]int{1: 1e6, 2: 2e6, 3: 3e6} // 1, 2, 3 ms alone at 1 GB/s
	at := map[int]time.Duration{}
	run(t, &sim.Net{Network: networks()["fair"]()}, 4, incast(sizes, 0, at))
	// Fair: all share until 1 is through at 3 ms; 2 has 1 MB left, shared by
	// two: 5 ms; 3 ends with the last byte at 6 ms. Plus 1 ms of latency.
	near(t, "fair 1", at[1], 0.004)
	near(t, "fair 2", at[2], 0.006)
	near(t, "fair 3", at[3], 0.007)
	run(t, &sim.Net{Network: networks()["fifo"]()}, 4, incast(sizes, 0, at))
	near(t, "fifo 1", at[1], 0.002)
	near(t, "fifo 2", at[2], 0.004)
	near(t, "fifo 3", at[3], 0.007)
}

// A stream limited elsewhere leaves its share to the others.
func TestMaxMin(t *testing.T) {
	at := map[string]time.Duration{}
	p := func(ctx context.Context, h comm.Host) error {
		send := func(to, n int) error {
			return h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(n)))
		}
		recv := func(from int) error {
			f, err := h.Recv(ctx, from, comm.AnyTag)
			at[fmt.Sprintf("%d>%d", from, h.Rank())] = h.Now()
			f.Release()
			return err
		}
		switch h.Rank() {
		case 0: // 0 sends to 2 and 3; 1 sends to 3 … 3's NIC is no limit for 0
			if err := send(2, 1e6); err != nil {
				return err
			}
			return send(3, 1e6)
		case 1:
			return send(3, 1e6)
		case 2:
			return recv(0)
		default:
			if err := recv(1); err != nil {
				return err
			}
			return recv(0)
		}
	}
	run(t, &sim.Net{Network: networks()["fair"]()}, 4, p)
	for _, k := range []string{"0>2", "1>3", "0>3"} { // all at half rate: 2 ms + latency
		near(t, k, at[k], 0.003)
	}
}

func TestDeadlockNamesWaiters(t *testing.T) {
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error { _, err := h.Recv(ctx, 1, 3); return err },
		func(ctx context.Context, h comm.Host) error { _, err := h.Recv(ctx, 0, 4); return err },
	}
	err := (&sim.Net{}).Run(context.Background(), ps)
	if err == nil || !strings.Contains(err.Error(), "deadlock") || !strings.Contains(err.Error(), "tag 4 from rank 0") {
		t.Fatalf("got %v", err)
	}
}

// Virtual time follows the stated costs, not the computing, and works overlap.
func TestWorkIsBilledByCost(t *testing.T) {
	n := &sim.Net{}
	p := func(ctx context.Context, h comm.Host) error {
		for i := 0; i < 3; i++ {
			err := h.Do(ctx, comm.Work{
				Cost: []time.Duration{time.Hour},
				Run:  func(at func(int) error) error { time.Sleep(time.Millisecond); return at(0) },
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	run(t, n, 8, p)
	if n.Now() != 3*time.Hour {
		t.Errorf("the run took %v of virtual time, want 3h", n.Now())
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for name, mk := range networks() {
		b.Run(name, func(b *testing.B) {
			p := func(ctx context.Context, h comm.Host) error {
				for i := 0; i < b.N; i++ {
					if h.Rank() == 0 {
						if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(64))); err != nil {
							return err
						}
					}
					f, err := h.Recv(ctx, 1-h.Rank(), 0)
					if err != nil {
						return err
					}
					if h.Rank() == 1 {
						if err := h.Send(ctx, 0, f); err != nil {
							return err
						}
						continue
					}
					f.Release()
				}
				return nil
			}
			b.ReportAllocs()
			if err := (&sim.Net{Network: mk()}).Run(context.Background(), []comm.Program{p, p}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// A receive is blocked for the sender until it sends, and from then on for the
// wire; one that finds its frame there is not blocked.
func TestBlocked(t *testing.T) {
	for name, mk := range networks() {
		t.Run(name, func(t *testing.T) {
			run(t, &sim.Net{Network: mk()}, 2, func(ctx context.Context, h comm.Host) error {
				if h.Rank() == 0 {
					for range 2 {
						if err := h.Sleep(ctx, 5*time.Millisecond); err != nil {
							return err
						}
						if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(1e6))); err != nil {
							return err
						}
					}
					return nil
				}
				var wires, waits []time.Duration
				for range 2 {
					f, err := h.Recv(ctx, 0, comm.AnyTag)
					if err != nil {
						return err
					}
					f.Release()
					wire, wait := h.Traffic().Blocked()
					wires, waits = append(wires, wire.Round(time.Microsecond)), append(waits, wait.Round(time.Microsecond))
					if err := h.Sleep(ctx, 20*time.Millisecond); err != nil {
						return err
					}
				}
				// 1 MB at 1 GB/s and a millisecond of latency.
				if wires[0] != 2*time.Millisecond || waits[0] != 5*time.Millisecond || wires[1] != wires[0] || waits[1] != waits[0] {
					t.Errorf("on the wire %v, waited %v", wires, waits)
				}
				return nil
			})
		})
	}
}

// What would take longer than durations can say ends in an error, however the
// time is taken, and not in a clock that goes backwards.
func TestHorizon(t *testing.T) {
	const long = time.Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		net   sim.Fair
		work  time.Duration
		frame int
	}{
		"work":      {sim.Fair{Bandwidth: 1e9}, long, 1},
		"latency":   {sim.Fair{Bandwidth: 1e9, Latency: long}, time.Hour, 1},
		"message":   {sim.Fair{Bandwidth: 1e9, Message: long}, time.Hour, 1},
		"bandwidth": {sim.Fair{Bandwidth: 1e-9}, time.Hour, 1e9},
	} {
		ps := []comm.Program{
			func(ctx context.Context, h comm.Host) error {
				for range 3 {
					if err := h.Do(ctx, sleep(c.work)); err != nil {
						return err
					}
					if err := h.Send(ctx, 1, comm.Frame{Header: comm.Header{Kind: comm.Gradient}, Billed: c.frame}); err != nil {
						return err
					}
				}
				return nil
			},
			func(ctx context.Context, h comm.Host) error {
				for range 3 {
					if _, err := h.Recv(ctx, 0, 0); err != nil {
						return err
					}
				}
				return nil
			},
		}
		n := &sim.Net{Network: &c.net}
		if err := n.Run(context.Background(), ps); err == nil || !strings.Contains(err.Error(), "virtual clock") || n.Now() < 0 {
			t.Errorf("%s: %v after %v", name, err, n.Now())
		}
	}
}
