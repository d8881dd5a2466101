package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/profile"
)

// GRACEBytes compares what GRACE counted for a step of a worker with what the
// same methods take when they are packed.
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

// Run implements Study.
func (GRACEBytes) Run(ctx context.Context, _ *Lab) (*Report, error) {
	r := &Report{
		Title:  "bytes a worker sends in a step",
		Source: "sands-lab/grace-data: recorded volumes of ResNet-20 and ResNet-50 (Xu et al. 2021)",
		Stated: []string{
			"shapes: profiles resnet20 (51 tensors, 269,467 parameters) and resnet50 (161, 25,559,081), tensor by tensor",
			"GRACE's counting: signs, ternary and 8-bit levels a byte each, indices and values four; k = max(1, ⌊n/100⌋)",
			"ours: payloads of normal gradients, as the codecs write them",
		},
		Notes: []string{"the shape lists of GRACE's NCF, LSTM and U-Net are not at hand; only their totals are known"},
	}
	published := map[string]map[string]float64{
		"resnet20": {"none": 1077868, "signSGD": 269467, "TernGrad": 269671, "Top-k 1 %": 21680, "Random-k 1 %": 10840},
		"resnet50": {"none": 102236324},
	}
	for _, name := range []string{"resnet20", "resnet50"} {
		p := profile.Profiles.MustParse(name).Profile()
		table := Table{Title: name, Header: []string{"method", "GRACE, bytes", "ours, bytes", "codec", "bits an element", "ours smaller by"}}
		for _, m := range graceMethods {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			theirs := 0
			count := func(n int) int { return n + 4 } // a byte a level, and a norm or scale
			if m.bytes != nil {
				count = m.bytes
			}
			for _, s := range p.Layout.Spans {
				theirs += count(s.Len())
			}
			ours, err := packedBytes(m.spec, p)
			if err != nil {
				return nil, err
			}
			if want, ok := published[name][m.name]; ok {
				r.exactly(Claim, fmt.Sprintf("%s, %s, their counting", name, m.name), "bytes", want, float64(theirs))
			}
			table.Rows = append(table.Rows, []string{m.name, fmt.Sprint(theirs), fmt.Sprint(ours), m.spec,
				fmt.Sprintf("%.3f", 8*float64(ours)/float64(p.Parameters())), fmt.Sprintf("%.1f×", float64(theirs)/float64(ours))})
		}
		r.Tables = append(r.Tables, table)
	}
	return r, nil
}

// packedBytes is the length of all payloads of a gradient of this shape.
func packedBytes(spec string, p *profile.Profile) (total int, err error) {
	f, err := compress.Parse(spec)
	if err != nil {
		return 0, err
	}
	for i, s := range p.Layout.Spans {
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
