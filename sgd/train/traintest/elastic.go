package traintest

import (
	"errors"
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
// left by plan at the step from which they went on. One that joins needs nothing but what a
// peer sends it. What the mode does not claim it cannot do.
func showsElastic(m train.Mode) error {
	j, err := fit(m, rounds(12))
	if err != nil {
		return err
	}
	claimed := m.Traits(j).Elastic
	if err := safely(func() error { return leaves(bold{m}) }); claimed != (err == nil) {
		return unkept("Elastic %v, and of a run that workers leave comes: %w", claimed, orWhatShould(err))
	}
	return nil
}

// orWhatShould is err, or the words for none.
func orWhatShould(err error) error {
	if err == nil {
		return errors.New("what should: claim it")
	}
	return err
}

// leaves says what is wrong with runs that workers leave; nil: nothing.
func leaves(m train.Mode) error {
	fitting := func(joins []train.Joining, plan ...train.Departure) (*train.Job, error) {
		opts := []option{rounds(12), func(j *train.Job) { j.Elastic, j.Leaves, j.Joins = true, plan, joins }}
		if m.Traits(impossible()).Codec == train.TakesAll { // one whose state a step changes
			opts = append(opts, with("feedback(topk(keep=0.2))"))
		}
		return fit(m, opts...)
	}
	going := func(deaths comm.Net, plan ...train.Departure) (*trial, error) {
		j, err := fitting(nil, plan...)
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
	return joins(func() (*train.Job, error) {
		return fitting([]train.Joining{{Worker: 0, Step: 3}, {Worker: 1, Step: 7}}, train.Departure{Worker: 1, Step: 4})
	})
}

// joins says what is wrong with a run that workers join; nil: nothing.
func joins(job func() (*train.Job, error)) error {
	var sums []string
	for _, net := range []comm.Net{nil, processes{job}} {
		j, err := job()
		if err != nil {
			return err
		}
		r, err := try(j, net, nil)
		if err != nil {
			return fmt.Errorf("of a run that workers join: %w", err)
		}
		if sums = append(sums, r.obs.SHA256); len(r.obs.Members) != 4 || r.obs.Final.Step != j.Updates {
			return fmt.Errorf("two workers join, one of which had left: memberships %+v, and it ends at update %d of %d", r.obs.Members, r.obs.Final.Step, j.Updates)
		}
	}
	if sums[0] != sums[1] {
		return fmt.Errorf("workers join, and with every rank in a process the run has other bits than where all share one")
	}
	return nil
}
