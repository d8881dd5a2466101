package mean

import (
	"context"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// course is how the exchanges of a step go along with its passes.
type course interface {
	// limit is about how many bytes of gradient one exchange takes; 0: all.
	limit() int
	// start starts what goes on beside the passes.
	start()
	// round makes a step: its gradient, its exchanges, its update. tl is what the
	// passes take, coding what encoding does.
	round(ctx context.Context, tl train.Timeline, coding time.Duration) (message.Flags, error)
	// needs is what a forward pass calls before it reads parameters of a span; nil:
	// all are there.
	needs(ctx context.Context) (need func(span int) error)
	// made hears that the backward pass has made a bucket.
	made(ctx context.Context, k int) error
	// settle finishes the update of the last step.
	settle(ctx context.Context) error
	// report tells of the update made last, unless that is told when it is finished.
	report(ctx context.Context) error
}

// chosen is the course that the job asks for.
func (r *reducer) chosen() course {
	switch {
	case fuses(r.Job()):
		return &fused{inOrder: inOrder{behind{r}}}
	case r.Job().Priority:
		return &first{reducer: r}
	case r.Job().Overlap:
		return &inOrder{behind{r}}
	}
	return behind{r}
}

// behind is the course without overlap: one exchange behind the passes.
type behind struct{ *reducer }

func (behind) limit() int { return 0 }

func (behind) start() {}

func (behind) needs(context.Context) func(int) error { return nil }

func (behind) made(context.Context, int) error { return nil }

func (behind) settle(context.Context) error { return nil }

func (c behind) report(ctx context.Context) error { return c.reducer.report(ctx) }

func (c behind) round(ctx context.Context, _ train.Timeline, coding time.Duration) (message.Flags, error) {
	c.pass.Coding = coding
	if err := c.Compute(ctx, c.pass); err != nil {
		return 0, err
	}
	c.batch = c.Job().BatchAt(c.Step())
	flags, err := c.exchange(ctx, &c.buckets[0], c.Step(), c.ask)
	if err != nil {
		return 0, err
	}
	c.update()
	return flags, c.Made(ctx)
}

// inOrder is the course with overlap: an activity beside the passes exchanges every
// bucket as soon as the backward pass has made it, in that order.
type inOrder struct{ behind }

func (c *inOrder) limit() int { return c.Job().BucketBytes() }

func (c *inOrder) start() { c.Host().Go("exchange", c.exchanges) }

func (c *inOrder) made(ctx context.Context, k int) error {
	return onMade.Wake(ctx, c.Rank, bucketWord{k}, c.ask)
}

func (c *inOrder) round(ctx context.Context, tl train.Timeline, coding time.Duration) (message.Flags, error) {
	return c.exchanging(ctx, tl, coding, len(c.buckets))
}

// exchanging is a round in which the activity tells so many times that it is done.
func (c *inOrder) exchanging(ctx context.Context, tl train.Timeline, coding time.Duration, times int) (flags message.Flags, err error) {
	c.backward(tl)
	c.work.Cost[0] += tl.Forward
	if err := c.overlap(ctx, coding); err != nil {
		return 0, err
	}
	began := c.Times().Read()
	for range times {
		_, seen, err := onExchanged.Wait(ctx, c.Rank)
		if err != nil {
			return 0, err
		}
		flags |= seen
	}
	c.Times().Stood(began)
	c.update()
	return flags, c.Made(ctx)
}

// exchanges is the activity beside the passes.
func (c *inOrder) exchanges(ctx context.Context, _ comm.Host) error {
	for {
		made, flags, err := onMade.Wait(ctx, c.Rank)
		if err != nil || flags&train.FlagDone != 0 {
			return err
		}
		if flags, err = c.exchange(ctx, &c.buckets[made.k], c.Step(), flags&train.AskFlags); err != nil {
			return err
		}
		if err := onExchanged.Wake(ctx, c.Rank, made, flags); err != nil {
			return err
		}
	}
}
