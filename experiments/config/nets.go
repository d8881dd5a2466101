package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/registry"
)

// Net is where the ranks of a run are: a value of key net. Whatever depends on the net asks
// its traits, so one that is enrolled elsewhere gets as far as those here.
type Net interface {
	// Traits says what the net can do, whatever its options.
	Traits() NetTraits
	// New makes the net of a configuration with so many servers, whose ranks are all in this
	// process. A virtual clock begins at start. Nets whose ranks are processes return an error.
	New(r *Resolved, servers int, start time.Duration) (comm.Net, error)
}

// Nets holds the values of key net, by name.
var Nets = registry.New[Net]("net")

// NetTraits says what a net can do. The zero value promises least.
type NetTraits struct {
	Ranks        RankPlace // where its ranks are
	Virtual      bool      // its clock is virtual: operations, codecs and frames are billed
	Traces       bool      // it is a *sim.Net, which can be traced (observe=trace)
	SharedMemory bool      // workers can write to memory that they share
	Emulates     bool      // its ranks can be put behind emulated NICs and devices (emulate=true)
	Elastic      bool      // its hosts are [comm.Elastic]: workers can leave and join (elastic=on)
	Faults       FaultKind // which faults at instants can be carried out (faults=…)
	// Why gives by key, of emulate, elastic and faults, why the net cannot do it, and which one
	// can; without an entry it is said in general words.
	Why map[string]string
}

// RankPlace says where the ranks of a net are, and what starts them.
type RankPlace int

// Ranks are made by Net.New in this process; are processes that gradlab starts and connects by
// package grpcnet; or are processes that a launcher of MPI starts and MPI connects.
const (
	RanksHere RankPlace = iota
	RanksLaunched
	RanksLed
)

// FaultKind says which faults at instants can be carried out on a net.
type FaultKind int

// None; those of processes, which are kill, rejoin and pause; all.
const (
	FaultsNone FaultKind = iota
	FaultsOfProcesses
	FaultsAll
)

// LocalNet runs every rank as goroutines of this process.
//
// Rule: frames are handed over in memory, and time is the wall clock.
//
// Paper: none.
//
// Tuning: none.
//
// Cost: workers share the cores of this machine; no byte crosses a network.
type LocalNet struct{}

var _ = Nets.Add("local", "goroutines of this process, on the wall clock", LocalNet{})

// Traits implements Net.
func (LocalNet) Traits() NetTraits {
	return NetTraits{SharedMemory: true, Emulates: true, Elastic: true, Why: map[string]string{
		"faults": "on net=local ranks are goroutines, which can leave and join before a step and can be neither killed nor cut off; use net=sim, or net=grpc for kills and pauses",
	}}
}

// New implements Net.
func (LocalNet) New(*Resolved, int, time.Duration) (comm.Net, error) {
	return &local.Net{Deadline: LongestWait}, nil
}

// GRPCNet runs every rank as a process.
//
// Rule: processes meet and watch each other over gRPC. Frames go through shared memory on one
// machine and over TCP connections between machines, by the same ports, or by gRPC where
// neither can be had, which the log tells (key links); time is the wall clock.
//
// Paper: none.
//
// Tuning: gradlab join and gradlab launch start ranks on other machines.
//
// Cost: headers of frames, beside payloads; a process for each rank.
type GRPCNet struct{}

var _ = Nets.Add("grpc", "processes, of one machine or of many, on the wall clock", GRPCNet{})

// Traits implements Net.
func (GRPCNet) Traits() NetTraits {
	return NetTraits{Ranks: RanksLaunched, Emulates: true, Elastic: true, Faults: FaultsOfProcesses}
}

// New implements Net: there is none in one process.
func (GRPCNet) New(r *Resolved, _ int, _ time.Duration) (comm.Net, error) { return nil, elsewhere(r) }

// MPINet runs the processes of an MPI job as ranks.
//
// Rule: MPI carries the frames, and mpirun starts the processes; time is the wall clock.
//
// Paper: none.
//
// Tuning: for clusters whose fabric MPI knows; the program is built with cgo and tag mpi.
//
// Cost: that of the MPI library.
type MPINet struct{}

var _ = Nets.Add("mpi", "the processes of an MPI job, on the wall clock", MPINet{})

// Traits implements Net.
func (MPINet) Traits() NetTraits {
	return NetTraits{Ranks: RanksLed, Why: map[string]string{
		"faults":  "on net=mpi mpirun ends all ranks when one dies, and nothing can cut one off; use net=sim, or net=grpc for kills and pauses",
		"emulate": "what MPI carries is not emulated; use net=local or net=grpc",
		"elastic": "MPI ends all processes when one of them dies; use net=grpc",
	}}
}

// New implements Net: there is none in one process.
func (MPINet) New(r *Resolved, _ int, _ time.Duration) (comm.Net, error) { return nil, elsewhere(r) }

// SimNet runs every rank on a virtual cluster.
//
// Rule: ranks are coroutines, of which one computes at a time as far as they can tell; what
// keys device.* and network.* say gives the times of computing and of frames.
//
// Paper: max-min fair sharing of links, as SimGrid has it (Casanova et al. 2014).
//
// Tuning: keys cluster, transport and node set what was measured; weightless=true computes
// nothing, for clusters of any size.
//
// Cost: all workers' gradients are computed on this machine.
type SimNet struct{}

var _ = Nets.Add("sim", "a virtual cluster, on a virtual clock", SimNet{})

// Traits implements Net.
func (SimNet) Traits() NetTraits {
	return NetTraits{Virtual: true, Traces: true, Elastic: true, Faults: FaultsAll, Why: map[string]string{
		"emulate": "net=sim is virtual already; use net=local or net=grpc",
	}}
}

// New implements Net.
func (SimNet) New(r *Resolved, servers int, start time.Duration) (comm.Net, error) {
	n, err := cluster(r, servers, start)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// elsewhere is the error of New where ranks are processes.
func elsewhere(r *Resolved) error {
	return &Error{fmt.Errorf("key \"net\": each rank of net=%s is a process; use net=%s for ranks in one", r.config.Net,
		netsThat(func(t NetTraits) bool { return t.Ranks == RanksHere }))}
}

// OnNet returns what the net of the configuration can do; of a net that is not known, least.
func (c Config) OnNet() (t NetTraits) {
	name, _, _ := strings.Cut(c.Net, "(")
	if n, ok := Nets.Proto(name); ok {
		t = n.Traits()
	}
	return t
}

// netsThat lists the nets with a trait, as the end of "use net=".
func netsThat(has func(NetTraits) bool) string {
	var out []string
	for _, name := range Nets.Names() {
		if n, _ := Nets.Proto(name); has(n.Traits()) {
			out = append(out, name)
		}
	}
	return strings.Join(out, " or net=")
}

// refuse is the error of a key that a net cannot take, and those with the trait can.
func (t NetTraits) refuse(net, key string, has func(NetTraits) bool) error {
	if why := t.Why[key]; why != "" {
		return fmt.Errorf("key %q: %w", key, errors.New(why))
	}
	return fmt.Errorf("key %q: net=%s cannot; use net=%s", key, net, netsThat(has))
}
