package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// A file of layers is a profile, and so is the folder of a run: its model's tensors.
func TestLayersOfYours(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("net.yaml", "kind: images\nlayers:\n- {name: conv, shape: [8, 3, 3, 3], macs: 216000}\n- {name: bias, shape: [8]}\n- {name: fc, shape: [10, 128]}\n")
	p, err := ProfileOf(file)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != file || p.Kind != "images" || p.Parameters() != 216+8+1280 || p.ForwardMACs() != 216000+1280 || p.Layout.Spans[0].Cols != 27 || p.Layout.Spans[1].Role != sgd.Bias {
		t.Errorf("%+v", p)
	}
	write("run/config.yaml", "model: resnet20\ndata: digits\ninit: ./gone.safetensors\n")
	write("run/data.json", `{"name":"digits","sample":{"C":1,"H":8,"W":8,"Classes":10}}`)
	run, err := ProfileOf(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Model, c.Data = "resnet20", "digits"
	m, err := mustResolve(t, c).ModelFor(alike{sgd.Sample{Shape: sgd.Shape{C: 1, H: 8, W: 8}, Classes: 10}})
	if err != nil {
		t.Fatal(err)
	}
	values, macs := 0, 0.0
	for i, s := range m.Layout().Spans {
		if s.Role != sgd.Buffer {
			values += s.Len()
		}
		macs += m.SpanFLOPs()[i] / 2
	}
	if run.Parameters() != values || run.ForwardMACs() != macs || run.Kind != "images" || values == m.Layout().Size() {
		t.Errorf("%d values and %g multiply-adds, want %d and %g", run.Parameters(), run.ForwardMACs(), values, macs)
	}
	// A run without weights, and a model on the virtual clock, take both.
	for _, timing := range []string{file, filepath.Join(dir, "run")} {
		c := Default()
		c.Net, c.Timing, c.Weightless, c.Epochs, c.Steps, c.DeviceCodec = "sim", timing, true, 0, 3, "free"
		if j, err := (Run{Config: c}).Build(Places{}, nil); err != nil || j.Model.Layout().Size() == 0 {
			t.Errorf("%s: %v", timing, err)
		}
	}
	write("bare/config.yaml", "model: mlp\n")
	write("empty/config.yaml", "weightless: true\ntiming: vgg16\n")
	write("odd/config.yaml", "model: mlp\n")
	write("odd/data.json", `{"sample":{"C":0,"H":8,"W":8}}`)
	for text, want := range map[string]string{
		"layers: [{name: a, shape: [2]}]":                                                                     "want kind: images",
		"kind: images":                                                                                        `key "layers": 0 of them`,
		"kind: images\nlayers:\n- {name: a}":                                                                  `line 3: key "shape": want the sizes`,
		"kind: images\nlayers:\n- {name: a, shape: [0, 3]}":                                                   "line 3: key \"shape\": [0 3]; want sizes of at least 1",
		"kind: images\nlayers:\n- {name: a, shape: [4000000000, 4000000000]}":                                 "values at most",
		"kind: images\nlayers:\n- {name: a, shape: [3], mac: 3}":                                              `line 3: key "mac": a layer has name, shape and macs`,
		"kind: images\nlayers:\n- {name: a, shape: [3], macs: -1}":                                            `line 3: key "macs": -1`,
		"kind: images\nlayers:\n- {name: a, shape: [3, 3]}\n- {name: a, shape: [3]}":                          `line 4: key "name": "a"`,
		"kind: images\nlayers:\n- {name: a, shape: [3]}":                                                      "no layer computes anything",
		"kind: images\nlayers:\n- 3":                                                                          "line 3: want a layer as",
		"kind: images\nlayer: []":                                                                             "field layer not found",
		"kind: images\nlayers:\n- {name: a, shape: [3, wide]}":                                                `line 3: key "shape"`,
		"kind: images\nlayers:\n- {name: a, shape: [200000000000, 1]}\n- {name: b, shape: [200000000000, 1]}": "more than",
	} {
		if _, err := ProfileOf(write("bad.yaml", text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.yaml") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for name, want := range map[string]string{"bare": "no data.json", "empty": "timing=vgg16", "odd": "want a shape", "none": "neither a file of layers nor the folder of a run"} {
		if _, err := ProfileOf(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := ProfileOf("resnet5"); err == nil || !strings.Contains(err.Error(), "resnet50") || !strings.Contains(err.Error(), "layers of yours") {
		t.Error(err)
	}
}
