package staletest

import (
	"errors"
	"math"
	"math/rand/v2"

	"github.com/gradlab/gradlab/staleness"
)

// Law draws how long worker w takes for one gradient.
type Law func(r *rand.Rand, w int) float64

// Exponential is the law without memory, mean 1: finishing orders of every
// kind.
func Exponential(r *rand.Rand, _ int) float64 { return r.ExpFloat64() }

// Even is close to 1, with a standard deviation of 5 %: a homogeneous cluster.
func Even(r *rand.Rand, _ int) float64 { return math.Max(0.01, 1+0.05*r.NormFloat64()) }

// Normal is close to 1, with a coefficient of variation of cv.
func Normal(cv float64) Law {
	return func(r *rand.Rand, _ int) float64 { return math.Max(0.01, 1+cv*r.NormFloat64()) }
}

// Lognormal has mean 1 and a coefficient of variation of cv.
func Lognormal(cv float64) Law {
	sigma := math.Sqrt(math.Log(1 + cv*cv))
	return func(r *rand.Rand, _ int) float64 { return math.Exp(sigma*r.NormFloat64() - sigma*sigma/2) }
}

// Shifted is shift and an exponential rest, mean 1.
func Shifted(shift float64) Law {
	return func(r *rand.Rand, _ int) float64 { return shift + (1-shift)*r.ExpFloat64() }
}

// Straggler makes worker 0 ten times slower than the others.
func Straggler(r *rand.Rand, w int) float64 {
	x := r.ExpFloat64()
	if w == 0 {
		return 10 * x
	}
	return x
}

// Sim is a server and workers that take a random time for each gradient;
// messages take none. Equal seeds give equal runs.
type Sim struct {
	*Server
	law Law
	rnd *rand.Rand
	now float64
	due []float64 // when each worker that runs will push
}

// NewSim starts all workers at time 0.
func NewSim(p staleness.Policy, workers int, seed uint64, law Law) *Sim {
	s := &Sim{
		Server: NewServer(p, workers), law: law,
		rnd: rand.New(rand.NewPCG(seed, uint64(workers))), due: make([]float64, workers),
	}
	for w := range s.due {
		s.start(w)
	}
	return s
}

func (s *Sim) start(workers ...int) {
	for _, w := range workers {
		s.due[w] = s.now + s.law(s.rnd, w)
	}
}

// Now is the time of the last push, in units of the law.
func (s *Sim) Now() float64 { return s.now }

// Step lets the next worker push, and checks the books.
func (s *Sim) Step() error {
	next := -1
	for w, t := range s.due {
		if s.Runs(w) && (next < 0 || t < s.due[next]) {
			next = w
		}
	}
	if next < 0 {
		return errors.Join(errors.New("nobody is left to push"), s.Check())
	}
	s.now = s.due[next]
	s.start(s.Push(next)...)
	return s.Check()
}

// Run takes n steps.
func (s *Sim) Run(n int) error {
	for range n {
		if err := s.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Leave removes worker w and checks the books.
func (s *Sim) Leave(w int) error {
	s.start(s.Server.Leave(w)...)
	return s.Check()
}

// Join makes worker w a member again.
func (s *Sim) Join(w int) {
	s.Server.Join(w)
	s.start(w)
}
