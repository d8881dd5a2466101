package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
)

// RudraTradeoff is Rudra's study of staleness σ, minibatch μ and learners λ (Gupta
// et al. 2016): error and time over the three, and how much of their communication
// the architectures hide.
type RudraTradeoff struct {
	Rate float64 `doc:"α0, the rate of one learner with 128 samples"`
}

var _ = Studies.Add("rudra-tradeoff", "error and time over staleness, minibatch and learners; hidden communication of Rudra's base, adv and adv*", RudraTradeoff{Rate: 0.02})

// p775 is the cluster of the study, as far as it is known.
var p775 = []string{"network.bandwidth=96GB/s", "network.latency=1us", "constants.message=100us", "network.per_host=6", "network.inside=20GB/s", "constants.apply=5GB/s", "device.law=lognormal(sigma=0.1)"}

// Group implements Study.
func (RudraTradeoff) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (RudraTradeoff) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "tree", Doc: "learners push to the root", Off: swap("mode", `^rudra\(tree=6.*`, "server"), Slow: true},
		{Name: "threads", Doc: "learners wait for their pushes and pulls", Off: swap("mode", `,threads=true`, ""), Slow: true},
	}
}

// Run implements Study.
func (s RudraTradeoff) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "Rudra: staleness σ, minibatch μ, learners λ",
		Source: "Gupta, Zhang and Wang 2016; all its figures as recalled, so that none is a bound here",
		Stated: []string{
			"learning: MNIST, mlp(hidden=[64]), momentum 0.9, 1 epoch of warm-up and a cosine over 5, the same samples in every run. Rates: hardsync α0·√(λμ/128), n-softsync α0/n; 3 seeds, test set of 10,000",
			"time, apart from learning: the frames and operations of Caffe's cifar10_full (89,578 parameters), 140 epochs of 50,000 samples. The rate device.flops=23.1e9 is fitted to the recalled 22,392 s of one learner with μ = 128",
			"cluster: IBM P775, 96 GB/s each way of a node (published: 192 GB/s in both), 6 learners a node (published: 4 or 6); assumed: 1 µs, 0.1 ms that a message keeps its connection busy beside its bytes. Also assumed: 20 GB/s in a node's memory, servers that decode and add 5 GB/s, lognormal jitter of 10 %",
			"hidden communication: 54 learners, μ = 4, 1-softsync, frames and operations of AlexNet (247 MB). Devices make 60 GFLOP/s (assumed: half of what 4 of a node's 32 cores do at most); the share of their time that learners compute. base: mode server; adv: rudra(tree=6); adv*: rudra(tree=6,threads=true)",
		},
	}
	if err := s.hidden(ctx, r, lab); err != nil {
		return nil, err
	}
	return r, s.tradeoff(ctx, r, lab)
}

// measure performs a run without weights.
func (l *Lab) measure(ctx context.Context, keys ...string) (*ask.Measured, error) {
	c := config.Default()
	if err := l.set(&c, append([]string{"weightless=true", "net=sim", "epochs=0", "device.codec=free"}, keys...)); err != nil {
		return nil, err
	}
	m, err := l.measured(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(keys, " "), err)
	}
	return m, nil
}

// hidden measures how much of its learners' time each architecture computes.
func (s RudraTradeoff) hidden(ctx context.Context, r *Report, lab *Lab) error {
	const learners = 54
	architectures := []struct {
		name, mode string
		published  float64
	}{{"base", "server", 11.52}, {"adv", "rudra(tree=6)", 56.75}, {"adv*", "rudra(tree=6,threads=true)", 99.56}}
	steps, batches := "steps=60", []int{1, 4, 16, 64}
	if lab.Quick {
		steps, batches = "steps=15", []int{4, 32}
	}
	fixed := append([]string{"policy=softsync(n=1)", fmt.Sprintf("workers=%d", learners), "timing=alexnet", "device.flops=60e9"}, p775...)
	fig := figure.Figure{Title: "hidden communication", X: figure.Axis{Label: "minibatch μ", Log: true}, Y: figure.Axis{Label: "share of time computing, %"}}
	table := figure.Table{Title: "share of learners' time that they compute, in %", Header: []string{"servers take", "μ", "base", "adv", "adv*", "staleness of each"}}
	share := func(mode string, batch int, apply string) (percent, staleness float64, err error) {
		m, err := lab.measure(ctx, slices.Concat(fixed, []string{"mode=" + mode, steps, fmt.Sprintf("batch=%d", batch), "constants.apply=" + apply})...)
		if err != nil {
			return 0, 0, err
		}
		var compute, total, late, n float64
		for _, rank := range m.Reports {
			if t := rank.Spent(); rank.Role == "worker" {
				compute, total = compute+t.Compute, total+t.Busy()+t.Rest
			}
			for tau, k := range rank.Delays {
				late, n = late+float64(tau)*float64(k), n+float64(k)
			}
		}
		return 100 * compute / total, late / n, nil
	}
	curves := make([]figure.Series, len(architectures))
	for _, apply := range []string{"2GB/s", "5GB/s", "20GB/s"} {
		for _, batch := range batches {
			if batch != 4 && apply != "5GB/s" {
				continue
			}
			row, stale, at := []string{apply, fmt.Sprint(batch)}, []string{}, []float64{}
			for i, a := range architectures {
				x, late, err := share(a.mode, batch, apply)
				if err != nil {
					return err
				}
				row, stale, at = append(row, fmt.Sprintf("%.2f", x)), append(stale, fmt.Sprintf("%.2f", late)), append(at, x)
				if apply == "5GB/s" {
					curves[i].Name, curves[i].Marks = a.name, true
					curves[i].X, curves[i].Y = append(curves[i].X, float64(batch)), append(curves[i].Y, x)
				}
				if apply == "5GB/s" && batch == 4 {
					r.within(Hypothesis, a.name+" hides its communication as recalled, to a quarter", "%", a.published, x, 0.25)
				}
			}
			if batch == 4 {
				r.holds(Claim, fmt.Sprintf("servers that take %s: base hides less than adv, adv less than adv*", apply), at[0] < at[1] && at[1] < at[2])
			}
			table.Rows = append(table.Rows, append(row, strings.Join(stale, ", ")))
		}
	}
	fig.Series = curves
	r.Tables = append(r.Tables, table)

	var bytes []float64
	for _, mode := range []string{"server", "rudra(tree=6)"} {
		m, err := lab.measure(ctx, slices.Concat(fixed, []string{"mode=" + mode, "policy=bsp", "steps=3", "batch=4"})...)
		if err != nil {
			return err
		}
		bytes = append(bytes, float64(m.BytesUp))
	}
	r.within(Claim, "bytes into the root, hardsync, base over adv: 54 learners by 2 children", "×", learners/2, bytes[0]/bytes[1], 0.001)
	files, err := figure.Save(filepath.Join(lab.Out, "rudra-hidden"), fig)
	r.Figures = append(r.Figures, files...)
	return err
}

// setting is a point of the trade-off. The policy is hardsync for σ = 0, else
// σ-softsync.
type setting struct{ sigma, batch, learners int }

func (p setting) String() string {
	return fmt.Sprintf("(%d, %d, %d)", p.sigma, p.batch, p.learners)
}

func (p setting) policy() string {
	if p.sigma == 0 {
		return "bsp"
	}
	return fmt.Sprintf("softsync(n=%d)", p.sigma)
}

// protocols are the three that are compared.
var protocols = []string{"hardsync", "1-softsync", "λ-softsync"}

// protocol is which of the study's three protocols p is of.
func (p setting) protocol() string {
	switch p.sigma {
	case 0:
		return protocols[0]
	case 1:
		return protocols[1]
	}
	return protocols[2]
}

// line is which iso-line μλ = 128·2^k p is on, to 15 %; ok is false between lines.
func (p setting) line() (product int, ok bool) {
	x := float64(p.batch * p.learners)
	product = 128 << max(0, int(math.Round(math.Log2(x/128))))
	return product, math.Abs(x/float64(product)-1) <= 0.15
}

// recalled is a setting of the source's table.
type recalled struct {
	setting
	err, seconds float64 // test error in per cent
}

// best are those of the five best trade-offs, by time.
var best = []recalled{
	{setting{1, 4, 30}, 18.09, 1573}, {setting{0, 8, 30}, 18.56, 1995}, {setting{30, 4, 30}, 18.41, 2073}, {setting{0, 4, 30}, 18.15, 2235}, {setting{18, 8, 18}, 18.92, 2488},
}

// outcome is what came of a setting.
type outcome struct {
	setting
	errors  []float64 // in per cent, by seed
	seconds float64
	late    float64 // mean staleness
}

func (o outcome) err() float64 { return stat.Mean(o.errors, nil) }

// tradeoff runs all settings.
func (s RudraTradeoff) tradeoff(ctx context.Context, r *Report, lab *Lab) error {
	limit := "train_limit=12000"
	var settings []setting
	for _, learners := range []int{1, 2, 4, 10, 18, 30} {
		for _, batch := range []int{4, 8, 16, 32, 64, 128} {
			settings = append(settings, setting{0, batch, learners})
			if learners > 1 {
				settings = append(settings, setting{1, batch, learners}, setting{learners, batch, learners})
			}
		}
	}
	if lab.Quick {
		limit = "train_limit=4000"
		settings = []setting{{0, 128, 1}, {0, 4, 30}, {0, 8, 30}, {0, 16, 30}, {0, 128, 30}, {1, 4, 30}, {1, 128, 4}, {1, 16, 30}, {1, 128, 30},
			{18, 8, 18}, {30, 4, 30}, {4, 128, 4}, {30, 16, 30}, {30, 128, 30}}
	}
	var all []outcome
	found := map[setting]outcome{}
	for _, p := range settings {
		o := outcome{setting: p}
		rate := s.Rate * math.Sqrt(float64(p.batch*p.learners)/128)
		if p.sigma > 0 {
			rate = s.Rate / float64(p.sigma)
		}
		x, err := s.learn(ctx, lab, p, rate, limit, "server")
		if err != nil {
			return err
		}
		o.late = x.first().StalenessMean
		for _, run := range x.Runs {
			o.errors = append(o.errors, 100*(1-run.Result.Values["accuracy"]))
		}
		if o.seconds, err = s.time(ctx, lab, p); err != nil {
			return err
		}
		all, found[p] = append(all, o), o
	}
	s.isoLines(r, all)
	s.five(r, found)
	for _, p := range []setting{{0, 4, 30}, {0, 128, 30}} {
		soft := found[setting{1, p.batch, p.learners}]
		r.between(Claim, fmt.Sprintf("time of hardsync over that of 1-softsync, μ = %d, λ = %d", p.batch, p.learners), "×", 1, found[p].seconds/soft.seconds, math.Nextafter(1, 2), math.MaxFloat64)
	}
	if err := s.onTrees(ctx, r, lab, found[setting{1, 4, 30}], limit); err != nil {
		return err
	}
	return s.figures(r, lab, all)
}

// figures draws error over time, a panel a protocol.
func (s RudraTradeoff) figures(r *Report, lab *Lab, all []outcome) error {
	var panels []figure.Figure
	for _, protocol := range protocols {
		f := figure.Figure{Title: protocol, X: figure.Axis{Label: "seconds", Log: true}, Y: figure.Axis{Label: "test error, %"}}
		for _, learners := range []int{1, 2, 4, 10, 18, 30} {
			line := figure.Series{Name: fmt.Sprintf("λ = %d", learners), Marks: true}
			for _, o := range all {
				if o.learners == learners && (o.protocol() == protocol || learners == 1) {
					line.X, line.Y = append(line.X, o.seconds), append(line.Y, o.err())
				}
			}
			if len(line.X) > 0 {
				f.Series = append(f.Series, line)
			}
		}
		panels = append(panels, f)
	}
	files, err := figure.Save(filepath.Join(lab.Out, "rudra-tradeoff"), panels...)
	r.Figures = append(r.Figures, files...)
	return err
}

// learn trains a setting over seeds.
func (s RudraTradeoff) learn(ctx context.Context, lab *Lab, p setting, rate float64, limit, mode string) (*sample, error) {
	return lab.seeds(ctx, 3, mode+" "+p.String(), slices.Concat([]string{"data=mnist", "model=mlp(hidden=[64])", "optimizer=momentum", "mode=" + mode, "policy=" + p.policy(),
		fmt.Sprintf("workers=%d", p.learners), fmt.Sprintf("batch=%d", p.batch), fmt.Sprintf("schedule=warmup(cosine(lr=%g),epochs=1)", rate), "epochs=5", limit,
		"nonfinite=zero", "timing=cifar10_full", "device.flops=23.1e9"}, p775)...)
}

// time is how long 140 epochs of 50,000 samples take.
func (s RudraTradeoff) time(ctx context.Context, lab *Lab, p setting) (float64, error) {
	rounds, group := 100, p.learners
	if lab.Quick {
		rounds = 20
	}
	if p.sigma > 0 {
		group = p.learners / p.sigma
	}
	updates := rounds * p.learners / group
	m, err := lab.measure(ctx, slices.Concat([]string{"mode=server", "policy=" + p.policy(), fmt.Sprintf("workers=%d", p.learners), fmt.Sprintf("batch=%d", p.batch),
		fmt.Sprintf("steps=%d", updates), "timing=cifar10_full", "device.flops=23.1e9"}, p775)...)
	if err != nil {
		return 0, err
	}
	return 140 * 50_000 * m.Ends[len(m.Ends)-1] / float64(updates*group*p.batch), nil
}

// isoLines looks at how much of the error is a matter of μλ.
func (s RudraTradeoff) isoLines(r *Report, all []outcome) {
	table := figure.Table{Title: "test error in % along μλ = constant, to 15 %: mean over settings, and from the least to the most of them", Header: append([]string{"μλ"}, protocols...)}
	cells := map[int][]string{}
	for col, protocol := range protocols {
		lines := map[int][]float64{}
		var logs []float64
		for _, o := range all {
			if product, ok := o.line(); ok && o.protocol() == protocol {
				lines[product] = append(lines[product], o.err())
				logs = append(logs, math.Log(o.err()))
			}
		}
		within, means := 0.0, []float64{}
		for _, product := range sorted(lines) {
			m, sum := stat.Mean(lines[product], nil), 0.0
			for _, x := range lines[product] {
				sum += math.Log(x)
			}
			for _, x := range lines[product] {
				d := math.Log(x) - sum/float64(len(lines[product]))
				within += d * d
			}
			means = append(means, m)
			if cells[product] == nil {
				cells[product] = make([]string, len(protocols))
			}
			cells[product][col] = fmt.Sprintf("%.2f (%.2f to %.2f, n = %d)", m, slices.Min(lines[product]), slices.Max(lines[product]), len(lines[product]))
		}
		total := stat.Variance(logs, nil) * float64(len(logs)-1)
		r.between(Claim, protocol+": share of the variance of log error that is between lines μλ = constant", "", 1, 1-within/total, 0.9, 1)
		r.holds(Claim, protocol+": the error grows with μλ, from line to line", slices.IsSorted(means))
	}
	for _, product := range sorted(cells) {
		table.Rows = append(table.Rows, append([]string{fmt.Sprint(product)}, cells[product]...))
	}
	r.Tables = append(r.Tables, table)
}

func sorted[V any](m map[int]V) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// five answers whether the source's best settings come in its order.
func (s RudraTradeoff) five(r *Report, found map[setting]outcome) {
	base := found[setting{0, 128, 1}]
	table := figure.Table{Title: "the five best trade-offs of the source: recalled (CIFAR-10), and ours (MNIST)",
		Header: []string{"(σ, μ, λ)", "recalled error, %", "ours", "recalled speed-up", "ours"}}
	order := slices.Clone(best)
	slices.SortFunc(order, func(a, b recalled) int { return cmp.Compare(found[a.setting].seconds, found[b.setting].seconds) })
	var names []string
	for i, b := range best {
		o := found[b.setting]
		table.Rows = append(table.Rows, []string{b.String(), fmt.Sprintf("%.2f", b.err), fmt.Sprintf("%.2f", o.err()), fmt.Sprintf("%.1f", 22392/b.seconds), fmt.Sprintf("%.1f", base.seconds/o.seconds)})
		names = append(names, order[i].String())
	}
	r.Tables = append(r.Tables, table)
	r.within(Fitted, "one learner, μ = 128: time", "s", 22392, base.seconds, 0.02)
	r.holds(Hypothesis, "the five best are in the recalled order of time", slices.Equal(order, best))
	r.holds(Hypothesis, "1-softsync with μ = 4 and λ = 30 is the soonest of them", order[0].setting == best[0].setting)
	r.holds(Hypothesis, "18-softsync with μ = 8 and λ = 18 is the last of them", order[4].setting == best[4].setting)
	worst := 0.0
	for _, b := range best {
		worst = max(worst, found[b.setting].err()-base.err())
	}
	r.between(Hypothesis, "the five lose at most a point of accuracy to one learner", "points", 1.02, worst, -100, 1)
	r.Notes = append(r.Notes, "order of time here: "+strings.Join(names, ", ")+
		". Devices compute on 4 samples at the rate they do on 128, which POWER7 cores hardly did, so that small minibatches cost only messages here; with 0.2 ms a message instead of 0.1 hardsync with μ = 4 is the last.")
}

// onTrees trains a setting on all architectures.
func (s RudraTradeoff) onTrees(ctx context.Context, r *Report, lab *Lab, base outcome, limit string) error {
	table := figure.Table{Title: fmt.Sprintf("test error of %s in %%", base.setting), Header: []string{"architecture", "error", "staleness"}}
	got := []float64{base.err()}
	table.Rows = append(table.Rows, []string{"base", fmt.Sprintf("%.2f", base.err()), fmt.Sprintf("%.2f", base.late)})
	for _, a := range [][2]string{{"adv", "rudra(tree=6)"}, {"adv*", "rudra(tree=6,threads=true)"}} {
		x, err := s.learn(ctx, lab, base.setting, s.Rate, limit, a[1])
		if err != nil {
			return err
		}
		wrong := 100 - x.accuracy().Mean
		got = append(got, wrong)
		table.Rows = append(table.Rows, []string{a[0], fmt.Sprintf("%.2f", wrong), fmt.Sprintf("%.2f", x.first().StalenessMean)})
		r.between(Claim, a[0]+" learns as base does, to a point: error", "%", base.err(), wrong, base.err()-1, base.err()+1)
	}
	r.Tables = append(r.Tables, table)
	r.holds(Hypothesis, "error rises from base to adv and from adv to adv*", got[0] <= got[1] && got[1] <= got[2])
	return nil
}
