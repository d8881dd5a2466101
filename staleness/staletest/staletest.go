package staletest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gradlab/gradlab/staleness"
)

// Policies puts every registered policy, with its defaults, through Policy.
func Policies(t *testing.T) {
	for _, name := range staleness.Policies.Names() {
		t.Run(name, func(t *testing.T) {
			spec, _ := staleness.Policies.Proto(name)
			Policy(t, spec)
		})
	}
}

// Policy checks all that a policy promises, for 1 … 9 workers finishing in
// random order:
//
//   - its spec text comes back as the same text;
//   - it is a function of the view and does not change it;
//   - every push is applied, held or dropped, and updates keep coming;
//   - live workers never all wait, whoever leaves and whenever, down to any set
//     of them, and joins again at any point;
//   - nobody is favoured: of workers alike each has the same share of what is
//     applied;
//   - if it is Synchronous: every update is the mean of one gradient from each
//     worker, none late, and the result does not depend on arrival order;
//   - if it is Paced: nobody computes further ahead than that, or waits who is
//     not, and who computes has read all gradients of clocks that far back;
//   - if it is Voiding: nothing late is applied; otherwise it cancels nothing;
//   - if it is Waitless: nobody ever waits;
//   - if it is not Dropping: no push is dropped.
func Policy(t *testing.T, spec staleness.Spec) {
	t.Run("spec", func(t *testing.T) {
		text := staleness.Policies.Spec(spec)
		back, err := staleness.Policies.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if again := staleness.Policies.Spec(back); again != text {
			t.Errorf("%s reads back as %s", text, again)
		}
		if _, err := spec.New(0); err == nil {
			t.Error("a policy for no workers was made")
		}
	})
	for _, c := range []struct {
		name  string
		check func(staleness.Spec) error
	}{
		{"progress", Progress}, {"leave and rejoin", Leaves}, {"any live set", Subsets}, {"churn", Churn}, {"fair", Fair},
		{"synchronous", Synchronous}, {"paced", Paced}, {"voiding", Voiding}, {"waitless", Waitless}, {"dropping", Dropping},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(spec); err != nil {
				t.Error(err)
			}
		})
	}
}

var laws = map[string]Law{"exponential": Exponential, "even": Even, "straggler": Straggler}

const maxWorkers = 9

// Progress runs workers that stay, and checks the books and that updates keep
// coming.
func Progress(spec staleness.Spec) error {
	for workers := 1; workers <= maxWorkers; workers++ {
		for name, law := range laws {
			s, err := newSim(spec, workers, 1, law)
			if err != nil {
				return err
			}
			for round := range 8 {
				before := s.View.Version
				if err := s.Run(20 * workers); err != nil {
					return fmt.Errorf("%d workers, %s law: %w", workers, name, err)
				}
				if s.View.Version == before {
					return fmt.Errorf("%d workers, %s law: no update in round %d of %d pushes", workers, name, round, 20*workers)
				}
			}
		}
	}
	return nil
}

// Leaves lets every worker leave at every point of a run, whatever it is doing
// there, and then all others but one; and each comes back while the rest is
// still away.
func Leaves(spec staleness.Spec) error {
	for workers := 2; workers <= 4; workers++ {
		for first := range workers {
			for point := range 12 * workers {
				s, err := newSim(spec, workers, uint64(point), Straggler)
				if err != nil {
					return err
				}
				if err := s.Run(point); err != nil {
					return err
				}
				for i := range workers - 1 {
					w := (first + i) % workers
					if err := s.Leave(w); err != nil {
						return fmt.Errorf("worker %d of %d leaves after %d pushes: %w", w, workers, s.Pushes, err)
					}
					before := s.View.Version
					if err := s.Run(5 * workers); err != nil {
						return fmt.Errorf("after worker %d of %d left: %w", w, workers, err)
					}
					if s.View.Version == before {
						return fmt.Errorf("after worker %d of %d left: no update in %d pushes", w, workers, 5*workers)
					}
				}
				for i := range workers - 1 {
					w := (first + i) % workers
					s.Join(w)
					if err := s.Run(5 * workers); err != nil {
						return fmt.Errorf("after worker %d of %d joined again: %w", w, workers, err)
					}
					if s.View.Live[w] && s.View.Pushed[w] == 0 {
						return fmt.Errorf("worker %d of %d joined again and never pushed", w, workers)
					}
				}
			}
		}
	}
	return nil
}

// Subsets leaves any set of workers alive, one at least, and checks that updates
// keep coming; then all come back, and they do still.
func Subsets(spec staleness.Spec) error {
	for workers := 2; workers <= 5; workers++ {
		for alive := 1; alive < 1<<workers; alive++ {
			s, err := newSim(spec, workers, uint64(alive), Exponential)
			if err != nil {
				return err
			}
			if err := s.Run(3*workers + alive%workers); err != nil {
				return err
			}
			goesOn := func(when string) error {
				before := s.View.Version
				if err := s.Run(8 * workers); err != nil {
					return fmt.Errorf("%s, set %0*b: %w", when, workers, alive, err)
				}
				if s.View.Version == before {
					return fmt.Errorf("%s, set %0*b: no update in %d pushes", when, workers, alive, 8*workers)
				}
				return nil
			}
			for w := range workers {
				if alive>>w&1 == 0 {
					if err := s.Leave(w); err != nil {
						return err
					}
				}
			}
			if err := goesOn("after the others left"); err != nil {
				return err
			}
			for w := range workers {
				if !s.View.Live[w] {
					s.Join(w)
				}
			}
			if err := goesOn("after all came back"); err != nil {
				return err
			}
		}
	}
	return nil
}

// Churn lets workers leave and join at random, one at least staying.
func Churn(spec staleness.Spec) error {
	for seed := range uint64(20) {
		workers := 1 + int(seed)%maxWorkers
		s, err := newSim(spec, workers, seed, Exponential)
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(seed, 2))
		for range 50 * workers {
			switch w := r.IntN(workers); {
			case r.IntN(4) > 0:
				err = s.Step()
			case !s.View.Live[w]:
				s.Join(w)
			case s.View.NumLive() > 1:
				err = s.Leave(w)
			}
			if err != nil {
				return fmt.Errorf("%d workers, seed %d, after %d pushes: %w", workers, seed, s.Pushes, err)
			}
		}
	}
	return nil
}

// Fair checks that of workers alike each has its share of what is applied.
func Fair(spec staleness.Spec) error {
	const each = 600
	for workers := 2; workers <= maxWorkers; workers += 3 {
		s, err := newSim(spec, workers, 4, Exponential)
		if err != nil {
			return err
		}
		counts, sum := make([]int, workers), 0
		s.OnUpdate = func(pushes []Push) {
			for _, p := range pushes {
				counts[p.Worker]++
				sum++
			}
		}
		if err := s.Run(each * workers); err != nil {
			return err
		}
		mean := float64(sum) / float64(workers)
		for w, n := range counts {
			if math.Abs(float64(n)-mean) > 6*math.Sqrt(mean) { // a Poisson count is rarely as far off
				return fmt.Errorf("%d workers: worker %d has %d of %d gradients applied", workers, w, n, sum)
			}
		}
	}
	return nil
}

// Paced checks the claim of that name; specs that do not make it pass.
func Paced(spec staleness.Spec) error {
	c, ok := spec.(staleness.Paced)
	if !ok {
		return nil
	}
	for workers := 2; workers <= maxWorkers; workers++ {
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
			seen = append(seen, append([]int(nil), applied...))
		}
		for range 300 * workers {
			if err := s.Step(); err != nil {
				return err
			}
			v := s.View
			for w := range v.Live {
				ahead := v.Pushed[w] - v.MinClock()
				if !s.Runs(w) {
					if ahead <= c.Lead() || ahead > c.Lead()+1 {
						return fmt.Errorf("worker %d waits %d ahead; clocks %v", w, ahead, v.Pushed)
					}
					continue
				}
				widest = max(widest, ahead)
				// What it reads holds the clocks up to its own − lead − 1 of all.
				for q := range v.Live {
					if have, want := 0, v.Pushed[w]-c.Lead(); want > 0 {
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
		if widest != c.Lead() {
			return fmt.Errorf("%d workers: computing up to %d ahead, want %d", workers, widest, c.Lead())
		}
	}
	return nil
}

// Voiding checks that a policy cancels gradients only if its spec says so, and
// then applies none that is late.
func Voiding(spec staleness.Spec) error {
	voids := staleness.Voids(spec)
	for workers := 1; workers <= maxWorkers; workers++ {
		s, err := newSim(spec, workers, 1, Straggler)
		if err != nil {
			return err
		}
		var odd error
		s.OnUpdate = func(pushes []Push) {
			for _, p := range pushes {
				if voids && p.Delay > 0 {
					odd = fmt.Errorf("%d workers: staleness %d was applied", workers, p.Delay)
				}
			}
			if n := len(s.policy.Cancel(s.View)); n > 0 && !voids {
				odd = fmt.Errorf("%d workers: cancels %d, but its spec does not say so", workers, n)
			}
		}
		if err := s.Run(50 * workers); err != nil {
			return err
		}
		if odd != nil {
			return odd
		}
	}
	return nil
}

// Waitless checks the claim of that name; specs that do not make it pass.
func Waitless(spec staleness.Spec) error {
	if staleness.Waits(spec) {
		return nil
	}
	return beside(spec, func(s *Sim) error {
		for w := range s.View.Live {
			if !s.Runs(w) {
				return fmt.Errorf("worker %d waits", w)
			}
		}
		return nil
	})
}

// Dropping checks that a policy drops pushes only if its spec says so.
func Dropping(spec staleness.Spec) error {
	if staleness.Drops(spec) {
		return nil
	}
	return beside(spec, func(s *Sim) error {
		if s.Dropped > 0 {
			return errors.New("a push is dropped, but the spec does not say so")
		}
		return nil
	})
}

// beside looks at runs beside a straggler after each push.
func beside(spec staleness.Spec, look func(*Sim) error) error {
	for workers := 1; workers <= maxWorkers; workers++ {
		s, err := newSim(spec, workers, 1, Straggler)
		if err != nil {
			return err
		}
		for range 200 * workers {
			if err := errors.Join(s.Step(), look(s)); err != nil {
				return fmt.Errorf("%d workers, after %d pushes: %w", workers, s.Pushes, err)
			}
		}
	}
	return nil
}

// Synchronous checks the claim of that name; specs that do not make it pass.
func Synchronous(spec staleness.Spec) error {
	if c, ok := spec.(staleness.Synchronous); !ok || !c.Synchronous() {
		return nil
	}
	const updates = 30
	for workers := 1; workers <= maxWorkers; workers++ {
		var want float64
		for seed := range uint64(6) {
			s, err := newSim(spec, workers, seed, []Law{Exponential, Even, Straggler}[seed%3])
			if err != nil {
				return err
			}
			// One parameter; the gradient of a worker is its own function of it.
			// Floating-point sums tell orders apart.
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
			for s.View.Version < updates {
				if err := s.Step(); err != nil {
					return err
				}
			}
			switch {
			case odd != nil:
				return fmt.Errorf("%d workers: %w", workers, odd)
			case seed == 0:
				want = x[updates]
			case x[updates] != want:
				return fmt.Errorf("%d workers: %v in one order of arrival, %v in another", workers, want, x[updates])
			}
		}
	}
	return nil
}

func newSim(spec staleness.Spec, workers int, seed uint64, law Law) (*Sim, error) {
	p, err := spec.New(workers)
	if err != nil {
		return nil, err
	}
	return NewSim(p, workers, seed, law), nil
}
