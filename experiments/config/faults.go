package config

import (
	"fmt"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
)

// checkFaults refuses faults on a net on which nothing can carry them out.
func (c *Config) checkFaults() error {
	if s, err := nemesis.Parse(c.Faults); err != nil || len(s) == 0 || c.Net == "sim" {
		return nil // an error of parsing is told elsewhere
	}
	return fmt.Errorf("key \"faults\": on net=%s there is no virtual cluster for faults to happen on; use net=sim", c.Net)
}

// World is what key faults may name in a job.
func (c Config) World(j *train.Job) nemesis.World { return c.world(j.World() - j.Workers) }

func (c Config) world(servers int) nemesis.World {
	return nemesis.World{Workers: c.Workers, Servers: servers, Key: rng.New(c.Seed, "faults")}
}

// plan is what key faults comes to with so many servers.
func (c Config) plan(servers int) ([]nemesis.Act, error) {
	s, err := nemesis.Parse(c.Faults)
	if err != nil || len(s) == 0 {
		return nil, err
	}
	plan, err := s.Plan(c.world(servers))
	if err != nil {
		return nil, &Error{fmt.Errorf("key \"faults\": %w", err)}
	}
	return plan, nil
}
