package nn

import (
	"bufio"
	"context"
	"encoding/binary"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/internal/safetensors"
	"github.com/gradlab/gradlab/sgd"
)

// logits runs samples x forward in inference.
func (n *Net) logits(t testing.TB, params, x []float32) []float32 {
	t.Helper()
	s := newScratch(n)
	s.ctx, s.params = context.Background(), params
	samples := len(x) / n.in.Len()
	s.start(input{x: x}, samples)
	if err := s.goAhead(); err != nil {
		t.Fatal(err)
	}
	return s.value(&microbatch{hi: samples}, n.out, bufX, true)
}

// torchFile is a file that testdata/torch/logits.py has written.
type torchFile struct {
	weights safetensors.File // made of draws, as it says
	in      sgd.Shape
	x       []float32
	logits  []float64
}

func readTorch(t *testing.T, path string) (out torchFile) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	number := func(word string) float64 {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "tensor":
			n := len(words)
			centre, width, size := number(words[n-2]), number(words[n-1]), 1
			tensor := safetensors.Tensor{Name: words[1], DType: "F32"}
			for _, w := range words[2 : n-2] {
				tensor.Shape = append(tensor.Shape, int(number(w)))
				size *= tensor.Shape[len(tensor.Shape)-1]
			}
			key, v := rng.Key(5000+len(out.weights.Tensors)), make([]float32, size)
			for i := range v {
				v[i] = float32((2*float64(key.Float32(uint64(i)))-1)*width + centre)
			}
			tensor.Data = f32.AppendBytes(nil, v)
			out.weights.Tensors = append(out.weights.Tensors, tensor)
		case "input":
			out.in = sgd.Shape{C: int(number(words[2])), H: int(number(words[3])), W: int(number(words[4]))}
			out.x = make([]float32, int(number(words[1]))*out.in.Len())
			for i := range out.x {
				out.x[i] = 4*rng.Key(1).Float32(uint64(i)) - 2
			}
		case "logits":
			for _, w := range words[1:] {
				out.logits = append(out.logits, number(w))
			}
		}
	}
	return out
}

// PyTorch's weights, read by PyTorch's names, make the logits that PyTorch makes, and
// are written as they were read.
func TestPyTorchWeights(t *testing.T) {
	t.Parallel()
	for _, spec := range patience.Few(2, []string{"resnet18", "alexnet", "resnet50", "vgg16(bn=true,head=small)", "inception3"}) {
		name, _, _ := strings.Cut(spec, "(")
		t.Run(name, func(t *testing.T) {
			file := readTorch(t, "testdata/torch/logits_"+name+".txt")
			m, err := Models.MustParse(spec).New(sgd.Sample{Shape: file.in, Classes: 7})
			if err != nil {
				t.Fatal(err)
			}
			net := m.(*Net)
			// As state_dict has them: with counters, and Inception with what is left out.
			one := make([]byte, 8)
			more := file.weights
			more.Tensors = append(slices.Clone(more.Tensors), safetensors.Tensor{Name: "bn1.num_batches_tracked", DType: "I64", Data: one},
				safetensors.Tensor{Name: "AuxLogits.fc.bias", DType: "F64", Shape: []int{1}, Data: one})
			b, err := more.Encode(nil)
			if err != nil {
				t.Fatal(err)
			}
			params := make([]float32, net.layout.Size())
			if err := net.SetWeights(params, b); err != nil {
				t.Fatal(err)
			}
			scale := 0.0
			for _, v := range file.logits {
				scale = max(scale, math.Abs(v))
			}
			got := net.logits(t, params, file.x)
			if len(got) != len(file.logits) || scale == 0 {
				t.Fatalf("%d logits, PyTorch has %d, of size %g", len(got), len(file.logits), scale)
			}
			apart := 0.0 // the samples: weights that forget them would show nothing
			for i, v := range file.logits[:7] {
				apart = max(apart, math.Abs(v-file.logits[7+i]))
			}
			if apart < 0.02*scale {
				t.Fatalf("samples are %g apart, of logits of %g", apart, scale)
			}
			for i, want := range file.logits {
				if d := math.Abs(float64(got[i]) - want); !(d <= 1e-4*scale) {
					t.Errorf("logit %d is %.7g, PyTorch has %.7g", i, got[i], want)
				}
			}

			written, err := net.Weights(params)
			if err != nil {
				t.Fatal(err)
			}
			back, err := safetensors.Decode(written)
			if err != nil {
				t.Fatal(err)
			}
			if len(back.Tensors) != len(file.weights.Tensors) || back.Meta["format"] != "pt" {
				t.Errorf("%d tensors written, %v, PyTorch has %d", len(back.Tensors), back.Meta, len(file.weights.Tensors))
			}
			for _, want := range file.weights.Tensors {
				got := back.Find(want.Name)
				if got == nil || !slices.Equal(got.Shape, want.Shape) || string(got.Data) != string(want.Data) {
					t.Fatalf("%s is not written as it was read", want.Name)
				}
			}
		})
	}
}

// Every model's weights go out and come back to the bit, in any type that holds them.
func TestWeightsComeBack(t *testing.T) {
	t.Parallel()
	for _, spec := range Models.Names() {
		if spec == "vgg16" {
			spec = "vgg16(head=small)"
		}
		in := leastInput(t, spec)
		if large(t, spec, in) {
			continue
		}
		m, p := newPassOf(t, spec, in)
		net, ok := m.(*Net)
		if !ok {
			continue // it has no layers
		}
		f32.RoundBF16(p.Params) // so that two bytes hold them
		b, err := net.Weights(p.Params)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(p.Params))
		if err := net.SetWeights(got, b); err != nil || !slices.Equal(got, p.Params) {
			t.Errorf("%s: weights come back changed, %v", spec, err)
		}
		if spec != "lenet5" {
			continue
		}
		f, err := safetensors.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range f.Tensors {
			x := make([]float32, len(v.Data)/4)
			f32.FromBytes(x, v.Data)
			v.Data = nil
			switch v.DType = []string{"F64", "BF16", "F32"}[i%3]; v.DType {
			case "BF16":
				v.Data = make([]byte, 2*len(x))
				f32.EncodeBF16(v.Data, x)
			case "F32":
				v.Data = f32.AppendBytes(nil, x)
			default:
				for _, u := range x {
					v.Data = binary.LittleEndian.AppendUint64(v.Data, math.Float64bits(float64(u)))
				}
			}
			f.Tensors[i] = v
		}
		if b, err = f.Encode(nil); err != nil {
			t.Fatal(err)
		}
		clear(got)
		if err := net.SetWeights(got, b); err != nil || !slices.Equal(got, p.Params) {
			t.Errorf("%s: weights of other types come back changed, %v", spec, err)
		}
	}
}

// What does not fit is refused by name, and nothing is changed.
func TestWeightsRefuse(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "resnet20", cifar)
	net := m.(*Net)
	b, err := net.Weights(p.Params)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(f *safetensors.File){
		"lacks one of the model's 97 tensors, bn19.running_var": func(f *safetensors.File) {
			f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == "bn19.running_var" })
		},
		"no tensors extra": func(f *safetensors.File) {
			f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "extra", DType: "F32", Shape: []int{0}})
		},
		"dense1.weight is [64 10], want [10 64]": func(f *safetensors.File) { f.Find("dense1.weight").Shape = []int{64, 10} },
		"dense1.bias is of type I32":             func(f *safetensors.File) { f.Find("dense1.bias").DType = "I32" },
		"bn1.weight has values that are not finite": func(f *safetensors.File) {
			v := f.Find("bn1.weight")
			v.Data = f32.AppendBytes(nil, slices.Repeat([]float32{float32(math.NaN())}, 16))
		},
	} {
		f, err := safetensors.Decode(slices.Clone(b))
		if err != nil {
			t.Fatal(err)
		}
		change(f)
		bad, err := f.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(p.Params)
		if err := net.SetWeights(got, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		if !slices.Equal(got, p.Params) {
			t.Errorf("%s: parameters were changed", want)
		}
	}
	if err := net.SetWeights(p.Params, b[:100]); err == nil {
		t.Error("a torn file passes")
	}
	if err := net.SetWeights(p.Params[1:], b); err == nil {
		t.Error("too few parameters pass")
	}
	if _, err := net.Weights(p.Params[1:]); err == nil {
		t.Error("too few parameters are written")
	}
}
