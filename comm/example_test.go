package comm_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
)

// A program is straight-line code that sends and receives; any net runs it. Here
// rank 0 adds up what the others say.
func Example() {
	program := func(ctx context.Context, h comm.Host) error {
		if h.Rank() > 0 {
			b := comm.NewBuffer(4)
			binary.LittleEndian.PutUint32(b.B, uint32(10*h.Rank()))
			return h.Send(ctx, 0, comm.NewFrame(comm.Header{Kind: comm.Gradient, Tag: 1}, b))
		}
		sum := uint32(0)
		for range h.Size() - 1 {
			f, err := h.Recv(ctx, comm.AnyRank, 1)
			if err != nil {
				return err
			}
			sum += binary.LittleEndian.Uint32(f.Body)
			f.Release()
		}
		fmt.Println("sum", sum, "of", h.Traffic().Count().RecvBytes[comm.Gradient], "bytes")
		return nil
	}
	if err := (&local.Net{}).Run(context.Background(), []comm.Program{program, program, program}); err != nil {
		panic(err)
	}
	// Output:
	// sum 30 of 8 bytes
}
