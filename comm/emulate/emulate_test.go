package emulate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/commtest"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// behind puts ranks of a net behind NICs.
func behind(net comm.Net, nic emulate.NIC) *emulate.Net {
	return &emulate.Net{Net: net, NIC: nic, Deadline: 20 * time.Second}
}

func TestNet(t *testing.T) {
	commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
		return behind(&local.Net{}, emulate.NIC{Bandwidth: 1e8, Latency: 200 * time.Microsecond, Message: 10 * time.Microsecond}).Run(ctx, ps)
	})
}

func TestProcesses(t *testing.T) {
	if !patience.Long {
		t.Skip("processes meet over sockets")
	}
	commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
		var first comm.FirstError
		for _, err := range processes(ctx, t, emulate.NIC{Bandwidth: 1e8, Latency: 200 * time.Microsecond}, ps) {
			first.Add(err)
		}
		return first.Err()
	})
}

// processes runs each program as a process of its own and returns how each ended.
func processes(ctx context.Context, t *testing.T, nic emulate.NIC, ps []comm.Program) []error {
	nets := make([]*grpcnet.Net, len(ps))
	coordinator := ""
	for r := range ps {
		n, err := grpcnet.New(grpcnet.Config{Ranks: []int{r}, World: len(ps), Coordinator: coordinator, Token: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", Run: 1})
		if err != nil {
			t.Fatal(err)
		}
		if nets[r] = n; r == 0 {
			coordinator = n.Addr()
		}
	}
	ends := make([]error, len(ps))
	var all sync.WaitGroup
	for r, n := range nets {
		all.Go(func() { ends[r] = behind(n, nic).Run(ctx, ps[r:r+1]) })
	}
	all.Wait()
	return ends
}

// A rank that outlives another has ended well: it needs not say goodbye to who is
// gone, and who still waits hears of the one that failed, not of the one that left.
func TestARankOutlivesAnother(t *testing.T) {
	if !patience.Long {
		t.Skip("processes meet over sockets")
	}
	boom := errors.New("boom")
	outlives := func(ctx context.Context, h comm.Host) error {
		_, err := h.Recv(ctx, 1, comm.AnyTag)
		if gone := (*comm.PeerError)(nil); !errors.As(err, &gone) || gone.Rank != 1 {
			return fmt.Errorf("got %v, want rank 1's death", err)
		}
		return nil
	}
	ends := processes(t.Context(), t, emulate.NIC{Bandwidth: 1e8}, []comm.Program{outlives, func(context.Context, comm.Host) error { return boom }, outlives})
	if ends[0] != nil || ends[2] != nil || !errors.Is(ends[1], boom) {
		t.Errorf("the ranks ended with %v; want nothing, boom, nothing", ends)
	}
}

// A frame takes its bytes over the bandwidth, and the latency; work takes what it
// is said to cost. Neither less.
func TestTimesAreReal(t *testing.T) {
	const size, cost = 100_000, 5 * time.Millisecond
	nic := emulate.NIC{Bandwidth: 1e7, Latency: 3 * time.Millisecond}
	var sent, got [2]time.Duration
	err := behind(&local.Net{}, nic).Run(t.Context(), []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			passed := []time.Duration{}
			began := h.Now()
			w := comm.Work{
				Cost: []time.Duration{cost, 2 * cost},
				Run:  func(at func(int) error) error { return errors.Join(at(0), at(1)) },
				Then: func(int) error { passed = append(passed, h.Now()-began); return nil },
			}
			if err := h.Do(ctx, w); err != nil {
				return err
			}
			if passed[0] < cost || passed[1] < 3*cost {
				t.Errorf("marks of %v passed after %v", w.Cost, passed)
			}
			w.Cost, w.Run, w.Then = []time.Duration{0}, func(func(int) error) error { time.Sleep(cost); return nil }, nil
			if err := h.Do(ctx, w); err != nil {
				return err
			}
			if s := h.(comm.Strained).Strain(); s.Works != 2 || s.Overruns == 0 || s.OverSeconds < cost.Seconds() {
				t.Errorf("work of %v for nothing: %+v", cost, s)
			}
			for i := range sent {
				sent[i] = h.Now()
				f := comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(size))
				if err := h.Send(ctx, 1, f); err != nil {
					return err
				}
			}
			return nil
		},
		func(ctx context.Context, h comm.Host) error {
			for i := range got {
				f, err := h.Recv(ctx, 0, 0)
				if err != nil {
					return err
				}
				f.Release()
				got[i] = h.Now()
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const takes = 10 * time.Millisecond // size over bandwidth
	for i := range got {
		if d := got[i] - sent[0]; d < time.Duration(i+1)*takes+nic.Latency-time.Millisecond {
			t.Errorf("frame %d took %v", i, d)
		}
	}
}

func TestBadNIC(t *testing.T) {
	for _, nic := range []emulate.NIC{{}, {Bandwidth: -1}, {Bandwidth: math.NaN()}, {Bandwidth: 1, Latency: -1}, {Bandwidth: 1, Message: -1}} {
		if err := behind(&local.Net{}, nic).Run(t.Context(), nil); err == nil {
			t.Errorf("%+v is accepted", nic)
		}
	}
}
