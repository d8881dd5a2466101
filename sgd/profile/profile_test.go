package profile

import (
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// published is what the definitions in tf_cnn_benchmarks come to, 1001 classes:
// trainable variables, parameters, multiply-adds of a forward pass in units of
// 1e9, and the sizes of the largest tensors in MB.
var published = map[string]struct {
	variables, parameters int
	gmacs                 float64
	largest               []float64
	small                 int // tensors below 64 KiB
}{
	"inception3":     {190, 23819401, 5.71, []float64{8.20, 6.19, 6.19, 3.98, 3.67}, 104},
	"inception4":     {300, 42649769, 12.25, []float64{6.15}, 154},
	"resnet20":       {51, 269467, 0.0406, []float64{0.15, 0.15}, 45},
	"resnet18_cifar": {62, 11173962, 0.5554, []float64{9.44, 9.44, 9.44, 4.72, 2.36}, 44},
	"resnet50":       {161, 25559081, 3.83, []float64{9.44, 9.44, 9.44, 8.39, 8.20}, 109},
	"resnet101":      {314, 44551209, 7.55, []float64{9.44, 9.44, 9.44, 8.39, 8.20}, 211},
	"resnet152":      {467, 60194857, 11.26, []float64{9.44, 9.44, 9.44, 8.39, 8.20}, 313},
	"vgg16":          {32, 138361641, 15.47, []float64{411.04, 67.11, 16.40, 9.44}, 17},
	"alexnet":        {16, 61842345, 0.84, []float64{150.99, 67.11, 16.40}, 8},
	"googlenet":      {116, 6999577, 1.58, []float64{4.10, 2.65, 1.84}, 68},
	"cifar10_full":   {8, 89578, 12.3e-3, []float64{0.20, 0.10}, 6},
	"airbench94":     {14, 1971352, 0.118, []float64{2.36, 2.36, 2.36, 0.59}, 9}, // published is 0.36 PFLOP a training, 0.121 with all samples and without evaluation
	"lenet":          {10, 61706, 0.41652e-3, []float64{0.19}, 9},                // LeCun et al. 1998, with full connections
	"bert_large":     {391, 335141888, 39.46, []float64{125.02, 16.78}, 244},     // Devlin et al. 2019; 128 tokens
	"llama":          {57, 30846720, 9.97, []float64{51.46, 51.46}, 13},          // torchtitan's debug model, as in diloco-measured; 512 tokens
	"gpt2":           {148, 124439808, 145.82, []float64{154.39, 9.44}, 98},      // Radford et al. 2019; 1024 tokens
	"densenet40":     {158, 357491, 0.1516, nil, 156},                            // GRACE's volumes: bytes of a gradient, and of a byte a value and four a tensor
	"unet_tiny":      {46, 1850305, 18.34, nil, 33},                              // the same
	"mnistcnn":       {8, 3274634, 27.8e-3 / 2, []float64{12.85}, 6},
}

func TestPublished(t *testing.T) {
	for _, name := range Profiles.Names() {
		want, ok := published[name]
		if !ok {
			t.Errorf("%s: nothing published to check it by", name)
			continue
		}
		p := Profiles.MustParse(name).Profile()
		var sizes []float64
		small := 0
		for _, s := range p.Layout.Spans {
			sizes = append(sizes, 4e-6*float64(s.Len()))
			if 4*s.Len() < 64<<10 {
				small++
			}
		}
		slices.SortFunc(sizes, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
		if p.Name != name || len(sizes) != want.variables || p.Parameters() != want.parameters || small != want.small {
			t.Errorf("%s: %s has %d tensors, %d of them small, and %d parameters, want %d, %d and %d",
				name, p.Name, len(sizes), small, p.Parameters(), want.variables, want.small, want.parameters)
		}
		if g := p.ForwardMACs() / 1e9; math.Abs(g-want.gmacs) > 0.006*want.gmacs {
			t.Errorf("%s: %.3f GMAC, want %.2f", name, g, want.gmacs)
		}
		for i, mb := range want.largest {
			if math.Abs(sizes[i]-mb) > 0.006 {
				t.Errorf("%s: tensor %d by size has %.2f MB, want %.2f", name, i, sizes[i], mb)
			}
		}
	}
}

// A profile is what the model of that name computes: matrix by matrix and vector by
// vector, but for the statistics of batch norms, which profiles leave out. Profiles that are
// not here have the layers of published benchmarks, which models of the same name differ
// from in strides, widths or scales of batch norms, and airbench94's whitening.
func TestProfilesAreTheModels(t *testing.T) {
	for name, c := range map[string]struct {
		model string
		in    sgd.Shape
	}{
		"vgg16(classes=10)": {"vgg16", sgd.Shape{C: 3, H: 224, W: 224}},
	} {
		p := Profiles.MustParse(name).Profile()
		m, err := nn.Models.MustParse(c.model).New(sgd.Sample{Shape: c.in, Classes: 10})
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for i, s := range m.Layout().Spans {
			if s.Role == sgd.Buffer {
				continue
			}
			if at == len(p.Layout.Spans) {
				t.Errorf("%s: %d tensors, the model has more", name, at)
				break
			}
			have := p.Layout.Spans[at]
			flops := m.SpanFLOPs()[i]
			if s.Role != sgd.Weight {
				flops = 0 // normalisations are not counted
			}
			if s.Rows != have.Rows || s.Cols != have.Cols || s.Role != have.Role || flops != 2*p.MACs[at] {
				t.Errorf("%s: %s is %d×%d with %g MACs, the model's %s %d×%d with %g", name, have.Name, have.Rows, have.Cols, p.MACs[at], s.Name, s.Rows, s.Cols, flops/2)
			}
			at++
		}
		if at != len(p.Layout.Spans) {
			t.Errorf("%s: %d tensors, the model has %d", name, len(p.Layout.Spans), at)
		}
	}
}

// Late layers have most of the parameters and little of the work: most bytes
// are there early in the backward pass. The figures count the layer in progress
// as done, Available does not: so they lie between it and one layer more.
func TestAvailable(t *testing.T) {
	for name, want := range map[string][7]float64{ // after 1, 5, 10, 25, 50, 75, 90 %
		"inception3": {14, 28, 48, 69, 89, 99, 100},
		"resnet50":   {12, 25, 39, 72, 92, 98, 100},
		"resnet101":  {12, 22, 39, 53, 73, 95, 100},
		"resnet152":  {9, 24, 32, 46, 71, 95, 99},
		"vgg16":      {91, 93, 96, 98, 99, 100, 100},
		"alexnet":    {34, 95, 96, 98, 98, 100, 100},
	} {
		p := Profiles.MustParse(name).Profile()
		for i, share := range []float64{0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90} {
			least, most := 100*p.Available(share), 100*begun(p, share)
			if want[i] < least-1 || want[i] > most+1 {
				t.Errorf("%s: %.0f to %.0f %% of the bytes after %g %%, want %.0f", name, least, most, 100*share, want[i])
			}
		}
		if p.Available(0) > 1e-4 || p.Available(1) != 1 {
			t.Errorf("%s: from %g to %g", name, p.Available(0), p.Available(1))
		}
	}
}

// begun is Available with the layer in progress.
func begun(p *Profile, share float64) float64 {
	done, ready := 0.0, 0
	for i := len(p.MACs) - 1; i >= 0 && done <= share*p.ForwardMACs(); i-- {
		ready += p.Layout.Spans[i].Len()
		done += p.MACs[i]
	}
	return float64(ready) / float64(p.Parameters())
}

func TestRefusals(t *testing.T) {
	for _, name := range Profiles.Names() {
		if _, err := Profiles.Parse(name + "(classes=0)"); err == nil {
			t.Errorf("%s without classes passes", name)
		}
	}
}
