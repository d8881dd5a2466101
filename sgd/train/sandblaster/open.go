package sandblaster

import (
	"context"
	"errors"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// With elastic=on workers come and go. The coordinator hands portions to those who are
// there: who leaves by plan does so between iterations, and a process in the place of one
// that died asks for work as any other does.

// visits notes who says something: a process that has come, or one that is gone, of which
// nothing is heeded. So it is with what a new process tells of the errand of an older one,
// which had been on its way to it.
func (c *coordinator) visits(ctx context.Context, w int, life uint32, word idleWord) (stale bool, err error) {
	switch {
	case life < c.lives[w]:
		return true, nil
	case life == c.lives[w] && c.live[w]:
		return word.code != idleNew && word.was.id != c.work[w].id, nil
	case word.code != idleNew:
		return true, nil
	}
	c.forget(w) // before the news of its death
	c.live[w], c.lives[w] = true, life
	if c.away[w] {
		return false, nil
	}
	return false, c.Came(ctx, w, c.iter)
}

// rests notes that a worker has no work: it gets some, unless it has left.
func (c *coordinator) rests(ctx context.Context, w int) error {
	if !c.away[w] {
		c.idle = append(c.idle, w)
		return nil
	}
	for at := c.iter; at < c.Job().Updates; at++ {
		if !c.Job().AwayAt(w, at) { // it comes back
			return nil
		}
	}
	c.live[w] = false
	return c.send(ctx, w, onEnd.Header(c.Job(), message.Nothing{}, 0))
}

// moves lets workers leave and come by plan.
func (c *coordinator) moves(ctx context.Context) error {
	for w := range c.away {
		away := c.Job().AwayAt(w, c.iter)
		if away == c.away[w] {
			continue
		}
		c.away[w] = away
		switch {
		case !c.live[w]:
		case !away:
			if err := c.Came(ctx, w, c.iter); err != nil {
				return err
			}
			if c.work[w].id == 0 && !slices.Contains(c.idle, w) {
				c.idle = append(c.idle, w)
			}
		default:
			if err := c.leaves(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaves takes a worker's work from it.
func (c *coordinator) leaves(ctx context.Context, w int) error {
	if err := c.Left(ctx, w, c.iter); err != nil {
		return err
	}
	if err := c.suffice(&comm.PeerError{Rank: w, Lost: true, Cause: "left by plan"}); err != nil {
		return err
	}
	if c.work[w].id > 0 {
		return c.callOff(ctx, w)
	}
	if at := slices.Index(c.idle, w); at >= 0 {
		c.idle = slices.Delete(c.idle, at, at+1)
		return c.rests(ctx, w)
	}
	return nil
}

// hasEnded says whether an error is that a rank has come to its end.
func hasEnded(err error) bool {
	gone := new(comm.PeerError)
	return errors.As(err, &gone) && gone.Ended
}
