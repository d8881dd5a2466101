package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/sgd/train"
)

// checkEmulate refuses what emulated NICs and devices do not know.
func (c *Config) checkEmulate() error {
	if err := c.checkElastic(); err != nil || !c.Emulate {
		return err
	}
	switch c.Net {
	case "sim":
		return errors.New("key \"emulate\": net=sim is virtual already; use net=local or net=grpc")
	case "mpi":
		return errors.New("key \"emulate\": what MPI carries is not emulated; use net=local or net=grpc")
	}
	if m, err := train.Modes.Parse(c.Mode); err == nil && m.Traits(&train.Job{Mode: m}).SharedMemory {
		return fmt.Errorf("key \"emulate\": devices of their own share no memory, which mode %s is about; use mode adpsgd or agp", train.Modes.Name(m))
	}
	def := Default()
	for _, k := range []string{"constants.stream", "network.per_host", "constants.colocate", "network.rack", "constants.model", "constants.reduce", "constants.gather"} {
		if got, want := c.Get(k), def.Get(k); got != want {
			return fmt.Errorf("key %q: with emulate=true every rank is alone behind its NIC; want %s, not %s", k, want, got)
		}
	}
	return nil
}

// Emulated puts the ranks of a net on the real clock behind NICs, if that is asked
// for, and is the net itself otherwise.
func (c Config) Emulated(n comm.Net) comm.Net {
	if !c.Emulate {
		return n
	}
	latency, message := c.delays()
	return &emulate.Net{Net: n, Deadline: LongestWait, NIC: emulate.NIC{Bandwidth: c.carried(), Latency: latency, Message: message}}
}

// delays are the latency of a NIC and the cost of a message.
func (c Config) delays() (latency, message time.Duration) {
	latency, _ = time.ParseDuration(c.NetworkLatency)
	return latency, c.Constants.Message
}

// Hockney is the virtual network as the cost model of collectives sees it, where
// ranks add so many bytes a second; 0: for nothing.
func (c Config) Hockney(adding float64) collective.Links {
	latency, message := c.delays()
	l := collective.Links{
		Alpha: latency.Seconds(), Beta: 1 / c.carried(), InsideBeta: 1 / c.NetworkInside,
	}
	if bridge := float64(c.Constants.Bridge); bridge > 0 {
		l.Bridge = 1 / bridge
	}
	fastest := c.carried()
	if stream := c.stream(); stream > 0 {
		l.Stream, fastest = 1/stream, min(fastest, stream)
	}
	l.Extra = message.Seconds() * fastest
	if c.NetworkRack > 0 {
		l.Rack, l.Uplink = c.NetworkRack, l.Beta*c.NetworkOversub/float64(c.NetworkRack)
	}
	if adding > 0 {
		l.Gamma = 1 / adding
	}
	return l
}
