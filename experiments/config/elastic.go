package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/sgd/train"
)

// checkElastic refuses nets that cannot change who takes part in a run.
func (c Config) checkElastic() error {
	switch {
	case !c.Elastic:
		return nil
	case c.Net == "mpi":
		return errors.New("key \"elastic\": MPI ends all processes when one of them dies; use net=grpc")
	case c.Emulate:
		return errors.New("key \"elastic\": emulated NICs do not know who takes part; use net=sim, or emulate=false")
	}
	return nil
}

// elastic gives the job what the configuration says of workers that leave and join.
func (c Config) elastic(j *train.Job) error {
	j.Elastic, j.MinWorkers = c.Elastic, c.MinWorkers
	j.OnResize, _ = train.ParseOnResize(c.OnResize)
	s, err := nemesis.Parse(c.Faults)
	if err != nil {
		return fmt.Errorf("key \"faults\": %w", err)
	}
	moves, err := s.Moves(c.world(0))
	if err != nil {
		return fmt.Errorf("key \"faults\": %w", err)
	}
	slices.SortStableFunc(moves, func(a, b nemesis.Move) int {
		return cmp.Or(cmp.Compare(a.Before, b.Before), cmp.Compare(a.Turn, b.Turn))
	})
	for _, m := range moves {
		if m.Joins {
			j.Joins = append(j.Joins, train.Joining{Worker: m.Worker, Step: m.Before, Turn: m.Turn})
		} else {
			j.Leaves = append(j.Leaves, train.Departure{Worker: m.Worker, Step: m.Before, Turn: m.Turn})
		}
	}
	return nil
}

// Planned returns the schedule by which workers leave and join as a plan says: the value of
// key faults that repeats a run of which train.PlanOf made the plan.
func Planned(leaves []train.Departure, joins []train.Joining) (s nemesis.Schedule) {
	name := func(worker int) string { return nemesis.World{Workers: worker + 1}.Name(worker) }
	for _, d := range leaves {
		s = append(s, nemesis.Leave{Rank: name(d.Worker), Before: d.Step, Turn: d.Turn})
	}
	for _, d := range joins {
		s = append(s, nemesis.Join{Rank: name(d.Worker), Before: d.Step, Turn: d.Turn})
	}
	return s
}
