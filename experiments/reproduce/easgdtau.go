package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments/figure"
)

// EASGDTau compares what rare communication does to DOWNPOUR and to elastic
// averaging.
//
// Source: Zhang, Choromanska and LeCun 2015, figures as recalled.
type EASGDTau struct{}

var _ = Studies.Add("easgd-tau", "DOWNPOUR degrades where workers talk every 16 or 64 steps, elastic averaging does not", EASGDTau{})

// Group implements Study.
func (EASGDTau) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (EASGDTau) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "elastic force", Doc: "parameters are fetched and updates pushed (DOWNPOUR) every τ steps", Off: swap("mode", `^easgd\(tau=(\d+).*`, "downpour(n_fetch=$1,n_push=$1)"), Slow: true},
		{Name: "rare exchanges", Doc: "every method talks every step", Off: both(swap("mode", `(n_fetch|n_push)=\d+`, "$1=1"), swap("mode", `tau=\d+`, "tau=1")), Slow: true},
	}
}

// Run implements Study.
func (EASGDTau) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "accuracy over the communication period τ",
		Source: "Zhang, Choromanska and LeCun 2015 (figures as recalled): DOWNPOUR unstable at τ = 16 and 64, EASGD not; EAMSGD best of all",
		Stated: []string{
			"task: " + lab.mlp() + " on the first samples of MNIST, tested on all 10,000; 4 asynchronous workers, batch 32 each, the same number of gradients in every run",
			"DOWNPOUR: n_fetch = n_push = τ, plain SGD on replicas and server; EASGD: β = 0.9, plain SGD; EAMSGD: the same with Nesterov momentum 0.9",
			"the rate of a method at a τ is the one of its grid with the best mean over the seeds reported, which favours all alike",
		},
	}
	limit, seeds, taus := "12000", 5, []int{1, 4, 16, 64}
	if lab.Quick {
		limit, seeds, taus = "6000", 3, []int{1, 16, 64}
	}
	methods := []struct {
		name  string
		keys  func(tau int) []string
		rates []string
	}{
		{"DOWNPOUR", func(tau int) []string {
			return []string{fmt.Sprintf("mode=downpour(n_fetch=%d,n_push=%d)", tau, tau)}
		}, []string{"0.001", "0.003", "0.01", "0.03", "0.1"}},
		{"EASGD", func(tau int) []string { return []string{fmt.Sprintf("mode=easgd(tau=%d)", tau)} }, []string{"0.03", "0.1", "0.3"}},
		{"EAMSGD", func(tau int) []string {
			return []string{fmt.Sprintf("mode=easgd(tau=%d)", tau), "optimizer=nesterov(beta=0.9)"}
		}, []string{"0.003", "0.01", "0.03"}},
	}
	table := figure.Table{Title: "test accuracy, mean and 95 % interval over seeds", Header: []string{"method", "τ"}}
	best := map[string]map[int]*sample{}
	most := 0
	runs, got := lab.plan(seeds), map[string]*sample{}
	name := func(method string, tau int, rate string) string {
		return fmt.Sprintf("%s,tau=%d,lr=%s", method, tau, rate)
	}
	for _, m := range methods {
		for _, tau := range taus {
			for _, rate := range m.rates {
				n := name(m.name, tau, rate)
				got[n] = runs.add(n, append([]string{"data=mnist", "model=" + lab.mlp(), "train_limit=" + limit, "workers=4", "batch=32", "epochs=4",
					"policy=asp", "nonfinite=zero", "device.law=lognormal(sigma=0.2)", "schedule=constant(lr=" + rate + ")"}, m.keys(tau)...)...)
			}
		}
	}
	if err := runs.make(ctx); err != nil {
		return nil, err
	}
	for _, m := range methods {
		most = max(most, len(m.rates))
		best[m.name] = map[int]*sample{}
		for _, tau := range taus {
			row := []string{m.name, fmt.Sprint(tau)}
			for _, rate := range m.rates {
				t := got[name(m.name, tau, rate)]
				if b := best[m.name][tau]; b == nil || t.mean() > b.mean() {
					best[m.name][tau] = t
				}
				row = append(row, fmt.Sprintf("%s at %s", t, rate))
			}
			table.Rows = append(table.Rows, row)
		}
	}
	for i := range most {
		table.Header = append(table.Header, fmt.Sprintf("rate %d", i+1))
	}
	for i := range table.Rows {
		for len(table.Rows[i]) < len(table.Header) {
			table.Rows[i] = append(table.Rows[i], "")
		}
	}
	r.Tables = append(r.Tables, table)
	loss := func(method string, tau int) float64 { return best[method][1].mean() - best[method][tau].mean() }
	for _, tau := range []int{16, 64} {
		r.between(Claim, fmt.Sprintf("EASGD: accuracy lost from τ = 1 to %d, at most 0.03", tau), "", 0, loss("EASGD", tau), -1, 0.03)
		r.holds(Claim, fmt.Sprintf("τ = %d: EASGD is better than DOWNPOUR, each at its best rate, beyond the 95 %% interval", tau), best["EASGD"][tau].beats(best["DOWNPOUR"][tau]))
		r.holds(Claim, fmt.Sprintf("τ = %d: DOWNPOUR has lost more than twice what EASGD has", tau), loss("DOWNPOUR", tau) > 2*max(0, loss("EASGD", tau)))
	}
	r.holds(Derived, "τ = 64: EAMSGD is better than EASGD, beyond the 95 % interval", best["EAMSGD"][64].beats(best["EASGD"][64]))
	return r, nil
}
