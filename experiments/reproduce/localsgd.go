package reproduce

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
)

// LocalSGD is the ablation of local steps and of the outer rule.
//
// Source: Lin et al. 2020, Wang et al. 2019, Douillard et al. 2023 (as
// recalled).
type LocalSGD struct{}

var _ = Studies.Add("local-sgd", "local steps H and the outer rule: bytes, accuracy, what outer momentum is worth", LocalSGD{})

// Group implements Study.
func (LocalSGD) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (LocalSGD) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "local steps", Doc: "workers average after every step", Off: swap("mode", `^localsgd\(h=\d+`, "localsgd(h=1"), Slow: true},
		{Name: "outer momentum", Doc: "the mean is taken as it is", Off: swap("outer", `^(nesterov|momentum).*`, "sgd"), Slow: true},
	}
}

// Run implements Study.
func (LocalSGD) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title: "accuracy and bytes over local steps H and outer rules",
		Source: "Lin et al. 2020 (local and post-local SGD), Wang et al. 2019 (SlowMo), Douillard et al. 2023 (DiLoCo; as recalled: outer Nesterov " +
			"at 0.7 good, plain averaging and outer Adam poor at H = 500)",
		Stated: []string{
			"task: mlp(hidden=[64]) on the first samples of MNIST, tested on all 10,000; 8 workers, batch 16 each, codec raw over a ring",
			"inner rate 0.2 is about the best for H = 1, 0.05 is small: there the outer rule has something to make up for. DiLoCo: inner adam at 0.001 throughout, outer rate 0.7 but for plain averaging",
		},
	}
	limit, seeds, hs := "24000", 5, []int{1, 8, 32, 128}
	if lab.Quick {
		limit, seeds, hs = "12000", 3, []int{1, 8, 94}
	}
	const workers, batch, epochs, parameters = 8, 16, 3, 784*64 + 64 + 64*10 + 10
	longest := hs[len(hs)-1]
	type entry struct {
		name string
		h    int
		*sample
	}
	runs := lab.plan(seeds)
	var entries []entry
	add := func(name string, h int, keys ...string) {
		entries = append(entries, entry{name, h, runs.add(fmt.Sprintf("%s,H=%d", name, h), append([]string{
			"data=mnist", "model=mlp(hidden=[64])", "train_limit=" + limit, fmt.Sprintf("workers=%d", workers), fmt.Sprintf("batch=%d", batch),
			fmt.Sprintf("epochs=%d", epochs), "nonfinite=zero"}, keys...)...)})
	}
	for _, rate := range []string{"0.2", "0.05"} {
		inner := "schedule=constant(lr=" + rate + ")"
		for _, h := range hs {
			mode := fmt.Sprintf("mode=localsgd(h=%d)", h)
			add("averaging, inner "+rate, h, mode, inner)
			add("outer Nesterov 0.9, inner "+rate, h, mode, inner, "outer=nesterov(beta=0.9)")
		}
	}
	half := map[bool]string{true: "140", false: "281"}[lab.Quick]
	for _, v := range [][]string{
		{"post-local, inner 0.2", fmt.Sprintf("mode=localsgd(h=%d,start=%s)", longest, half), "schedule=constant(lr=0.2)"},
		{"SlowMo 0.7, inner 0.05", fmt.Sprintf("mode=localsgd(h=%d,by_rate=true)", longest), "outer=momentum(beta=0.7)", "schedule=constant(lr=0.05)"},
		{"adam, averaging", fmt.Sprintf("mode=localsgd(h=%d)", longest), "optimizer=adam", "schedule=constant(lr=0.001)"},
		{"DiLoCo", fmt.Sprintf("mode=localsgd(h=%d,lr=0.7)", longest), "outer=nesterov(beta=0.9)", "optimizer=adam", "schedule=constant(lr=0.001)"},
		{"adam, outer adam", fmt.Sprintf("mode=localsgd(h=%d,lr=0.01)", longest), "outer=adam", "optimizer=adam", "schedule=constant(lr=0.001)"},
	} {
		add(v[0], longest, v[1:]...)
	}
	if err := runs.make(ctx); err != nil {
		return nil, err
	}
	table := figure.Table{Title: "mean and 95 % interval over seeds", Header: []string{"run", "H", "test accuracy", "bytes", "virtual time"}}
	for _, e := range entries {
		bytes := e.of(func(r *experiments.Result) float64 { return float64(r.BytesUp) })
		took := e.of(func(r *experiments.Result) float64 { return r.VirtualSeconds })
		table.Rows = append(table.Rows, []string{e.name, fmt.Sprint(e.h), e.String(), progress.Bytes(uint64(bytes.Mean)), progress.Seconds(took.Mean)})
	}
	r.Tables = append(r.Tables, table)
	of := func(name string, h int) *sample {
		return entries[slices.IndexFunc(entries, func(e entry) bool { return e.name == name && e.h == h })].sample
	}
	for _, h := range hs {
		made := of("averaging, inner 0.2", h).first()
		rounds := (made.Steps + h - 1) / h
		r.exactly(Claim, fmt.Sprintf("H = %d: bytes of %d rounds, 2·4N(P−1) each", h, rounds), "bytes",
			float64(rounds)*2*4*parameters*(workers-1), float64(made.BytesUp))
	}
	plain := of("averaging, inner 0.2", 1)
	r.between(Claim, "averaging, inner 0.2: accuracy lost from H = 1 to 8, at most 0.015", "", 0, plain.mean()-of("averaging, inner 0.2", 8).mean(), -1, 0.015)
	r.between(Claim, fmt.Sprintf("averaging, inner 0.2: accuracy lost from H = 1 to %d, at most 0.03", longest), "", 0, plain.mean()-of("averaging, inner 0.2", longest).mean(), -1, 0.03)
	r.holds(Claim, fmt.Sprintf("averaging, inner 0.2: H = 1 is better than H = %d, beyond the 95 %% interval", longest), plain.beats(of("averaging, inner 0.2", longest)))
	r.holds(Claim, "inner 0.05, H = 8: outer momentum is better than averaging, beyond the 95 % interval", of("outer Nesterov 0.9, inner 0.05", 8).beats(of("averaging, inner 0.05", 8)))
	r.holds(Claim, "inner 0.2, H = 8: the same momentum is worse than averaging: the two rates multiply", of("averaging, inner 0.2", 8).beats(of("outer Nesterov 0.9, inner 0.2", 8)))
	r.holds(Derived, fmt.Sprintf("H = %d: post-local SGD is better than local SGD, beyond the 95 %% interval", longest), of("post-local, inner 0.2", longest).beats(of("averaging, inner 0.2", longest)))
	r.holds(Derived, fmt.Sprintf("H = %d: DiLoCo is better than averaging over adam, beyond the 95 %% interval", longest), of("DiLoCo", longest).beats(of("adam, averaging", longest)))
	r.holds(Derived, fmt.Sprintf("H = %d: DiLoCo is better than outer adam, beyond the 95 %% interval", longest), of("DiLoCo", longest).beats(of("adam, outer adam", longest)))
	return r, nil
}
