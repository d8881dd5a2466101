// Package advise says how to train a known network on a described cluster:
// which codec, topology, number of servers, fusion and order of gradients make the
// shortest step, by cost models, and which reach an accuracy soonest, by what
// trainings, published and ours, have shown a way to cost in updates. It gives the
// probability that its choice pays, and says so when none does.
package advise

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/registry"
)

// Question is a network on a cluster, and what may be done about it.
type Question struct {
	Base       config.Config // the cluster and the network, without weights
	Profile    *profile.Profile
	Nodes      int
	Codecs     []string // of fixed size, raw among them
	Topologies []string
	Servers    []int         // numbers of parameter servers
	Buckets    []int         // bytes of gradient that leave together; 0: all, after the backward pass
	Modes      bool          // consider modes beside one mean gradient an update
	LeftOut    []string      // codecs that do not fit this cluster, each with its reason; Options says so
	Places     config.Places // where rates of codecs are measured and kept
	CodecTime  string        // what Options billed encoding and decoding at
	Cluster    string        // the known cluster, or the file, that the description names; empty: none

	said  map[string]bool // keys that the description gives
	drawn *plans          // of draws, which differ in links alone; nil elsewhere
}

// Said reports whether the description of the cluster gives a key.
func (q *Question) Said(key string) bool { return q.said[key] }

// names for keys in descriptions of clusters.
var short = map[string]string{
	"nic": "network.bandwidth", "bandwidth": "network.bandwidth", "latency": "network.latency",
	"per_node": "network.per_host", "inside": "network.inside", "rack": "network.rack",
	"oversubscription": "network.oversubscription", "message": "constants.message", "flops": "device.flops", "jitter": "device.law.sigma",
}

// Codecs are what is tried: of fixed size, without a codec among them.
var Codecs = []string{
	"raw", "bf16", "intsum(bits=8)", "qsgd(bits=4)", "feedback(sign)", "feedback(onebit)", "eden(bits=1)",
	"feedback(topk(keep=0.01,index=raw32))", "feedback(topk(keep=0.001,index=raw32))", "feedback(randomk(keep=0.01))", "feedback(powersgd(rank=4))",
}

// Ask makes a question of a profile's name and a description such as
// "nodes=16,nic=10Gbps,latency=30us,device=V100": nodes, per_node (devices on a
// node), nic, latency, inside (between devices of a node), device (a known one, or
// its speed: 15T), batch (per device), cluster (a known one, or a file of one's own, whose
// keys the others then change; its name alone will do), transport (how software moves bytes) and
// node (how devices of a host reach each other; without them, and without a cluster,
// hardware.Unknown, the middle of what was measured), and any key device.*, network.* or constants.*.
// What it does not say is as in config.Default, at one device a node and 64 samples.
func Ask(model, cluster string) (*Question, error) {
	spec, err := profile.Profiles.Parse(model)
	if err != nil {
		return nil, err
	}
	q := &Question{Profile: spec.Profile(), Base: config.Default(), Nodes: 1, said: map[string]bool{}}
	c := &q.Base
	c.Weightless, c.Timing, c.Net, c.Mode, c.Target, c.EvalEvery = true, profile.Profiles.Spec(spec), "sim", "reduce", 0, 0
	c.Batch, c.Steps, c.Epochs = 64, 6, 0
	for _, key := range profiles {
		if err := c.Set(key, hardware.Unknown); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	said, err := described(cluster)
	if err != nil {
		return nil, err
	}
	for _, a := range said {
		if seen[a.name] {
			return nil, fmt.Errorf("cluster: %s is given twice", a.name)
		}
		seen[a.name] = true
		if err := q.assign(a.name, a.value); err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
	}
	if !seen["nodes"] {
		example := "nodes=16,nic=10Gbps,latency=30us,device=v100"
		if q.Cluster != "" {
			example = q.Cluster + ",nodes=16"
		}
		return nil, fmt.Errorf("cluster: say how many nodes there are, as in %s", example)
	}
	if c.NetworkPerHost == 1 && !seen["node"] {
		if err := c.Set("node", "none"); err != nil {
			return nil, err
		}
	}
	c.Workers = q.Nodes * c.NetworkPerHost
	if c.Workers < 2 {
		return nil, errors.New("cluster: one device has nobody to talk to; there is nothing to advise")
	}
	q.Codecs, q.Modes = slices.Clone(Codecs), true
	q.Topologies = []string{"ring", "halving", "doubling", "tree", "double_tree"}
	if c.NetworkPerHost > 1 {
		q.Topologies = append(q.Topologies, "leaders")
	}
	q.Buckets = []int{0, 1 << 20, 4 << 20, 25 << 20, 64 << 20}
	for s := 1; s <= q.Nodes; s *= 2 {
		q.Servers = append(q.Servers, s)
	}
	if !slices.Contains(q.Servers, q.Nodes) {
		q.Servers = append(q.Servers, q.Nodes)
	}
	return q, nil
}

// said is what a part of a description says.
type said struct{ name, value string }

// profiles are the keys that set others, beside cluster.
var profiles = []string{"transport", "node"}

// described takes a description apart: a cluster first, which may be its name alone, then a
// transport and a node. Keys beside them change what they set.
func described(cluster string) (all []said, err error) {
	for _, part := range registry.SplitTop(cluster) {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok && (hardware.IsFile(name) || slices.Contains(hardware.Names(hardware.Cluster), name)) {
			name, value, ok = "cluster", name, true
		}
		if !ok {
			return nil, fmt.Errorf("cluster: %q is not name=value, as in nodes=16,nic=10Gbps,latency=30us,device=v100, and no cluster that is known (gradlab list clusters) or a file, ./mine.yaml", part)
		}
		all = append(all, said{strings.ToLower(name), value})
	}
	order := append([]string{"cluster"}, profiles...)
	slices.SortStableFunc(all, func(a, b said) int {
		rank := func(s said) int { return (slices.Index(order, s.name) + len(order) + 1) % (len(order) + 1) }
		return rank(a) - rank(b)
	})
	return all, nil
}

func (q *Question) assign(name, value string) error {
	c := &q.Base
	switch name {
	case "cluster":
		for _, key := range profiles { // it has its own, or was measured with it
			if err := c.Set(key, "none"); err != nil {
				return err
			}
		}
		q.Cluster = value
		return c.Set(name, value)
	case "nodes":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 4096 {
			return fmt.Errorf("nodes: want 1 to 4096, not %q", value)
		}
		q.Nodes = n
		return nil
	case "batch", "transport", "node":
		return c.Set(name, value)
	case "device":
		if slices.Contains(hardware.Names(hardware.Device), strings.ToLower(value)) {
			return c.Set("device", strings.ToLower(value))
		}
		if err := c.Set("device.flops", value); err != nil {
			return fmt.Errorf("device: no known device and no speed such as 15T: %q; %s", value, registry.Suggest(strings.ToLower(value), hardware.Names(hardware.Device)))
		}
		return nil
	}
	key := name
	if k, ok := short[name]; ok {
		key = k
	}
	if !strings.HasPrefix(key, "network.") && !strings.HasPrefix(key, "device.") && !strings.HasPrefix(key, "constants.") {
		if h := config.Hint(name); h != "" {
			return fmt.Errorf("there is no %q; %s", name, h)
		}
		all := []string{"nodes", "batch", "device", "cluster", "transport", "node"}
		for k := range short {
			all = append(all, k)
		}
		return fmt.Errorf("there is no %q; %s, and the keys device.*, network.* and constants.*", name, registry.Suggest(name, all))
	}
	q.said[key] = true
	return c.Set(key, config.Canonical(key, value))
}

// Check refuses codecs and topologies that do not exist.
func (q *Question) Check() error {
	var errs []error
	for _, c := range q.Codecs {
		if _, err := compress.Parse(c); err != nil {
			errs = append(errs, err)
		}
	}
	for _, t := range q.Topologies {
		if _, err := collective.Topologies.Parse(t); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
