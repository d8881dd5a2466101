package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// Modes lists the modes that a virtual cluster can run, in order: all that are enrolled
// but those whose workers share memory.
func Modes() (names []string) {
	for _, name := range train.Modes.Names() {
		m, _ := train.Modes.Proto(name)
		if !m.Traits(&train.Job{Mode: m}).SharedMemory {
			names = append(names, name)
		}
	}
	return names
}

// codecs are those that cases draw from: without memory, with it, and with shared draws.
var codecs = []string{"raw", "raw", "bf16", "feedback(topk(keep=0.1))", "qsgd"}

// graphs are those that cases draw from.
var graphs = []string{"ring", "complete", "one_peer", "pairs", "exponential"}

// Draw is the small run of a seed, without faults: modes take turns, the rest is drawn. What
// a mode refuses is drawn anew, a few times, and then left at what it takes.
func Draw(seed uint64, at config.Places, modes []string) (config.Config, *train.Job, error) {
	mode := modes[int(seed%uint64(len(modes)))]
	var first error
	const tries = 12
	for try := range uint64(tries) {
		k := rng.New(seed, "soak").With(try)
		c := tiny(seed)
		set := func(key, value string) { _ = c.Set(key, value) } // what is drawn is right by itself
		set("mode", mode)
		m, _ := train.Modes.Proto(mode)
		beside := m.Traits(&train.Job{Mode: m}).Try
		for _, a := range strings.Fields(beside) {
			key, value, _ := strings.Cut(a, "=")
			set(key, value)
		}
		if m.Traits(&train.Job{Mode: m}).Tree > 0 && k.IntN(9, 2) == 0 { // so that few workers have relays
			if m, err := train.Modes.With(m, "tree", "2"); err == nil {
				set("mode", train.Modes.Spec(m))
			}
		}
		set("workers", fmt.Sprint(2+k.IntN(0, 4)))
		set("servers", fmt.Sprint(1+k.IntN(1, 3)))
		if try < tries-1 {
			set("codec", codecs[k.IntN(2, len(codecs))])
			set("graph", graphs[k.IntN(3, len(graphs))])
			policies := staleness.Policies.Names()
			if k.IntN(4, 2) == 0 { // half of them decide nothing but when
				policies = []string{"bsp", "asp", "ssp"}
			}
			if try < tries/2 {
				set("policy", policies[k.IntN(5, len(policies))])
			} else if !strings.Contains(beside, "policy=") {
				set("policy", []string{"bsp", "asp"}[try%2])
			}
			set("overlap", []string{"buckets", "none"}[k.IntN(6, 2)])
			set("constants.model", []string{"fair", "fifo"}[k.IntN(7, 2)])
		}
		if k.IntN(8, 3) == 0 {
			elastic(k.With(8), &c, m)
		}
		j, err := build(c, at)
		if err == nil {
			return c, j, nil
		}
		if first == nil || try == tries-1 {
			first = err
		}
	}
	return config.Config{}, nil, fmt.Errorf("seed %d: mode %s: %w", seed, mode, first)
}

// elastic lets a run go on without workers that die, if its mode can, where all wait for all
// or where nobody does: some leave by plan, and some of these come back.
func elastic(k rng.Key, c *config.Config, m train.Mode) {
	claims := func(policy string) train.Traits {
		p, err := staleness.Policies.Parse(policy)
		if err != nil {
			p = staleness.BSP{}
		}
		return m.Traits(&train.Job{Mode: m, Policy: p, Workers: c.Workers, Servers: c.Servers})
	}
	set := func(key, value string) { _ = c.Set(key, value) }
	together, resize := claims("bsp").Elastic, train.KeepGlobal.String()
	switch {
	case claims("asp").Admits && (!together || k.IntN(6, 2) == 0):
		if !claims(c.Policy).Admits {
			set("policy", "asp")
		}
	case together:
		set("policy", "bsp")
		resize = []string{"keep_global", "scale_lr"}[k.IntN(0, 2)]
	default:
		return
	}
	set("elastic", config.Elasticities.Spec(config.Elastic{MinWorkers: 1, OnResize: resize}))
	if c.Workers > 2 && k.IntN(1, 2) == 0 {
		who, when := k.IntN(2, c.Workers), 1+k.IntN(3, 6)
		name := fmt.Sprint("w", who)
		moves := nemesis.Schedule{nemesis.Leave{Plan: nemesis.Plan{Rank: name, Before: when}}}
		if k.IntN(4, 2) == 0 {
			moves = append(moves, nemesis.Join{Plan: nemesis.Plan{Rank: name, Before: when + 1 + k.IntN(5, 4)}})
		}
		set("faults", moves.String())
	}
}

// tiny is a run that takes milliseconds, and some minutes on its own clock: a step takes
// about two seconds.
func tiny(seed uint64) config.Config {
	c := config.Default()
	for key, value := range map[string]string{
		"data": "digits", "model": "logistic", "train_limit": "64", "test_limit": "20", "epochs": "0", "steps": "12", "batch": "4",
		"eval_every": "7", "schedule": "constant(lr=0.01)", "device.codec": "free", "device.law": "lognormal(sigma=0.3)", "device.flops": "8000",
		"network.bandwidth": "100kB/s", "network.latency": "5ms", "seed": fmt.Sprint(seed%8 + 1),
	} {
		if err := c.Set(key, value); err != nil {
			panic(err) // a test sets them all
		}
	}
	return c
}

// Faults draws what befalls a run that takes so long without: up to four faults, of which
// some seeds have gentle ones alone, which change nothing but times.
func Faults(seed uint64, w nemesis.World, took time.Duration) nemesis.Schedule {
	k := rng.New(seed, "nemesis")
	gentle := k.IntN(0, 3) == 0
	var s nemesis.Schedule
	for n := range uint64(1 + k.IntN(1, 4)) {
		s = append(s, one(k.With(n), w, took, gentle))
	}
	return s
}

// returning has most of the workers that die come back, soon or late.
func returning(seed uint64, s nemesis.Schedule) nemesis.Schedule {
	k := rng.New(seed, "returning")
	for i, f := range s {
		dead, ok := f.(nemesis.Kill)
		if !ok || !strings.HasPrefix(dead.Rank, "w") || k.IntN(uint64(3*i), 4) == 0 {
			continue
		}
		after := time.Duration(k.Exp(uint64(3*i+1)) * float64(2*time.Second)).Round(time.Millisecond)
		s = append(s, nemesis.Rejoin{Rank: dead.Rank, At: dead.At + after})
	}
	return s
}

// returningFixed kills, in a third of the runs, a rank more without which the others do not go
// on. Two of three such ranks that are killed come back.
func returningFixed(seed uint64, ranks []int, w nemesis.World, s nemesis.Schedule, took time.Duration) nemesis.Schedule {
	k, fixed := rng.New(seed, "returning, fixed"), map[string]bool{}
	for _, r := range ranks {
		fixed[w.Name(r)] = true
	}
	if k.IntN(0, 3) == 0 {
		victim := ranks[k.IntN(1, len(ranks))]
		s = append(s, nemesis.Kill{Rank: w.Name(victim), At: time.Duration(k.Float64(2) * float64(took)).Round(time.Millisecond)})
	}
	for i, f := range s {
		k := k.With(uint64(i))
		if dead, ok := f.(nemesis.Kill); ok && fixed[dead.Rank] && k.IntN(0, 3) > 0 {
			after := time.Duration(k.Exp(1) * float64(2*time.Second)).Round(time.Millisecond)
			s = append(s, nemesis.Rejoin{Rank: dead.Rank, At: dead.At + after})
		}
	}
	return s
}

// every is how many steps of a worker are between checkpoints; 0, of half of the runs: there
// are none.
func every(seed uint64) int { return max(0, rng.New(seed, "checkpoints").IntN(0, 6)-2) }

// one draws a fault.
func one(k rng.Key, w nemesis.World, took time.Duration, gentle bool) nemesis.Fault {
	anybody := w.Name(k.IntN(0, w.Workers))
	if k.IntN(1, 4) == 0 {
		anybody = w.Name(k.IntN(0, w.Ranks()))
	}
	at := time.Duration(k.Float64(2) * float64(took)).Round(time.Millisecond)
	short := time.Duration(k.Float64(3) * float64(8*time.Second)).Round(time.Millisecond)
	long := 10*time.Second + short
	if gentle || k.IntN(4, 2) == 0 {
		long = short
	}
	links := nemesis.Links{At: at, For: time.Duration(k.Exp(5) * float64(took) / 4).Round(time.Millisecond)}
	if k.IntN(6, 2) == 0 {
		links.From = []string{anybody}
	} else if k.IntN(6, 3) == 0 {
		links.To = []string{anybody}
	}
	kinds := []string{"pause", "partition", "loss", "duplicate", "reorder", "delay", "slow", "resend", "kill", "kill"}
	if gentle {
		kinds = kinds[:8]
	}
	switch kinds[k.IntN(7, len(kinds))] {
	case "pause":
		return nemesis.Pause{Rank: anybody, At: at, For: max(long, time.Millisecond)}
	case "partition":
		p := nemesis.Partition{Of: []string{anybody}, OneWay: k.IntN(8, 2) == 0, At: at, For: max(long, time.Millisecond)}
		if k.IntN(9, 2) == 0 {
			p.From = []string{w.Name(k.IntN(10, w.Ranks()))}
		}
		if slices.Equal(p.Of, p.From) {
			p.From = nil
		}
		return p
	case "loss":
		return nemesis.Loss{Share: 0.3 * k.Float64(8), Links: links}
	case "duplicate":
		return nemesis.Duplicate{Share: 0.5 * k.Float64(8), Links: links}
	case "reorder":
		return nemesis.Reorder{Share: 0.5 * k.Float64(8), By: 20 * time.Millisecond, Links: links}
	case "delay":
		return nemesis.Delay{By: time.Duration(k.Float64(8) * 5e8).Round(time.Millisecond), Jitter: 50 * time.Millisecond, Links: links}
	case "slow":
		return nemesis.Slow{Times: 1 + float64(k.IntN(8, 20)), Links: links}
	case "resend":
		return nemesis.Resend{Share: 0.5 * k.Float64(8), Links: nemesis.Links{At: links.At, For: links.For}}
	}
	return nemesis.Kill{Rank: anybody, At: at}
}
