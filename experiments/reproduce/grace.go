package reproduce

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/hardware"
)

// GRACE predicts how fast compressed training was: 16 methods and none on up to 8 workers.
// What codecs cost a V100 is taken from ResNet-50 on the numbers of workers in Fit. The
// rest is predicted, each rate with an interval.
//
// Source: Xu et al. 2021, GRACE; sands-lab/grace-data.
type GRACE struct {
	Fit []int `doc:"workers of the sizes that codecs' times are fitted to, one or two of 2, 4 and 8, rising"`
}

// Validate checks the options.
func (s GRACE) Validate() error { return checkFit(s.Fit, []int{2, 4, 8}) }

var _ = Studies.Add("grace", "images a second of 16 compression methods, and none, on 2 to 8 V100 at 10 and 25 Gb/s, each predicted with an interval", GRACE{Fit: []int{2, 4}})

// Group implements Study.
func (GRACE) Group() Group { return Scaling }

// Mechanisms implements Study.
func (GRACE) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "codec time", Doc: "codecs take no time", Slow: true},
		{Name: "gather limit", Doc: "software gathers as fast as the link carries", Off: swap("constants.gather", `^.+$`, "0"), Slow: true},
		{Name: "call", Doc: "a collective call costs nothing", Off: swap("constants.call", `^.+$`, "0s"), Slow: true},
		{Name: "spread", Doc: "parameters are taken as exact: intervals have no width", Slow: true},
	}
}

// gracePoint is a measurement and what is predicted of it.
type gracePoint struct {
	graceRow
	ours     float64
	interval *ask.Interval
}

// off is the error of the prediction.
func (p gracePoint) off() float64 { return p.ours/p.value - 1 }

// Run implements Study.
func (s GRACE) Run(ctx context.Context, lab *Lab) (*Report, error) {
	g, err := newGRACELab(s.Fit)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Title:  "images a second of all workers, one V100 each, Horovod over MPI",
		Source: "sands-lab/grace-data (measured/grace-throughput.csv), of Xu et al. 2021",
		Stated: []string{
			"transport=mpi-tcp, which was fitted to ResNet-50 on 2 to 4 workers at 10 Gb/s",
			"batch: 256 of DenseNet and 2 of U-Net are those of sands-lab/grace-benchmarks; 128 of ResNet-50 is what fits its rates",
			fmt.Sprintf("fit=%v: a codec's time is that of throughput beside upper-bound, ResNet-50 on so many workers; decoding is what the second of two sizes takes longer. Other sizes are held out", s.Fit),
			"other networks: so much a tensor and so much a value, from ResNet-50 and ResNet-20 on the first of these sizes",
			"bytes are those that GRACE counted; a call of its own for values, indices and scales",
			"how well a codec's time is known: a factor of 1.15 on ResNet-50, 1.65 on others, as one standard deviation",
		},
		Notes: []string{
			"not predicted: VGG-19, which is slower alone than on two workers that compress; LSTM, whose batch is not known and whose embeddings go another way; NCF, of which there is no rate on one worker",
			"rows over NCCL are left out: nccl-rdma was fitted to three of the nine",
		},
	}
	points, err := s.predict(ctx, lab, g)
	if err != nil {
		return nil, err
	}
	s.judge(r, g, points)
	return r, nil
}

// predict predicts every measurement. Those that nothing tells apart, with a residual
// and without, share one prediction.
func (s GRACE) predict(ctx context.Context, lab *Lab, g *graceLab) ([]gracePoint, error) {
	dir := filepath.Join(lab.Out, "grace-codecs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var points []gracePoint
	var configs []config.Config
	which, known := []int{}, map[config.Config]int{}
	for _, row := range g.rows {
		net := g.nets[row.model]
		if row.mode != graceWhole || row.backend != "mpi" || row.workers == 1 || net.Profile == nil || row.model == "resnet20_v2" || g.sent(row) == 0 {
			continue
		}
		c, err := s.config(lab, g, row, dir)
		if err != nil {
			return nil, err
		}
		i, ok := known[c]
		if !ok {
			i = len(configs)
			known[c], configs = i, append(configs, c)
		}
		points, which = append(points, gracePoint{graceRow: row}), append(which, i)
	}
	draws, steps := 64, 8
	if lab.Quick {
		draws, steps = 16, 3
	}
	step := func(ctx context.Context, c config.Config) (float64, error) {
		c.Steps = 1 + steps
		m, err := ask.Measure(ctx, c, ask.Watch{Stopping: lab.stopping})
		if err != nil {
			return 0, err
		}
		return 1 / m.Rate(1, 1), nil
	}
	times, widths := make([]float64, len(configs)), make([]*ask.Interval, len(configs))
	err := each(ctx, len(configs), func(i int) (err error) {
		release, err := lab.turn(ctx)
		if err != nil {
			return err
		}
		defer release()
		if times[i], err = ask.Blended(ctx, configs[i], step); err != nil {
			return fmt.Errorf("%s on %d workers, %s: %w", configs[i].Timing, configs[i].Workers, configs[i].Codec, err)
		}
		widths[i], err = ask.Propagate(ctx, configs[i], draws, step)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range points {
		p, k := &points[i], which[i]
		samples := float64(p.workers * g.nets[p.model].batch)
		w := widths[k]
		p.ours = samples / times[k]
		p.interval = &ask.Interval{Low: samples / w.High, Middle: samples / w.Middle, High: samples / w.Low, Draws: draws, Transport: w.Transport}
		if lab.lacks("spread") {
			p.interval.Low, p.interval.High = p.interval.Middle, p.interval.Middle
		}
	}
	return points, nil
}

// config is a run as GRACE's. The rates of its codec go to a file.
func (s GRACE) config(lab *Lab, g *graceLab, row graceRow, dir string) (config.Config, error) {
	net, way, spec := g.nets[row.model], graceWays[row.kind()], g.standIn(row)
	keys := []string{"transport=mpi-tcp", "timing=" + net.Name, fmt.Sprintf("batch=%d", net.batch), fmt.Sprintf("workers=%d", row.workers),
		fmt.Sprintf("device.flops=%g", 6*net.alone*net.ForwardMACs()), fmt.Sprintf("network.bandwidth=%dGbps", row.link), "network.latency=20us",
		"topology=ring", "overlap=buckets(bytes=64000000)", "codec=" + spec}
	if !way.sums {
		keys = append(keys, fmt.Sprintf("constants.call=%dus", 86*way.calls))
	}
	if row.method != "none" && !lab.lacks("codec time") {
		file, err := s.rates(g, row, spec, dir)
		if err != nil {
			return config.Config{}, err
		}
		keys = append(keys, "device.codec="+file)
	}
	return lab.weightless(1, keys...)
}

// rates writes what a method's codec takes on a V100, and returns the file.
func (GRACE) rates(g *graceLab, row graceRow, spec, dir string) (file string, err error) {
	cost := g.cost(row.model, row.kind())
	t := &hardware.CodecTable{Name: "GRACE, " + row.kind(), Processor: "V100, TensorFlow 1", Date: "2021", Command: "gradlab reproduce grace", Spread: 1.65}
	if row.model == "resnet50" {
		t.Spread = 1.15
	}
	rate := hardware.CodecRate{Codec: spec, Block: coding.Any}
	for _, n := range []int{1, 1 << 30} {
		ns := 1e9 * (cost.tensor/float64(n) + cost.value)
		rate.Add(n, ns, cost.decode*ns)
	}
	t.Rates = []hardware.CodecRate{rate}
	text := fmt.Sprintf("%s-%s", row.model, strings.NewReplacer("(", "-", ")", "", "=", "", ",", "-").Replace(row.kind()+"-"+spec))
	file = filepath.Join(dir, text+".yaml")
	return file, os.WriteFile(file, t.Text(), 0o644)
}

// judge compares predictions with what was measured.
func (s GRACE) judge(r *Report, g *graceLab, points []gracePoint) {
	var held, dense, fitted []gracePoint
	why := map[string][]float64{}
	for _, p := range points {
		switch reason := g.unjudged(p.graceRow); {
		case reason != "":
			why[reason] = append(why[reason], math.Abs(p.off()))
		case p.model == "densenet40_k12":
			dense = append(dense, p)
		case slices.Contains(g.fit, p.workers):
			fitted = append(fitted, p)
		default:
			held = append(held, p)
		}
	}
	none := math.NaN()
	r.between(HeldOut, fmt.Sprintf("ResNet-50, sizes held out, rms error of %d rates", len(held)), "%", none, 100*graceErrors(held).rms(), 0, 7)
	r.between(HeldOut, "the same: pairs of methods in the order measured, of those predicted 1 % apart", "%", none, 100*graceOrder(held, 0.01), 97, 100)
	r.between(HeldOut, "the same: half of the interval, in the median", "%", none, 100*graceWidth(held), 0, 12)
	r.between(Derived, "the same: rates inside their 90 % interval", "%", 90, 100*graceCovered(held), 85, 95)
	r.between(Derived, fmt.Sprintf("DenseNet on 2 to 8 workers, codecs from other networks, rms error of %d rates", len(dense)), "%", none, 100*graceErrors(dense).rms(), 0, 20)
	r.between(Derived, "the same: rates inside their 90 % interval", "%", 90, 100*graceCovered(dense), 85, 95)
	all := slices.Concat(held, dense)
	for _, p := range all {
		r.predicts(fmt.Sprintf("%s, %s, %d workers, %d Gb/s", p.model, p.method, p.workers, p.link), p.value, p.ours, p.interval.Low, p.interval.High)
	}
	r.between(HeldOut, fmt.Sprintf("all %d rates that are judged: inside their 90 %% interval", len(all)), "%", 90, 100*graceCovered(all), 85, 95)
	r.between(Fitted, fmt.Sprintf("ResNet-50, sizes fitted, rms error of %d rates", len(fitted)), "%", none, 100*graceErrors(fitted).rms(), 0, 7)
	r.Notes = append(r.Notes, fmt.Sprintf("median errors: %+.1f %% of ResNet-50 held out, %+.1f %% of DenseNet", 100*median(graceErrors(held)), 100*median(graceErrors(dense))))
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		r.Notes = append(r.Notes, fmt.Sprintf("shown and not judged, %d rates off by %.0f %% in the median: %s", len(why[reason]), 100*median(why[reason]), reason))
	}
	for _, n := range graceNets {
		t := figure.Table{Title: n.model, Header: []string{"method", "workers", "Gb/s", "measured", "predicted", "error", "90 %", ""}}
		for _, p := range points {
			if p.model != n.model {
				continue
			}
			kind := "held out"
			switch {
			case g.unjudged(p.graceRow) != "":
				kind = "not judged"
			case p.model == "resnet50" && slices.Contains(g.fit, p.workers):
				kind = "fitted"
			}
			t.Rows = append(t.Rows, []string{p.method, fmt.Sprint(p.workers), fmt.Sprint(p.link), fmt.Sprintf("%.4g", p.value), fmt.Sprintf("%.4g", p.ours),
				fmt.Sprintf("%+.1f %%", 100*p.off()), p.interval.String(), kind})
		}
		if len(t.Rows) > 0 {
			r.Tables = append(r.Tables, t)
		}
	}
}

func graceErrors(points []gracePoint) (e errs) {
	for _, p := range points {
		e.add(p.ours, p.value)
	}
	return e
}

// graceCovered is the share of measurements inside their intervals.
func graceCovered(points []gracePoint) float64 {
	n := 0
	for _, p := range points {
		if p.interval.Covers(p.value) {
			n++
		}
	}
	return float64(n) / float64(len(points))
}

// graceWidth is half of an interval beside its middle, in the median.
func graceWidth(points []gracePoint) float64 {
	var widths []float64
	for _, p := range points {
		widths = append(widths, (p.interval.High-p.interval.Low)/2/p.interval.Middle)
	}
	return median(widths)
}

// graceOrder is the share of pairs on one link that were measured in the order that is
// predicted, of those predicted at least so far apart.
func graceOrder(points []gracePoint, apart float64) float64 {
	pairs, right := 0, 0
	for i, a := range points {
		for _, b := range points[:i] {
			if a.link != b.link || math.Abs(a.ours/b.ours-1) < apart {
				continue
			}
			pairs++
			if (a.ours > b.ours) == (a.value > b.value) {
				right++
			}
		}
	}
	return float64(right) / float64(pairs)
}
