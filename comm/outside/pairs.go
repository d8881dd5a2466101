package outside

import (
	"context"
	"errors"
	"slices"

	"github.com/gradlab/gradlab/comm"
)

// pairs are the sends and receives of all ranks that have no counterpart yet, in the order
// in which they began. As in gloo, a send begins to move bytes when its receive has begun.
type pairs map[pairing]*unmatched

// pairing is the receiver, and the tag with its group.
type pairing struct {
	to  int
	tag comm.Tag
}

// unmatched are ranks that send, and ranks that are received from; −1: any.
type unmatched struct{ sends, recvs []int }

func (p pairs) of(to int, tag comm.Tag) *unmatched {
	k := pairing{to, tag}
	if p[k] == nil {
		p[k] = &unmatched{}
	}
	return p[k]
}

// send waits for the receive and sends.
func (p *player) send(ctx context.Context, h comm.Host, hd comm.Header, e Event) error {
	u := p.pairs.of(e.Peer, hd.Tag)
	if i := slices.IndexFunc(u.recvs, func(from int) bool { return from == h.Rank() || from == -1 }); i >= 0 {
		u.recvs = slices.Delete(u.recvs, i, i+1)
	} else {
		u.sends = append(u.sends, h.Rank())
		f, err := h.Recv(ctx, e.Peer, hd.Tag|ready)
		f.Release()
		if gone := (*comm.PeerError)(nil); errors.As(err, &gone) && gone.Ended {
			return nil // nobody will receive it; where the sender waits for it, its process says so
		}
		if err != nil {
			return err
		}
	}
	return h.Send(ctx, e.Peer, comm.Frame{Header: hd, Billed: e.Bytes})
}

// receive tells the sender, if it waits, and receives.
func (p *player) receive(ctx context.Context, h comm.Host, hd comm.Header, e Event) error {
	u, from := p.pairs.of(h.Rank(), hd.Tag), e.Peer
	if i := slices.IndexFunc(u.sends, func(s int) bool { return s == from || from == -1 }); i >= 0 {
		from = u.sends[i]
		u.sends = slices.Delete(u.sends, i, i+1)
		word := hd
		word.Kind, word.Tag = comm.Control, hd.Tag|ready
		if err := h.Send(ctx, from, comm.NewFrame(word, nil)); err != nil {
			return err
		}
	} else {
		u.recvs = append(u.recvs, from)
	}
	f, err := h.Recv(ctx, from, hd.Tag)
	f.Release()
	return err
}
