package grpcnet

import (
	"context"
	"fmt"
	"testing"

	"github.com/gradlab/gradlab/comm"
)

func benchPair(b *testing.B, sender, receiver comm.Program) {
	b.Helper()
	err := firstOf(together(context.Background(), []comm.Program{sender, receiver}, split(2, 1), nil))
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStream is one way between two processes' worth of sockets; sender
// and receiver share this process's cores.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			benchPair(b, func(ctx context.Context, h comm.Host) error {
				buf := comm.NewBuffer(size)
				defer buf.Release()
				if f, err := h.Recv(ctx, 1, 1); err != nil {
					return err
				} else {
					f.Release()
				}
				b.ResetTimer()
				for range b.N {
					if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, buf.Retain())); err != nil {
						return err
					}
				}
				f, err := h.Recv(ctx, 1, 1)
				f.Release()
				b.StopTimer()
				return err
			}, func(ctx context.Context, h comm.Host) error {
				if err := h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: 1}, nil)); err != nil {
					return err
				}
				for range b.N {
					f, err := h.Recv(ctx, 0, 0)
					if err != nil {
						return err
					}
					f.Release()
				}
				return h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: 1}, nil))
			})
		})
	}
}

// BenchmarkRoundTrip is a frame there and one back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{64, 4 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			benchPair(b, func(ctx context.Context, h comm.Host) error {
				b.ResetTimer()
				for range b.N {
					if err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, comm.NewBuffer(size))); err != nil {
						return err
					}
					f, err := h.Recv(ctx, 1, 0)
					if err != nil {
						return err
					}
					f.Release()
				}
				b.StopTimer()
				return nil
			}, func(ctx context.Context, h comm.Host) error {
				for range b.N {
					f, err := h.Recv(ctx, 0, 0)
					if err != nil {
						return err
					}
					if err := h.Send(ctx, 0, f); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
