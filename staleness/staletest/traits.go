package staletest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gradlab/gradlab/staleness"
)

// Traits shows what a policy claims of itself: each claim true in every run of
// 1 … 9 workers that is tried, and each that is not made false in one run at least,
// of up to 128 workers. The runs differ in how long gradients take, in the loss, and
// in whether words to start over come in time.
func Traits(spec staleness.Spec) error {
	if err := steady(spec); err != nil {
		return err
	}
	for workers := 1; workers <= maxWorkers; workers++ {
		for _, in := range settings(workers, 1) {
			if err := in.keeps(spec, 60*workers); err != nil {
				return err
			}
		}
	}
	for _, check := range []func(staleness.Spec) error{synchronous, paced, byLoss, understated} {
		if err := check(spec); err != nil {
			return err
		}
	}
	return nil
}

// Probe looks for claims that spec does not keep with that many workers, in runs short
// enough to be made before each training run. It finds what would let a run hang or go
// astray: a policy that lets nobody go on, or that waits, drops, cancels or takes
// another number of gradients than it claims. Of more than 32 workers it tries 32; a
// policy that wants more than that is not tried.
func Probe(spec staleness.Spec, workers int) error {
	if workers > 32 {
		workers = 32
		if _, err := spec.New(workers); err != nil {
			return nil
		}
	}
	for _, in := range settings(workers, 1)[:4] {
		if err := in.keeps(spec, 6*workers+20); err != nil {
			return err
		}
	}
	if !spec.Traits(workers).Synchronous {
		return nil
	}
	_, err := barriered(spec, workers, Straggler, 1, 6)
	return err
}

// setting is what a run of the suite happens in.
type setting struct {
	workers int
	seed    uint64
	law     Law
	loss    float64 // of 1 at first; 0: unknown
	deaf    bool    // words to start over come too late
}

func settings(workers int, seed uint64) (all []setting) {
	for _, law := range []Law{Straggler, Exponential} {
		for _, loss := range []float64{0, 0.01} {
			for _, deaf := range []bool{false, true} {
				all = append(all, setting{workers, seed, law, loss, deaf})
			}
		}
	}
	return all
}

func (in setting) sim(spec staleness.Spec) (*Sim, error) {
	s, err := newSim(spec, in.workers, in.seed, in.law)
	if err != nil {
		return nil, err
	}
	if s.deaf = in.deaf; in.loss > 0 {
		s.View.First, s.View.Loss = 1, in.loss
	}
	return s, nil
}

// seen is what a run showed, of what may be claimed.
type seen struct{ waits, drops, voids bool }

// watch runs so many pushes and tells what it saw. Each update is checked against t,
// the claims, unless they are nil.
func (in setting) watch(spec staleness.Spec, pushes int, t *staleness.PolicyTraits) (o seen, err error) {
	s, err := in.sim(spec)
	if err != nil {
		return o, err
	}
	var odd error
	s.OnUpdate = func(pushes []Push) {
		o.voids = o.voids || len(s.policy.Cancel(s.View)) > 0
		if t == nil || odd != nil {
			return
		}
		if n := len(pushes); n != t.PerUpdate && !(t.ByLoss && in.loss > 0) {
			odd = fmt.Errorf("an update is made of %d gradients, and PerUpdate says %d", n, t.PerUpdate)
		}
		if worst := slices.MaxFunc(pushes, func(a, b Push) int { return a.Delay - b.Delay }); t.Voids && worst.Delay > 0 {
			odd = fmt.Errorf("a gradient that is %d updates late is applied, and what Voids applies none that is late", worst.Delay)
		}
	}
	for range pushes {
		if err := errors.Join(s.Step(), odd); err != nil {
			return o, err
		}
		for w := range s.View.Live {
			o.waits = o.waits || !s.Runs(w)
		}
	}
	o.drops = s.Dropped > 0
	return o, nil
}

// keeps checks in one run that nothing happens that spec does not claim.
func (in setting) keeps(spec staleness.Spec, pushes int) error {
	t := spec.Traits(in.workers)
	o, err := in.watch(spec, pushes, &t)
	switch {
	case err != nil:
	case o.waits && !t.Waits:
		err = errors.New("a worker waits for others; claim Waits")
	case o.drops && !t.Drops:
		err = errors.New("a push is dropped; claim Drops")
	case o.voids && !t.Voids:
		err = errors.New("a gradient is cancelled; claim Voids")
	}
	if err != nil {
		return fmt.Errorf("policy %s, %d workers: %w", staleness.Policies.Spec(spec), in.workers, err)
	}
	return nil
}

// somewhere says whether look finds what it looks for in a run of at most 128
// workers, and at what error it stopped.
func somewhere(spec staleness.Spec, look func(setting) (bool, error)) (bool, error) {
	for _, workers := range []int{2, 3, 4, 5, 6, 9, 16, 32, 64, 128} {
		if _, err := spec.New(workers); err != nil {
			continue // more are wanted
		}
		all := settings(workers, uint64(workers))
		if workers > maxWorkers {
			all = all[:4] // beside a straggler
		}
		for _, in := range all {
			if found, err := look(in); found || err != nil {
				return found, err
			}
		}
	}
	return false, nil
}

// understated refuses claims that nothing shows.
func understated(spec staleness.Spec) error {
	t := spec.Traits(2)
	for _, c := range []struct {
		claimed bool
		shown   func(seen) bool
		want    string
	}{
		{t.Waits, func(o seen) bool { return o.waits }, "Waits, and no worker ever waits for another"},
		{t.Drops, func(o seen) bool { return o.drops }, "Drops, and no push is ever dropped"},
		{t.Voids, func(o seen) bool { return o.voids }, "Voids, and no gradient is ever cancelled"},
	} {
		if !c.claimed {
			continue
		}
		found, err := somewhere(spec, func(in setting) (bool, error) {
			o, err := in.watch(spec, 12*in.workers+100, nil)
			return c.shown(o), err
		})
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("policy %s claims %s, whatever they take", staleness.Policies.Spec(spec), c.want)
		}
	}
	return nil
}

// steady checks that claims are the same for any number of workers, and that updates
// have a gradient.
func steady(spec staleness.Spec) error {
	var first staleness.PolicyTraits
	for _, workers := range []int{2, 1, 3, 4, 5, 6, 7, 8, 9, 64, 1 << 21} {
		t := spec.Traits(workers)
		if t.PerUpdate < 1 {
			return fmt.Errorf("policy %s: PerUpdate is %d with %d workers, want at least 1", staleness.Policies.Spec(spec), t.PerUpdate, workers)
		}
		if t.PerUpdate = 0; workers == 2 {
			first = t
		}
		if t != first {
			return fmt.Errorf("policy %s: claims %+v with 2 workers and %+v with %d; all but PerUpdate are the same for any number", staleness.Policies.Spec(spec), first, t, workers)
		}
	}
	if first.Lead < 0 || first.Lead > 0 && !first.Paced {
		return fmt.Errorf("policy %s: Lead is %d, want 0 or more, and 0 without Paced", staleness.Policies.Spec(spec), first.Lead)
	}
	return nil
}

// barriered runs one parameter whose gradient at a worker is that worker's own function
// of it, and returns its value behind so many updates. Floating-point sums tell
// orders apart. An error says in which update there was not one gradient, on the
// present version, of each worker.
func barriered(spec staleness.Spec, workers int, law Law, seed uint64, updates int) (float64, error) {
	s, err := newSim(spec, workers, seed, law)
	if err != nil {
		return 0, err
	}
	x := []float64{1} // by version
	var odd error
	s.OnUpdate = func(pushes []Push) {
		sum := 0.0
		for i, p := range pushes {
			if p.Worker != i || p.Delay != 0 {
				odd = fmt.Errorf("update %d is made of %+v", len(x), pushes)
			}
			sum += math.Sin(float64(p.Worker+1))*x[p.Version] + math.Cos(float64(p.Clock*workers+p.Worker))
		}
		if len(pushes) != workers {
			odd = fmt.Errorf("update %d has %d pushes of %d workers", len(x), len(pushes), workers)
		}
		x = append(x, x[len(x)-1]-0.1*sum/float64(len(pushes)))
	}
	for n := 0; s.View.Version < updates && odd == nil; n++ {
		if err := s.Step(); err != nil {
			return 0, err
		}
		if n > 10*workers*updates {
			return 0, fmt.Errorf("%d updates after %d pushes of %d workers", s.View.Version, n, workers)
		}
	}
	if odd != nil {
		return 0, fmt.Errorf("policy %s claims Synchronous, with %d workers: %w", staleness.Policies.Spec(spec), workers, odd)
	}
	return x[updates], nil
}

// synchronous shows that claim, or its absence.
func synchronous(spec staleness.Spec) error {
	const updates = 30
	if !spec.Traits(2).Synchronous {
		apart, err := somewhere(spec, func(in setting) (bool, error) {
			_, err := barriered(spec, in.workers, in.law, in.seed, updates)
			return err != nil, nil
		})
		if err == nil && !apart {
			err = fmt.Errorf("policy %s makes every update of one gradient from each worker, all on the same version; claim Synchronous", staleness.Policies.Spec(spec))
		}
		return err
	}
	for workers := 1; workers <= maxWorkers; workers++ {
		var want float64
		for seed := range uint64(6) {
			x, err := barriered(spec, workers, []Law{Exponential, Even, Straggler}[seed%3], seed, updates)
			switch {
			case err != nil:
				return err
			case seed == 0:
				want = x
			case x != want:
				return fmt.Errorf("policy %s, %d workers: %v in one order of arrival, %v in another", staleness.Policies.Spec(spec), workers, want, x)
			}
		}
	}
	return nil
}

// stalled is the law of a worker 0 that takes a thousand times as long as others.
func stalled(r *rand.Rand, w int) float64 {
	if x := Even(r, w); w > 0 {
		return x
	}
	return 1000
}

// paced shows that claim, or its absence: somebody gets 32 clocks ahead.
func paced(spec staleness.Spec) error {
	t := spec.Traits(2)
	if t.Paced {
		for workers := 2; workers <= maxWorkers; workers++ {
			if err := keepsPace(spec, workers, t.Lead); err != nil {
				return fmt.Errorf("policy %s claims Paced with Lead %d, %d workers: %w", staleness.Policies.Spec(spec), t.Lead, workers, err)
			}
		}
		return nil
	}
	const far = 32
	found, err := somewhere(spec, func(in setting) (bool, error) {
		if in.deaf {
			return false, nil
		}
		in.law = stalled
		s, err := in.sim(spec)
		for range 2 * far * in.workers {
			if err = errors.Join(err, s.Step()); err != nil {
				return false, err
			}
			for w := range s.View.Live {
				if s.Runs(w) && s.View.Pushed[w]-s.View.MinClock() > far {
					return true, nil
				}
			}
		}
		return false, err
	})
	if err == nil && !found {
		err = fmt.Errorf("policy %s never lets a worker get %d clocks ahead of the slowest; claim Paced and Lead", staleness.Policies.Spec(spec), far)
	}
	return err
}

// keepsPace checks that nobody computes further ahead than lead, that nobody waits who
// is not, and that who computes has read all gradients of clocks that far back.
func keepsPace(spec staleness.Spec, workers, lead int) error {
	s, err := newSim(spec, workers, 1, Straggler)
	if err != nil {
		return err
	}
	applied, widest := make([]int, workers), 0
	var seen [][]int // by version: gradients of each worker in it
	s.OnUpdate = func(pushes []Push) {
		for _, p := range pushes {
			applied[p.Worker]++
		}
		seen = append(seen, slices.Clone(applied))
	}
	for range 300 * workers {
		if err := s.Step(); err != nil {
			return err
		}
		v := s.View
		for w := range v.Live {
			ahead := v.Pushed[w] - v.MinClock()
			if !s.Runs(w) {
				if ahead <= lead || ahead > lead+1 {
					return fmt.Errorf("worker %d waits %d ahead; clocks %v", w, ahead, v.Pushed)
				}
				continue
			}
			widest = max(widest, ahead)
			// What it reads holds the clocks up to its own − lead − 1 of all.
			for q := range v.Live {
				if have, want := 0, v.Pushed[w]-lead; want > 0 {
					if b := s.base[w]; b > 0 {
						have = seen[b-1][q]
					}
					if have < want {
						return fmt.Errorf("worker %d at clock %d reads %d gradients of worker %d, want %d", w, v.Pushed[w], have, q, want)
					}
				}
			}
		}
	}
	if widest != lead {
		return fmt.Errorf("workers compute up to %d ahead", widest)
	}
	return nil
}

// byLoss shows that claim, or its absence: of two runs that differ in the loss alone,
// the first decision that differs is the loss's doing.
func byLoss(spec staleness.Spec) error {
	claimed := spec.Traits(2).ByLoss
	differs, err := somewhere(spec, func(in setting) (bool, error) {
		if in.loss == 0 || !claimed && in.workers > maxWorkers {
			return false, nil
		}
		var told [2][]string
		for i, loss := range []float64{0, in.loss} {
			in.loss = loss
			s, err := in.sim(spec)
			if err != nil {
				return false, err
			}
			s.talk = true
			if err := s.Run(40 * in.workers); err != nil {
				return false, err
			}
			told[i] = s.out
		}
		return !slices.Equal(told[0], told[1]), nil
	})
	switch {
	case err != nil:
		return err
	case differs && !claimed:
		return fmt.Errorf("policy %s decides otherwise at another loss; claim ByLoss", staleness.Policies.Spec(spec))
	case claimed && !differs:
		return fmt.Errorf("policy %s claims ByLoss, and decides alike when the loss has fallen to a hundredth", staleness.Policies.Spec(spec))
	}
	return nil
}
