package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// What a configuration says and its run does not heed is noted before the run
// begins. Two runs of one recipe that differ in nothing else are refused.

// Idle says which settings of a resolved configuration have no effect on its job,
// and why: a line for each reason, none if all have one. Keys at their defaults
// are not settings.
func (c Config) Idle(j *train.Job) []string {
	var out []string
	for _, r := range c.idle(j) {
		var said []string
		for _, k := range r.keys {
			if k == "transport" && c.Transport == hardware.Unknown { // which nobody need have said
				continue
			}
			text := k + "=" + c.Show(k)
			if r.option != "" {
				text = "option " + r.option + " of " + text
			}
			said = append(said, text)
		}
		if said == nil {
			continue
		}
		verb := "has"
		if len(said) > 1 {
			verb = "have"
		}
		out = append(out, fmt.Sprintf("%s %s no effect %s", listed(said), verb, r.where))
	}
	out = append(out, twice(j)...)
	out = append(out, c.forNone("optimizer", j.Optimizer, j)...)
	if j.Heeds("outer") {
		out = append(out, c.forNone("outer", j.Outer, j)...)
	}
	if n, have := j.Samples(), j.Data.Train.Len(); !c.Weightless && n > have {
		out = append(out, fmt.Sprintf("an update takes %d samples, and the training set has %d: it sees some of them more than once", n, have))
	}
	if c.EvalEvery > j.Updates {
		out = append(out, fmt.Sprintf("eval_every=%d is beyond the last of %d updates: only the end is evaluated", c.EvalEvery, j.Updates))
	}
	return out
}

// twice says where momentum would be applied twice: in the codec, and by the rule
// that gets what the codec sent. Where workers step by themselves and pseudo-gradients
// are sent (localsgd), that rule is outer.
func twice(j *train.Job) []string {
	key, rule := "optimizer", j.Optimizer
	if j.Heeds("outer") {
		key, rule = "outer", j.Outer
	}
	if rule == nil || !compress.HasMomentum(j.Codec) || !sgd.HasMomentum(rule) {
		return nil
	}
	return []string{fmt.Sprintf("momentum is applied twice: codec %s has its own, and so has %s=%s; use %s=sgd, or the codec without momentum", compress.Spec(j.Codec), key, sgd.Optimizers.Spec(rule), key)}
}

// forNone says which parts of an update rule are for no tensor of the model.
func (c Config) forNone(key string, rule sgd.Optimizer, j *train.Job) (out []string) {
	for _, p := range sgd.Optimizers.Parts(rule) {
		if o, ok := p.(sgd.Selective); ok && !slices.ContainsFunc(j.Model.Layout().Spans, o.Takes) {
			out = append(out, fmt.Sprintf("no tensor of model=%s is for the part %s of %s", c.Model, sgd.Optimizers.Spec(p), key))
		}
	}
	return out
}

// unheeded is settings without effect for one reason.
type unheeded struct {
	keys   []string
	where  string // "in mode reduce"
	option string // the one of the key's options that has no effect; empty: none has
}

func (c Config) idle(j *train.Job) []unheeded {
	def := Default()
	by := map[string][]string{}
	var order []string
	for _, k := range Keys() {
		if c.Get(k.Name) == def.Get(k.Name) || (c.Cluster != "none" || c.Transport != idealTransport || c.Node != "none") && (strings.HasPrefix(k.Name, "device.") || strings.HasPrefix(k.Name, "network.") || k.Name == constantsKey) {
			continue
		}
		where := c.withoutEffect(k, j)
		if where == "" {
			continue
		}
		if by[where] == nil {
			order = append(order, where)
		}
		by[where] = append(by[where], k.Name)
	}
	var out []unheeded
	for _, where := range order {
		out = append(out, unheeded{by[where], where, ""})
	}
	if c.MaxRestarts() > 0 && c.Net != "grpc" {
		out = append(out, unheeded{[]string{"elastic"}, "on net=" + c.Net, "max_restarts"})
	}
	return out
}

// withoutEffect says where a key that is set is not heeded, such as in a mode; empty: it is.
func (c Config) withoutEffect(k Key, j *train.Job) string {
	switch on := k.tag.Get("on"); {
	case on == "grpc" && c.Net != "grpc", on == "virtual" && c.Net != "sim" && !c.Emulate:
		return "on net=" + c.Net
	case k.Name == "node" && c.NetworkPerHost == 1 && c.Constants.Stream == 0:
		return "with network.per_host=1"
	case k.Name == "ema" && c.Weightless:
		return "with weightless=true"
	case slices.Contains(train.Choices(), k.Name) && !j.Heeds(k.Name):
		over := *j
		over.Overlap = true
		if over.Heeds(k.Name) {
			return "without overlap=true"
		}
		return "in mode " + train.Modes.Name(j.Mode)
	}
	return ""
}

// effective is the configuration with every setting, and every option, that has no effect
// at its default.
func (c Config) effective(j *train.Job) Config {
	def := reflect.ValueOf(Default())
	v := reflect.ValueOf(&c).Elem()
	for _, r := range c.idle(j) {
		if r.option != "" { // max_restarts
			e := c.elasticity()
			e.MaxRestarts = 0
			c.Elastic = Elasticities.Spec(e)
			continue
		}
		for _, name := range r.keys {
			k, _ := findKey(name)
			v.Field(k.field).Set(def.Field(k.field))
		}
	}
	return c
}

// checkSame refuses runs that would be the same under two names.
type checkSame struct {
	first map[Config]Run
}

func (s *checkSame) add(r Run, j *train.Job) error {
	if s.first == nil {
		s.first = map[Config]Run{}
	}
	e := r.Config.effective(j)
	was, ok := s.first[e]
	if !ok {
		s.first[e] = r
		return nil
	}
	var keys, where []string
	for _, u := range slices.Concat(r.Config.idle(j), was.Config.idle(j)) {
		for _, k := range u.keys {
			if r.Config.Get(k) != was.Config.Get(k) && !slices.Contains(keys, k) {
				keys, where = append(keys, k), append(where, u.where)
			}
		}
	}
	if len(keys) == 0 {
		return nil // the same configuration twice: repeats, which are numbered
	}
	slices.Sort(where)
	has := "has"
	if len(keys) > 1 {
		has = "have"
	}
	return fmt.Errorf("runs %q and %q would be the same: they differ in %s only, which %s no effect %s", was.Name, r.Name, listed(keys), has, listed(slices.Compact(where)))
}

// listed joins words as prose does.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
