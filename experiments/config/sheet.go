package config

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/experiments/hardware"
)

// What sheets say of a configuration comes in this order, the later over the earlier:
// defaults, transport unknown where a simulated recipe names none, the sheets of transport and node, what a cluster's sheet says beside the
// sheets that it names, the keys of a recipe, those of a command line.

// join takes over the keys of a cluster.
func (c *Config) join(name string) error {
	if name == "none" {
		return nil
	}
	s, err := hardware.Load(hardware.Cluster, name)
	if err != nil {
		return err
	}
	if err := c.apply(s); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	if c.known, err = knownOf(s); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	return nil
}

// apply sets the keys of a cluster's sheet: first those that name other sheets, then its own.
func (c *Config) apply(s *hardware.Sheet) error {
	for _, own := range []bool{false, true} {
		for _, p := range s.Sets() {
			if isSheet(p.Key) == own {
				continue
			}
			if p.Key == lawSigma { // of whatever law there was
				c.DeviceLaw = "constant"
			}
			if err := c.Set(p.Key, p.Value); err != nil {
				return fmt.Errorf("line %d: %w", p.Line, err)
			}
		}
	}
	return nil
}

// isSheet reports whether a key names a sheet.
func isSheet(key string) bool {
	return key == hardware.Cluster || key == hardware.Transport || key == hardware.Node || key == hardware.Device
}

// takeOver takes over the keys of a transport or a node that are at their defaults, or as
// the one before it set them.
func (c *Config) takeOver(kind, was, name string) error {
	def := Default()
	if was != "none" {
		if s, err := hardware.Load(kind, was); err == nil {
			for _, p := range s.Sets() {
				if c.isAs(p) {
					if err := c.Set(p.Key, def.Get(p.Key)); err != nil {
						return err
					}
				}
			}
		}
	}
	if name == "none" {
		return nil
	}
	s, err := hardware.Load(kind, name)
	if err != nil {
		return err
	}
	for _, p := range s.Sets() {
		if c.Get(p.Key) != def.Get(p.Key) {
			continue
		}
		if err := c.Set(p.Key, p.Value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// isAs reports whether a setting has the value that a sheet gives it.
func (c *Config) isAs(p hardware.Parameter) bool {
	set := Default()
	err := set.Set(p.Key, p.Value)
	return err == nil && set.Get(p.Key) == c.Get(p.Key)
}

// Said reports whether a recipe of the configuration has to name the key: without it the recipe
// would come, or could come, to another value. Transport is among them wherever an unsaid one
// is unknown.
func (c Config) Said(key string) bool {
	return c.Get(key) != Default().Get(key) || key == hardware.Transport && c.opensTransport(c.Cluster)
}

// opensTransport reports whether a configuration on a cluster, or on none, has transport
// unknown where its recipe names no transport. What software takes is in the rates of a
// known cluster's devices.
func (c Config) opensTransport(cluster string) bool {
	return c.OnNet().Virtual && (cluster == "none" || hardware.IsFile(cluster))
}

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

// speedKnown takes over what the cluster knows of its devices on the network that is timed.
func speedKnown(r *Resolved) {
	c := &r.config
	if c.known == nil || c.Get("device.flops") != c.known.values["device.flops"] {
		return
	}
	p, err := r.timingProfile()
	if err != nil {
		return
	}
	if s, ok := c.known.of.Speeds[p.Name]; ok {
		c.DeviceFLOPS = s
	}
}

// others are the keys that set others, in the order in which they do.
var others = []string{"cluster", "transport", "node"}

// said is what a recipe has to say for the configuration, as people write it: the
// keys that differ from what stands when the cluster is set.
func (c Config) said() (map[string]string, error) {
	below := Default()
	for _, k := range others {
		if err := below.Set(k, c.Get(k)); err != nil {
			return nil, err
		}
	}
	said := map[string]string{}
	for _, k := range Settings() {
		sheet := slices.Contains(others, k.Name) && c.Said(k.Name)
		if sheet || c.Get(k.Name) != below.Get(k.Name) {
			said[k.Name] = c.Show(k.Name)
		}
	}
	if c.Steps > 0 { // which takes the place of epochs
		delete(said, "epochs")
	}
	return said, nil
}
