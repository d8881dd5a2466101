package config

import (
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/train"
)

// kept are the trajectory keys of a configuration that one worker alone has too.
var kept = []string{"model", "init", "data", "optimizer", "schedule", "batch", "batch_schedule", "side_schedule", "accumulate", "steps", "epochs", "seed",
	"until", "dropout", "precision", "loss_scale", "winograd", "train_limit", "test_limit", "augment", "validation", "unreadable", "ema", "nonfinite", "weightless"}

// Alone is the configuration with one worker, which sends nothing: the same model, batch
// and number of samples on the same device, evaluated after as many samples. ok is false
// where there is nothing to measure against it: on a real clock, where devices fail or
// differ, and where updates are not made of the workers' batches.
func (c Config) Alone() (alone Config, ok bool) {
	if c.Net != "sim" || c.DeviceSlow != "none" || c.Faults != "none" {
		return c, false
	}
	alone = Default()
	for _, k := range allKeys() {
		if k.Effect() != Trajectory || slices.Contains(kept, k.Name) {
			if err := alone.Set(k.Name, c.Get(k.Name)); err != nil {
				return c, false
			}
		}
	}
	alone.known = c.known
	alone.Mode, alone.Workers = "reduce", 1
	alone.Observe = "none"
	if alone.Steps *= c.Workers; alone.Steps > math.MaxInt32 || alone.EvalEvery > math.MaxInt32/c.Workers {
		return c, false
	}
	alone.EvalEvery *= c.Workers
	return alone, alone.Resolve() == nil && alone.Within() == c.Within()
}

// IsAlone reports whether a configuration is one worker that sends nothing and has its
// gradients as they are.
func (c Config) IsAlone() bool {
	m, err := train.Modes.Parse(c.Mode)
	return err == nil && c.Workers == 1 && c.Codec == "raw" && !(&train.Job{Mode: m}).Served()
}

// WithAlone adds to runs that compare something one worker alone, which they are measured
// against: one in each environment and for each seed, made of the first run there. Runs
// that have it, or differ in their seeds alone, stay as they are.
func WithAlone(runs []Run) []Run {
	differ, has := false, map[string]bool{}
	first := map[string][]Run{}
	var order []string
	for _, r := range runs {
		a, b := r.Config, runs[0].Config
		a.Seed, b.Seed = 1, 1
		differ = differ || a.Hash() != b.Hash()
		where := r.Config.Within()
		if has[where] = has[where] || r.Config.IsAlone(); first[where] == nil {
			order = append(order, where)
		}
		if !slices.ContainsFunc(first[where], func(o Run) bool { return o.Config.Seed == r.Config.Seed }) {
			first[where] = append(first[where], r)
		}
	}
	if !differ {
		return runs
	}
	out := slices.Clone(runs)
	for _, where := range order {
		if has[where] {
			continue
		}
		for _, r := range first[where] {
			alone, ok := r.Config.Alone()
			if !ok {
				continue
			}
			name := "workers=1"
			for _, p := range registry.SplitTop(r.Name) {
				if strings.HasPrefix(p, "seed=") || environmental(p) {
					name += "," + p
				}
			}
			out = append(out, Run{Name: name, Config: alone, Paper: r.Paper})
		}
	}
	return out
}

// environmental reports whether a part of a run's name is of a key of the environment.
func environmental(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	k, ok := findKey(name)
	return ok && k.Effect() == Environment
}
