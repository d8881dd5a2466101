package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

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
		if k.Name == "device.codec" && c.Net != "sim" { // on a real clock it says nothing
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
// target, of accuracy or loss, is looked up in the evaluations that there are.
func (c Config) Tells(o Config) bool {
	return c.observesAll(o) &&
		(o.EvalEvery == 0 || c.EvalEvery > 0 && o.EvalEvery%c.EvalEvery == 0)
}

// Trajectory names what a configuration learns, and what is told of that: it is
// the hash without the keys of the environment and those that only look at times.
// Runs with equal ones that are Timeless end with the same parameters and have the
// same evaluations.
func (c Config) Trajectory() string {
	servers := true
	if m, err := train.Modes.Parse(c.Mode); err == nil {
		servers = (&train.Job{Mode: m}).Served()
	}
	words, _ := parseObserved(c.Observe)
	c.Observe = slices.DeleteFunc(words, func(word string) bool { return word == Trace }).String()
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
	m, err := train.Modes.Parse(c.Mode)
	p, err2 := staleness.Policies.Parse(c.Policy)
	if err != nil || err2 != nil || c.Net != "sim" || c.Weightless || c.IsElastic() || c.Faults != "none" || c.Until != UntilEnd { // what ends it is known from what is learned
		return false
	}
	return (&train.Job{Mode: m, Policy: p, Workers: c.Workers, Servers: c.Servers}).Timeless()
}
