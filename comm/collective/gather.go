package collective

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// AllGather gives every rank every rank's payload, in rank order, around a
// ring: P−1 steps, each payload crosses P−1 links. Payloads may differ in
// length. The result aliases received frames until release is called; the
// own payload is passed through.
func AllGather(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, own *comm.Buffer) (parts [][]byte, flags comm.Flags, release func(), err error) {
	size := len(g.Ranks)
	flags = hd.Flags
	parts = make([][]byte, size)
	parts[g.Me] = own.B
	held := []*comm.Buffer{own}
	release = func() {
		for _, b := range held {
			b.Release()
		}
	}
	hd.Kind = comm.Gradient
	pass := own
	next, prev := g.Ranks[(g.Me+1)%size], g.Ranks[(g.Me+size-1)%size]
	for s := 0; s < size-1; s++ {
		hd.Flags, hd.Seq = flags, uint64(s)
		if err := h.Send(ctx, next, comm.NewFrame(hd, pass.Retain())); err != nil {
			return nil, flags, release, err
		}
		in, err := h.Recv(ctx, prev, hd.Tag)
		if err != nil {
			return nil, flags, release, fmt.Errorf("all-gather, step %d, move %d: %w", hd.Step, s, err)
		}
		if err := expect(&in.Header, &hd, 0, -1); err != nil {
			in.Release()
			return nil, flags, release, fmt.Errorf("all-gather, step %d, move %d: %w", hd.Step, s, err)
		}
		flags |= in.Header.Flags
		if pass = in.Buffer(); pass == nil { // an empty body needs none
			pass = comm.NewBuffer(0)
		}
		held = append(held, pass)
		parts[(g.Me+size-1-s)%size] = in.Body
	}
	return parts, flags, release, nil
}
