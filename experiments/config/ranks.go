package config

import (
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// Ranks is how many workers and servers a run has, which needs no data.
func (c Config) Ranks() (workers, servers int) {
	j := train.Job{
		Mode: train.Modes.MustParse(c.Mode), Policy: staleness.Policies.MustParse(c.Policy),
		Topology: collective.Topologies.MustParse(c.Topology), Workers: c.Workers, Servers: c.Servers,
	}
	return c.Workers, j.World() - c.Workers
}
