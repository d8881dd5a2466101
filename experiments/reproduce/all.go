package reproduce

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gradlab/gradlab/experiments"
)

// atOnce is how many studies go on beside each other, so that one has work for
// the cores that the last run of another leaves idle.
const atOnce = 2

// aloner is implemented by studies that measure this machine and want it for
// themselves.
type aloner interface{ alone() }

// All runs studies, two at a time that share the cores and then, one by one,
// those that want the machine for themselves. lab equips a study when it begins,
// done hears how it ended; neither is called twice at once. Once who runs them
// is stopping, or ctx has ended, no more studies begin.
func All(ctx context.Context, names []string, lab func(name string) *Lab, done func(name string, r *Report, err error)) {
	var one sync.Mutex
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var known *memory
	schedule(names, wantsAll, func(name string) {
		one.Lock()
		l := lab(name)
		if known == nil {
			known = &memory{dir: l.Runs.Out}
		}
		one.Unlock()
		if ctx.Err() != nil || l.stopping() {
			return
		}
		l.slots, l.memory = slots, known
		r, err := Run(ctx, name, l)
		one.Lock()
		defer one.Unlock()
		done(name, r, err)
	})
}

// schedule calls run for each name, for those that are alone when all others
// have returned.
func schedule(names []string, alone func(string) bool, run func(string)) {
	var later []string
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, name := range names {
		if alone(name) {
			later = append(later, name)
			continue
		}
		group.Go(func() error { run(name); return nil })
	}
	_ = group.Wait()
	for _, name := range later {
		run(name)
	}
}

// wantsAll says whether a study wants the machine for itself.
func wantsAll(name string) bool {
	s, err := Studies.Parse(name)
	_, alone := s.(aloner)
	return err == nil && alone
}

func (l *Lab) stopping() bool { return l.Runs.Stopping != nil && l.Runs.Stopping() }

// turn waits until a run may have a core, and gives what returns it.
func (l *Lab) turn(ctx context.Context) (release func(), err error) {
	if l.slots != nil {
		select {
		case l.slots <- struct{}{}:
			release = func() { <-l.slots }
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	} else {
		release = func() {}
	}
	if l.stopping() {
		release()
		return nil, experiments.Stopped("the same command goes on")
	}
	return release, nil
}
