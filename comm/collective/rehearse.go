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
func Rehearse(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, n, width int) (flags comm.Flags, err error) {
	if len(g.Ranks) < 2 {
		return hd.Flags, nil
	}
	return rehearse(ctx, h, g, programs.get(t, g.at(n*width), n, pieceBytes/width), hd, width)
}

func rehearse(ctx context.Context, h comm.Endpoint, g Group, p *program, hd comm.Header, width int) (flags comm.Flags, err error) {
	hd.Kind = comm.Gradient
	for sent, got := 0, 0; sent < len(p.sends) || got < len(p.recvs); {
		for ; p.may(sent, got, near); sent++ {
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

// RehearseGather is AllGather of payloads with nothing in them, this rank's of size
// bytes.
func RehearseGather(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, size int) (flags comm.Flags, err error) {
	hd.Kind = comm.Gradient
	p := len(g.Ranks)
	next, prev := g.Ranks[(g.Me+1)%p], g.Ranks[(g.Me+p-1)%p]
	for s := 0; s < p-1; s++ {
		hd.Seq = uint64(s)
		if err := h.Send(ctx, next, comm.Frame{Header: hd, Billed: size}); err != nil {
			return hd.Flags, err
		}
		if size, err = hearNothing(ctx, h, prev, &hd); err != nil {
			return hd.Flags, fmt.Errorf("all-gather, step %d, move %d: %w", hd.Step, s, err)
		}
	}
	return hd.Flags, nil
}

// RehearseAllToAll is AllToAll of payloads with nothing in them, of sizes[i] bytes for
// rank i of the group.
func RehearseAllToAll(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, sizes []int) (flags comm.Flags, err error) {
	flags, hd.Kind = hd.Flags, comm.Gradient
	p := len(g.Ranks)
	for s := 1; s < p; s++ {
		to, from := (g.Me+s)%p, (g.Me+p-s)%p
		own := hd
		own.Seq = uint64(s)
		if err := h.Send(ctx, g.Ranks[to], comm.Frame{Header: own, Billed: sizes[to]}); err != nil {
			return flags, err
		}
		if _, err := hearNothing(ctx, h, g.Ranks[from], &own); err != nil {
			return flags, fmt.Errorf("all-to-all, step %d, round %d: %w", hd.Step, s, err)
		}
		flags |= own.Flags
	}
	return flags, nil
}

// hearNothing receives a frame with nothing in it, adds its flags to those of hd, and
// returns for how many bytes it stands.
func hearNothing(ctx context.Context, h comm.Endpoint, from int, hd *comm.Header) (billed int, err error) {
	in, err := h.Recv(ctx, from, hd.Tag)
	if err != nil {
		return 0, err
	}
	defer in.Release()
	hd.Flags |= in.Header.Flags
	return in.Billed, expect(&in.Header, hd, 0, -1)
}
