package config

import (
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/experiments/hardware"
)

// knowledge is what a cluster's file says beside its keys: how well these are known, and
// speeds on single networks. A configuration holds it in memory alone: what a run keeps
// are keys, so it needs no file of others. Files of the same content give the same known,
// and configurations stay comparable.
type knowledge struct {
	values map[string]string // of the keys, as the file set them
	of     *hardware.Sheet
}

var allKnown sync.Map // by content

// knownOf is what a cluster says beside its keys, nil if that is nothing.
func knownOf(cl *hardware.Sheet) (*knowledge, error) {
	if len(cl.Spread()) == 0 && len(cl.Speeds) == 0 {
		return nil, nil
	}
	k := &knowledge{values: map[string]string{}, of: cl}
	as := Default()
	if err := as.apply(cl); err != nil {
		return nil, err
	}
	for _, p := range cl.Spread() {
		if _, ok := findSetting(p.Key); !ok {
			return nil, fmt.Errorf("line %d: %w", p.Line, UnknownKey(p.Key))
		}
		k.values[p.Key] = as.Get(p.Key)
	}
	k.values["device.flops"] = as.Get("device.flops")
	kept, _ := allKnown.LoadOrStore(fmt.Sprint(cl.Keys, cl.Speeds, cl.Site), k)
	return kept.(*knowledge), nil
}

// knows is how well the configuration's keys are known by its cluster. Those that were
// changed since are as well known as the transport's.
func (c Config) knows() (keys []hardware.Parameter, site float64) {
	if c.known == nil {
		return nil, 0
	}
	for _, p := range c.known.of.Spread() {
		if c.Get(p.Key) == c.known.values[p.Key] {
			keys = append(keys, p)
		}
	}
	return keys, c.known.of.Site
}

// speed takes over what the cluster knows of its devices on the network that is timed.
func (c *Config) speed() {
	if c.known == nil || c.Get("device.flops") != c.known.values["device.flops"] {
		return
	}
	p, err := ProfileOf(c.Timing)
	if err != nil {
		return
	}
	if s, ok := c.known.of.Speeds[p.Name]; ok {
		c.DeviceFLOPS = s
	}
}
