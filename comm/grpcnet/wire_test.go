package grpcnet

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
)

// What sockets carry beyond the billed bytes, at 1 MB frames.
func TestWireOverhead(t *testing.T) {
	const n = 50
	var sent *comm.Traffic
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			for range n {
				if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, comm.NewBuffer(1e6))); err != nil {
					return err
				}
			}
			_, err := h.Recv(ctx, 1, 1)
			sent = h.Traffic()
			return err
		},
		func(ctx context.Context, h comm.Host) error {
			for range n {
				f, err := h.Recv(ctx, 0, 0)
				if err != nil {
					return err
				}
				f.Release()
			}
			return h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: 1, Kind: comm.Control}, nil))
		},
	}
	if err := firstOf(together(context.Background(), ps, split(2, 1), nil)); err != nil {
		t.Fatal(err)
	}
	// Read when all is over: a write is counted when it returns, and its reader may
	// have answered by then.
	c := sent.Count()
	wire, billed := c.WireSent, c.SentBytes[comm.Gradient]
	over := 100 * (float64(wire)/float64(billed) - 1)
	t.Logf("%.3f %% more than the %d bytes billed", over, billed)
	if billed != n*1e6 || over < 0 || over > 1.5 {
		t.Errorf("%d bytes on the wire for %d billed", wire, billed)
	}
}

// counted is a pool that counts what was written out.
type counted struct{ puts atomic.Int64 }

func (c *counted) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (c *counted) Put(*[]byte)       { c.puts.Add(1) }

// Trap: a client keeps the first 256 KB it sends until it has seen headers.
func TestTrapClientKeepsMessages(t *testing.T) {
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			for range 3 {
				f, err := h.Recv(ctx, 1, 0)
				if err != nil {
					return err
				}
				f.Release()
			}
			_, err := h.Recv(ctx, 1, 1)
			return err
		},
		func(ctx context.Context, h comm.Host) error {
			var out counted
			l := h.(*host).run.links[0].Load()
			for range 3 {
				b := messages(comm.NewFrame(comm.Header{From: 1}, comm.NewBuffer(20000)), false)[0]
				if err := l.stream.SendMsg(mem.BufferSlice{mem.NewBuffer(&b, &out)}); err != nil {
					return err
				}
			}
			for range 2000 {
				if out.puts.Load() == 3 {
					return h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: 1}, nil))
				}
				if err := h.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			return fmt.Errorf("%d of 3 messages were written out", out.puts.Load())
		},
	}
	err := firstOf(together(context.Background(), ps, split(2, 1), func(_ int, c *Config) { c.Heartbeat, c.Lease = time.Minute, time.Hour }))
	if err != nil {
		t.Fatal(err)
	}
}

// Trap: gRPC reads a message after SendMsg has returned, and says that a small
// one was written out never. A body is released exactly once for each send, at
// any size, and may then be written to by who gets its buffer next.
func TestTrapBodiesAreGivenBackOnce(t *testing.T) {
	sizes := []int{1, copyLimit, copyLimit + 1, chunk, chunk + 1, chunk + copyLimit, 2*chunk + 1}
	var bufs []*comm.Buffer
	for _, n := range sizes {
		bufs = append(bufs, body(n, 1))
	}
	const rounds = 5
	ps := all(2, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			for range rounds {
				for _, b := range bufs {
					if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, b.Retain())); err != nil {
						return err
					}
				}
			}
			_, err := h.Recv(ctx, 1, 1)
			return err
		}
		for range rounds {
			for i, n := range sizes {
				f, err := h.Recv(ctx, 0, 0)
				if err != nil {
					return err
				}
				if string(f.Body) != string(bufs[i].B) {
					return fmt.Errorf("%d bytes arrived damaged", n)
				}
				clear(f.Body) // the receiver's own
				f.Release()
			}
		}
		return h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: 1}, nil))
	})
	if err := firstOf(together(context.Background(), ps, split(2, 1), nil)); err != nil {
		t.Fatal(err)
	}
	for i, b := range bufs {
		b.Release() // the test's own reference, which must be the last
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a body of %d bytes is still held", sizes[i])
				}
			}()
			b.Release()
		}()
	}
}

// Trap: to clear receive buffers costs a fifth of all time; whoever gets one must
// not count on what is in it.
func TestTrapPoolDoesNotClear(t *testing.T) {
	var p pool
	for _, n := range []int{1, 100, 1 << 14, 1<<14 + 1, 1 << 20, 1 << 25, 1<<25 + 1} {
		b := p.Get(n)
		if len(*b) != n {
			t.Errorf("%d bytes for %d", len(*b), n)
		}
		*b = (*b)[:1]
		p.Put(b)
	}
	p.Put(new([]byte))
}

// What ranks of one process say to each other is no part of what links carry.
func TestBodiesWithinAProcess(t *testing.T) {
	err := firstOf(together(t.Context(), all(3, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			for to, size := range []int{1: 3000, 2: 500} {
				if to == 0 {
					continue
				}
				for _, kind := range []comm.Kind{comm.Gradient, comm.Report} {
					if err := h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: kind}, comm.NewBuffer(size))); err != nil {
						return err
					}
				}
			}
			c := h.Traffic().Count()
			if c.SentBytes[comm.Gradient] != 3500 || c.SentBody[comm.Gradient] != 500 || c.SentBody[comm.Report] != 500 {
				return fmt.Errorf("counted %+v", c)
			}
			return nil
		}
		for range 2 {
			f, err := h.Recv(ctx, 0, comm.AnyTag)
			if err != nil {
				return err
			}
			f.Release()
		}
		return nil
	}), split(3, 2), nil))
	if err != nil {
		t.Error(err)
	}
}
