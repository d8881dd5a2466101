package staletest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/staleness"
)

// Policies puts every registered policy, with its defaults, through Policy.
func Policies[T patience.Tester[T]](t T) {
	for _, name := range staleness.Policies.Names() {
		t.Run(name, func(t T) {
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
//   - its Traits are what it does, no more and no less; see Traits.
func Policy[T patience.Tester[T]](t T, spec staleness.Spec) {
	t.Run("spec", func(t T) {
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
		{"traits", Traits},
	} {
		t.Run(c.name, func(t T) {
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

func newSim(spec staleness.Spec, workers int, seed uint64, law Law) (*Sim, error) {
	p, err := spec.New(workers)
	if err != nil {
		return nil, err
	}
	return NewSim(p, workers, seed, law), nil
}
