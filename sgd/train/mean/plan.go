package mean

import (
	"context"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// plan says when the buckets of a Mean are exchanged, while a backward pass makes them.
// A plan holds what it alone knows, and is given the Mean.
type plan interface {
	// traits is what it claims.
	traits() planTraits
	// start starts what goes on beside the passes.
	start(m *Mean)
	// open begins a step.
	open(ctx context.Context, m *Mean) error
	// made hears that bucket k is made, and encoded.
	made(ctx context.Context, m *Mean, k int) error
	// wait waits until the means of more buckets are there, and says of which in Mean.there.
	wait(ctx context.Context, m *Mean) (message.Flags, error)
}

// planTraits is what a plan claims of itself.
type planTraits struct {
	bytes  int  // of a vector that one exchange takes, about; 0: all
	beside bool // an activity beside the passes exchanges
	fuses  bool // what travels together depends on the clock, and sums must not
	late   bool // means are awaited in the next forward pass
}

// planned is the plan that a job asks for.
func planned(j *train.Job) plan {
	switch p := j.Plan(); {
	case !p.Beside:
		return together{}
	case p.Cycle > 0:
		return &fusion{cycle: p.Cycle, most: p.Bytes}
	case p.First:
		return &priority{bytes: p.Bytes}
	default:
		return inOrder{bytes: p.Bytes}
	}
}

// together is the plan without overlap: buckets of so many bytes are exchanged where they
// are awaited.
type together struct{ bytes int }

func (p together) traits() planTraits { return planTraits{bytes: p.bytes} }

func (together) start(*Mean) {}

func (together) open(context.Context, *Mean) error { return nil }

func (together) made(context.Context, *Mean, int) error { return nil }

func (together) wait(ctx context.Context, m *Mean) (flags message.Flags, err error) {
	flags = m.ask
	for k := range m.buckets {
		if flags, err = m.exchange(ctx, &m.buckets[k], m.x, m.rank.Step(), 1, flags); err != nil {
			return flags, err
		}
		m.there[k] = true
	}
	return flags, nil
}

// inOrder is the plan with overlap: an activity beside the passes exchanges every bucket
// of so many bytes as soon as the backward pass has made it, in that order.
type inOrder struct{ bytes int }

func (p inOrder) traits() planTraits { return planTraits{bytes: p.bytes, beside: true} }

func (inOrder) start(m *Mean) {
	m.rank.Host().Go("exchange", func(ctx context.Context, _ comm.Host) error {
		for {
			made, flags, err := onMade.Wait(ctx, m.rank)
			if err != nil || flags&train.FlagDone != 0 {
				return err
			}
			if flags, err = m.exchange(ctx, &m.buckets[made.k], m.x, m.rank.Step(), 1, flags&train.AskFlags); err != nil {
				return err
			}
			if err := onExchanged.Wake(ctx, m.rank, made, flags); err != nil {
				return err
			}
		}
	})
}

func (inOrder) open(context.Context, *Mean) error { return nil }

func (inOrder) made(ctx context.Context, m *Mean, k int) error {
	return onMade.Wake(ctx, m.rank, bucketWord{k}, m.ask)
}

// wait waits for all: the update needs the whole mean.
func (inOrder) wait(ctx context.Context, m *Mean) (message.Flags, error) {
	return hear(ctx, m, len(m.buckets))
}

// hear waits for so many words of the activity beside the passes, and books the time.
func hear(ctx context.Context, m *Mean, words int) (flags message.Flags, err error) {
	began := m.rank.Times().Read()
	for range words {
		there, seen, err := onExchanged.Wait(ctx, m.rank)
		if err != nil {
			return 0, err
		}
		m.there[there.k] = true
		flags |= seen
	}
	m.stood += m.rank.Times().Stood(began)
	return flags, nil
}
