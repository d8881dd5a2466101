package soak

import (
	"context"
	"sync"

	"github.com/gradlab/gradlab/experiments/config"
)

// Many tries seeds from one on, so many at once, until next says no more or ctx ends. each
// is told of every trial, one at a time, in no certain order; a trial that failed has been
// minimised, and comes beside the one of its seed as it was.
func (s *Soak) Many(ctx context.Context, from uint64, jobs int, next func() bool, each func(seed uint64, t, least *Trial, err error)) {
	if s.Modes == nil {
		s.Modes = Modes()
	}
	if s.Places.Shelf == nil {
		s.Places.Shelf = new(config.Shelf)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	seed := from
	for range max(1, jobs) {
		all.Go(func() {
			for {
				mu.Lock()
				if ctx.Err() != nil || !next() {
					mu.Unlock()
					return
				}
				mine := seed
				seed++
				mu.Unlock()
				t, err := s.Try(ctx, mine)
				var least *Trial
				if err == nil && len(t.Wrong) > 0 {
					least, err = s.Minimise(ctx, t)
				}
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				each(mine, t, least, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
}
