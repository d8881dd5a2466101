package config

import (
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
)

// Place puts workers, and so many servers behind them, on virtual hosts: the host of
// each rank.
func (r *Resolved) Place(servers int) []int {
	c := r.config
	perHost := max(1, c.NetworkPerHost)
	hosts := (c.Workers + perHost - 1) / perHost
	var place []int
	for w := range c.Workers {
		place = append(place, w/perHost)
	}
	for s := range servers {
		if c.Constants.Colocate {
			place = append(place, s%hosts)
		} else {
			place = append(place, hosts+s/perHost)
		}
	}
	return place
}

// LongestWait is how long a rank of a run on a real clock waits for another that lives:
// for replicas that warm up, a straggler's steps, or the observer, who evaluates
// before it lets go on from a mark. The dead are noticed by other means.
const LongestWait = 24 * time.Hour

// NewNet makes the net of a configuration whose ranks all run in this process, so many
// of them servers. A virtual clock begins at start.
func (r *Resolved) NewNet(servers int, start time.Duration) (comm.Net, error) {
	n, err := value[Net](r, "net").New(r, servers, start)
	if err != nil {
		return nil, err
	}
	return r.Emulated(n), nil
}

// VirtualNet makes the virtual cluster of a configuration with so many servers: its net, if that is
// a virtual one that can be traced, or else the one that keys network.* say. Its clock begins at
// start.
func (r *Resolved) VirtualNet(servers int, start time.Duration) (*sim.Net, error) {
	if !r.config.OnNet().Traces {
		return cluster(r, servers, start)
	}
	n, err := value[Net](r, "net").New(r, servers, start)
	if err != nil {
		return nil, err
	}
	v, ok := n.(*sim.Net)
	if !ok {
		return nil, fmt.Errorf("net=%s claims that it can be traced, and is a %T, no *sim.Net", r.config.Net, n)
	}
	return v, nil
}

// cluster is the virtual cluster that keys network.* say.
func cluster(r *Resolved, servers int, start time.Duration) (*sim.Net, error) {
	c := r.config
	latency, message := r.delays()
	plan, err := r.Plan(servers)
	if err != nil {
		return nil, err
	}
	n := &sim.Net{Start: start, Faults: plan, Network: &sim.Fair{
		Bandwidth: carried(c), Latency: latency, Message: message,
		Place: r.Place(servers), Inside: c.NetworkInside, Bridge: float64(c.Constants.Bridge), Stream: r.stream(), Rack: c.NetworkRack, Oversubscription: c.NetworkOversub,
	}}
	if c.Constants.Model == "fifo" {
		n.Network = &sim.FIFO{Bandwidth: carried(c), Latency: latency}
	}
	return n, nil
}

// Emulated puts the ranks of a net on the real clock behind NICs, if that is asked
// for, and is the net itself otherwise.
func (r *Resolved) Emulated(n comm.Net) comm.Net {
	if !r.config.Emulate {
		return n
	}
	latency, message := r.delays()
	return &emulate.Net{Net: n, Deadline: LongestWait, NIC: emulate.NIC{Bandwidth: carried(r.config), Latency: latency, Message: message}}
}

// delays are the latency of a NIC and the cost of a message.
func (r *Resolved) delays() (latency, message time.Duration) {
	return value[time.Duration](r, "network.latency"), r.config.Constants.Message
}

// Hockney is the virtual network as the cost model of collectives sees it, where
// ranks add so many bytes a second; 0: for nothing.
func (r *Resolved) Hockney(adding float64) collective.Links {
	c := r.config
	latency, message := r.delays()
	l := collective.Links{
		Alpha: latency.Seconds(), Beta: 1 / carried(c), InsideBeta: 1 / c.NetworkInside,
	}
	if bridge := float64(c.Constants.Bridge); bridge > 0 {
		l.Bridge = 1 / bridge
	}
	fastest := carried(c)
	if stream := r.stream(); stream > 0 {
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

// carried is what a NIC carries of payloads, bytes a second.
func carried(c Config) float64 { return c.NetworkBandwidth * c.Constants.Share }

// stream is the most that a stream between hosts carries, bytes a second; 0: as much as
// the NICs. Where ranks sum gradients themselves it is also what software of a process
// moves: each has one stream at a time there.
func (r *Resolved) stream() float64 {
	c := r.config
	least, limit := float64(c.Constants.Stream), float64(c.Constants.Reduce)
	if gather := float64(c.Constants.Gather); limit != gather && r.gathers() {
		limit = gather
	}
	if limit > 0 && traits(r.mode()).Sums && (least == 0 || limit < least) {
		least = limit
	}
	return least
}

// gathers says whether ranks gather payloads, of all tensors or of matrices, instead
// of summing on the way.
func (r *Resolved) gathers() bool {
	if traits(r.mode()).Gathers {
		return true
	}
	f := value[compress.Family](r, "codec")
	if compress.Plain(f) {
		return false
	}
	_, road, err := compress.NewExchange(f, compress.Block{Name: "x", Role: "weight", Rows: 64, Cols: 64, World: max(2, r.config.Workers), Peer: -1, Seed: 1})
	return err == nil && road == compress.RoadGather
}
