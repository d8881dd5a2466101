package sim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
)

// A rank that dies stops where it is, in all its activities; what it has sent
// arrives before the word of its death, for those who wait for it and those who
// wait for anybody, and what it does not live to send never does.
func TestDeath(t *testing.T) {
	for name, mk := range networks() {
		t.Run(name, func(t *testing.T) {
			n := &sim.Net{Network: mk(), Faults: []nemesis.Act{{Rank: 1, At: 2 * time.Millisecond}, {Rank: 0, At: time.Hour}}}
			began, ended := 0, 0
			run(t, n, 3, func(ctx context.Context, h comm.Host) error {
				if h.Rank() == 1 {
					h.Go("asleep", func(ctx context.Context, h comm.Host) error {
						began++
						defer func() { ended++ }()
						if err := h.Sleep(ctx, time.Second); err != nil {
							return err
						}
						return errors.New("it woke up")
					})
					h.Go("computing", func(ctx context.Context, h comm.Host) error {
						began++
						defer func() { ended++ }()
						err := h.Do(ctx, comm.Work{Run: func(func(int) error) error { return nil }, Cost: []time.Duration{time.Second}})
						if sent := h.Send(ctx, 0, comm.NewFrame(comm.Header{}, comm.NewBuffer(1))); err == nil || sent == nil {
							return errors.New("it went on")
						}
						return err
					})
					for _, to := range []int{0, 2} { // 5 MB take 5 ms of sending
						if err := h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(5e6))); err != nil {
							return err
						}
					}
					return h.Sleep(ctx, time.Second)
				}
				from := 1
				if h.Rank() == 2 {
					from = comm.AnyRank
				}
				f, err := h.Recv(ctx, from, comm.AnyTag)
				if err != nil {
					return err
				}
				f.Release()
				var p *comm.PeerError
				if _, err = h.Recv(ctx, from, comm.AnyTag); !errors.As(err, &p) || p.Rank != 1 || !strings.Contains(p.Cause, "killed") {
					return errors.New("not told of the death")
				}
				return nil
			})
			if began != 2 || ended != 2 {
				t.Errorf("%d of %d activities ended", ended, began)
			}
			if now := n.Now(); now < 5*time.Millisecond || now > 100*time.Millisecond {
				t.Errorf("the run ended at %v", now)
			}
		})
	}
}

// Who waits for a frame of another kind is told of the death once the last frame
// is there, though that is not for it.
func TestDeathIsToldPastOtherFrames(t *testing.T) {
	for name, mk := range networks() {
		t.Run(name, func(t *testing.T) {
			n := &sim.Net{Network: mk(), Faults: []nemesis.Act{{Rank: 1, At: time.Millisecond}}}
			run(t, n, 3, func(ctx context.Context, h comm.Host) error {
				switch h.Rank() {
				case 2: // the observer, without which no run has a result
					return nil
				case 1:
					if err := h.Send(ctx, 0, comm.NewFrame(comm.Header{Kind: comm.Gradient, Tag: 1}, comm.NewBuffer(5e6))); err != nil {
						return err
					}
					return h.Sleep(ctx, time.Second)
				}
				var p *comm.PeerError
				if _, err := h.Recv(ctx, comm.AnyRank, 2); !errors.As(err, &p) || h.Now() < 5*time.Millisecond {
					t.Errorf("at %v: %v", h.Now(), err)
				}
				return nil
			})
		})
	}
}

// A death from before the start of a resumed run has happened already.
func TestDeathBeforeTheStart(t *testing.T) {
	n := &sim.Net{Start: time.Second, Faults: []nemesis.Act{{Rank: 0, At: time.Millisecond}}}
	run(t, n, 1, func(ctx context.Context, h comm.Host) error { return h.Sleep(ctx, time.Second) })
	if n.Now() != 2*time.Second {
		t.Errorf("ended at %v", n.Now())
	}
}
