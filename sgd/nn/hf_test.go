package nn

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/safetensors"
	"github.com/gradlab/gradlab/sgd"
)

// hf are models of testdata/torch/hf.py, by the names of their files.
var hf = map[string]Spec{
	"gpt2":  GPT{Layers: 2, Heads: 2, Width: 8, Bias: true, Tied: true},
	"llama": Llama{Layers: 2, Heads: 2, KVHeads: 1, Width: 8, Hidden: 12},
}

// hfModel is one, for texts of a context.
func hfModel(t *testing.T, name string, context int) (n *Net, params []float32, file []byte) {
	t.Helper()
	m, err := hf[name].New(passageOf(context, 11))
	if err != nil {
		t.Fatal(err)
	}
	if file, err = os.ReadFile("testdata/torch/hf_" + name + ".safetensors"); err != nil {
		t.Fatal(err)
	}
	n = m.(*Net)
	return n, make([]float32, n.layout.Size()), file
}

// Files of Hugging Face's models give the scores that transformers computes.
func TestHuggingFaceScores(t *testing.T) {
	t.Parallel()
	for name := range hf {
		n, params, file := hfModel(t, name, 6)
		if err := n.SetWeights(params, file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("testdata/torch/hf_" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		b, want := sgd.Batch{}, []float64{}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			words := strings.Fields(lines.Text())
			for _, w := range words[1:] {
				x, err := strconv.ParseFloat(w, 64)
				if err != nil {
					t.Fatal(err)
				}
				if words[0] == "logits" {
					want = append(want, x)
				} else {
					b.Tokens = append(b.Tokens, int32(x))
				}
			}
		}
		b.N = len(b.Tokens) / 6
		got, err := n.Scores(params, n.NewScratch(), b)
		if err != nil || b.N != 2 || len(got) != len(want) {
			t.Fatalf("%s: %d scores of %d samples, want %d (%v)", name, len(got), b.N, len(want), err)
		}
		for i, x := range got {
			if math.Abs(float64(x)-want[i]) > 1e-5 {
				t.Errorf("%s: score %d is %g, transformers has %g", name, i, x, want[i])
			}
		}
	}
}

// Weights go out as the files of Hugging Face have them, tensor by tensor.
func TestHuggingFaceFiles(t *testing.T) {
	t.Parallel()
	for name := range hf {
		n, params, file := hfModel(t, name, map[string]int{"gpt2": 9, "llama": 6}[name])
		if err := n.SetWeights(params, file); err != nil {
			t.Fatal(err)
		}
		own, err := n.Weights(params)
		if err != nil {
			t.Fatal(err)
		}
		got, want := tensorsOf(t, own), tensorsOf(t, file)
		for _, w := range want {
			i := slices.IndexFunc(got, func(g safetensors.Tensor) bool { return g.Name == w.Name })
			if i < 0 || !slices.Equal(got[i].Shape, w.Shape) || !bytes.Equal(got[i].Data, w.Data) {
				t.Errorf("%s: tensor %s goes out otherwise", name, w.Name)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d tensors, want %d", name, len(got), len(want))
		}
	}
}

func tensorsOf(t *testing.T, file []byte) []safetensors.Tensor {
	t.Helper()
	f, err := safetensors.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return f.Tensors
}

// GPT-2's weights come in other forms too: without the name of the whole model and with masks, as
// its first file has them; of compiled modules; as nanoGPT's plain layers, with the tied classifier.
func TestFormsOfGPT2(t *testing.T) {
	t.Parallel()
	n, want, file := hfModel(t, "gpt2", 6)
	if err := n.SetWeights(want, file); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*safetensors.File){
		"base": func(f *safetensors.File) {
			for i := range f.Tensors {
				f.Tensors[i].Name = strings.TrimPrefix(f.Tensors[i].Name, "transformer.")
			}
			f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "h.0.attn.bias", DType: "F32", Shape: []int{1, 1, 1, 1}, Data: make([]byte, 4)})
		},
		"nanoGPT": func(f *safetensors.File) {
			for i := range f.Tensors {
				x := &f.Tensors[i]
				if strings.Contains(x.Name, ".c_") && len(x.Shape) == 2 {
					rows, cols := x.Shape[0], x.Shape[1]
					turned := make([]byte, len(x.Data))
					for r := range rows {
						for c := range cols {
							copy(turned[4*(c*rows+r):][:4], x.Data[4*(r*cols+c):])
						}
					}
					x.Shape, x.Data = []int{cols, rows}, turned
				}
				if x.Name = "_orig_mod." + x.Name; strings.HasSuffix(x.Name, "wte.weight") {
					f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "_orig_mod.lm_head.weight", DType: "F32", Shape: x.Shape, Data: x.Data})
				}
			}
		},
	} {
		f := safetensors.File{Tensors: tensorsOf(t, file)}
		change(&f)
		b, err := f.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(want))
		if err := n.SetWeights(got, b); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: other weights, %v", what, err)
		}
	}
	// Another classifier is not left out, and a table with fewer positions does not fit.
	f := safetensors.File{Tensors: tensorsOf(t, file)}
	f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "lm_head.weight", DType: "F32", Shape: []int{11, 8}, Data: f32.AppendBytes(nil, make([]float32, 88))})
	b, err := f.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.SetWeights(make([]float32, len(want)), b); err == nil || !strings.Contains(err.Error(), "no tensors lm_head.weight") {
		t.Error(err)
	}
	long, params, _ := hfModel(t, "gpt2", 10)
	if err := long.SetWeights(params, file); err == nil || !strings.Contains(err.Error(), "transformer.wpe.weight is [9 8], want [10 8]") {
		t.Error(err)
	}
}
