package config

import (
	"fmt"

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
	return c.Net == "sim" && (cluster == "none" || hardware.IsFile(cluster))
}
