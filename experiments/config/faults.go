package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
)

// checkFaults refuses faults on a net on which nothing can carry them out.
func (c *Config) checkFaults() error {
	s, err := nemesis.Parse(c.Faults)
	_, timed := s.Split()
	if err != nil || len(timed) == 0 { // an error of parsing is told elsewhere
		return nil
	}
	switch c.Net {
	case "mpi":
		return fmt.Errorf("key \"faults\": %s: on net=mpi mpirun ends all ranks when one dies, and nothing can cut one off; use net=sim, or net=grpc for kills and pauses", timed)
	case "local":
		return fmt.Errorf("key \"faults\": %s: on net=local ranks are goroutines, which can leave and join before a step and can be neither killed nor cut off; use net=sim, or net=grpc for kills and pauses", timed)
	}
	return nil
}

// onProcesses refuses a plan that real processes cannot be made to follow.
func onProcesses(plan []nemesis.Act, w nemesis.World) error {
	for _, a := range plan {
		switch {
		case a.What != nemesis.Killing && a.What != nemesis.Pausing && a.What != nemesis.Joining:
			return errors.New("on net=grpc only kill, rejoin and pause can be carried out, not what happens to links; use net=sim")
		case a.Rank == w.Observer():
			return errors.New("on net=grpc the observer is the process that carries faults out, and does not strike itself; name a worker or a server, or use net=sim")
		}
	}
	return nil
}

// World is what key faults may name in a job.
func (c Config) World(j *train.Job) nemesis.World { return c.world(j.World() - j.Workers) }

func (c Config) world(servers int) nemesis.World {
	return nemesis.World{Workers: c.Workers, Servers: servers, Key: rng.New(c.Seed, "faults")}
}

// Plan is what key faults comes to in a job.
func (c Config) Plan(j *train.Job) ([]nemesis.Act, error) { return c.plan(j.World() - j.Workers) }

// plan is what it comes to with so many servers.
func (c Config) plan(servers int) ([]nemesis.Act, error) {
	s, err := nemesis.Parse(c.Faults)
	if err != nil || len(s) == 0 {
		return nil, err
	}
	w := c.world(servers)
	plan, err := s.Plan(w)
	if err == nil && !c.IsElastic() && slices.ContainsFunc(plan, func(a nemesis.Act) bool { return a.What == nemesis.Joining }) {
		err = errors.New("fault rejoin: a process comes back into a run with elastic=on only")
	}
	if err == nil && c.Net == "grpc" {
		err = onProcesses(plan, w)
	}
	if err != nil {
		return nil, &Error{fmt.Errorf("key \"faults\": %w", err)}
	}
	return plan, nil
}

func canonicalFaults(text string) (string, error) {
	s, err := nemesis.Parse(text)
	if err != nil {
		return text, err
	}
	return s.String(), nil
}
