package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/rng"
)

// planned is what a schedule comes to among so many ranks, the last of them the observer.
func planned(t *testing.T, ranks int, text string) []nemesis.Act {
	t.Helper()
	s, err := nemesis.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(nemesis.World{Workers: ranks - 1, Key: rng.New(1, "faults")})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// arrivals runs rank 0, which sends a frame of some size to rank 1 every millisecond, 20 in
// all, on a cluster where nothing but latency takes time, and returns when they arrive, and
// in which order.
func arrivals(t *testing.T, mk func() sim.Network, size int, faults string) (at []time.Duration, order []uint64, resent uint64) {
	t.Helper()
	n := &sim.Net{Network: mk(), Faults: planned(t, 3, faults)}
	run(t, n, 3, func(ctx context.Context, h comm.Host) error {
		switch h.Rank() {
		case 0:
			for i := range 20 {
				if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{Kind: comm.Gradient, Seq: uint64(i)}, comm.NewBuffer(size))); err != nil {
					return err
				}
				if err := h.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
		case 1:
			for {
				f, err := h.Recv(ctx, 0, comm.AnyTag)
				var gone *comm.PeerError
				if errors.As(err, &gone) {
					return nil
				}
				if err != nil {
					return err
				}
				at, order = append(at, h.Now()), append(order, f.Header.Seq)
				f.Release()
			}
		}
		return nil
	})
	return at, order, n.Resent()
}

// What befalls packets shows as time and bytes, never as a lost, doubled or early frame;
// outside of its time, and on other links, it changes nothing.
func TestF8WeatherOnTheVirtualNetwork(t *testing.T) {
	for name, mk := range networks() {
		t.Run(name, func(t *testing.T) {
			plain, order, _ := arrivals(t, mk, 100, nemesis.None)
			for _, c := range []struct {
				faults string
				late   time.Duration // of the first frame at least; 0: none is late
				resent bool
			}{
				{"delay(by=5ms)", 5 * time.Millisecond, false},
				{"delay(by=5ms,from=[w1])", 0, false},
				{"delay(by=5ms,at=1s)", 0, false},
				{"delay(by=5ms,to=[observer])", 0, false},
				{"reorder(0.999,by=3ms)", 3 * time.Millisecond, false},
				{"duplicate(0.999)", 0, true},
				{"loss(0.9)", 200 * time.Millisecond, true},
				{"partition([w0],for=20ms)", 200 * time.Millisecond, true},
				{"partition([w1],one_way=true,for=20ms)", 0, false},
				{"partition([w0],one_way=true,for=20ms)", 200 * time.Millisecond, true},
				{"partition([w0],from=[observer],for=20ms)", 0, false},
				{"loss(0.5)+duplicate(0.5)+reorder(0.5)+delay(by=1ms,jitter=1ms)+slow(3)", time.Microsecond, true},
			} {
				at, got, resent := arrivals(t, mk, 100, c.faults)
				if !slices.Equal(got, order) || !slices.IsSorted(at) {
					t.Fatalf("%s: frames %v arrive at %v", c.faults, got, at)
				}
				if late := at[0] - plain[0]; late < c.late || c.late == 0 && !slices.Equal(at, plain) {
					t.Errorf("%s: frames arrive at %v, without faults at %v", c.faults, at, plain)
				}
				if (resent > 0) != c.resent {
					t.Errorf("%s: %d bytes are resent", c.faults, resent)
				}
				if again, _, _ := arrivals(t, mk, 100, c.faults); !slices.Equal(again, at) {
					t.Errorf("%s: the same faults give %v, then %v", c.faults, at, again)
				}
			}
			if _, twice, _ := arrivals(t, mk, 100, "resend(0.8,to=[w1])"); len(twice) < 28 || len(twice) > 39 || !slices.IsSorted(twice) || !slices.Equal(slices.Compact(slices.Clone(twice)), order) {
				t.Errorf("of frames of which four in five come twice arrive %v", twice)
			}
		})
	}
}

// A slow link carries so many times fewer bytes a second.
func TestSlowLink(t *testing.T) {
	for name, mk := range networks() {
		t.Run(name, func(t *testing.T) {
			plain, _, _ := arrivals(t, mk, 5e6, nemesis.None) // back to back
			slow, _, _ := arrivals(t, mk, 5e6, "slow(4)")
			if got, want := slow[19]-slow[0], 4*(plain[19]-plain[0]); got < want*98/100 || got > want*102/100 {
				t.Errorf("twenty frames take %v on a link that is four times as slow, want %v", got, want)
			}
		})
	}
}

// A rank that is paused computes so much later, hears and answers then, and is dead once
// it has been away for its lease.
func TestPause(t *testing.T) {
	for name, mk := range networks() {
		for _, brk := range []comm.Tag{0, 77} {
			t.Run(fmt.Sprint(name, " break ", brk), func(t *testing.T) {
				n := &sim.Net{Network: mk(), Lease: time.Second, Faults: planned(t, 3, "pause(w0,at=5ms,for=30ms)+pause(w0,at=20ms,for=25ms)+pause(w0,at=2s,for=1s)")}
				run(t, n, 3, func(ctx context.Context, h comm.Host) error {
					if h.Rank() != 0 {
						_, err := h.Recv(ctx, 0, comm.AnyTag)
						var dead *comm.PeerError
						if !errors.As(err, &dead) || !strings.Contains(dead.Cause, "lease") || h.Now() < 3*time.Second || h.Now() > 3001*time.Millisecond {
							return fmt.Errorf("at %v: %v", h.Now(), err)
						}
						return nil
					}
					work := comm.Work{Run: func(func(int) error) error { return nil }, Cost: []time.Duration{10 * time.Millisecond}, Break: brk}
					if err := h.Do(ctx, work); err != nil {
						return err
					}
					if want := 50 * time.Millisecond; h.Now() != want {
						t.Errorf("10 ms of work with a pause of 40 ms end at %v, want %v", h.Now(), want)
					}
					if err := h.Sleep(ctx, 1960*time.Millisecond); err != nil { // a timer that is due meanwhile
						return err
					}
					return errors.New("it woke up")
				})
			})
		}
	}
}

// A partition for longer than the lease is a death where the observer is on the other side,
// and otherwise a link lost to both ends; nothing sent before that arrives after it.
func TestF7PartitionsOfTheVirtualNetwork(t *testing.T) {
	for name, mk := range networks() {
		for _, c := range []struct {
			faults       string
			fenced       bool
			parted, hear bool // ranks 0 and 1 from one another; rank 2 hears rank 0
		}{
			{"partition([w0],at=1ms,for=2s)", true, true, false},
			{"partition([w0],at=1ms,for=0s,one_way=true)", true, true, false},
			{"partition([w0],from=[w1],at=1ms,for=2s)", false, true, true},
			{"partition([w0],from=[w1],at=1ms,for=2s,one_way=true)", false, true, true},
			{"partition([w0],at=1ms,for=900ms)", false, false, true},
		} {
			t.Run(name+" "+c.faults, func(t *testing.T) {
				n := &sim.Net{Network: mk(), Lease: time.Second, Faults: planned(t, 4, c.faults)}
				heard := map[int]error{}
				run(t, n, 4, func(ctx context.Context, h comm.Host) error {
					if h.Rank() == 0 {
						if err := h.Sleep(ctx, 2*time.Millisecond); err != nil {
							return err
						}
						for _, to := range []int{1, 2, 3} {
							if err := h.Send(ctx, to, comm.NewFrame(comm.Header{}, comm.NewBuffer(10))); err != nil {
								return err
							}
						}
						_, err := h.Recv(ctx, 1, comm.AnyTag)
						heard[0] = err
						var e *comm.PeerError
						if errors.As(err, &e) && e.Lost {
							if err := h.Sleep(ctx, 3*time.Second); err != nil {
								return err
							}
							return err // as a program does that cannot go on
						}
						return nil
					}
					f, err := h.Recv(ctx, 0, comm.AnyTag)
					heard[h.Rank()] = err
					f.Release()
					if h.Rank() == 1 {
						return h.Sleep(ctx, 5*time.Second)
					}
					return nil
				})
				var e *comm.PeerError
				if got := errors.As(heard[1], &e); got != c.parted {
					t.Errorf("rank 1 hears %v of rank 0", heard[1])
				}
				if got := heard[2] == nil; got != c.hear {
					t.Errorf("rank 2 hears %v of rank 0", heard[2])
				}
				lost := errors.As(heard[0], &e) && e.Rank == 1 && e.Lost
				if fenced := !lost && strings.Contains(fmt.Sprint(heard[0]), "lease is over"); fenced != c.fenced || lost != (c.parted && !c.fenced) {
					t.Errorf("rank 0 hears %v of rank 1", heard[0])
				}
			})
		}
	}
}
