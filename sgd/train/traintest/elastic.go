package traintest

import (
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train"
)

// Enter and Rouse implement comm.Elastic; the virtual cluster's ranks do.
func (h taped) Enter(epoch uint32) { h.Host.(comm.Elastic).Enter(epoch) }
func (h taped) Rouse()             { h.Host.(comm.Elastic).Rouse() }

// bold is a mode that claims to be Elastic, whether it is or not.
type bold struct{ train.Mode }

func (b bold) Traits(j *train.Job) train.Traits {
	t := b.Mode.Traits(j)
	t.Elastic = true
	return t
}

// showsElastic: wherever a worker dies, the others end with the bits of a run that it
// left by plan at the step from which they went on. What the mode does not claim it
// cannot do.
func showsElastic(m train.Mode) error {
	j, err := fit(m, rounds(12))
	if err != nil {
		return err
	}
	claimed := m.Traits(j).Elastic
	if err := safely(func() error { return leaves(bold{m}) }); claimed != (err == nil) {
		return unkept("Elastic %v, and of a run that workers leave comes: %w", claimed, err)
	}
	return nil
}

// leaves says what is wrong with runs that workers leave; nil: nothing.
func leaves(m train.Mode) error {
	going := func(deaths comm.Net, plan ...train.Departure) (*trial, error) {
		opts := []option{rounds(12), func(j *train.Job) { j.Elastic, j.Leaves = true, plan }}
		if m.Traits(impossible()).Codec == train.TakesAll { // one whose state a step changes
			opts = append(opts, with("feedback(topk(keep=0.2))"))
		}
		j, err := fit(m, opts...)
		if err != nil {
			return nil, err
		}
		return try(j, deaths, nil)
	}
	whole, err := going(nil)
	if err != nil {
		return err
	}
	for victim, share := range []float64{0.2, 0.5, 0.8} {
		died, err := going(dying(victim, share*whole.obs.Final.Seconds))
		if err != nil {
			return err
		}
		n := len(died.obs.Members)
		if n != 2 || len(died.obs.Dead) != 1 || died.obs.Final.Step != died.job.Updates {
			return fmt.Errorf("worker %d dies, %d memberships, and it ends at update %d of %d", victim, n, died.obs.Final.Step, died.job.Updates)
		}
		at := died.obs.Members[1].Step
		left, err := going(nil, train.Departure{Worker: victim, Step: at})
		if err != nil {
			return err
		}
		if died.obs.SHA256 != left.obs.SHA256 {
			return fmt.Errorf("worker %d dies in step %d, and the run ends with other bits than if it had left before it", victim, at)
		}
	}
	return nil
}
