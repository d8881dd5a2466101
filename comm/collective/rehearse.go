package collective

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// Rehearse is AllReduce of n elements of width bytes without the elements:
// frames carry nothing and are billed at what they would carry, in the same
// segments and the same order. On a virtual clock it takes the time of the real
// thing.
func Rehearse(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, n, width int) (flags uint16, err error) {
	if len(g.Ranks) < 2 {
		return hd.Flags, nil
	}
	return rehearse(ctx, h, g, programs.get(t, g.at(n*width), n, pieceBytes/width), hd, width)
}

func rehearse(ctx context.Context, h comm.Endpoint, g Group, p *program, hd comm.Header, width int) (flags uint16, err error) {
	hd.Kind = comm.Gradient
	for sent, got := 0, 0; sent < len(p.sends) || got < len(p.recvs); {
		for ; p.may(sent, got); sent++ {
			s := &p.sends[sent]
			hd.Seq = uint64(sent)
			if err := h.Send(ctx, g.Ranks[s.peer], comm.Frame{Header: hd, Billed: (s.hi - s.lo) * width}); err != nil {
				return hd.Flags, fmt.Errorf("all-reduce, step %d: %w", hd.Step, err)
			}
		}
		if got == len(p.recvs) {
			continue
		}
		want := &p.recvs[got]
		in, err := h.Recv(ctx, g.Ranks[want.peer], hd.Tag)
		if err == nil {
			err = expect(&in.Header, &hd, in.Billed, (want.hi-want.lo)*width)
			in.Release()
		}
		if err != nil {
			return hd.Flags, fmt.Errorf("all-reduce, step %d, receive %d of %d: %w", hd.Step, got+1, len(p.recvs), err)
		}
		hd.Flags |= in.Header.Flags
		got++
	}
	return hd.Flags, nil
}

// RehearseGather is AllGather of payloads of size bytes with nothing in them.
func RehearseGather(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, size int) (flags uint16, err error) {
	hd.Kind = comm.Gradient
	p := len(g.Ranks)
	next, prev := g.Ranks[(g.Me+1)%p], g.Ranks[(g.Me+p-1)%p]
	for s := 0; s < p-1; s++ {
		hd.Seq = uint64(s)
		if err := h.Send(ctx, next, comm.Frame{Header: hd, Billed: size}); err != nil {
			return hd.Flags, err
		}
		in, err := h.Recv(ctx, prev, hd.Tag)
		if err == nil {
			err = expect(&in.Header, &hd, in.Billed, size)
			in.Release()
		}
		if err != nil {
			return hd.Flags, fmt.Errorf("all-gather, step %d, move %d: %w", hd.Step, s, err)
		}
		hd.Flags |= in.Header.Flags
	}
	return hd.Flags, nil
}
