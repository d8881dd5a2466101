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
	"strings"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train/record"
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
	Cluster    string        // the known cluster, or the file, that the keys name; empty: none
	Target     float64       // accuracy that runs of the user's are asked about; 0: each run's own

	said  map[string]bool // keys that are given
	drawn *plans          // of draws, which differ in links alone; nil elsewhere
}

// Said reports whether the question gives a key.
func (q *Question) Said(key string) bool { return q.said[key] }

// asked are the keys that a question may give, beside device.*, network.* and constants.*.
var asked = []string{"timing", "workers", "batch", "cluster", "transport", "node", "device", "codec", "topology", "target"}

// example is a question.
const example = "timing=resnet50 workers=16 network.bandwidth=10Gbps network.latency=30us device=v100"

// Codecs are what is tried: of fixed size, without a codec among them.
var Codecs = []string{
	"raw", "bf16", "intsum(bits=8)", "qsgd(bits=4)", "feedback(sign)", "feedback(onebit)", "eden(bits=1)",
	"feedback(topk(keep=0.01,index=raw32))", "feedback(topk(keep=0.001,index=raw32))", "feedback(randomk(keep=0.01))", "feedback(powersgd(rank=4))",
}

// Ask makes a question of keys as of a run, such as timing=resnet50, workers=16,
// network.bandwidth=10Gbps and device=v100: the network and the number of devices are
// wanted. Several codecs, or topologies, are those to consider; with codecs, modes are
// left out. A transport that is not named is hardware.Unknown, the middle of those that
// were measured, unless there is a cluster; so is a node, of several devices. What is not
// said is as in config.Default, at 64 samples a device.
func Ask(keys []string) (*Question, error) {
	q := &Question{Codecs: slices.Clone(Codecs), Modes: true, said: map[string]bool{}}
	var own []string
	model := ""
	for _, k := range keys {
		key, text, ok := strings.Cut(k, "=")
		if key = strings.ToLower(strings.TrimSpace(key)); !ok {
			return nil, fmt.Errorf("%q is not key=value, as in %s", k, example)
		}
		if q.said[key] {
			return nil, fmt.Errorf("key %q is given twice", key)
		}
		q.said[key] = true
		if err := follows(key); err != nil {
			return nil, err
		}
		switch key {
		case "codec", "topology":
			values, err := config.Values(text)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", key, err)
			}
			if key == "topology" {
				q.Topologies = values
				continue
			}
			q.Modes = false
			q.Codecs = append([]string{"raw"}, slices.DeleteFunc(values, func(s string) bool { return s == "raw" })...)
			continue
		case "timing":
			model = text
		case "cluster":
			q.Cluster = text
		}
		own = append(own, k)
	}
	if model == "" || !q.said["workers"] {
		return nil, fmt.Errorf("say which network and how many devices there are, as in %s", example)
	}
	var err error
	if q.Profile, err = config.ProfileOf(model); err != nil {
		return nil, fmt.Errorf("key \"timing\": %w", err)
	}
	if !q.said["node"] && q.Cluster == "" {
		own = append(own, "node="+hardware.Unknown)
	}
	return q, q.describe(own)
}

// follows refuses keys that predictions know nothing of.
func follows(key string) error {
	of, _, dotted := strings.Cut(key, ".")
	known := func(k config.Key) bool { return k.Name == key }
	switch {
	case slices.Contains(asked, key) || dotted && slices.Contains([]string{"device", "network", "constants"}, of):
		return nil
	case key == "model":
		return fmt.Errorf("key %q: nothing is trained; the network that is asked about is timing=resnet50 (gradlab list profiles), timing=./layers.yaml or timing=runs/…, the model of a run", key)
	case slices.ContainsFunc(config.Keys(), known):
		return fmt.Errorf("key %q: predictions do not follow it; there are %s, device.*, network.* and constants.*", key, strings.Join(asked, ", "))
	}
	return config.UnknownKey(key)
}

// describe takes up the keys of the cluster and the network.
func (q *Question) describe(keys []string) error {
	r, err := config.ParseRecipe("advise", "", []byte("net: sim\nmode: reduce\nweightless: true\nbatch: 64\nsteps: 6\n"))
	if err != nil {
		return err
	}
	runs, err := r.Runs(keys, false)
	if err != nil {
		return err
	}
	if len(runs) != 1 {
		return fmt.Errorf("%d clusters at once; give each key one value, but for codec and topology", len(runs))
	}
	q.Base = runs[0].Config
	c := &q.Base
	if err := q.devices(); err != nil {
		return err
	}
	if c.NetworkPerHost == 1 && !q.said["node"] {
		if err := c.Set("node", "none"); err != nil {
			return err
		}
	}
	if of := c.Target.Metric; c.Target.OfBest || of.Name != "" && of != sgd.Accuracy || c.Metric != sgd.First && c.Metric != sgd.Accuracy.Name {
		return fmt.Errorf("key \"target\": runs are asked about an accuracy such as target=0.9, not %s with metric=%s", c.Target, c.Metric)
	}
	q.Target, c.Target = c.Target.Value, record.Goal{}
	q.Nodes = c.Workers / c.NetworkPerHost
	switch {
	case c.Workers < 2:
		return fmt.Errorf("key \"workers\": one device has nobody to talk to; there is nothing to advise")
	case c.Workers%c.NetworkPerHost != 0:
		return fmt.Errorf("key \"workers\": %d devices do not fill hosts of network.per_host=%d; want a multiple", c.Workers, c.NetworkPerHost)
	case q.Nodes > 4096:
		return fmt.Errorf("key \"workers\": %d hosts; want at most 4096", q.Nodes)
	}
	if q.Topologies == nil {
		q.Topologies = []string{"ring", "halving", "doubling", "tree", "double_tree"}
		if c.NetworkPerHost > 1 {
			q.Topologies = append(q.Topologies, "leaders")
		}
	}
	q.Buckets = []int{0, 1 << 20, 4 << 20, 25 << 20, 64 << 20}
	for s := 1; s <= q.Nodes; s *= 2 {
		q.Servers = append(q.Servers, s)
	}
	if !slices.Contains(q.Servers, q.Nodes) {
		q.Servers = append(q.Servers, q.Nodes)
	}
	return nil
}

// devices refuses a question that does not say how fast its devices train.
func (q *Question) devices() error {
	if q.said["device"] || q.said["device.flops"] {
		return nil
	}
	if q.Cluster != "" {
		s, err := hardware.Load(hardware.Cluster, q.Cluster)
		if err != nil {
			return err
		}
		_, speed := s.Speeds[q.Profile.Name]
		if speed || slices.ContainsFunc(s.Sets(), func(p hardware.Parameter) bool { return p.Key == "device" || p.Key == "device.flops" }) {
			return nil
		}
	}
	return errors.New("say how fast a device trains: device=v100 (gradlab list devices), or device.flops=12T, the operations a second that it trains at, not those of a data sheet")
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
