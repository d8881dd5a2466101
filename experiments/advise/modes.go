package advise

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
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
		if err := try(&r); err == nil {
			out = append(out, r)
		}
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
	for _, name := range q.claimed() {
		add(name, "", q.Servers[len(q.Servers)-1], nil)
	}
	for _, s := range q.Servers {
		add("server", "asp", s, nil)
		if b := spare(c.Workers); b > 0 {
			add("server", fmt.Sprintf("backup(b=%d)", b), s, nil)
		}
	}
	return out
}

// listed are modes whose options modes chooses, or that codecs and policies stand for.
var listed = []string{"localsgd", "dpsgd", "adpsgd", "sgp", "server"}

// claimed are the other modes there are, those from outside this module too: all that run
// without weights, by what they claim, and do more than sum gradients.
func (q *Question) claimed() (names []string) {
	for _, name := range train.Modes.Names() {
		m, err := train.Modes.Parse(name)
		if err != nil || slices.Contains(listed, name) {
			continue
		}
		t := m.Traits(&train.Job{Mode: m, Workers: q.Base.Workers, Servers: 1, Policy: staleness.BSP{}})
		if t.Weightless && !t.Sums && !t.SharedMemory {
			names = append(names, name)
		}
	}
	return names
}

// try sets what a mode says must be set for it to be tried.
func try(c *config.Config) error {
	m, err := train.Modes.Parse(c.Mode)
	if err != nil {
		return err
	}
	t := m.Traits(&train.Job{Mode: m, Workers: c.Workers, Servers: 1, Policy: staleness.BSP{}})
	for _, kv := range strings.Fields(t.Try) {
		key, value, _ := strings.Cut(kv, "=")
		if err := c.Set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// simulated is the time in which every worker makes a gradient, by the virtual cluster,
// and the bytes a worker sends for it: of modes without a price. Where there are many
// workers it is that of few, as nobody waits for all.
func (q *Question) simulated(ctx context.Context, c config.Config) (seconds, sent float64, err error) {
	c = ask.Smaller(c)
	j, err := c.Build(q.Places, nil)
	if err != nil {
		return 0, 0, err
	}
	const warm, steps = 4, 12 // of every worker
	each := float64(c.Workers) / float64(j.PerUpdate())
	c.Steps = max(2, int(math.Ceil((warm+steps)*each)))
	m, err := ask.Measure(ctx, c, ask.Watch{Places: q.Places})
	if err != nil {
		return 0, 0, err
	}
	rate := m.Rate(max(1, int(warm*each)), 1)
	return each / rate, float64(m.BytesUp) * each / float64(c.Steps) / float64(c.Workers), nil
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
func (p *pricer) other(ctx context.Context, c config.Config) (seconds, sent float64, err error) {
	way := wayOf(c)
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
	if err != nil {
		return 0, 0, err
	}
	if !ok {
		return p.q.simulated(ctx, c)
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
