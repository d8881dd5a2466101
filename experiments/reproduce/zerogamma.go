package reproduce

import (
	"context"
	"fmt"
)

// ZeroGamma compares first scales of 0 and of 1 in the last normalisation of each
// residual block (Goyal et al. 2017, section 5.1).
type ZeroGamma struct{}

var _ = Studies.Add("zero-gamma", "residual blocks that begin as the identity: the last scale of each starts at 0, or at 1", ZeroGamma{})

// Group implements Study.
func (ZeroGamma) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (ZeroGamma) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "zero γ", Doc: "the last scale of each block begins at 1", Off: swap("model", `zero_gamma=true`, "zero_gamma=false"), Slow: true},
	}
}

// Run implements Study.
func (ZeroGamma) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	m.epochs, m.tries = 8, 1
	batches, limit, test := []int{64, 512}, 4096, 2000
	if lab.Quick {
		m.epochs, batches, limit, test = 5, []int{128}, 1024, 1000
	}
	m.data = []string{"data=cifar10", fmt.Sprintf("train_limit=%d", limit), fmt.Sprintf("test_limit=%d", test), "augment=true"}
	m.says = fmt.Sprintf("ResNet-20, first weights as in the paper, on %d pictures of CIFAR-10, shifted and mirrored, tested on %d; batch norm over each worker's 32", limit, test)
	r := &Report{
		Title:  "the first scale of the last normalisation in each block",
		Source: "Goyal et al. 2017, table 2b (order as recalled): 0 is better than 1, more so at a batch of 8192 than of 256",
		Stated: append(m.stated(), "gradual warm-up over 2 epochs from a tenth of the rate, then a fall with power 2"),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	var zero, one []*side
	for _, batch := range batches {
		rates := octaves(0.05, 7) // wide, as the two sides want rates up to eight times apart
		for _, on := range []bool{true, false} {
			s := c.tune(map[bool]string{true: "γ = 0", false: "γ = 1"}[on]+fmt.Sprintf(", batch %d", batch), grid(rates, nil, func(rate float64, _ string) []string {
				return []string{batchOf(batch), nesterov(""), fmt.Sprintf("model=resnet20(init=goyal,zero_gamma=%v)", on),
					"schedule=" + gradual(fmt.Sprintf("poly(lr=%g,power=2)", rate), rate/10)}
			}))
			if on {
				zero = append(zero, s)
			} else {
				one = append(one, s)
			}
		}
	}
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the rate", one[0])
	if err := lab.identity(ctx, r); err != nil {
		return nil, err
	}
	for i := range batches {
		r.better(Hypothesis, zero[i], one[i])
	}
	return r, nil
}
