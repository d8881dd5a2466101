package nn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/safetensors"
	"github.com/gradlab/gradlab/sgd"
)

// Weights of a net as a safetensors file that PyTorch understands: load_file and
// load_state_dict read it, and what save_file writes of a state_dict is read here.
//
// Tensors have the names of torchvision's networks where torchvision has the network
// (ResNets of ImageNet, VGG-16, AlexNet in one column, Inception-v3), and elsewhere
// those of the layout with PyTorch's endings: conv1.weight, bn1.weight, bn1.bias,
// bn1.running_mean, bn1.running_var, dense1.weight.
//
// Those of language models have the names and shapes of Hugging Face's files, which cut some of
// our tensors into several, and keep those of GPT-2 with columns for rows:
//
//	here                                          there
//	gpt: queries, keys, values; projections       transformer.h.0.attn.c_attn, …: in × out
//	llama: queries, keys and values in one        self_attn.q_proj, .k_proj, .v_proj
//	llama: gates, then the other hidden units     mlp.gate_proj, .up_proj
//
//	here                                          there
//	convolution: rows of ky, kx, in               out × in × ky × kx
//	dense layer behind images: rows of h, w, c    out × (c·h·w)
//	scale, shift, mean, var of a batch norm       weight, bias, running_mean, running_var

// rowShape is the row of a span: C×H×W values there, in the order h, w, c here.
type rowShape struct {
	sgd.Shape
	flat bool // one dimension there: a dense layer
}

// endings of tensors, by those of spans.
var endings = map[string]string{"weight": "weight", "bias": "bias", "scale": "weight", "shift": "bias", "mean": "running_mean", "var": "running_var"}

// Tensor is a span as a file of weights has it, or some of its rows: several tensors of a span
// stand behind each other.
type Tensor struct {
	Name   string
	Shape  []int    // of as many values as the rows
	place  rowShape // C is 0: in the order of the span
	turned bool     // there, columns are rows; those of nanoGPT are not
	longer bool     // there may be more rows, of which the first count
}

// size is how many values it has.
func (t Tensor) size() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// split is a module that others have as several, of so many rows each.
type split []struct {
	name string
	rows int
}

// forms is what is different in the files of others, by names of modules.
type forms struct {
	splits map[string]split
	turned []string // ends of names
	longer string   // of tables with a row a position
}

// torchTensors lists the tensors of the spans.
func (n *Net) torchTensors() []Tensor {
	var out []Tensor
	module, last := -1, ""
	for i, s := range n.layout.Spans {
		layer, ending, _ := strings.Cut(s.Name, ".")
		if layer != last {
			module, last = module+1, layer
		}
		name := layer
		if n.modules != nil {
			name = n.modules[module]
		}
		t := Tensor{Name: name + "." + endings[ending], Shape: []int{s.Cols}}
		if place, ok := n.places[i]; ok {
			t.place = place
		}
		switch {
		case t.place.C > 0 && !t.place.flat:
			t.Shape = []int{s.Rows, t.place.C, t.place.H, t.place.W}
		case ending == "weight":
			t.Shape = []int{s.Rows, s.Cols}
			t.longer = name == n.forms.longer
			if t.turned = slices.ContainsFunc(n.forms.turned, func(end string) bool { return strings.HasSuffix(name, end) }); t.turned {
				t.Shape = []int{s.Cols, s.Rows}
			}
		}
		parts := n.forms.splits[name]
		for _, p := range parts {
			out = append(out, Tensor{Name: p.name + "." + endings[ending], Shape: []int{p.rows, s.Cols}})
		}
		if parts == nil {
			out = append(out, t)
		}
	}
	return out
}

// each calls fn for every value of rows rows: where it lies here, and there.
func (t Tensor) each(rows, cols int, fn func(here, there int)) {
	p := t.place
	if p.C == 0 {
		for i := range rows * cols {
			there := i
			if t.turned {
				there = i%cols*rows + i/cols
			}
			fn(i, there)
		}
		return
	}
	for row := range rows {
		at := row * cols
		for h := range p.H {
			for w := range p.W {
				for c := range p.C {
					fn(at+(h*p.W+w)*p.C+c, at+(c*p.H+h)*p.W+w)
				}
			}
		}
	}
}

// Weights encodes params, of the layout's size, as a safetensors file of float32
// tensors with PyTorch's names and shapes.
func (n *Net) Weights(params []float32) ([]byte, error) {
	return EncodeWeights(n.layout, n.torchTensors(), params)
}

// EncodeWeights encodes params, of the layout's size, as a safetensors file of float32
// tensors, in the order of spans.
func EncodeWeights(l sgd.Layout, tensors []Tensor, params []float32) ([]byte, error) {
	if len(params) != l.Size() {
		return nil, fmt.Errorf("nn: weights of %d values, the layout has %d", len(params), l.Size())
	}
	f := safetensors.File{Meta: map[string]string{"format": "pt"}}
	at, cols := 0, columns(l)
	for _, t := range tensors {
		n := t.size()
		here, there := params[at:at+n], make([]float32, n)
		t.each(n/cols(at), cols(at), func(a, b int) { there[b] = here[a] })
		at += n
		f.Tensors = append(f.Tensors, safetensors.Tensor{Name: t.Name, DType: "F32", Shape: t.Shape, Data: f32.AppendBytes(nil, there)})
	}
	return f.Encode(nil)
}

// columns tells how many columns the span has that a value lies in.
func columns(l sgd.Layout) func(at int) int {
	i := 0
	return func(at int) int {
		for l.Spans[i].End() <= at {
			i++
		}
		return l.Spans[i].Cols
	}
}

// trained is in front of the names in the files of runs, whose tensors are spans.
const trained = "param/"

// SetWeights sets params, of the layout's size, from a safetensors file: one with
// PyTorch's names and shapes, as Weights writes, or the model.safetensors of a run.
// Tensors may be of float64, float32, bfloat16 or float16. Every span must be there,
// and nothing else but num_batches_tracked and torchvision's auxiliary classifier
// (AuxLogits), which are left out. On an error params is as it was.
func (n *Net) SetWeights(params []float32, file []byte) error {
	return DecodeWeights(n.layout, n.torchTensors(), params, file)
}

// DecodeWeights sets params, of the layout's size, from a safetensors file with these
// tensors, in the order of spans, or from the model.safetensors of a run: see SetWeights.
func DecodeWeights(l sgd.Layout, tensors []Tensor, params []float32, file []byte) error {
	if len(params) != l.Size() {
		return fmt.Errorf("nn: weights for %d values, the layout has %d", len(params), l.Size())
	}
	f, err := safetensors.Decode(file)
	if err != nil {
		return fmt.Errorf("nn: %w", err)
	}
	there, own := named(f, tensors)
	if own {
		tensors = nil
		for _, s := range l.Spans {
			tensors = append(tensors, Tensor{Name: trained + s.Name, Shape: []int{s.Rows, s.Cols}})
		}
	}
	straight := slices.ContainsFunc(tensors, func(t Tensor) bool { // nanoGPT's own file, and not Hugging Face's
		return t.turned && t.Shape[0] != t.Shape[1] && slices.Equal(there[t.Name].Shape, []int{t.Shape[1], t.Shape[0]})
	})
	var missing, wrong []string
	filled := make([]float32, len(params))
	at, cols := 0, columns(l)
	for _, want := range tensors {
		n, width := want.size(), cols(at)
		here := filled[at : at+n]
		at += n
		if straight && want.turned {
			want.Shape, want.turned = []int{want.Shape[1], want.Shape[0]}, false
		}
		t, ok := there[want.Name]
		delete(there, want.Name)
		switch {
		case !ok:
			missing = append(missing, want.Name)
			continue
		case want.longer && len(t.Shape) == 2 && t.Shape[0] > want.Shape[0] && t.Shape[1] == want.Shape[1]:
		case !slices.Equal(t.Shape, want.Shape):
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", t.Name, t.Shape, want.Shape))
			continue
		}
		values, err := floats(t)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		want.each(n/width, width, func(a, b int) { here[a] = values[b] })
	}
	switch more := slices.Sorted(maps.Keys(there)); {
	case len(missing) > 0:
		return fmt.Errorf("nn: the file lacks %s of the model's %d tensors, %s; it has %s", count(missing), len(tensors), some(missing), some(more))
	case len(more) > 0:
		return fmt.Errorf("nn: the model has no tensors %s, which the file has", some(more))
	case len(wrong) > 0:
		return fmt.Errorf("nn: tensors do not fit the model: %s", some(wrong))
	}
	copy(params, filled)
	return nil
}

// named is the tensors of a file by the names that are wanted: without the mark of compiled
// modules, with the name of the whole model in front, and without what is no weight. own: they
// are those of a run.
func named(f *safetensors.File, wanted []Tensor) (there map[string]safetensors.Tensor, own bool) {
	there = map[string]safetensors.Tensor{}
	want := map[string]bool{}
	for _, t := range wanted {
		want[t.Name] = true
	}
	for _, t := range f.Tensors {
		name := strings.TrimPrefix(t.Name, "_orig_mod.")
		for _, model := range []string{"transformer.", "model."} {
			if !want[name] && want[model+name] {
				name = model + name
			}
		}
		own = own || strings.HasPrefix(name, trained)
		idle := slices.ContainsFunc(noWeights, func(part string) bool { return strings.Contains("."+name+".", part) })
		if want[name] || !idle {
			there[name] = t
		}
	}
	// A tied classifier may be there a second time.
	const head, table = "lm_head.weight", "transformer.wte.weight"
	if !want[head] && want[table] && bytes.Equal(there[head].Data, there[table].Data) {
		delete(there, head)
	}
	return there, own
}

// noWeights are parts of names of what other programs keep beside weights: counters, an auxiliary
// classifier, masks and angles.
var noWeights = []string{".num_batches_tracked.", ".AuxLogits.", ".attn.bias.", ".attn.masked_bias.", ".rotary_emb.inv_freq."}

// Starting is the net with first weights from a file, as SetWeights reads it: Init
// sets these, whatever the seed. n is not changed; a Scratch of one does not fit the
// other.
func (n *Net) Starting(file []byte) (*Net, error) {
	other := *n
	other.first = make([]float32, n.layout.Size())
	if err := n.SetWeights(other.first, file); err != nil {
		return nil, err
	}
	return &other, nil
}

// From implements sgd.Portable: see Starting.
func (n *Net) From(file []byte) (sgd.Model, error) { return n.Starting(file) }

func count(names []string) string {
	if len(names) == 1 {
		return "one"
	}
	return fmt.Sprint(len(names))
}

// some is the first few of a list.
func some(names []string) string {
	const most = 5
	switch {
	case len(names) == 0:
		return "no others"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// floats decodes the values of a tensor, all of which must be finite.
func floats(t safetensors.Tensor) ([]float32, error) {
	var v []float32
	switch t.DType {
	case "F32":
		v = make([]float32, len(t.Data)/4)
		f32.FromBytes(v, t.Data)
	case "F64":
		v = make([]float32, len(t.Data)/8)
		for i := range v {
			v[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:])))
		}
	case "BF16":
		v = make([]float32, len(t.Data)/2)
		f32.DecodeBF16(v, t.Data)
	case "F16":
		v = make([]float32, len(t.Data)/2)
		f32.DecodeFP16(v, t.Data)
	default:
		return nil, fmt.Errorf("%s is of type %s; want F64, F32, BF16 or F16", t.Name, t.DType)
	}
	if !f32.AllFinite(v) {
		return nil, fmt.Errorf("%s has values that are not finite", t.Name)
	}
	return v, nil
}
