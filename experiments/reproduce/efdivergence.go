package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
)

// EFDivergence shows that error feedback over a codec that is no contraction
// diverges, and two cures.
//
// Source: GRACE's published runs (Xu et al. 2021).
type EFDivergence struct{}

var _ = Studies.Add("ef-divergence", "error feedback over QSGD with whole-layer norms diverges; two cures", EFDivergence{})

// Group implements Study.
func (EFDivergence) Group() Group { return Codecs }

// Mechanisms implements Study.
func (EFDivergence) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "memory", Doc: "no feedback around any codec", Off: swap("codec", `^feedback\((.*?\))(,unchecked=true)?\)$`, "$1")},
		{Name: "contraction", Doc: "codecs are not scaled to contractions", Off: swap("codec", `^feedback\(contraction\((.*)\)\)$`, "feedback($1,unchecked=true)")},
	}
}

// Run implements Study.
func (EFDivergence) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title: "feedback needs a contraction",
		Source: "GRACE's published runs (Xu et al. 2021), 8 workers: QSGD with 64 levels 0.906 on ResNet-20/CIFAR-10 and 0.663 on " +
			"ResNet-50/ImageNet, with memory 0.293 and 0",
		Stated: []string{
			"task: mlp on digits, 8 workers, batch 16 each, SGD at rate 0.1, gather; 63 levels on a layer's L2 norm (bits=7, bucket=0)",
			"in the layer of 131,072 weights that codec's ω is 4.7: the square of its error is up to 4.7 times that of the gradient",
		},
	}
	epochs := "20"
	seeds := []string{"1", "2", "3"}
	if lab.Quick {
		epochs, seeds = "10", seeds[:1]
	}
	const wild = "qsgd(bits=7,bucket=0,norm=l2)"
	runs := []struct{ name, codec string }{
		{"no compression", "raw"},
		{"QSGD", wild},
		{"QSGD + feedback", "feedback(" + wild + ",unchecked=true)"},
		{"QSGD·1/(1+ω) + feedback", "feedback(contraction(" + wild + "))"},
		{"QSGD, buckets of 512, + feedback", "feedback(qsgd(bits=7,bucket=512))"},
	}
	table := figure.Table{Title: "means over seeds", Header: []string{"run", "codec", "test accuracy", "bytes a gradient"}}
	accuracy := map[string]float64{}
	for _, c := range runs {
		for _, seed := range seeds {
			res, err := lab.run(ctx, c.name+",seed="+seed, "model=mlp", "data=digits", "mode=gather", "workers=8", "batch=16",
				"optimizer=sgd", "schedule=constant(lr=0.1)", "epochs="+epochs, "nonfinite=zero", "codec="+c.codec, "seed="+seed)
			if err != nil {
				return nil, err
			}
			accuracy[c.name] += res.Values["accuracy"] / float64(len(seeds))
			if seed == seeds[len(seeds)-1] {
				// A worker receives seven gradients a step.
				one := float64(res.BytesDown) / float64(res.Steps*8*7)
				table.Rows = append(table.Rows, []string{c.name, c.codec, fmt.Sprintf("%.4f", accuracy[c.name]), progress.Bytes(uint64(one))})
			}
		}
	}
	r.Tables = append(r.Tables, table)
	raw := accuracy["no compression"]
	r.holds(Claim, "without compression it learns: above 0.9", raw > 0.9)
	r.holds(Claim, "feedback over QSGD with whole-layer norms does not learn: below 0.3", accuracy["QSGD + feedback"] < 0.3)
	r.holds(Claim, "the same codec without feedback is better than with it", accuracy["QSGD"] > accuracy["QSGD + feedback"])
	r.holds(Claim, "scaled to a contraction it learns with feedback: within 0.1 of no compression", accuracy["QSGD·1/(1+ω) + feedback"] > raw-0.1)
	r.holds(Claim, "with small buckets feedback costs nothing: within 0.01 of no compression", accuracy["QSGD, buckets of 512, + feedback"] > raw-0.01)
	return r, nil
}
