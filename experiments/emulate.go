package experiments

import (
	"errors"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/sgd/train"
)

// checkEmulate refuses what emulated NICs and devices do not know.
func (c *Config) checkEmulate() error {
	if !c.Emulate {
		return nil
	}
	if c.Net == "sim" {
		return errors.New("key \"emulate\": net=sim is virtual already; use net=local or net=grpc")
	}
	if m, err := train.Modes.Parse(c.Mode); err == nil && m.Traits(&train.Job{Mode: m}).SharedMemory {
		return fmt.Errorf("key \"emulate\": devices of their own share no memory, which mode %s is about; use mode adpsgd or agp", train.Modes.Name(m))
	}
	def := Default()
	for _, k := range []string{"network.stream", "network.per_host", "network.colocate", "network.rack", "network.model"} {
		if got, want := c.Get(k), def.Get(k); got != want {
			return fmt.Errorf("key %q: with emulate=true every rank is alone behind its NIC; want %s, not %s", k, want, got)
		}
	}
	return nil
}

// emulated puts the ranks of a net on the real clock behind NICs, if that is asked
// for.
func (c Config) emulated(n comm.Net) comm.Net {
	if !c.Emulate {
		return n
	}
	latency, message := c.delays()
	return &emulate.Net{Net: n, Deadline: longest, NIC: emulate.NIC{Bandwidth: c.NetworkBandwidth, Latency: latency, Message: message}}
}

// delays are the latency of a NIC and the cost of a message.
func (c Config) delays() (latency, message time.Duration) {
	latency, _ = time.ParseDuration(c.NetworkLatency)
	message, _ = time.ParseDuration(c.NetworkMessage)
	return latency, message
}
