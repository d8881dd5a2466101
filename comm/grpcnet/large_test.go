package grpcnet

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// F16: a frame many times as long as a message may be, and so a layer of any size,
// arrives whole by the stream. Beside the frame at its two ends it takes what a buffer
// takes that grows as bytes come, since nobody's word on a length is believed, and
// gRPC's windows.
func TestF16FrameLargerThanAMessage(t *testing.T) {
	const size = 96 * maxMessage
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is in use, not what is left lying
	runtime.GC()
	before := heap()
	var peak atomic.Uint64
	program := func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			buf := comm.NewBuffer(size)
			for i := range buf.B {
				buf.B[i] = byte(i>>12) ^ byte(i)
			}
			return h.Send(ctx, 1, comm.NewFrame(comm.Header{}, buf))
		}
		done := make(chan struct{})
		h.Go("look", func(ctx context.Context, h comm.Host) error {
			for {
				peak.Store(max(peak.Load(), heap()))
				select {
				case <-done:
					return nil
				default:
				}
				if err := h.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
		})
		defer close(done)
		f, err := h.Recv(ctx, 0, 0)
		if err != nil {
			return err
		}
		defer f.Release()
		if len(f.Body) != size {
			return fmt.Errorf("%d bytes, want %d", len(f.Body), size)
		}
		for i, b := range f.Body {
			if b != byte(i>>12)^byte(i) {
				return fmt.Errorf("byte %d is %d", i, b)
			}
		}
		return nil
	}
	errs := together(t.Context(), all(2, program), split(2, 1), func(_ int, c *Config) { c.MaxFrame, c.Links = size, LinksGRPC })
	if err := firstOf(errs); err != nil {
		t.Fatal(err)
	}
	if over := int64(peak.Load()) - int64(before) - 2*size; peak.Load() == 0 || over > 2*size+2*window {
		t.Errorf("%d MiB beside the frame at both ends", over>>20)
	}
}
