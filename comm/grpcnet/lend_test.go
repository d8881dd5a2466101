package grpcnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/internal/patience"
)

// Trap: gRPC reads a message after SendMsg has returned. Bytes that are lent to
// it are given back once it has read them, and what is written there afterwards
// does not travel.
func TestTrapLentBytesAreReadLate(t *testing.T) {
	sizes := []int{0, 1, copyLimit, copyLimit + 1, 70_000, chunk, 2*chunk + 9}
	const rounds = 20
	fill := func(b []byte, round int) {
		for i := range b {
			b[i] = byte(round + i)
		}
	}
	err := firstOf(together(t.Context(), []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			s := h.(comm.Streamer)
			var loan comm.Loan
			b := make([]byte, sizes[len(sizes)-1])
			for round := range rounds {
				for _, n := range sizes {
					fill(b[:n], round)
					if err := s.SendLent(ctx, 1, comm.Header{}, b[:n], &loan); err != nil {
						return err
					}
					if err := loan.Wait(ctx); err != nil {
						return err
					}
				}
			}
			return nil
		},
		func(ctx context.Context, h comm.Host) error {
			want := make([]byte, sizes[len(sizes)-1])
			for round := range rounds {
				fill(want, round)
				for _, n := range sizes {
					f, err := h.Recv(ctx, 0, 0)
					if err != nil {
						return err
					}
					if string(f.Body) != string(want[:n]) {
						return fmt.Errorf("round %d: %d bytes are not what was lent", round, n)
					}
					f.Release()
				}
			}
			return nil
		},
	}, split(2, 1), nil))
	if err != nil {
		t.Error(err)
	}
}

// What was lent to a link comes back when its peer dies, sent or not.
func TestLoansEndWithTheLink(t *testing.T) {
	dead := errors.New("dead")
	err := firstOf(together(t.Context(), []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			s := h.(comm.Streamer)
			b := make([]byte, 4<<20)
			loans := make([]comm.Loan, 64)
			var gone *comm.PeerError
			for i := range loans {
				err := s.SendLent(ctx, 1, comm.Header{}, b, &loans[i])
				if err != nil && !errors.As(err, &gone) {
					return err
				}
			}
			if _, err := h.Recv(ctx, 1, 0); !errors.As(err, &gone) {
				return fmt.Errorf("got %v", err)
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience.Stretch(10*time.Second))
			defer cancel()
			for i := range loans {
				if err := loans[i].Wait(ctx); err != nil {
					return fmt.Errorf("loan %d: %w", i, err)
				}
			}
			return nil
		},
		func(ctx context.Context, h comm.Host) error {
			if _, err := h.Recv(ctx, 0, 0); err != nil {
				return err
			}
			return dead
		},
	}, split(2, 1), nil))
	if !errors.Is(err, dead) {
		t.Error(err)
	}
}

// float32s as they lie in memory; whole numbers, so that sums are exact.
type inPlace struct{}

func (inPlace) Width() int { return 4 }
func (inPlace) Bytes(x []float32) ([]byte, bool) {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)), binary.NativeEndian.Uint16([]byte{1, 0}) == 1
}
func (inPlace) Put(dst []byte, x []float32) {
	for i, v := range x {
		le.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}
func (inPlace) Add(x []float32, src []byte) {
	for i := range x {
		x[i] += math.Float32frombits(le.Uint32(src[4*i:]))
	}
}
func (inPlace) Set(x []float32, src []byte) { clear(x); inPlace{}.Add(x, src) }

// Every topology sums over processes, again and again in the same memory, through
// streams and through shared memory, whole pieces and parts of one.
func TestAllReducesOverProcesses(t *testing.T) {
	t.Parallel()
	sizes := []int{1, 1000, 100_000}
	if patience.Long {
		sizes = append(sizes, 1_000_003)
	}
	for _, name := range collective.Topologies.Names() {
		topology, _ := collective.Topologies.Proto(name)
		for _, world := range []int{2, 3, 4} {
			t.Run(fmt.Sprintf("%s, %d", name, world), func(t *testing.T) {
				g := collective.Group{}
				for r := range world {
					g.Ranks = append(g.Ranks, r)
				}
				err := firstOf(together(t.Context(), all(world, func(ctx context.Context, h comm.Host) error {
					g := g
					g.Me = h.Rank()
					step := uint64(0)
					for _, n := range sizes {
						x := make([]float32, n)
						for range 2 {
							for i := range x {
								x[i] = float32((g.Me + 1) * (i%13 + 1))
							}
							step++
							if _, err := collective.AllReduce(ctx, h, g, topology, comm.Header{Run: 42, Tag: 1, Step: step}, x, inPlace{}); err != nil {
								return err
							}
							for i, v := range x {
								if want := float32(world * (world + 1) / 2 * (i%13 + 1)); v != want {
									return fmt.Errorf("element %d of %d is %v, want %v", i, n, v, want)
								}
							}
						}
					}
					return nil
				}), split(world, 1), nil))
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A link that ends in the middle of a body ends the waits for what was lent to
// it: gRPC forgets what it has not written out.
func TestLoansEndWithACutLink(t *testing.T) {
	t.Parallel()
	hangs, cut := make(chan struct{}), make(chan struct{})
	err := firstOf(together(t.Context(), []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			select { // rank 1 may still be linking
			case <-hangs:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			s, l := h.(comm.Streamer), h.(*host).run.links[1].Load()
			b := make([]byte, 4<<20)
			loans := make([]comm.Loan, 12)
			for i := range loans {
				if err := s.SendLent(ctx, 1, comm.Header{}, b, &loans[i]); err != nil {
					return err
				}
			}
			time.Sleep(100 * time.Millisecond) // windows and sockets are full
			_ = l.conn.Close()
			close(cut)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience.Stretch(10*time.Second))
			defer cancel()
			for i := range loans {
				var gone *comm.PeerError
				if err := loans[i].Wait(ctx); err != nil && (!errors.As(err, &gone) || gone.Rank != 1) {
					return fmt.Errorf("loan %d: %w", i, err)
				}
			}
			return nil
		},
		func(ctx context.Context, h comm.Host) error {
			l := h.(*host).run.links[0].Load()
			l.mu.Lock() // its receiver hangs
			close(hangs)
			<-cut
			l.mu.Unlock()
			return nil
		},
	}, split(2, 1), func(_ int, c *Config) { c.Links = LinksGRPC }))
	if err != nil {
		t.Error(err)
	}
}

// F27: who stops to read in an all-reduce of which it has said its own part is
// dropped, and the others end: rank 0 had but to get its sums out.
func TestF27DeafReaderOfAnAllReduce(t *testing.T) {
	t.Parallel()
	lease := patience.Stretch(2 * time.Second)
	if err := patience.Steady(lease, func() error { return deafInAnAllReduce(t.Context(), lease) }); err != nil {
		t.Error(err)
	}
}

// deafInAnAllReduce is one such all-reduce, and what was wrong with it.
func deafInAnAllReduce(ctx context.Context, lease time.Duration) error {
	const n = 6 << 20
	ended := make(chan struct{})
	errs := together(ctx, all(3, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 2 {
			l := h.(*host).run.links[0].Load()
			go func() {
				for h.Traffic().Count().SentBytes[comm.Gradient] < 4*n {
					time.Sleep(time.Millisecond)
				}
				l.mu.Lock() // its receiver hangs
				select {
				case <-ended:
				case <-time.After(lease + patience.Stretch(2*time.Minute)):
				}
				l.mu.Unlock()
			}()
		}
		g := collective.Group{Ranks: []int{0, 1, 2}, Me: h.Rank()}
		began := time.Now()
		_, err := collective.AllReduce(ctx, h, g, collective.Tree{}, comm.Header{Run: 42, Tag: 1}, make([]float32, n), inPlace{})
		if h.Rank() != 0 {
			return err
		}
		close(ended)
		var gone *comm.PeerError
		if took := time.Since(began); !errors.As(err, &gone) || gone.Rank != 2 || took > 2*lease+patience.Stretch(time.Minute) {
			return fmt.Errorf("after %v: %v", took, err)
		}
		return nil
	}), split(3, 1), func(_ int, c *Config) { c.Links, c.Lease = LinksGRPC, lease })
	if errs[0] != nil {
		return fmt.Errorf("%w (the others ended with %v)", errs[0], errs[1:])
	}
	return nil
}
