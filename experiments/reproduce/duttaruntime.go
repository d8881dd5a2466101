package reproduce

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/staleness"
	"github.com/gradlab/gradlab/staleness/staletest"
)

// DuttaRuntime is the expected time of an update under K-sync, K-batch-sync,
// K-async and K-batch-async against closed forms (Dutta et al. 2018, §3 and §4).
type DuttaRuntime struct {
	Workers int `doc:"P"`
}

var _ = Studies.Add("dutta-runtime", "expected time of an update under K-sync, K-batch-sync, K-async, K-batch-async", DuttaRuntime{Workers: 8})

// harmonic is 1 + 1/2 + … + 1/n.
func harmonic(n int) (h float64) {
	for i := 1; i <= n; i++ {
		h += 1 / float64(i)
	}
	return h
}

// Group implements Study.
func (DuttaRuntime) Group() Group { return Scaling }

// Mechanisms implements Study.
func (DuttaRuntime) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "cancelling", Doc: "gradients under way go on (K-async) where K-sync begins them anew", Off: swap("policy", `^ksync`, "kasync"), Slow: true},
		{Name: "gradients of anybody", Doc: "K different workers, not K gradients, make an update", Off: swap("policy", `^kbatch(a?)sync`, "k${1}sync"), Slow: true},
	}
}

// Run implements Study.
func (s DuttaRuntime) Run(ctx context.Context, lab *Lab) (*Report, error) {
	p := s.Workers
	if p < 2 {
		return nil, fmt.Errorf("option %q is %d; want at least 2", "workers", p)
	}
	updates, steps := 400_000, 20_000
	if lab.Quick {
		updates, steps = 100_000, 4_000
	}
	r := &Report{
		Title:  fmt.Sprintf("time of an update of %d workers, in units of the mean compute time", p),
		Source: "Dutta, Joshi, Ghosh, Dube and Nagpurkar 2018: order statistics and renewal theory",
		Stated: []string{
			fmt.Sprintf("the policies alone: %d updates a point, messages take no time", updates),
			fmt.Sprintf("the engine: %d updates on the virtual cluster, device.law=exponential, weightless with the frames of ResNet-20 on 10 Tb/s", steps),
		},
	}
	const shift = 0.5
	laws := []struct {
		name string
		law  staletest.Law
		kth  func(k int) float64 // expected k-th smallest of P
	}{
		{"Exp(1)", staletest.Exponential, func(k int) float64 { return harmonic(p) - harmonic(p-k) }},
		{"0.5 + Exp(mean 0.5)", staletest.Shifted(shift),
			func(k int) float64 { return shift + (1-shift)*(harmonic(p)-harmonic(p-k)) }},
	}
	ks := []int{1, 2, 4, 6, 8}
	if p != 8 {
		ks = []int{1, p}
	}
	rules := []string{"ksync", "kbatchsync", "kasync", "kbatchasync"}
	times := make([]float64, len(laws)*len(ks)*len(rules)) // of an update
	err := each(ctx, len(times), func(i int) error {
		law, k, rule := laws[i/len(rules)/len(ks)].law, ks[i/len(rules)%len(ks)], rules[i%len(rules)]
		policy, err := staleness.Policies.MustParse(lab.spec("policy", fmt.Sprintf("%s(k=%d)", rule, k))).New(p)
		if err != nil {
			return err
		}
		sim := staletest.NewSim(policy, p, uint64(k), law)
		for sim.View.Version < updates {
			if err := sim.Step(); err != nil {
				return err
			}
		}
		times[i] = sim.Now() / float64(updates)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var panels []figure.Figure
	for l, law := range laws {
		table := figure.Table{Title: law.name, Header: []string{"K", "K-sync", "K-batch-sync", "K-async", "K-batch-async"}}
		fig := figure.Figure{Title: law.name, X: figure.Axis{Label: "K"}, Y: figure.Axis{Label: "time of an update"}}
		curves := map[string]*figure.Series{}
		for j, k := range ks {
			row := []string{fmt.Sprint(k)}
			got := map[string]float64{}
			for n, rule := range rules {
				got[rule] = times[(l*len(ks)+j)*len(rules)+n]
				row = append(row, fmt.Sprintf("%.4f", got[rule]))
				if curves[rule] == nil {
					curves[rule] = &figure.Series{Name: rule, Marks: true}
				}
				curves[rule].X, curves[rule].Y = append(curves[rule].X, float64(k)), append(curves[rule].Y, got[rule])
			}
			at := fmt.Sprintf(", K = %d, %s", k, law.name)
			exponential := law.name == "Exp(1)"
			r.within(Claim, "K-sync: E[X_K:P]"+at, "", law.kth(k), got["ksync"], 0.01)
			r.within(Claim, "K-batch-async: K·E[X]/P"+at, "", float64(k)/float64(p), got["kbatchasync"], 0.01)
			if exponential {
				r.within(Claim, "K-async: E[X_K:P]"+at, "", law.kth(k), got["kasync"], 0.01)
				r.within(Claim, "K-batch-sync: K/P"+at, "", float64(k)/float64(p), got["kbatchsync"], 0.01)
			} else {
				// New-longer-than-used: a gradient under way is nearer its end.
				r.between(Claim, "K-async ≤ E[X_K:P]"+at, "", law.kth(k), got["kasync"], 0, 1.005*law.kth(k))
			}
			table.Rows = append(table.Rows, row)
			if k == p {
				r.within(Claim, "full sync over async: P·E[X_P:P]/E[X], "+law.name, "×", float64(p)*law.kth(p), got["ksync"]*float64(p), 0.01)
			}
		}
		for _, rule := range rules {
			fig.Series = append(fig.Series, *curves[rule])
		}
		panels = append(panels, fig)
		r.Tables = append(r.Tables, table)
	}
	if err := s.engine(ctx, r, lab, steps); err != nil {
		return nil, err
	}
	files, err := figure.Save(filepath.Join(lab.Out, "dutta-runtime"), panels...)
	r.Figures = append(r.Figures, files...)
	return r, err
}

// engine repeats points on the virtual cluster, with frames, answers and voids.
func (s DuttaRuntime) engine(ctx context.Context, r *Report, lab *Lab, steps int) error {
	p, k := s.Workers, max(1, s.Workers/2)
	mean := 0.0
	for _, c := range []struct {
		policy string
		want   float64
	}{
		{"asp", 1 / float64(p)},
		{fmt.Sprintf("ksync(k=%d)", k), harmonic(p) - harmonic(p-k)},
		{fmt.Sprintf("kbatchsync(k=%d)", k), float64(k) / float64(p)},
		{fmt.Sprintf("kasync(k=%d)", k), harmonic(p) - harmonic(p-k)},
		{fmt.Sprintf("kbatchasync(k=%d)", k), float64(k) / float64(p)},
		{"bsp", harmonic(p)},
	} {
		result, err := lab.run(ctx, c.policy, "policy="+c.policy, fmt.Sprintf("workers=%d", p), fmt.Sprintf("steps=%d", steps), "weightless=true", "timing=resnet20",
			"device.flops=1e10", "device.law=exponential", "network.bandwidth=10Tbps", "network.latency=0s")
		if err != nil {
			return err
		}
		t := result.VirtualSeconds / float64(steps)
		if mean == 0 { // the asynchronous run gives the unit: P updates in a mean compute time
			mean = t * float64(p)
			continue
		}
		r.within(Claim, fmt.Sprintf("the engine, %s, Exp(1)", c.policy), "", c.want, t/mean, 0.03)
	}
	return nil
}
