package train

import (
	"context"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// A worker that joins begins from what another member is before the epoch's first step:
// parameters, optimizer, counters. Where there are servers they send it the parameters, and
// it needs no more. What codecs keep begins anew, on all members alike.

// heals sends what the member is to those who have come, if that falls to it.
func (m *member) heals(ctx context.Context, of Membership) error {
	if len(of.Joined) == 0 || m.job.Served() || of.healer() != m.rank {
		return nil
	}
	f, err := m.healing()
	if err != nil {
		return err
	}
	defer f.Release()
	for _, w := range of.Joined {
		if err := m.now.h.Send(ctx, slices.Index(of.Workers, w), f.Share()); err != nil {
			return err
		}
	}
	return nil
}

// healing is the frame that heals. It is billed four bytes for each value of a vector; a
// run without weights sends nothing but the bill.
func (m *member) healing() (comm.Frame, error) {
	h := onHeal.Header(m.job, message.Nothing{}, 0)
	if m.job.Weightless {
		st, err := m.weighty()
		if err != nil {
			return comm.Frame{}, err
		}
		return comm.Frame{Header: h, Billed: st.VectorBytes()}, nil
	}
	st, err := wholeOf(m.part)
	if err != nil {
		return comm.Frame{}, err
	}
	buf := comm.NewBuffer(0)
	if buf.B, err = st.Encode(nil, sgd.Layout{}); err != nil {
		return comm.Frame{}, err
	}
	f := comm.NewFrame(h, buf)
	f.Billed = st.VectorBytes()
	return f, nil
}

// wholeOf is what a rank's part keeps, but for codecs, and what all ranks have alike.
func wholeOf(p Part) (*checkpoint.State, error) {
	k := &checkpoint.Keeper{Of: checkpoint.New(), Whole: true}
	p.Keep(k)
	for name := range k.Of.Bytes {
		if strings.HasPrefix(name, checkpoint.KeyCodecs) {
			delete(k.Of.Bytes, name)
		}
	}
	return k.Of, k.Err()
}

// weighty is whole for a run without weights, of one that has them.
func (m *member) weighty() (*checkpoint.State, error) {
	v := *m.now.job
	v.Weightless = false
	r := NewRank(v.unstarted(), m.now.rank)
	r.h, r.step = m.h, m.now.step
	p, err := v.Mode.Part(r)
	if err != nil {
		return nil, err
	}
	return wholeOf(p)
}

// heal waits for what a worker that has come begins from, by the numbers of the epoch's
// ranks; nil: it was there before.
func (m *member) heal(ctx context.Context, v comm.Host, of Membership) (*checkpoint.State, error) {
	if !slices.Contains(of.Joined, m.rank) {
		return nil, nil
	}
	me := of.number(m.job, m.rank)
	if m.job.Served() {
		st := checkpoint.New()
		st.Ints[KeyVersion], st.Ints[checkpoint.Key(checkpoint.KeyStep, me)] = int64(of.Step), int64(of.Step)
		return st, nil
	}
	by := of.number(m.job, of.healer())
	mail, err := onHeal.Recv(ctx, &Rank{job: m.job, rank: me, h: v}, by)
	if err != nil {
		return nil, err
	}
	defer mail.Release()
	if m.job.Weightless {
		st := checkpoint.New()
		st.Ints[KeyVersion] = int64(of.Step)
		return st, nil
	}
	st, err := checkpoint.Decode(append([]byte(nil), mail.Body...), sgd.Layout{})
	if err != nil {
		return nil, err
	}
	return st.Renamed(by, me), nil
}
