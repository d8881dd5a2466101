package config

import (
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// option sets an option inside spec text.
func option[T any](t *registry.Table[T]) func(text, option, value string) (string, error) {
	return func(text, option, value string) (string, error) {
		v, err := t.Parse(text)
		if err == nil {
			v, err = t.With(v, option, value)
		}
		if err != nil {
			return text, err
		}
		return t.Spec(v), nil
	}
}

// options holds option for the keys whose specs have options to set.
var options = map[string]func(text, option, value string) (string, error){
	"model":          option(nn.Models),
	"optimizer":      option(sgd.Optimizers),
	"schedule":       option(lrschedule.Specs),
	"batch_schedule": option(lrschedule.Batches),
	"side_schedule":  option(lrschedule.Sides),
	"codec":          option(compress.Families),
	"down_codec":     option(compress.Families),
	"mode":           option(train.Modes),
	"policy":         option(staleness.Policies),
	"corrector":      option(staleness.Correctors),
	"topology":       option(collective.Topologies),
	"graph":          option(collective.Graphs),
	"outer":          option(sgd.Optimizers),
	"placement":      option(ps.Placements),
	"device.law":     option(timing.Laws),
	"elastic":        option(Elasticities),
	"ema":            option(Averages),
	constantsKey:     option(Ideal),
}

// SetPath is Set for a key, or for an option inside the spec text of one:
// schedule.lr is option lr of whatever schedule there is, codec.keep option keep of
// the codec or of one inside it. It gives the key that was changed.
func (c *Config) SetPath(path, value string) (key string, err error) {
	path = strings.ToLower(strings.TrimSpace(path))
	if _, ok := findKey(path); ok {
		return path, c.Set(path, value)
	}
	for i := range path { // the longest key first: device.law.sigma
		at := len(path) - 1 - i
		if path[at] != '.' {
			continue
		}
		key, name := path[:at], path[at+1:]
		set := options[key]
		if set == nil {
			continue
		}
		text, err := set(c.Get(key), name, value)
		if err != nil {
			return key, fmt.Errorf("%s: %w", path, err)
		}
		return key, c.Set(key, text)
	}
	return "", fmt.Errorf("%q is neither a key nor an option of one, such as schedule.lr, codec.keep or optimizer.beta; %w", path, UnknownKey(path))
}
