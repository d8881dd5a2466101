package reproduce

import (
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/sgd/profile"
)

// DiLoCoMeasured is how long rounds of local steps take over slow links: DiLoCo, local SGD
// and synchronous training on four GPUs, links of 50 Mb/s to 5 Gb/s, rounds of 1 to 128
// steps. What a link carries is fitted to DiLoCo's rounds of one step on the links in Fit.
//
// Source: Adnan082/diloco-measured.
type DiLoCoMeasured struct {
	Fit []int `doc:"links, in Mb/s, whose rounds of one step constants.share is fitted to, one or two of 50, 200, 1000 and 5000, rising"`
}

var _ = Studies.Add("diloco-measured", "rounds of local steps over links of 50 Mb/s to 5 Gb/s: DiLoCo, local SGD and DDP on four GPUs, each time predicted with an interval", DiLoCoMeasured{Fit: []int{1000, 5000}})

// Validate checks the options.
func (s DiLoCoMeasured) Validate() error { return checkFit(s.Fit, []int{50, 200, 1000, 5000}) }

//go:embed measured/diloco-measured.csv
var dilocoFile string

// dilocoPoint is a measurement, and what is predicted of it.
type dilocoPoint struct {
	algorithm     string // diloco, localsgd or ddp
	h, link       int    // steps of a round; Mb/s
	alone, round  float64
	ours          float64
	interval      *ask.Interval
	fitted, first bool // first: the only exchange that was timed was the run's first
}

func (p dilocoPoint) name() string {
	return fmt.Sprintf("%s, %d Mb/s, round of %d", p.algorithm, p.link, p.h)
}

// readDiLoCo reads the file of measurements. The step that nothing is exchanged in is the
// mean of an algorithm's.
func readDiLoCo(fit []int) ([]dilocoPoint, error) {
	rows, err := csv.NewReader(strings.NewReader(dilocoFile)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("measured/diloco-measured.csv: %w", err)
	}
	var points []dilocoPoint
	sum, n := map[string]float64{}, map[string]float64{}
	for _, row := range rows[1:] {
		var x [5]float64
		for i, at := range []int{1, 2, 3, 5, 6} {
			if x[i], err = strconv.ParseFloat(row[at], 64); err != nil {
				return nil, fmt.Errorf("measured/diloco-measured.csv: row %q: %w", row, err)
			}
		}
		p := dilocoPoint{algorithm: row[0], h: int(x[0]), link: int(x[1]), round: x[4], first: x[0] == 128}
		p.fitted = p.algorithm == "diloco" && p.h == 1 && slices.Contains(fit, p.link)
		points = append(points, p)
		sum[p.algorithm] += x[3] / 1e3
		n[p.algorithm]++
	}
	for i := range points {
		points[i].alone = sum[points[i].algorithm] / n[points[i].algorithm]
	}
	return points, nil
}

// Group implements Study.
func (DiLoCoMeasured) Group() Group { return Scaling }

// Mechanisms implements Study.
func (DiLoCoMeasured) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "local steps", Doc: "all exchange behind every step", Off: swap("mode", `^localsgd\(h=\d+`, "localsgd(h=1"), Slow: true},
		{Name: "link", Doc: "a thousand times the bandwidth", Off: swap("network.bandwidth", `^(.*)$`, "5TB/s"), Slow: true},
		{Name: "spread", Doc: "parameters are taken as exact: intervals have no width", Slow: true},
	}
}

// Run implements Study.
func (s DiLoCoMeasured) Run(ctx context.Context, lab *Lab) (*Report, error) {
	points, err := readDiLoCo(s.Fit)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Title:  "seconds of a round, four L40S of a node each, a model of 30.8 M parameters, batch 4 of 512 tokens",
		Source: "Adnan082/diloco-measured (measured/diloco-measured.csv): NCCL over TCP, links shaped by tbf; DiLoCo three times, the others once",
		Stated: []string{
			"a step without an exchange is the source's own, for each algorithm; a round's exchange is a ring over four in float32; one way takes 30 µs, assumed",
			"transport=nccl-tcp. Its limit of software was put in the place of a share of the link when these figures were known: they are blind to its values, not to its form",
		},
		Notes: []string{
			"rounds of 128 steps were timed once a run, and the first exchange of a run took 0.3 to 0.7 s longer than later ones: predictions lack that",
			"on links of 200 and 50 Mb/s an exchange took 1.11 and 1.28 times a ring's bytes over the link, and DDP's 1.3 to 1.8 times on all: the source does not say why, and no transport here has it",
		},
	}
	share, err := s.share(ctx, lab, points)
	if err != nil {
		return nil, err
	}
	r.Stated = append(r.Stated, fmt.Sprintf("fit=%v: constants.share=%.3g", s.Fit, share))
	draws := 64
	if lab.Quick {
		draws = 24
	}
	err = each(ctx, len(points), func(i int) error {
		release, err := lab.turn(ctx)
		if err != nil {
			return err
		}
		defer release()
		return s.predict(ctx, lab, &points[i], share, draws)
	})
	if err != nil {
		return nil, err
	}
	s.judge(r, points)
	return r, nil
}

// predict predicts a round.
func (s DiLoCoMeasured) predict(ctx context.Context, lab *Lab, p *dilocoPoint, share float64, draws int) error {
	c, err := s.config(lab, *p, share)
	if err != nil {
		return err
	}
	round := func(ctx context.Context, c config.Config) (float64, error) { return dilocoRound(ctx, c, p.h) }
	if p.ours, err = ask.Blended(ctx, c, round); err != nil {
		return fmt.Errorf("%s: %w", p.name(), err)
	}
	if p.interval, err = ask.Propagate(ctx, c, draws, round); err == nil && lab.lacks("spread") {
		p.interval.Low, p.interval.High = p.interval.Middle, p.interval.Middle
	}
	return err
}

// dilocoRound is the time of h steps, from behind the first h on.
func dilocoRound(ctx context.Context, c config.Config, h int) (float64, error) {
	const rounds = 3
	c.Steps = (1 + rounds) * h
	m, err := ask.Measure(ctx, c, ask.Watch{})
	if err != nil {
		return 0, err
	}
	return float64(h) / m.Rate(h, 1), nil
}

// share is the part of a link with which the points that are fitted have no error in the
// mean.
func (s DiLoCoMeasured) share(ctx context.Context, lab *Lab, points []dilocoPoint) (float64, error) {
	x := 0.9
	for range 5 {
		sum := 0.0
		for _, p := range points {
			if !p.fitted {
				continue
			}
			if err := s.predict(ctx, lab, &p, x, 1); err != nil {
				return 0, err
			}
			sum += math.Log(p.ours/p.round) / float64(len(s.Fit))
		}
		x = min(1, max(0.001, x*math.Exp(sum)))
	}
	return x, nil
}

// config is a run as that of a point.
func (DiLoCoMeasured) config(lab *Lab, p dilocoPoint, share float64) (config.Config, error) {
	const batch = 4
	llama := profile.Profiles.MustParse("llama").Profile()
	keys := []string{"transport=nccl-tcp", "timing=llama", fmt.Sprintf("batch=%d", batch), "workers=4", "topology=ring",
		fmt.Sprintf("device.flops=%g", 6*batch/p.alone*llama.ForwardMACs()), fmt.Sprintf("constants.share=%.4g", share),
		fmt.Sprintf("network.bandwidth=%dMbps", p.link), "network.latency=30us"}
	switch p.algorithm {
	case "diloco":
		keys = append(keys, fmt.Sprintf("mode=localsgd(h=%d,lr=0.7)", p.h), "outer=nesterov(beta=0.9)")
	case "localsgd":
		keys = append(keys, fmt.Sprintf("mode=localsgd(h=%d)", p.h))
	default:
		keys = append(keys, "overlap=buckets(bytes=25000000)")
	}
	return lab.weightless(1, keys...)
}

// judge compares predictions with what was measured.
func (DiLoCoMeasured) judge(r *Report, points []dilocoPoint) {
	var all, steady errs
	var widths []float64
	inside, n, within := 0, 0, 0
	t := figure.Table{Title: "every round", Header: []string{"", "h", "Mb/s", "measured, s", "predicted, s", "error", "90 %, s", ""}, Right: []bool{false, true, true, true, true, true, true, false}}
	for _, p := range points {
		kind := "held out"
		if p.fitted {
			kind = "fitted"
			r.within(Fitted, p.name(), "s", p.round, p.ours, 0.05)
		} else {
			n++
			all.add(p.ours, p.round)
			widths = append(widths, (p.interval.High-p.interval.Low)/2/p.interval.Middle)
			r.predicts(p.name(), p.round, p.ours, p.interval.Low, p.interval.High)
			covered := p.interval.Covers(p.round)
			if covered {
				inside++
			} else {
				kind += ", outside"
			}
			if !p.first && p.link > 50 && p.algorithm != "ddp" {
				if steady.add(p.ours, p.round); covered {
					within++
				}
			}
		}
		t.Rows = append(t.Rows, []string{p.algorithm, fmt.Sprint(p.h), fmt.Sprint(p.link), fmt.Sprintf("%.4g", p.round), fmt.Sprintf("%.4g", p.ours),
			fmt.Sprintf("%+.1f %%", 100*(p.ours/p.round-1)), p.interval.String(), kind})
	}
	r.Tables = append(r.Tables, t)
	none := math.NaN()
	r.covers("rounds inside their 90 % interval, of those not fitted", inside, n)
	r.between(HeldOut, fmt.Sprintf("rms error of all %d rounds", n), "%", none, 100*all.rms(), 0, 6)
	r.between(HeldOut, "half of the interval of all rounds, in the median", "%", none, 100*median(widths), 0, 12)
	r.covers("local steps on 200 Mb/s and more, several exchanges timed: rounds inside their interval", within, len(steady))
	r.between(HeldOut, fmt.Sprintf("the same: rms error of %d rounds", len(steady)), "%", none, 100*steady.rms(), 0, 6)
	r.Notes = append(r.Notes, fmt.Sprintf("median error %+.1f %% of %d points not fitted", 100*median(all), n))
}
