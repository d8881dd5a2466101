// Package hardware holds what is known of published machines, as data files with
// their sources: devices by the rates they reached on known networks, clusters
// by their devices and what was fitted to them.
package hardware

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/registry"
)

//go:embed devices/*.yaml clusters/*.yaml codecs/*.yaml nodes/*.yaml transports/*.yaml
var files embed.FS

// Device is one processor, by the rates it trained at.
type Device struct {
	Name   string `yaml:"-"`
	About  string `yaml:"about"`
	Source string `yaml:"source"` // of the rates
	// Rates are samples a second of forward and backward pass together, by the
	// name of a profile.
	Rates map[string]Rate `yaml:"rates"`
	// Memory is the bandwidth of its memory, bytes a second, by data sheet: codecs
	// read and write gradients a few times and compute little. 0: unknown.
	Memory float64 `yaml:"memory"`
}

// Rate is how fast a device trains a network.
type Rate struct {
	Batch  int     `yaml:"batch"`
	Rate   float64 `yaml:"rate"`             // samples a second
	Source string  `yaml:"source,omitempty"` // where it differs from the device's
}

// FLOPS is the speed at which a device got through the multiply-adds of a
// profile, two operations each, forward and backward. Where its rate on the
// profile is unknown, known is false and FLOPS is the mean of the speeds on those
// that are.
func (d *Device) FLOPS(p *profile.Profile) (flops float64, known bool) {
	if r, ok := d.Rates[p.Name]; ok {
		return 6 * r.Rate * p.ForwardMACs(), true
	}
	sum, n := 0.0, 0
	for _, name := range slices.Sorted(maps.Keys(d.Rates)) { // sums depend on their order
		if s, err := profile.Profiles.Parse(name); err == nil {
			sum += float64(6 * d.Rates[name].Rate * s.Profile().ForwardMACs())
			n++
		}
	}
	return sum / float64(n), false
}

// Cluster is a machine room: keys of a configuration, and where they are from.
type Cluster struct {
	Name   string `yaml:"-"`
	About  string `yaml:"about"`
	Source string `yaml:"source"`
	// Keys are what a configuration takes over, in order: device, device.* and
	// network.*.
	Keys yaml.Node `yaml:"keys"`
	// Fitted says which of them were fitted, and to which points; Stated where the
	// others are from.
	Fitted []string `yaml:"fitted"`
	Stated []string `yaml:"stated"`
	// Speeds are those of its devices on networks by name, operations a second, where
	// device.flops is not that of all: what gradlab calibrate found.
	Speeds map[string]float64 `yaml:"speeds"`
	// Spread says how well keys are known, in place of what is known of the transport;
	// Site is the same of its site. None: nothing better is known.
	Spread []Parameter `yaml:"spread"`
	Site   float64     `yaml:"site"`
	// Band is the relative rms error of predicted rates on points that were not
	// fitted, 0 if there are none.
	Band float64 `yaml:"band"`
}

// Assignments are the keys of a cluster with their values.
func (c *Cluster) Assignments() (out [][2]string) {
	for i := 0; i+1 < len(c.Keys.Content); i += 2 {
		out = append(out, [2]string{c.Keys.Content[i].Value, c.Keys.Content[i+1].Value})
	}
	return out
}

// Devices and Clusters list what there is.
func Devices() []string  { return names("devices") }
func Clusters() []string { return names("clusters") }

func names(dir string) []string {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		panic(err) // it is embedded
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}

// LoadDevice reads a device by name.
func LoadDevice(name string) (*Device, error) {
	d := &Device{Name: name}
	if err := load("device", name, d); err != nil {
		return nil, err
	}
	return d, nil
}

// IsFile says whether a name is the path of a file, as those of clusters and recipes
// may be: anything with a slash, or ending in .yaml or .yml.
func IsFile(name string) bool {
	return strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// LoadCluster reads a cluster by name, or one of the user's from a file that is written
// as those that are known.
func LoadCluster(name string) (*Cluster, error) {
	c := &Cluster{Name: name}
	if IsFile(name) {
		b, err := regular.ReadText(name, regular.Text)
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		if err := decode(name, b, c); err != nil {
			return nil, err
		}
		for _, a := range c.Assignments() {
			if a[0] != "device" && !strings.HasPrefix(a[0], "device.") && !strings.HasPrefix(a[0], "network.") {
				return nil, fmt.Errorf("%s: key %q is not of a cluster: want device, device.* and network.*", name, a[0])
			}
		}
		if err := checkParameters(name, c.Spread); err != nil {
			return nil, err
		}
		return c, nil
	}
	if err := load("cluster", name, c); err != nil {
		return nil, err
	}
	return c, nil
}

func load(kind, name string, into any) error {
	file := path.Join(kind+"s", name+".yaml")
	b, err := files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return fmt.Errorf("there is no %s called %q; %s", kind, name, registry.Suggest(name, names(kind+"s")))
	}
	if err != nil {
		return err
	}
	return decode(file, b, into)
}

// decode reads what a file holds, and nothing else.
func decode(file string, b []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Range is the least and the largest speed over the networks that a device's
// rates are known on.
func (d *Device) Range() (lo, hi float64) {
	for name := range d.Rates {
		s, err := profile.Profiles.Parse(name)
		if err != nil {
			continue
		}
		f, _ := d.FLOPS(s.Profile())
		if lo == 0 || f < lo {
			lo = f
		}
		hi = max(hi, f)
	}
	return lo, hi
}
