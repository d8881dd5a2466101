package config

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

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
func (r *Resolved) Idle(j *train.Job) []string {
	c := r.config
	var out []string
	for _, u := range r.idle(j) {
		var said []string
		for _, k := range u.keys {
			if k == "transport" && c.Transport == hardware.Unknown { // which nobody need have said
				continue
			}
			text := k + "=" + c.Show(k)
			if u.option != "" {
				text = "option " + u.option + " of " + text
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
		out = append(out, fmt.Sprintf("%s %s no effect %s", listed(said), verb, u.where))
	}
	out = append(out, twice(j)...)
	out = append(out, forNone(c, "optimizer", j.Optimizer, j)...)
	if j.Heeds("outer") {
		out = append(out, forNone(c, "outer", j.Outer, j)...)
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
func forNone(c Config, key string, rule sgd.Optimizer, j *train.Job) (out []string) {
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

func (r *Resolved) idle(j *train.Job) []unheeded {
	c := r.config
	def, laid := Default(), sync.OnceValue(func() Config { return laidOn(c) })
	by := map[string][]string{}
	var order []string
	for _, k := range Keys() {
		if c.Get(k.Name) == def.Get(k.Name) {
			continue
		}
		where := withoutEffect(c, k, j)
		if where == "" || !isSheet(k.Name) && c.Get(k.Name) == laid().Get(k.Name) {
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
	if r.MaxRestarts() > 0 && c.OnNet().Ranks != RanksLaunched {
		out = append(out, unheeded{[]string{"elastic"}, "on net=" + c.Net, "max_restarts"})
	}
	return out
}

// laidOn is what the sheets of a configuration make of the defaults: nobody set what they say. What
// sheets say that cannot be read any more is as the configuration has it.
func laidOn(c Config) Config {
	laid := Default()
	for _, kind := range []string{hardware.Transport, hardware.Node, hardware.Device, hardware.Cluster} {
		if err := laid.Set(kind, c.Get(kind)); err != nil {
			return c
		}
	}
	return laid
}

// withoutEffect says where a key that is set is not heeded, such as in a mode; empty: it is.
func withoutEffect(c Config, k Key, j *train.Job) string {
	switch on := k.tag.Get("on"); {
	case on == "launched" && c.OnNet().Ranks != RanksLaunched, on == "virtual" && !c.OnNet().Virtual && !c.Emulate:
		return "on net=" + c.Net
	case k.Name == "node" && c.NetworkPerHost == 1 && c.Constants.Stream == 0:
		return "with network.per_host=1"
	case k.Name == "ema" && c.Weightless:
		return "with weightless=true"
	case slices.Contains(train.Choices(), k.Name) && !j.Heeds(k.Name):
		return "in mode " + train.Modes.Name(j.Mode)
	}
	return ""
}

// effective is the configuration with every setting, and every option, that has no effect
// at its default.
func (r *Resolved) effective(j *train.Job) Config {
	c, def := r.config, reflect.ValueOf(Default())
	v := reflect.ValueOf(&c).Elem()
	for _, u := range r.idle(j) {
		if u.option != "" { // max_restarts
			e := r.elasticity()
			e.MaxRestarts = 0
			c.Elastic = Elasticities.Spec(e)
			continue
		}
		for _, name := range u.keys {
			k, _ := findKey(name)
			v.Field(k.field).Set(def.Field(k.field))
		}
	}
	return c
}
