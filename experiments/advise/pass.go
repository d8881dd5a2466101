package advise

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// pass is how long forward passes take on a cluster whose devices differ from one
// another and from step to step, in seconds.
type pass struct {
	order  []float64 // of the workers in a step, the fastest first, in the mean over steps
	varies float64   // standard deviation of the slowest from step to step, in units of its mean
}

// slowest is what all wait for.
func (p *pass) slowest() float64 { return p.order[len(p.order)-1] }

// passes asks the virtual clock: which worker is slow for good, what reading takes
// and how steps vary are what a run will be billed. Its steps are not those of a
// run but enough later ones, whose mean is not theirs by accident.
func passes(j *train.Job) pass {
	const first = 1 << 20
	steps := min(max(16, 1<<17/j.Workers), 1024)
	if _, constant := j.Timing.Law.(timing.Constant); constant {
		steps = 1
	}
	p := pass{order: make([]float64, j.Workers)}
	squares := 0.0
	all := make([]float64, j.Workers)
	for step := range steps {
		for w := range all {
			all[w] = j.Forward(w, first+step).Seconds()
		}
		slices.Sort(all)
		for i, s := range all {
			p.order[i] += s / float64(steps)
		}
		s := all[len(all)-1]
		squares += s * s / float64(steps)
	}
	p.varies = math.Sqrt(max(0, squares/(p.slowest()*p.slowest())-1))
	return p
}
