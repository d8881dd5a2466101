package advise

import (
	"fmt"
	"math"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
)

// RoughBand is how far predicted steps of modes other than reduce and the server
// with a barrier may be off, nine out of ten: they are sums of a pass and of messages,
// with nothing overlapped, and have not been compared with the virtual cluster.
const RoughBand = 0.25

// modes are ways to train that are not one mean gradient of all workers an update.
// A step is then one gradient of every worker.
func (q *Question) modes() (out []config.Config) {
	c := q.Base
	c.Codec, c.Overlap, c.Bucket = "raw", false, 0
	add := func(mode, policy string, servers int, more func(*config.Config)) {
		r := c
		r.Mode = config.Canonical("mode", mode)
		if policy != "" {
			r.Policy = config.Canonical("policy", policy)
		}
		if servers > 0 {
			r.Servers, r.Placement = servers, "balanced"
		}
		if more != nil {
			more(&r)
		}
		out = append(out, r)
	}
	for _, topology := range q.Topologies {
		with := func(r *config.Config) { r.Topology = topology }
		add("localsgd(h=8)", "", 0, with)
		add("localsgd(h=32)", "", 0, with)
		add("localsgd(h=500,lr=0.7)", "", 0, func(r *config.Config) {
			with(r)
			r.Outer, r.Optimizer = config.Canonical("outer", "nesterov(beta=0.9)"), "adam"
		})
	}
	add("dpsgd", "", 0, nil)
	add("adpsgd", "", 0, nil)
	add("sgp", "", 0, func(r *config.Config) { r.Graph = "one_peer" })
	for _, s := range q.Servers {
		add("server", "asp", s, nil)
		if b := spare(c.Workers); b > 0 {
			add("server", fmt.Sprintf("backup(b=%d)", b), s, nil)
		}
	}
	return out
}

// spare is how many backup workers are considered: one in 25, as Chen et al. 2016
// found for 100, and at least one of four or more.
func spare(workers int) int {
	if workers < 4 {
		return 0
	}
	return max(1, workers/25)
}

// other is the time of a step of a mode that modes lists, and the bytes a worker
// sends in it.
func (p *pricer) other(c config.Config) (seconds, sent float64, err error) {
	way := (&Option{Config: c}).Way()
	bytes, host := 4*float64(p.job.Model.Layout().Size()), float64(c.NetworkPerHost)
	slowest, mean := 3*p.pass.slowest(), 0.0
	for _, f := range p.pass.order {
		mean += 3 * f / float64(len(p.pass.order))
	}
	message := p.alpha + bytes*math.Max(p.beta*host, p.stream) // all devices of a node send one
	switch way {
	case "dpsgd": // to both neighbours; on a ring one link each way leaves a node
		return slowest + 2*(p.alpha+bytes*p.stream), 2 * bytes, nil
	case "sgp":
		return slowest + message, bytes, nil
	case "adpsgd": // there and back, and nobody waits for the slowest
		return mean + 2*message, bytes, nil
	case "asp":
		servers := float64(c.Servers)
		busy := float64(c.Workers) * bytes / servers * p.beta * math.Min(host, servers)
		return max(mean+2*message, busy), bytes, nil
	case "backup":
		late := *p
		late.pass.order = p.pass.order[:len(p.pass.order)-spare(c.Workers)]
		return late.server(c)
	}
	m, err := train.Modes.Parse(c.Mode)
	local, ok := m.(train.LocalSGD)
	if err != nil || !ok {
		return 0, 0, fmt.Errorf("mode %s has no price", c.Mode)
	}
	blocks, err := p.of("raw")
	if err != nil {
		return 0, 0, err
	}
	took, sent := p.exchange(c.Topology, blocks)
	return slowest + took/float64(local.H), sent / float64(local.H), nil
}

// rank orders ways from the simple and safe to what asks most of who trains: no
// codec, a cast, a memory of what was left out, other codecs, spare workers, local
// steps, gossip, nobody waiting.
func (o *Option) rank() int {
	way := o.Way()
	if f, err := compress.Parse(way); err == nil {
		switch {
		case compress.Plain(f):
			return 0
		case compress.Casts(f):
			return 1
		case compress.Remembers(f):
			return 2
		}
		return 3
	}
	switch {
	case way == "backup":
		return 4
	case strings.HasPrefix(way, "localsgd"):
		return 5
	case way == "dpsgd" || way == "sgp":
		return 6
	}
	return 7
}
