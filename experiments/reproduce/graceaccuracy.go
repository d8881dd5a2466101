package reproduce

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/advise"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
)

// GraceAccuracy trains with the methods of GRACE's accuracy table and compares the order
// that they come in.
//
// Source: Xu et al. 2021 (GRACE), ResNet-20 on CIFAR-10, 8 workers, one run each.
type GraceAccuracy struct{}

var _ = Studies.Add("grace-accuracy", "GRACE's methods by their accuracy: in which order they come in trainings of ours", GraceAccuracy{})

// Group implements Study.
func (GraceAccuracy) Group() Group { return Learning }

// Mechanisms implements Study.
func (GraceAccuracy) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "feedback", Doc: "what was left out is forgotten", Off: swap("codec", `^feedback\((.*?)(?:,unchecked=true)?\)$`, "$1"), Slow: true},
		{Name: "compression", Doc: "raw gradients under every name", Off: swap("codec", `^.*$`, "raw"), Slow: true},
	}
}

// graceTask is the training of GRACE's table that is looked at.
const graceTask, graceSource = "ResNet-20 on CIFAR-10", "GRACE (Xu et al. 2021)"

// graceMethod is a method of the table, and ours.
type graceMethod struct {
	advise.Trial
	*side
}

// often are settings between others, which the quick form leaves out.
var often = regexp.MustCompile(`keep=0\.(25|5)\b`)

// Run implements Study.
func (GraceAccuracy) Run(ctx context.Context, lab *Lab) (*Report, error) {
	limit, test := 4096, 2000
	if !lab.Quick {
		limit, test = 8192, 5000
	}
	const epochs = 8
	r := &Report{
		Title:  "the order of GRACE's methods by accuracy",
		Source: "Xu et al. 2021 (GRACE): test errors of ResNet-20 on CIFAR-10 with 8 workers, one run of each method; some with momentum, some with plain SGD",
		Stated: []string{
			fmt.Sprintf("wrn(depth=10,width=1) on %d pictures of CIFAR-10, shifted and mirrored, tested on %d; %d epochs, 8 workers of 8 samples, mean of all gradients", limit, test, epochs),
			"momentum 0.9 or plain SGD, as there, and decay 1e-4; gradual warm-up over 2 epochs from a tenth of the rate, then a fall with power 2",
			"the rate is tuned without a codec, once for each of the two rules; every method takes that of its rule, and DGC, which has the momentum inside, that of momentum",
		},
	}
	c := &contest{lab: lab, tries: 1, seeds: 5, keys: []string{"mode=reduce", "nonfinite=zero", "workers=8", "batch=8", "model=wrn(depth=10,width=1)", fmt.Sprintf("epochs=%d", epochs),
		"data=cifar10", fmt.Sprintf("train_limit=%d", limit), fmt.Sprintf("test_limit=%d", test), "augment=true"}}
	with := func(rule, codec string, rates []float64) []candidate {
		return grid(rates, nil, func(rate float64, _ string) []string {
			return []string{"optimizer=chain(" + rule + ")", "codec=" + codec, "schedule=" + gradual(fmt.Sprintf("poly(lr=%g,power=2)", rate), rate/10)}
		})
	}
	const momentum, sgd, inside = "decay(rate=1e-4),momentum(beta=0.9)", "decay(rate=1e-4),sgd", "decay(rate=1e-4,momentum=0.9),sgd"
	slow, fast := octaves(0.05, 6), octaves(0.2, 6)
	raw := map[string]*side{"momentum": c.tune("raw, momentum", with(momentum, "raw", slow)), "sgd": c.tune("raw, sgd", with(sgd, "raw", fast))}
	trials, err := advise.Shipped()
	if err != nil {
		return nil, err
	}
	var rows []graceMethod
	for _, t := range trials {
		if t.Task != graceTask || t.Source != graceSource || lab.Quick && often.MatchString(t.Way) {
			continue
		}
		like, rule, rates := raw[t.Optimizer], sgd, fast
		switch {
		case t.Optimizer == "momentum":
			rule, rates = momentum, slow
		case dgc.MatchString(t.Way):
			like, rule, rates = raw["momentum"], inside, slow
		}
		if !slices.ContainsFunc(rows, func(x graceMethod) bool { return x.Optimizer == t.Optimizer }) {
			rows = append(rows, graceMethod{advise.Trial{Optimizer: t.Optimizer, Way: "raw", Value: t.Without}, raw[t.Optimizer]})
		}
		codec, unchecked, err := stated(t.Way)
		if err != nil {
			return nil, err
		}
		if unchecked {
			r.Stated = append(r.Stated, t.Way+" is no contraction, and is trained as it is (unchecked=true)")
		}
		rows = append(rows, graceMethod{t, c.follow(like, t.Way+", "+t.Optimizer, with(rule, codec, rates))})
	}
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the rate", raw["momentum"])
	r.order(rows)
	for _, way := range []string{"topk(keep=0.01)", "randomk(keep=0.01)"} {
		if a, b := find(rows, "feedback("+way+")"), find(rows, way); a != nil && b != nil {
			r.better(Claim, a, b)
		}
	}
	return r, nil
}

// stated is a codec as a run takes it: GRACE puts feedback around what is no contraction,
// too, which a run has to be told.
func stated(way string) (codec string, unchecked bool, err error) {
	f, err := compress.Parse(way)
	if err != nil {
		return "", false, err
	}
	first := compress.Block{Name: "conv1.weight", Role: "weight", Rows: 16, Cols: 27, World: 8, Peer: -1}
	if _, err := f.New(first); err != nil && strings.HasPrefix(way, "feedback(") {
		return strings.TrimSuffix(way, ")") + ",unchecked=true)", true, nil
	}
	return way, false, nil
}

var dgc = regexp.MustCompile(`^dgc\(`)

func find(rows []graceMethod, way string) *side {
	for _, x := range rows {
		if x.Way == way {
			return x.side
		}
	}
	return nil
}

// order compares the order of the rows with the published one: of pairs with one rule
// whose published errors are apart, the share that is in the same order here. Each seed
// has a share of its own, so that it has an interval; half of the pairs would be so by
// chance.
func (r *Report) order(rows []graceMethod) {
	t := figure.Table{Title: "pairs of methods with one rule, by how far their published errors are apart",
		Header: []string{"apart by", "pairs", "in the same order", "by intervals", "reversed by intervals"}}
	for _, apart := range []float64{0, 0.005, 0.01, 0.02, 0.05} {
		pairs, same, reversed := 0, 0, 0
		shares := map[uint64]float64{}
		for _, a := range rows {
			for _, b := range rows {
				if a.Optimizer != b.Optimizer || b.Value-a.Value <= apart { // a is the better one, as published
					continue
				}
				pairs++
				x, y := a.bySeed(), b.bySeed()
				for seed := range x {
					switch d := x[seed] - y[seed]; {
					case d > 0:
						shares[seed]++
					case d == 0:
						shares[seed] += 0.5
					}
				}
				switch d := stats.Paired(y, x); {
				case d.Mean-d.Half > 0:
					same++
				case d.Mean+d.Half < 0:
					reversed++
				}
			}
		}
		if pairs == 0 {
			continue
		}
		var share []float64
		for _, n := range shares {
			share = append(share, 100*n/float64(pairs))
		}
		s := stats.Summarize(share)
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%g points", 100*apart), fmt.Sprint(pairs), fmt.Sprintf("%.1f ± %.1f %%", s.Mean, s.Half), fmt.Sprint(same), fmt.Sprint(reversed)})
		if apart == 0.02 {
			r.between(Claim, fmt.Sprintf("of %d pairs published more than 2 points apart, in the same order: more than half by the interval over seeds", pairs), "%", math.NaN(), s.Mean,
				math.Nextafter(50+s.Half, math.Inf(1)), 100)
		}
	}
	r.Tables = append(r.Tables, t)
}
