// Package hardware holds what is known of published machines, as data files with
// their sources: devices by the rates they reached on known networks, transports and
// nodes by what was measured of them, and clusters, which name a device, a transport and
// a node and say what is their own.
package hardware

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/profile"
)

//go:embed devices/*.yaml clusters/*.yaml codecs/*.yaml nodes/*.yaml transports/*.yaml
var files embed.FS

// The kinds of sheets. Each is also the key that takes a sheet's name.
const (
	// Cluster is a machine room.
	Cluster = "cluster"
	// Transport is how software moves bytes between processes, and how much longer the
	// steps of real frameworks take than those of an ideal device.
	Transport = "transport"
	// Node is how the devices of one host reach each other and its NIC. Key network.inside
	// is the bandwidth of a device in a ring over few of them (busbw of nccl-tests),
	// constants.bridge that of all of them together.
	Node = "node"
	// Device is one processor, by the rates it trained at.
	Device = "device"
)

// Kinds lists the kinds of sheets.
func Kinds() []string { return []string{Cluster, Transport, Node, Device} }

// Unknown is the transport, and the node, for those who do not know theirs: the middle of
// what was measured, with spreads to match.
const Unknown = "unknown"

// Sheet is the data sheet of a cluster, a transport, a node or a device: one kind of file
// for all of them. A cluster's names the sheets of the others among its keys.
type Sheet struct {
	Name   string `yaml:"-"`
	About  string `yaml:"about"`
	Source string `yaml:"source"` // of the keys and rates that name none
	// Keys are what a configuration takes over, in the order of the file.
	Keys Keys `yaml:"keys"`
	// Site is the relative standard deviation, in logarithms, of a step's time between
	// frameworks and sites of equal hardware; 0: unknown, or that of the transport. Of a
	// device it is how well derived rates are known, beside that of the transport.
	Site float64 `yaml:"site"`

	// Rates, of a device, are samples a second of forward and backward pass together, by
	// the name of a profile.
	Rates map[string]Rate `yaml:"rates"`
	// Memory, of a device, is the bandwidth of its memory, bytes a second, by data sheet:
	// codecs read and write gradients a few times and compute little. 0: unknown.
	Memory float64 `yaml:"memory"`

	// Speeds, of a cluster, are those of its devices on networks by name, operations a
	// second, where device.flops is not that of all: the results of gradlab calibrate.
	Speeds map[string]float64 `yaml:"speeds"`
	// Fitted says which keys were fitted, and to which points; Stated where the
	// others are from.
	Fitted []string `yaml:"fitted"`
	Stated []string `yaml:"stated"`
	// Band is the relative rms error of predicted rates on points that were not
	// fitted, 0 if there are none.
	Band float64 `yaml:"band"`
}

// Rate is how fast a device trains a network.
type Rate struct {
	Batch  int     `yaml:"batch"`
	Rate   float64 `yaml:"rate"`             // samples a second
	Source string  `yaml:"source,omitempty"` // where it differs from the device's
}

// Parameter is a key of a configuration, exact or known up to a spread.
type Parameter struct {
	Key   string `yaml:"-"`
	Line  int    `yaml:"-"`               // of the file
	Value string `yaml:"value,omitempty"` // the middle, with its unit; "": whatever the configuration says
	// Times is the factor of one standard deviation of the logarithm, at least 1; Plus
	// is a standard deviation in the key's own unit. At most one of the two is given.
	Times  float64 `yaml:"times,omitempty"`
	Plus   float64 `yaml:"plus,omitempty"`
	Source string  `yaml:"source,omitempty"` // where it differs from the others'
}

// Varies reports whether the parameter has a spread.
func (p Parameter) Varies() bool { return p.Times > 0 || p.Plus > 0 }

// At is the value of the parameter at a quantile between 0 and 1, where its middle is
// middle: lognormal for Times, normal for Plus.
func (p Parameter) At(middle, quantile float64) float64 {
	z := math.Sqrt2 * portable.Erfinv(2*quantile-1) // of a standard normal distribution
	if p.Times > 0 {
		return middle * portable.Exp(z*portable.Log(p.Times))
	}
	return middle + float64(z*p.Plus)
}

// Keys is a mapping of keys to values in the order of the file. A value is plain, or a
// mapping of value, times, plus and source.
type Keys []Parameter

// UnmarshalYAML reads the mapping. Errors name the line, the key and what is allowed.
func (k *Keys) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: keys: want a mapping of keys to values, such as network.bandwidth: 10Gbps", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		p := Parameter{Key: n.Content[i].Value, Line: n.Content[i].Line}
		if err := p.read(n.Content[i+1]); err != nil {
			return fmt.Errorf("line %d: key %q: %w", p.Line, p.Key, err)
		}
		if slices.ContainsFunc(*k, func(o Parameter) bool { return o.Key == p.Key }) {
			return fmt.Errorf("line %d: key %q is given twice", p.Line, p.Key)
		}
		*k = append(*k, p)
	}
	return nil
}

func (p *Parameter) read(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		p.Value = n.Value
		return nil
	case n.Kind != yaml.MappingNode:
		return errors.New("want a value, or a mapping of value, times, plus and source")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		into := map[string]any{"value": &p.Value, "times": &p.Times, "plus": &p.Plus, "source": &p.Source}[n.Content[i].Value]
		if into == nil {
			return fmt.Errorf("there is no %q; want value, times, plus or source", n.Content[i].Value)
		}
		if err := n.Content[i+1].Decode(into); err != nil {
			return fmt.Errorf("%s: %w", n.Content[i].Value, err)
		}
	}
	if p.Times != 0 && p.Plus != 0 || p.Times != 0 && !(p.Times >= 1) || p.Plus != 0 && !(p.Plus > 0) || math.IsInf(p.Times+p.Plus, 0) {
		return errors.New("want times of at least 1, or plus of more than 0")
	}
	if p.Value == "" && !p.Varies() {
		return errors.New("want a value, times or plus")
	}
	return nil
}

// Sets lists the keys that the sheet gives a value.
func (s *Sheet) Sets() (out []Parameter) {
	for _, p := range s.Keys {
		if p.Value != "" {
			out = append(out, p)
		}
	}
	return out
}

// Spread lists the keys whose spread the sheet gives.
func (s *Sheet) Spread() (out []Parameter) {
	for _, p := range s.Keys {
		if p.Varies() {
			out = append(out, p)
		}
	}
	return out
}

// FLOPS is the speed at which a device got through the multiply-adds of a
// profile, two operations each, forward and backward. Where its rate on the
// profile is unknown, known is false and FLOPS is the mean of the speeds on those
// that are.
func (s *Sheet) FLOPS(p *profile.Profile) (flops float64, known bool) {
	if r, ok := s.Rates[p.Name]; ok {
		return 6 * r.Rate * p.ForwardMACs(), true
	}
	sum, n := 0.0, 0
	for _, name := range slices.Sorted(maps.Keys(s.Rates)) { // sums depend on their order
		if of, err := profile.Profiles.Parse(name); err == nil {
			sum += float64(6 * s.Rates[name].Rate * of.Profile().ForwardMACs())
			n++
		}
	}
	return sum / float64(n), false
}

// Range is the least and the largest speed over the networks that a device's
// rates are known on.
func (s *Sheet) Range() (lo, hi float64) {
	for name := range s.Rates {
		of, err := profile.Profiles.Parse(name)
		if err != nil {
			continue
		}
		f, _ := s.FLOPS(of.Profile())
		if lo == 0 || f < lo {
			lo = f
		}
		hi = max(hi, f)
	}
	return lo, hi
}

// Names lists the sheets of a kind that come with gradlab.
func Names(kind string) []string { return names(kind + "s") }

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

// IsFile says whether a name is the path of a file, as those of clusters and recipes
// may be: anything with a slash, or ending in .yaml or .yml.
func IsFile(name string) bool {
	return strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Load reads a sheet of a kind by name, or a cluster of the user's from a file, which is
// written as those that are known.
func Load(kind, name string) (*Sheet, error) {
	s := &Sheet{Name: name}
	if kind != Cluster && IsFile(name) {
		return nil, fmt.Errorf("want the name of a known %s, not %q; a sheet of yours is given as cluster=%s, whatever it describes", kind, name, name)
	}
	if kind == Cluster && IsFile(name) {
		b, err := regular.ReadText(name, regular.Text)
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		if err := decode(name, b, s); err != nil {
			return nil, err
		}
	} else if err := load(kind, name, s); err != nil {
		return nil, err
	}
	if err := s.check(kind); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// load reads an embedded file.
func load(kind, name string, into any) error {
	file := path.Join(kind+"s", name+".yaml")
	b, err := files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return fmt.Errorf("there is no %s called %q; %s", kind, name, registry.Suggest(name, Names(kind)))
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

// check refuses what a sheet of its kind does not have.
func (s *Sheet) check(kind string) error {
	if rated := len(s.Rates) > 0 || s.Memory != 0; kind == Device && (!rated || len(s.Keys) > 0) {
		return errors.New("want rates, and no keys, of a device")
	} else if rated && kind != Device {
		return fmt.Errorf("rates and memory are of a device, not of a %s; name a known device among the keys, or give device.flops or speeds, in operations a second", kind)
	}
	for _, p := range s.Keys {
		of, _, dotted := strings.Cut(p.Key, ".")
		switch {
		case dotted && slices.Contains([]string{"constants", "device", "network"}, of):
		case kind == Cluster && p.Key != Cluster && slices.Contains(Kinds(), p.Key):
		case kind == Cluster:
			return fmt.Errorf("line %d: key %q is not of a cluster: want device, transport, node, device.*, network.* and constants.*", p.Line, p.Key)
		default:
			return fmt.Errorf("line %d: key %q is not of a %s: want device.*, network.* and constants.*", p.Line, p.Key, kind)
		}
	}
	return nil
}
