package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/profile"
)

// ProfileOf returns the layers that key timing names: a known profile, a file of layers
// (./layers.yaml), or the folder of a run, whose model it is.
func ProfileOf(text string) (*profile.Profile, error) {
	if !hardware.IsFile(text) {
		s, err := profile.Profiles.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%w; layers of yours are a file, ./layers.yaml, or the folder of a run, runs/… (docs/advice.md)", err)
		}
		return s.Profile(), nil
	}
	if i, err := os.Stat(text); err == nil && i.IsDir() {
		return runProfile(text)
	}
	b, err := regular.ReadText(text, regular.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is neither a file of layers nor the folder of a run", text)
	} else if err != nil {
		return nil, err
	}
	p, err := readLayers(text, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return p, nil
}

// runProfile returns the layers of a run's model, without the buffers, which do not travel.
func runProfile(folder string) (*profile.Profile, error) {
	file := filepath.Join(folder, "config.yaml")
	b, err := regular.ReadText(file, regular.Text)
	if err != nil {
		return nil, fmt.Errorf("%s is not the folder of a run: %w", folder, err)
	}
	c, _, err := ParseConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.Weightless {
		return nil, fmt.Errorf("%s is a run without weights; give its timing=%s", folder, c.Timing)
	}
	file = filepath.Join(folder, "data.json")
	if b, err = regular.ReadText(file, regular.Text); err != nil {
		return nil, fmt.Errorf("%s has no data.json, which says how large its samples are: %w", folder, err)
	}
	var like alike
	if err := json.Unmarshal(b, &like); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if s := like.Of; s.C < 1 || s.H < 1 || s.W < 1 || s.Classes < 1 {
		return nil, fmt.Errorf("%s: samples of %v; want a shape and classes of at least 1", file, s)
	}
	c.Timing, c.Init = "model", "none" // neither changes its layers
	r, err := c.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m, err := r.ModelFor(like)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	p := &profile.Profile{Name: folder, Kind: "tables", Input: like.Of.Shape}
	if like.Of.Vocabulary > 0 {
		p.Kind = "language"
	} else if like.Of.H > 1 && like.Of.W > 1 {
		p.Kind = "images"
	}
	flops := m.SpanFLOPs()
	for i, s := range m.Layout().Spans {
		if s.Role != sgd.Buffer {
			p.Layout.Add(s.Name, s.Role, s.Rows, s.Cols)
			p.MACs = append(p.MACs, flops[i]/2)
		}
	}
	return p, nil
}

// alike is what the samples of a run were like: none can be drawn.
type alike struct {
	Of sgd.Sample `json:"sample"`
}

func (s alike) Len() int           { return 1 }
func (s alike) Sample() sgd.Sample { return s.Of }
func (s alike) Batch(sgd.Draw, *sgd.Batch) error {
	return errors.New("samples of a run's folder cannot be drawn")
}

// mostLayers and mostValues bound what a file of layers may describe.
const mostLayers, mostValues = 100_000, min(1<<38, math.MaxInt/4)

// readLayers reads a file of layers: kind, and layers in forward order, each with a name, a
// shape and, where that is not one per weight, the multiply-adds of a sample's forward pass.
func readLayers(name string, b []byte) (*profile.Profile, error) {
	var f struct {
		Kind   string      `yaml:"kind"`
		Layers []yaml.Node `yaml:"layers"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%w; want kind: images, and layers: - {name: fc, shape: [10, 128]}", err)
	}
	switch {
	case f.Kind == "":
		return nil, errors.New("want kind: images, language or recommendation, by which trainings count as evidence")
	case len(f.Layers) == 0 || len(f.Layers) > mostLayers:
		return nil, fmt.Errorf("key \"layers\": %d of them; want 1 to %d, such as - {name: fc, shape: [10, 128]}", len(f.Layers), mostLayers)
	}
	p := &profile.Profile{Name: name, Kind: f.Kind, Input: sgd.Shape{C: 1, H: 1, W: 1}}
	seen := map[string]bool{}
	for i := range f.Layers {
		n := &f.Layers[i]
		if err := addLayer(p, n, seen); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		if p.Parameters() > mostValues {
			return nil, fmt.Errorf("line %d: more than %d parameters in all", n.Line, mostValues)
		}
	}
	if !(p.ForwardMACs() > 0) {
		return nil, errors.New("no layer computes anything: want macs, or a shape of two sizes or more, of one at least")
	}
	return p, nil
}

// addLayer adds a tensor to a profile.
func addLayer(p *profile.Profile, n *yaml.Node, seen map[string]bool) error {
	var name string
	var shape []int
	macs := math.NaN()
	if n.Kind != yaml.MappingNode {
		return errors.New("want a layer as {name: fc, shape: [10, 128], macs: 1280}")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		into := map[string]any{"name": &name, "shape": &shape, "macs": &macs}[key]
		if into == nil {
			return fmt.Errorf("key %q: a layer has name, shape and macs", key)
		}
		if err := n.Content[i+1].Decode(into); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	if name == "" || seen[name] {
		return fmt.Errorf("key \"name\": %q; want a name of its own for each layer", name)
	}
	seen[name] = true
	values := 1
	for _, s := range shape {
		if s < 1 || s > mostValues/values {
			return fmt.Errorf("key \"shape\": %v; want sizes of at least 1, %d values at most", shape, mostValues)
		}
		values *= s
	}
	role, rows := sgd.Weight, 1
	switch len(shape) {
	case 0:
		return errors.New("key \"shape\": want the sizes of the tensor, as in [10, 128]")
	case 1:
		role = sgd.Bias
	default:
		rows = shape[0]
	}
	if math.IsNaN(macs) {
		if macs = 0; role == sgd.Weight {
			macs = float64(values)
		}
	}
	if !(macs >= 0) || math.IsInf(macs, 0) {
		return fmt.Errorf("key \"macs\": %v; want the multiply-adds of a sample's forward pass, 0 or more", macs)
	}
	p.Layout.Add(name, role, rows, values/rows)
	p.MACs = append(p.MACs, macs)
	return nil
}
