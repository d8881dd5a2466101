package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/sgd"
)

// GRACEBytes compares what GRACE counted for a step of a worker with what the
// same methods take when they are packed.
//
// Source: sands-lab/grace-data, recorded volumes of five benchmarks (Xu et al.
// 2021).
type GRACEBytes struct{}

var _ = Studies.Add("grace-bytes", "bytes a step as GRACE counted them, beside ours packed", GRACEBytes{})

// graceMethods are methods as GRACE sends them: bytes for a tensor of n elements,
// and the codec here that does the same.
var graceMethods = []struct {
	name, spec string
	bytes      func(n int) int
}{
	{"none", "raw", func(n int) int { return 4 * n }},
	{"signSGD", "sign(scale=none)", func(n int) int { return n }},                 // a byte a sign
	{"TernGrad", "terngrad(clip=0)", func(n int) int { return n + 4 }},            // a byte a level, a scale
	{"Top-k 1 %", "topk(keep=0.01)", func(n int) int { return 8 * graceKept(n) }}, // index and value, four bytes each
	{"Random-k 1 %", "randomk(keep=0.01)", func(n int) int { return 4 * graceKept(n) }},
	{"QSGD 64", "qsgd(bits=7,bucket=0,norm=l2)", nil},
	{"8-bit", "float8(format=dynamic)", nil},
	{"natural", "natural", nil},
	{"one-bit", "onebit", nil},
}

func graceKept(n int) int { return max(1, n/100) }

// graceModels are GRACE's benchmarks: their tensors, the bytes recorded for a step
// of a worker, and how many times fewer bytes each method sent, in whole numbers.
var graceModels = []struct {
	name    string
	shapes  func() sgd.Layout
	bytes   map[string]float64
	smaller map[string]float64
}{
	{"ResNet-20", func() sgd.Layout { return profileShapes("resnet20") },
		map[string]float64{"none": 1077868, "signSGD": 269467, "TernGrad": 269671, "Top-k 1 %": 21680, "Random-k 1 %": 10840},
		map[string]float64{"QSGD 64": 4, "8-bit": 4, "natural": 4, "one-bit": 4}},
	{"ResNet-50", func() sgd.Layout { return profileShapes("resnet50") },
		map[string]float64{"none": 102236324}, byteEach(4)},
	{"NCF", ncfShapes, map[string]float64{"none": 127330308}, byteEach(4)},
	{"LSTM", lstmShapes, map[string]float64{"none": 53100800}, byteEach(8)},
	{"U-Net", func() sgd.Layout { return profileShapes("unet_tiny") }, map[string]float64{"none": 7401220}, byteEach(4)},
}

// byteEach is what GRACE's tables have for a model, given the figure of methods
// with a byte and a scale.
func byteEach(n float64) map[string]float64 {
	return map[string]float64{"signSGD": 4, "TernGrad": n, "Top-k 1 %": 50, "Random-k 1 %": 100, "QSGD 64": n, "8-bit": n, "natural": 4, "one-bit": n}
}

// Group implements Study.
func (GRACEBytes) Group() Group { return Codecs }

// Mechanisms implements Study.
func (GRACEBytes) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "a byte a level", Doc: "levels are packed"},
		{Name: "an entry at least", Doc: "tensors of few entries send none"},
	}
}

// Run implements Study.
func (GRACEBytes) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "bytes a worker sends in a step",
		Source: "sands-lab/grace-data: recorded volumes of five benchmarks (Xu et al. 2021)",
		Stated: []string{
			"shapes: from the architectures, tensor by tensor; ResNet-20 and -50 are the profiles of these names, U-Net is unet_tiny, the others follow sands-lab/grace-benchmarks",
			"LSTM without its table of embeddings (6,500,000 values): the total recorded is that of the other tensors to the byte",
			"GRACE's counting: signs, ternary and 8-bit levels a byte each, indices and values four; k = max(1, ⌊n/100⌋)",
			"ours: payloads of normal gradients, as the codecs write them",
		},
		Notes: []string{"on the LSTM GRACE's tables have half the bytes for methods that send a byte an element and a scale, and not for signs and powers of two, which take the same byte; " +
			"neither the shapes nor the methods explain it, so these points are not judged"},
	}
	for _, model := range graceModels {
		shapes := model.shapes()
		dense := 4 * float64(shapes.Size())
		table := figure.Table{Title: model.name, Header: []string{"method", "GRACE, bytes", "ours, bytes", "codec", "bits an element", "ours smaller by"}}
		for _, m := range graceMethods {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			theirs := 0
			count := func(n int) int { return n + 4 } // a byte a level, and a norm or scale
			if m.bytes != nil {
				count = m.bytes
			}
			for _, s := range shapes.Spans {
				n := count(s.Len())
				if lab.lacks("a byte a level") && n >= s.Len() && n < 2*s.Len() {
					n = n - s.Len() + (s.Len()+7)/8
				}
				if lab.lacks("an entry at least") && s.Len() < 100 && n < s.Len() {
					n = 0
				}
				theirs += n
			}
			ours, err := packedBytes(m.spec, shapes)
			if err != nil {
				return nil, err
			}
			point := fmt.Sprintf("%s, %s, their counting", model.name, m.name)
			if want, ok := model.bytes[m.name]; ok {
				r.exactly(Claim, point, "bytes", want, float64(theirs))
			}
			if want, ok := model.smaller[m.name]; ok {
				kind := Claim
				if want == 8 {
					kind = Derived // see Notes
				}
				r.between(kind, point, "× smaller", want, dense/float64(theirs), want-0.5, want+0.5)
			}
			table.Rows = append(table.Rows, []string{m.name, fmt.Sprint(theirs), fmt.Sprint(ours), m.spec,
				fmt.Sprintf("%.3f", 8*float64(ours)/float64(shapes.Size())), fmt.Sprintf("%.1f×", float64(theirs)/float64(ours))})
		}
		r.Tables = append(r.Tables, table)
	}
	return r, nil
}

// packedBytes is the length of all payloads of a gradient of these shapes.
func packedBytes(spec string, l sgd.Layout) (total int, err error) {
	f, err := compress.Parse(spec)
	if err != nil {
		return 0, err
	}
	for i, s := range l.Spans {
		b := compress.Block{Name: s.Name, Role: s.Role.String(), Rows: s.Rows, Cols: s.Cols, World: 1, Peer: -1, Seed: 1}
		if claims, ok := compress.ClaimsOf(f, b); ok && claims.Exact {
			total += claims.Size
			continue
		}
		c, err := f.New(b)
		if err != nil {
			return 0, err
		}
		payload, err := c.Append(nil, normal(s.Len(), i), compress.Step{Seed: 1})
		if err != nil {
			return 0, fmt.Errorf("%s on %s: %w", spec, s.Name, err)
		}
		total += len(payload)
	}
	return total, nil
}
