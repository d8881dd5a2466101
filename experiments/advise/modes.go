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
	"github.com/gradlab/gradlab/sgd/train/mean"
	"github.com/gradlab/gradlab/staleness"
)

// modes are ways to train that are not one mean gradient of all workers an update.
// A step is then one gradient of every worker.
func (q *Question) modes() (out []config.Config) {
	c := q.Base
	c.Codec, c.Overlap = "raw", "none"
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
		add("localsgd(h=30,lr=0.7)", "", 0, func(r *config.Config) {
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
			add("server", backup(b), s, nil)
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

// mostFrames is how many messages the virtual cluster moves for the step of a mode: within
// a second, where they meet at servers.
const mostFrames = 4_100

// simulated is the time in which every worker makes a gradient, by the virtual cluster,
// and the bytes a worker sends for it. Where workers are too many it is that of few, with
// the same share of servers.
func (q *Question) simulated(ctx context.Context, c config.Config) (seconds, sent float64, err error) {
	const warm, steps = 4, 12 // of every worker
	if c.Workers*max(1, c.Servers)*(warm+steps) > mostFrames {
		late := spare(c.Workers)
		if c = ask.Smaller(c); c.Policy == backup(late) {
			c.Policy = backup(max(1, spare(c.Workers)))
		}
	}
	of, err := c.Resolve()
	if err != nil {
		return 0, 0, err
	}
	j, err := of.Build(q.Places, nil)
	if err != nil {
		return 0, 0, err
	}
	each := float64(c.Workers) / float64(j.PerUpdate())
	c.Steps = max(2, int(math.Ceil((warm+steps)*each)))
	m, err := ask.Measure(ctx, c, ask.Watch{Places: q.Places})
	if err != nil {
		return 0, 0, err
	}
	rate := m.Rate(max(1, int(warm*each)), 1)
	return each / rate, float64(m.BytesUp) * each / float64(c.Steps) / float64(c.Workers), nil
}

// backup is the policy that leaves out the last b workers of an update.
func backup(b int) string { return config.Canonical("policy", fmt.Sprintf("backup(b=%d)", b)) }

// spare is how many backup workers are considered: one in 25, as Chen et al. 2016
// found for 100, and at least one of four or more.
func spare(workers int) int {
	if workers < 4 {
		return 0
	}
	return max(1, workers/25)
}

// other is the time of a step of a mode that modes lists, and the bytes a worker
// sends in it. Local steps are a sum, as their exchange is one all-reduce with nothing
// beside it; all else is simulated.
func (p *pricer) other(ctx context.Context, c config.Config) (seconds, sent float64, err error) {
	m, err := train.Modes.Parse(c.Mode)
	if err != nil {
		return 0, 0, err
	}
	local, ok := m.(mean.LocalSGD)
	if !ok {
		return p.q.simulated(ctx, c)
	}
	blocks, err := p.of("raw")
	if err != nil {
		return 0, 0, err
	}
	took, sent := p.exchange(c.Topology, blocks)
	return 3*p.pass.slowest() + took/float64(local.H), sent / float64(local.H), nil
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
