package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/staleness"
)

// Effect is what a key can change. It is part of the key's tag in Config.
type Effect string

// Every key has one of these.
const (
	// Observed keys change what a run tells of itself: neither what it learns nor
	// how long that takes. They are no part of a configuration's identity.
	Observed Effect = "observed"
	// Environment keys say where a run is made: network, devices, clock. They are
	// given, not chosen, so only runs of one environment compete.
	Environment Effect = "environment"
	// Trajectory keys are what one chooses: what is trained, and how.
	Trajectory Effect = "trajectory"
)

// Effect is what the key can change.
func (k Key) Effect() Effect { return Effect(k.tag.Get("effect")) }

// Observes reports whether a key of that name only observes.
func Observes(name string) bool {
	k, ok := findKey(name)
	return ok && k.Effect() == Observed
}

// Values of key until: a run ends with its last step, at its target, or on a plateau.
const (
	UntilEnd     = "end"
	UntilTarget  = "target"
	UntilPlateau = "plateau"
)

// Plateau is how many evaluations in a row without a new best one end a run with
// until=plateau.
const Plateau = 5

// IsSettled reports whether a run with these evaluations ends with the last of them: by
// until=plateau. goal is by what they are compared.
func (c Config) IsSettled(goal record.Goal, evals []record.Eval) bool {
	return c.Until == UntilPlateau && len(evals)-1-max(0, goal.Best(evals)) >= Plateau
}

// Effect is what a key can change in this configuration: with until=target and
// until=plateau, the keys that say where the run ends are chosen, too.
func (c Config) Effect(k Key) Effect {
	switch {
	case c.Until == UntilTarget && k.Name == "target", c.Until != UntilEnd && (k.Name == "metric" || k.Name == "eval_every"):
		return Trajectory
	}
	return k.Effect()
}

// Observes reports whether a key of that name only observes in this configuration.
func (c Config) Observes(name string) bool {
	k, ok := findKey(name)
	return ok && c.Effect(k) == Observed
}

// Hash identifies the configuration by the keys that differ from their
// defaults, so that a key added later leaves the hashes of earlier runs alone.
// Observed keys are no part of it: with another target it is the same.
func (c Config) Hash() string {
	return c.hash(func(k Key) bool { return c.Effect(k) != Observed })
}

// Within is the configuration's environment: the same for two that differ in
// other keys alone.
func (c Config) Within() string {
	return c.hash(func(k Key) bool { return k.Effect() == Environment })
}

// hash is that of the keys that count and differ from their defaults.
func (c Config) hash(counts func(Key) bool) string {
	var b strings.Builder
	v, def := reflect.ValueOf(c), Default()
	for _, k := range allKeys() {
		text, usual := formatValue(v.Field(k.field)), def.Get(k.Name)
		if k.Name == "device.codec" && !c.OnNet().Virtual { // on a real clock it says nothing
			continue
		}
		if counts(k) && text != usual {
			fmt.Fprintf(&b, "%s=%q\n", k.Name, text)
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:6])
}

// everyKey is the hash of observed keys too: ranks of a run have to agree in all of them.
func (c Config) everyKey() string { return c.hash(func(Key) bool { return true }) }

// Tells reports whether the record of a run of c has everything in it that one of
// o would: the traces and measures that o asks for, and its evaluations. A
// target, of any metric, is looked up in the evaluations that there are.
func (c Config) Tells(o Config) bool {
	more, _ := parseObserved(o.Observe)
	all, _ := parseObserved(c.Observe)
	return !slices.ContainsFunc(more, func(word string) bool { return !all.has(word) }) &&
		(o.EvalEvery == 0 || c.EvalEvery > 0 && o.EvalEvery%c.EvalEvery == 0)
}

// Trajectory names what a configuration learns, and what is told of that: it is
// the hash without the keys of the environment and those that only look at times.
// Runs with equal ones that are Timeless end with the same parameters and have the
// same evaluations.
func (c Config) Trajectory() string {
	m, _ := train.Modes.Parse(c.Mode)
	words, _ := parseObserved(c.Observe)
	return trajectory(c, m, words)
}

// trajectory is Config.Trajectory with the values of keys mode and observe.
func trajectory(c Config, m train.Mode, words observed) string {
	servers := m == nil || (&train.Job{Mode: m}).Served()
	c.Observe = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == Trace }).String()
	return c.hash(func(k Key) bool {
		switch k.Name {
		case "network.per_host": // topologies add in the order of nodes
			return !servers
		case "target", "metric": // runs that these end are not Timeless
			return false
		}
		return k.Effect() != Environment
	})
}

// Timeless says whether a run of the configuration learns the same whatever
// anything takes, so that its times on other networks and devices can be had
// without training again: its mode and policy claim it (train.Timeless), and
// nothing else in it looks at the virtual clock.
func (c Config) Timeless() bool {
	m, _ := train.Modes.Parse(c.Mode)
	p, _ := staleness.Policies.Parse(c.Policy)
	return timeless(c, m, p)
}

// timeless is Config.Timeless with the values of keys mode and policy, nil where they are wrong.
func timeless(c Config, m train.Mode, p staleness.Spec) bool {
	if m == nil || p == nil || !c.OnNet().Virtual || c.Weightless || c.Elastic != "none" || c.Faults != "none" || c.Until != UntilEnd { // what ends it is known from what is learned
		return false
	}
	return (&train.Job{Mode: m, Policy: p, Workers: c.Workers, Servers: c.Servers}).Timeless()
}

// Alone is the configuration with one worker, which sends nothing: the same model, batch
// and number of samples on the same device, evaluated after as many samples. ok is false
// where there is nothing to measure against it: on a real clock, where devices fail or
// differ, and where updates are not made of the workers' batches.
func (c Config) Alone() (alone Config, ok bool) {
	if !c.OnNet().Virtual || c.DeviceSlow != "none" || c.Faults != "none" {
		return c, false
	}
	alone = Default()
	for _, k := range allKeys() {
		if k.Effect() != Trajectory || k.tag.Get("alone") == "kept" {
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
	r, err := alone.Resolve()
	if err != nil {
		return c, false
	}
	return r.config, r.config.Within() == c.Within()
}

// IsAlone reports whether a configuration is one worker that sends nothing and has its
// gradients as they are.
func (c Config) IsAlone() bool {
	if c.Workers != 1 || c.Codec != "raw" {
		return false
	}
	m, err := train.Modes.Parse(c.Mode)
	return err == nil && !(&train.Job{Mode: m}).Served()
}

// Goal is what keys target and metric say, of a model with these metrics.
func (c Config) Goal(metrics []sgd.Metric) (record.Goal, error) {
	goal := c.Target
	if goal.Metric.Name == "" && c.Metric != sgd.First && len(metrics) > 0 {
		m, ok := sgd.FindMetric(metrics, c.Metric)
		if !ok {
			return record.Goal{}, fmt.Errorf("key \"metric\": %w", record.NoMetric(c.Metric, metrics))
		}
		goal.Metric = m
	}
	goal, err := goal.Among(metrics)
	if err != nil {
		return record.Goal{}, fmt.Errorf("key \"target\": %w", err)
	}
	return goal, nil
}

// Stack words the software that a simulated configuration's times are of; "" of others.
func (c Config) Stack() string {
	switch {
	case !c.OnNet().Virtual:
		return ""
	case c.Transport == idealTransport && c.Cluster != "none":
		return "with what software takes in the rates of cluster=" + c.Cluster
	case c.Transport == idealTransport:
		return "on an ideal software stack (transport=ideal)"
	}
	return "with transport=" + c.Transport + " as it is in the middle"
}

func (c Config) runID() uint64 {
	h := c.everyKey()
	var b [8]byte
	copy(b[:], h)
	return binary.LittleEndian.Uint64(b[:])
}
