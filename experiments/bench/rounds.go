package bench

import (
	"context"
	"errors"
)

// contender is somebody who takes training steps.
type contender interface {
	// block takes n steps and returns the seconds they took.
	block(ctx context.Context, n int) (seconds float64, err error)
}

const (
	blockSeconds         = 0.4 // long enough to forget what the one before left in the caches
	minRounds, maxRounds = 3, 50
)

// score is what a contender did, or what ended it.
type score struct {
	steps int       // in a block
	perS  []float64 // steps a second, of each round
	err   error
}

// compete lets contenders take turns: in every round each takes one block, and
// in every round another one begins. seconds is the time for each in all;
// blocks are a fifth of it at most and no shorter than a step. A contender that
// fails is left out from then on; only the end of ctx ends it early. between is
// called after every round.
func compete(ctx context.Context, cs []contender, seconds float64, between func()) ([]score, error) {
	scores := make([]score, len(cs))
	block := min(blockSeconds, seconds/5)
	step := make([]float64, len(cs))
	slowest := block
	for i, c := range cs {
		if step[i], scores[i].err = paceOf(ctx, c, block/2); scores[i].err == nil {
			slowest = max(slowest, step[i])
		}
		if ctx.Err() != nil {
			return scores, ctx.Err()
		}
	}
	rounds := max(minRounds, min(maxRounds, int(seconds/slowest+0.5)))
	for i := range cs {
		if scores[i].err == nil {
			scores[i].steps = max(1, int(seconds/float64(rounds)/step[i]+0.5))
		}
	}
	for r := range rounds {
		for k := range cs {
			i := (r + k) % len(cs)
			s := &scores[i]
			if s.err != nil {
				continue
			}
			took, err := cs[i].block(ctx, s.steps)
			if ctx.Err() != nil {
				return scores, ctx.Err()
			}
			if err != nil {
				s.err = err
				continue
			}
			s.perS = append(s.perS, float64(s.steps)/took)
		}
		between()
	}
	return scores, nil
}

// paceOf is the seconds a step takes, from the first block that is as long as
// enough.
func paceOf(ctx context.Context, c contender, enough float64) (float64, error) {
	for n := 1; ; n *= 2 {
		took, err := c.block(ctx, n)
		switch {
		case err != nil:
			return 0, err
		case took >= enough && took > 0:
			return took / float64(n), nil
		case n > 1<<24:
			return 0, errors.New("its steps take no time")
		}
	}
}
