package collective

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// Least gives every rank the least of all ranks' values, and the OR of their
// flags, in ⌈log2 P⌉ rounds of control frames, which are billed at nothing: in
// round k a rank tells the one 2^k ahead the least that it has heard of.
func Least(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, value float64) (least float64, flags comm.Flags, err error) {
	hd.Kind, hd.Value = comm.Control, value
	for d := 1; d < len(g.Ranks); d *= 2 {
		to, from := g.Ranks[(g.Me+d)%len(g.Ranks)], g.Ranks[(g.Me+len(g.Ranks)-d)%len(g.Ranks)]
		hd.Seq = uint64(d)
		if err := h.Send(ctx, to, comm.NewFrame(hd, comm.NewBuffer(0))); err != nil {
			return 0, hd.Flags, err
		}
		in, err := h.Recv(ctx, from, hd.Tag)
		if err == nil {
			err = expect(&in.Header, &hd, 0, -1)
			in.Release()
		}
		if err != nil {
			return 0, hd.Flags, fmt.Errorf("least value, step %d: %w", hd.Step, err)
		}
		hd.Value = min(hd.Value, in.Header.Value)
		hd.Flags |= in.Header.Flags
	}
	return hd.Value, hd.Flags, nil
}
