package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
	"github.com/gradlab/gradlab/internal/patience"
)

// pattern is a source and a sink of bytes that both sides know.
type pattern struct {
	size, at int
	bad      bool
	slow     time.Duration
}

func (p *pattern) Fill(dst []byte) {
	for i := range dst {
		dst[i] = byte((p.at + i) * 7)
	}
	p.at += len(dst)
}

func (p *pattern) Begin(h *comm.Header, size int) error {
	if size != p.size {
		return fmt.Errorf("%d bytes, want %d", size, p.size)
	}
	return nil
}

func (p *pattern) Take(b []byte) {
	time.Sleep(p.slow)
	for i := range b {
		p.bad = p.bad || b[i] != byte((p.at+i)*7)
	}
	p.at += len(b)
}

// Bodies of any size go from sources to sinks, posted early and late, mixed with
// frames, in order.
func TestStreams(t *testing.T) {
	sizes := []int{0, 1, 8, 1000, copyLimit + 1, 70_000, lane.WholeLimit, lane.WholeLimit + 1, 3*chunk + 5, 40}
	err := firstOf(together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
		s := h.(comm.Streamer)
		peer := 1 - h.Rank()
		receipts := make([]comm.Receipt, len(sizes))
		sinks := make([]pattern, len(sizes))
		for i, size := range sizes {
			sinks[i].size = size
			if i%3 != 0 { // posted before anything is there
				s.Post(&receipts[i], peer, comm.Tag(i), &sinks[i])
			}
		}
		for round := range 2 {
			for i, size := range sizes {
				var err error
				if i%2 == 0 {
					err = s.SendFrom(ctx, peer, comm.Header{Tag: comm.Tag(i), Step: uint64(round)}, size, &pattern{})
				} else {
					err = h.Send(ctx, peer, comm.Filled(comm.Header{Tag: comm.Tag(i), Step: uint64(round)}, size, &pattern{}))
				}
				if err != nil {
					return err
				}
			}
			for i, size := range sizes {
				if i%3 == 0 || round > 0 {
					s.Post(&receipts[i], peer, comm.Tag(i), &sinks[i])
				}
				got, err := s.Await(ctx, &receipts[i])
				if err != nil {
					return err
				}
				if p := &sinks[i]; got.Step != uint64(round) || p.at != size || p.bad {
					return fmt.Errorf("%d bytes: step %d, %d came, damaged %v", size, got.Step, p.at, p.bad)
				}
				sinks[i].at = 0
			}
		}
		sum := uint64(0)
		for _, size := range sizes {
			sum += 2 * uint64(size)
		}
		if c := h.Traffic().Count(); c.SentBytes[comm.Gradient] != sum || c.RecvBytes[comm.Gradient] != sum || c.SentBody[comm.Gradient] != sum {
			return fmt.Errorf("billed %d and %d, want %d", c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient], sum)
		}
		return nil
	}), split(2, 1), nil))
	if err != nil {
		t.Error(err)
	}
}

// refuser takes nothing.
type refuser struct{ pattern }

func (refuser) Begin(*comm.Header, int) error { return errors.New("not this one") }

// A wait for a stream ends by a refusal, a cancel, the deadline or the peer's
// death, and the sink is left alone from then on.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	const size = 8 * chunk
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			s := h.(comm.Streamer)
			// await is why a wait ends, however often its deadline passes before that.
			await := func(tag comm.Tag, sink comm.Sink) (err error) {
				for err = comm.ErrDeadline; errors.Is(err, comm.ErrDeadline); {
					var r comm.Receipt
					s.Post(&r, 1, tag, sink)
					_, err = s.Await(ctx, &r)
				}
				return err
			}
			if err := await(1, &refuser{}); err == nil || err.Error() != "not this one" {
				return fmt.Errorf("got %v", err)
			}
			var cancelled comm.Receipt
			p := &pattern{size: size, slow: time.Millisecond}
			s.Post(&cancelled, 1, 2, p)
			if err := h.Sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			s.Cancel(&cancelled)
			at := p.at
			if err := h.Sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			if p.at != at {
				return errors.New("fed after the cancel")
			}
			var never comm.Receipt
			s.Post(&never, 1, 3, p)
			if _, err := s.Await(ctx, &never); !errors.Is(err, comm.ErrDeadline) {
				return fmt.Errorf("got %v", err)
			}
			if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, nil)); err != nil {
				return err
			}
			var dead *comm.PeerError
			if err := await(4, p); !errors.As(err, &dead) {
				return fmt.Errorf("got %v", err)
			}
			if err := s.SendFrom(ctx, 1, comm.Header{}, 100, &pattern{}); err != nil { // an orderly end
				return fmt.Errorf("got %v", err)
			}
			return nil
		},
		func(ctx context.Context, h comm.Host) error {
			s := h.(comm.Streamer)
			for tag := range comm.Tag(2) {
				if err := s.SendFrom(ctx, 0, comm.Header{Tag: tag + 1}, size, &pattern{}); err != nil {
					return err
				}
			}
			for {
				f, err := h.Recv(ctx, 0, 0)
				f.Release()
				if !errors.Is(err, comm.ErrDeadline) {
					return err
				}
			}
		},
	}
	errs := together(t.Context(), ps, split(2, 1), func(_ int, c *Config) { c.Deadline = patience.Stretch(time.Second) })
	if err := firstOf(errs); err != nil {
		t.Errorf("%v (all: %v)", err, errs)
	}
}

// busy takes what comes only after a while.
type busy struct {
	pattern
	while time.Duration
	taken chan struct{} // closed then
}

func (b *busy) Take(p []byte) {
	time.Sleep(b.while)
	b.pattern.Take(p)
	close(b.taken)
}

// A rank that has ended stays until the other has all of it, even where that takes longer
// than the deadline of programs: its end is an orderly one.
func TestLeaveOutlastsTheDeadline(t *testing.T) {
	t.Parallel()
	const deadline = 20 * time.Millisecond
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			s := h.(comm.Streamer)
			sink := &busy{pattern: pattern{size: 100}, while: 20 * deadline, taken: make(chan struct{})}
			var r comm.Receipt
			s.Post(&r, 1, 1, sink)
			<-sink.taken
			if _, err := s.Await(ctx, &r); err != nil {
				return fmt.Errorf("got %v", err)
			}
			for {
				_, err := h.Recv(ctx, 1, 2)
				var gone *comm.PeerError
				switch {
				case errors.Is(err, comm.ErrDeadline):
				case !errors.As(err, &gone) || !gone.Ended:
					return fmt.Errorf("got %v of a rank that has ended", err)
				default:
					return nil
				}
			}
		},
		func(ctx context.Context, h comm.Host) error {
			return h.(comm.Streamer).SendFrom(ctx, 0, comm.Header{Tag: 1}, 100, &pattern{})
		},
	}
	if err := firstOf(together(t.Context(), ps, split(2, 1), func(_ int, c *Config) { c.Deadline = deadline })); err != nil {
		t.Error(err)
	}
}

// Between hosts bodies carry checksums; nothing else changes.
func TestCheckedStreams(t *testing.T) {
	sizes := []int{0, 10, copyLimit + 1, chunk + 1}
	err := firstOf(together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
		for _, size := range sizes {
			if err := h.Send(ctx, 1-h.Rank(), comm.Filled(comm.Header{}, size, &pattern{})); err != nil {
				return err
			}
		}
		for _, size := range sizes {
			f, err := h.Recv(ctx, 1-h.Rank(), 0)
			if err != nil {
				return err
			}
			p := &pattern{size: size}
			if p.Take(f.Body); p.at != size || p.bad {
				return fmt.Errorf("%d of %d bytes, damaged %v", p.at, size, p.bad)
			}
			f.Release()
		}
		return nil
	}), split(2, 1), func(_ int, c *Config) { c.checkAll = true }))
	if err != nil {
		t.Error(err)
	}
}
