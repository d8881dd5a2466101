package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
)

// What links carry is known to the byte when all is over, by sockets and through
// memory, whichever process coordinates: what the coordinator says is the sum of
// what every process has written. It is never less than the bodies that crossed,
// those sent last included.
func TestCarriedIsAll(t *testing.T) {
	t.Parallel()
	const n, size = 20, 300_000
	for _, links := range []Links{LinksGRPC, LinksTCP, LinksAuto} {
		for _, procs := range [][][]int{{{0}, {1}, {2}, {3}}, {{3}, {0}, {1}, {2}}, {{0, 3}, {1}, {2}}} {
			own := make([]*comm.Traffic, 4)
			nets, errs := netsOf(t.Context(), all(4, func(ctx context.Context, h comm.Host) error {
				own[h.Rank()] = h.Traffic()
				for i := range n { // the last ones are still queued when the program ends
					for to := range 4 {
						if to == h.Rank() {
							continue
						}
						hd := comm.Header{Kind: []comm.Kind{comm.Gradient, comm.Report, comm.Parameters}[i%3], Tag: comm.Tag(i)}
						if err := h.Send(ctx, to, comm.NewFrame(hd, comm.NewBuffer(size+i))); err != nil {
							return err
						}
					}
				}
				for i := range n {
					for from := range 4 {
						if from == h.Rank() {
							continue
						}
						f, err := h.Recv(ctx, from, comm.Tag(i))
						if err != nil {
							return err
						}
						f.Release()
					}
				}
				return nil
			}), procs, func(_ int, c *Config) { c.Links = links })
			if err := firstOf(errs); err != nil {
				t.Fatal(err)
			}
			var want, bodies uint64
			for _, rank := range own {
				c := rank.Count()
				want += c.WireSent + c.SharedSent
				for _, b := range c.SentBody {
					bodies += b
				}
			}
			got := nets[0].Carried()
			var told uint64
			for _, b := range got.Body {
				told += b
			}
			carried := got.Wire + got.Shared
			t.Logf("%s %v: %d bytes for bodies of %d: %.3f %% more", links, procs, carried, told, 100*(float64(carried)/float64(told)-1))
			if carried != want || told != bodies || told == 0 {
				t.Errorf("%s %v: %d bytes told for bodies of %d, %d were written for bodies of %d", links, procs, carried, told, want, bodies)
			}
			if shared := got.Shared > 0; shared != (links == LinksAuto) || got.Shared > 0 && got.Shared < told {
				t.Errorf("%s %v: %d bytes through memory", links, procs, got.Shared)
			}
			if carried < told || float64(carried) > 1.015*float64(told) {
				t.Errorf("%s %v: %d bytes for %d of bodies", links, procs, carried, told)
			}
		}
	}
}

// Of a process that died the living tell what they got from it.
func TestCarriedOfTheDead(t *testing.T) {
	const size = 1_000_000
	nets, errs := netsOf(t.Context(), all(3, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 2 {
			for to := range 2 {
				if err := h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(size))); err != nil {
					return err
				}
			}
			for from := range 2 {
				if _, err := h.Recv(ctx, from, 1); err != nil {
					return err
				}
			}
			for l := range h.(*host).run.links { // as a process that is killed
				if l := h.(*host).run.links[l].Load(); l != nil {
					l.conn.Close()
				}
			}
			_, err := h.Recv(ctx, 0, 2)
			return err
		}
		f, err := h.Recv(ctx, 2, 0)
		if err != nil {
			return err
		}
		f.Release()
		if err := h.Send(ctx, 2, comm.NewFrame(comm.Header{Kind: comm.Control, Tag: 1}, nil)); err != nil {
			return err
		}
		var gone *comm.PeerError
		if _, err := h.Recv(ctx, 2, 2); !errors.As(err, &gone) {
			return fmt.Errorf("the dead sent: %w", err)
		}
		return nil
	}), split(3, 1), func(i int, c *Config) {
		c.Links = LinksGRPC
	})
	if err := errors.Join(errs[:2]...); err != nil {
		t.Fatal(err)
	}
	c := nets[0].Carried()
	if c.Body[comm.Gradient] != 2*size || c.Wire < 2*size || c.Wire > 2.1*size {
		t.Errorf("%+v, want bodies of %d", c, 2*size)
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
