package collective

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// AllToAll gives every rank what every rank has for it: out[i] goes to rank i of
// the group, parts[i] came from it; the own one is passed through. Every payload
// crosses one link, in P−1 rounds in which rank r sends to r+s and hears from
// r−s. Payloads may differ in length. The result aliases received frames until
// release is called. AllToAll takes the references to out; after it out is not to
// be used.
func AllToAll(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, out []*comm.Buffer) (parts [][]byte, flags comm.Flags, release func(), err error) {
	size := len(g.Ranks)
	flags = hd.Flags
	parts = make([][]byte, size)
	parts[g.Me] = out[g.Me].B
	held := []*comm.Buffer{out[g.Me]}
	sent := 1 // rounds whose payload has been handed over
	release = func() {
		for _, b := range held {
			b.Release()
		}
		for s := sent; s < size; s++ {
			out[(g.Me+s)%size].Release()
		}
	}
	hd.Kind = comm.Gradient
	for s := 1; s < size; s++ {
		to, from := (g.Me+s)%size, (g.Me+size-s)%size
		hd.Seq = uint64(s)
		sent++
		if err := h.Send(ctx, g.Ranks[to], comm.NewFrame(hd, out[to])); err != nil {
			return nil, flags, release, err
		}
		in, err := h.Recv(ctx, g.Ranks[from], hd.Tag)
		if err != nil {
			return nil, flags, release, fmt.Errorf("all-to-all, step %d, round %d: %w", hd.Step, s, err)
		}
		if err := expect(&in.Header, &hd, 0, -1); err != nil {
			in.Release()
			return nil, flags, release, fmt.Errorf("all-to-all, step %d, round %d: %w", hd.Step, s, err)
		}
		flags |= in.Header.Flags
		if b := in.Buffer(); b != nil {
			held = append(held, b)
		}
		parts[from] = in.Body
	}
	return parts, flags, release, nil
}
