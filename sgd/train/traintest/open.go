package traintest

import (
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// welcoming is a mode that claims to admit workers, whether it does or not.
type welcoming struct{ train.Mode }

func (b welcoming) Traits(j *train.Job) train.Traits {
	t := b.Mode.Traits(j)
	t.Admits, t.Elastic = true, false
	return t
}

// showsAdmits: with every policy that does not wait for all, workers come into runs and
// leave them by plan, and as other processes in the place of those that died. What the mode
// does not claim it cannot do.
func showsAdmits(m train.Mode) error {
	for _, name := range staleness.Policies.Names() {
		if p, _ := staleness.Policies.Proto(name); p.Traits(4).Synchronous {
			continue
		}
		j, err := fit(m, policy(name), rounds(12))
		if err != nil {
			if name != "asp" {
				continue // it does not take the policy
			}
			if j, err = fit(m, rounds(12)); err != nil {
				return err
			}
		}
		p := j.Policy
		claimed := m.Traits(j).Admits
		if !claimed && name != "asp" {
			continue // one policy shows it
		}
		err = safely(func() error { return comeAndGo(welcoming{m}, func(j *train.Job) { j.Policy = p }) })
		if claimed != (err == nil) {
			return unkept("Admits %v with policy %s, and of a run that workers come into and leave comes: %w", claimed, name, orWhatShould(err))
		}
	}
	return nil
}

// comeAndGo says what is wrong with runs that workers come into and leave; nil: nothing.
func comeAndGo(m train.Mode, opts ...option) error {
	opts = append(opts, rounds(24), func(j *train.Job) { j.Elastic, j.Servers = true, 2 })
	job := func(more ...option) (*train.Job, error) { return fit(m, append(slices.Clone(opts), more...)...) }
	j, err := job()
	if err != nil {
		return err
	}
	whole, err := try(j, nil, nil)
	if err != nil {
		return err
	}
	at := func(share float64) time.Duration { return time.Duration(share * whole.obs.Final.Seconds * 1e9) }
	struck := virtual(0)
	struck.Lease, struck.Faults = 20*time.Millisecond, []nemesis.Act{{What: nemesis.Killing, Rank: 1, At: at(0.3)}, {What: nemesis.Joining, Rank: 1, At: at(0.5)}}
	n := j.Updates
	planned := func(j *train.Job) {
		j.Leaves, j.Joins = []train.Departure{{Worker: 1, Step: n / 4}}, []train.Joining{{Worker: 0, Step: n / 3}, {Worker: 1, Step: n / 2}}
	}
	for _, c := range []struct {
		what    string
		net     comm.Net
		more    []option
		changes int
	}{{"by plan", nil, []option{planned}, 4}, {"after a death", struck, nil, 3}} {
		j, err := job(c.more...)
		if err != nil {
			return err
		}
		r, err := try(j, c.net, nil)
		if err != nil {
			return fmt.Errorf("workers come %s: %w", c.what, err)
		}
		members := r.obs.Members
		if len(members) != c.changes || len(members[len(members)-1].Workers) != j.Workers || r.obs.Final.Step != j.Updates {
			return fmt.Errorf("workers come %s: memberships %+v, and it ends at update %d of %d", c.what, members, r.obs.Final.Step, j.Updates)
		}
		if rep := r.reports[1]; rep.Steps == 0 || rep.Steps >= r.reports[2].Steps*2 {
			return fmt.Errorf("workers come %s: worker 1 makes %d steps, and worker 2 %d", c.what, rep.Steps, r.reports[2].Steps)
		}
	}
	return nil
}
