package collective

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// PaceAllReduce is AllReduce of n elements of width bytes with nothing in them:
// frames of the same billed sizes leave in the same order, so it takes the same
// virtual time and counts the same bytes.
func PaceAllReduce(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, n, width int) (flags uint16, err error) {
	if len(g.Ranks) < 2 {
		return hd.Flags, nil
	}
	hd.Kind = comm.Gradient
	p := programs.get(t, At{g.Me, len(g.Ranks), n * width}, n, pieceBytes/width)
	sends, recvs := p.sends, p.recvs
	for sent, got := 0, 0; sent < len(sends) || got < len(recvs); {
		for ; sent < len(sends); sent++ {
			s := &sends[sent]
			due := got < len(recvs) && sent < recvs[got].gone
			if s.got > got || (s.before > got+ahead && !due) {
				break
			}
			hd.Seq = uint64(sent)
			if err := h.Send(ctx, g.Ranks[s.peer], comm.Frame{Header: hd, Billed: (s.hi - s.lo) * width}); err != nil {
				return hd.Flags, err
			}
		}
		if got < len(recvs) {
			if err := pace(ctx, h, g.Ranks[recvs[got].peer], &hd); err != nil {
				return hd.Flags, fmt.Errorf("all-reduce, step %d, receive %d of %d: %w", hd.Step, got+1, len(recvs), err)
			}
			got++
		}
	}
	return hd.Flags, nil
}

// PaceAllGather is AllGather of payloads of size bytes with nothing in them.
func PaceAllGather(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, size int) (flags uint16, err error) {
	hd.Kind = comm.Gradient
	p := len(g.Ranks)
	next, prev := g.Ranks[(g.Me+1)%p], g.Ranks[(g.Me+p-1)%p]
	for s := 0; s < p-1; s++ {
		hd.Seq = uint64(s)
		if err := h.Send(ctx, next, comm.Frame{Header: hd, Billed: size}); err != nil {
			return hd.Flags, err
		}
		if err := pace(ctx, h, prev, &hd); err != nil {
			return hd.Flags, fmt.Errorf("all-gather, step %d, move %d: %w", hd.Step, s, err)
		}
	}
	return hd.Flags, nil
}

// pace takes the next frame of a collective and its flags.
func pace(ctx context.Context, h comm.Endpoint, from int, hd *comm.Header) error {
	in, err := h.Recv(ctx, from, hd.Tag)
	if err != nil {
		return err
	}
	defer in.Release()
	hd.Flags |= in.Header.Flags
	return expect(&in.Header, hd, 0, -1)
}
