package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gradlab/gradlab/experiments/advise"
	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/report"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

type adviseFlags struct {
	speeds, out     string
	simulate, draws int
	all, asJSON     bool
}

func (e *env) adviseCommand() *cobra.Command {
	var a adviseFlags
	c := &cobra.Command{
		Use:   "advise key=value…",
		Short: "Which codec, topology, servers and fusion on your cluster? Or none?",
		Long: `Advise predicts the step time of a network on a cluster you describe, for every
combination of codec, topology, number of servers,
fusion and order of gradients, and for local SGD, DiLoCo, gossip, backup workers,
asynchronous servers and every other mode that runs without weights. It says which
reaches an accuracy soonest, or that none pays:

  gradlab advise timing=resnet50 workers=16 network.bandwidth=10Gbps network.latency=30us device=v100
  gradlab advise timing=vgg16 workers=32 network.per_host=4 network.bandwidth=25Gbps device.flops=12T batch=32
  gradlab advise timing=resnet50 workers=128 cluster=big-basin
  gradlab advise timing=resnet50 workers=16 cluster=./mine.yaml network.bandwidth=10Gbps
  gradlab advise timing=./layers.yaml workers=16 network.bandwidth=10Gbps device=rtx4090
  gradlab advise timing=runs/quickstart/run-72ed12 workers=16 device.flops=1T

The network is a published one (gradlab list profiles), a file of its layers
(docs/advice.md), or that of a run, by its folder. How fast devices train has to be
said: device (gradlab list devices), device.flops, or a cluster that says it.

Keys are those of a run: timing (the network), workers, batch (64 samples a device and
step), cluster, transport, node, device, device.*, network.* and constants.*. A
transport or a node that is not named is unknown: the middle of what was measured of
several, with spreads to match. A cluster (gradlab list clusters), or a file as gradlab
calibrate writes it, stands for its keys, which the others change, and for how well they
are known. Keys that predictions do not follow are told beside the answer. Several
codecs, of fixed size, or topologies are those to consider beside raw.

The answer comes first, and where its step lies, 90 %, by what is known of the transport
and of devices. Below it are at most ten ways by their time to the accuracy; --all shows
every combination, also those that are not advised.

Codecs are billed as runs on the virtual cluster bill them: at rates measured on a
core, scaled to the device (gradlab help codec-time). device.codec=here takes those of
this machine, device.codec=free none, and device.codec=mine.yaml a table of yours;
constants.apply says what servers decode.

What a codec or
a mode costs in updates is taken from trainings that come with gradlab (docs/advice.md),
and from runs of yours to a target with it and without it:
gradlab sweep RECIPE codec=raw,… target=0.9 makes some. A way without such a training is
never advised. With codec=… modes are left out, and
target=0.9 is the accuracy that runs are asked about, in place of each run's own.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.advise(cmd.Context(), args, a)
		},
	}
	f := c.Flags()
	f.StringVar(&a.out, "out", "runs", "base folder of the runs that are asked")
	f.StringVar(&a.speeds, "speeds", "", "a table of rates (gradlab bench codecs), or speeds of the device in bytes of gradient a second: 'qsgd(bits=4): {encode: 2e9, decode: 5e9}'")
	f.IntVar(&a.simulate, "simulate", 3, "run so many of the best on the virtual cluster as well, and the best without a codec, but for those that would take it minutes")
	f.IntVar(&a.draws, "draws", ask.Draws, "draws behind the 90 % intervals of the choice's step and of the best without a codec; 0: none")
	f.BoolVar(&a.all, "all", false, "every combination, not the best way of each codec")
	f.BoolVar(&a.asJSON, "json", false, "print one JSON document")
	return c
}

func (e *env) advise(ctx context.Context, keys []string, a adviseFlags) error {
	q, err := advise.Ask(keys)
	if err != nil {
		return usageError{err}
	}
	if err := q.Check(); err != nil {
		return usageError{err}
	}
	if err := e.codecTimes(q, a); err != nil {
		return err
	}
	options, err := q.Options(ctx)
	if err != nil {
		return usageError{err}
	}
	runs, err := pastRuns(a.out)
	if err != nil {
		fmt.Fprintln(e.err, "note:", oneLine(err))
	}
	evidence, err := advise.Learned(runs, q.Target)
	if err != nil {
		return err
	}
	known, err := q.Know(options, evidence)
	if err != nil {
		return err
	}
	best := advise.Best(options)
	advise.Order(best, known)
	if err := simulate(ctx, best, a.simulate); err != nil {
		return err
	}
	advise.Order(best, known)
	v, err := q.Answer(ctx, best, known, a.draws)
	if err != nil {
		return err
	}
	show := best
	if a.all {
		show = options
		advise.Order(show, known)
	}
	doubts, err := q.Doubts()
	if err != nil {
		return err
	}
	if a.asJSON {
		seconds, ok, err := v.Raw.Alone(ctx)
		if err != nil {
			return err
		}
		var alone *report.Baseline
		if ok {
			alone = &report.Baseline{Configuration: store.Alone, Seconds: store.Maybe(seconds)}
		}
		return e.writeJSON(adviceJSON(q, v, alone, show, known, evidence, doubts))
	}
	return e.writeAdvice(q, v, show, known, doubts, a.all)
}

// simulate asks the virtual cluster about the first n that it runs, and about the best
// without a codec, as far as that takes seconds.
func simulate(ctx context.Context, best []*advise.Option, n int) error {
	if n <= 0 {
		return nil
	}
	best = slices.DeleteFunc(slices.Clone(best), func(o *advise.Option) bool { return !o.Simulable() })
	raw := false
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, o := range best {
		if i >= n && (raw || o.Compressed()) {
			continue
		}
		raw = raw || !o.Compressed()
		work.Go(func() error { return o.Simulate(ctx) })
	}
	return work.Wait()
}

// codecTimes says by what codecs are billed, and where that is from.
func (e *env) codecTimes(q *advise.Question, a adviseFlags) error {
	q.Places = e.places()
	key := ""
	switch {
	case q.Said("device.codec"):
	case a.speeds != "":
		t, err := coding.Load(a.speeds)
		if err != nil {
			return usageError{err}
		}
		if strings.HasSuffix(a.speeds, ".yaml") {
			key = a.speeds
		} else {
			q.Places.Rates = &coding.Record{Key: q.Base.DeviceCodec, Tables: []*hardware.CodecTable{t}}
		}
	}
	if key == "" {
		return nil
	}
	if err := q.Base.Set("device.codec", key); err != nil {
		return usageError{err}
	}
	return nil
}

// mostRows is how many ways are shown unasked.
const mostRows = 10

func (e *env) writeAdvice(q *advise.Question, v advise.Verdict, show []*advise.Option, known map[string]advise.Belief, doubts []string, all bool) error {
	fmt.Fprintln(e.out, v.Why)
	fmt.Fprintln(e.out, bestLine(q, v))
	fmt.Fprintf(e.out, "\n%s\n\n", facetOf(q))
	rows, folded := folding(show, v, known)
	if all {
		rows, folded = show, nil
	}
	if err := adviceTable(v, rows, known).Write(e.out, "box", width(e.out)); err != nil {
		return err
	}
	fmt.Fprintf(e.out, "step: ≈ is predicted, all else simulated; updates and time to accuracy: in units of those of %s.\n", wayOf(v.Raw)+", "+v.Raw.How())
	for _, l := range folded {
		fmt.Fprintln(e.out, l)
	}
	for _, l := range q.LeftOut {
		fmt.Fprintln(e.out, "Left out:", l)
	}
	fmt.Fprintln(e.out)
	if v.Choice.Coding > 0 && v.Room > 0 {
		fmt.Fprintf(e.out, "Encoding and decoding are billed %s of the step. The codec no longer pays if they take %s longer.\n", millis(v.Choice.Coding), millis(v.Room))
		slower, err := q.Slower(v.Choice, advise.Framework)
		if err != nil {
			return err
		}
		switch as := "GRACE's operations of TensorFlow on a V100 (device.codec=" + advise.Framework + ")"; {
		case slower > v.Room:
			fmt.Fprintf(e.out, "%s would take %s longer, and it would not pay.\n", as, millis(slower))
		case slower > 0:
			fmt.Fprintf(e.out, "%s would take %s longer.\n", as, millis(slower))
		}
	}
	believed := v.Belief
	if v.Choice == v.Raw && v.Near != nil {
		believed = known[v.Near.Way()]
	}
	if believed.Way != "raw" && len(believed.Sources) > 0 {
		fmt.Fprintf(e.out, "What %s does to learning rests on %s.\n", believed.Way, strings.Join(believed.Sources, "; "))
		if believed.Far != nil {
			fmt.Fprintf(e.out, "This is extrapolated: %s.\n", strings.Join(believed.Far, "; "))
		}
	}
	for _, d := range doubts {
		fmt.Fprintln(e.out, d)
	}
	if doubts == nil {
		fmt.Fprintf(e.out, "Predicted steps lie within %.0f %% of simulated ones, nine in ten (gradlab reproduce advisor).\n", 100*advise.Band)
	}
	fmt.Fprintln(e.out, deviceBand(q))
	if q.CodecTime != "" {
		fmt.Fprintf(e.out, "In these predictions %s.\n", q.CodecTime)
	}
	fmt.Fprintf(e.out, "Updates are those of trainings on %s, published and ours (docs/advice.md), and of runs of yours:\n  gradlab sweep quickstart 'codec=raw,%s' target=0.9 --repeats 3\n", q.Profile.Kind, mayPay(v, show))
	fmt.Fprintf(e.out, "To see the best on the virtual cluster:\n  gradlab run quickstart %s\n", commandLine(v.Choice.Config))
	return nil
}

// bestLine says how to train, and where its step lies.
func bestLine(q *advise.Question, v advise.Verdict) string {
	b := fmt.Sprintf("Best: codec=%s, %s: a step of %s", v.Choice.Config.Codec, v.Choice.How(), millis(v.Choice.Time()))
	if v.Step == nil {
		return b + "."
	}
	b += fmt.Sprintf(" (90 %%: %s to %s)", millis(v.Step.Low), millis(v.Step.High))
	if v.Choice != v.Raw {
		b += fmt.Sprintf(", that of the best without a codec %s (%s to %s)", millis(v.Raw.Time()), millis(v.RawStep.Low), millis(v.RawStep.High))
	}
	from := "what was measured of " + v.Step.From()
	if q.Cluster != "" {
		from = fmt.Sprintf("what cluster %s says of itself and, beside that, from %s", q.Cluster, from)
	}
	return fmt.Sprintf("%s; %d draws from %s.", b, v.Step.Draws, from)
}

// facetOf says what was asked about.
func facetOf(q *advise.Question) string {
	c := q.Base
	return fmt.Sprintf("%s (%s of gradient) on %d × %d %s, %s a NIC, %s one way, %d samples each",
		q.Profile.Name, progress.Bytes(uint64(q.Profile.Bytes())), q.Nodes, c.NetworkPerHost, deviceName(c), bits(c.NetworkBandwidth), c.NetworkLatency, c.Batch)
}

// folding chooses the rows that are shown unasked, of options in order, and says what
// it leaves out, and why.
func folding(show []*advise.Option, v advise.Verdict, known map[string]advise.Belief) (rows []*advise.Option, folded []string) {
	var unknown []string
	more := 0
	kept := func(o *advise.Option) bool { return o == v.Choice || o == v.Raw || o == v.Near }
	room := mostRows
	for _, o := range show {
		if kept(o) {
			room--
		}
	}
	for _, o := range show {
		switch {
		case known[o.Way()].Tasks == 0:
			unknown = append(unknown, o.Way())
		case kept(o):
			rows = append(rows, o)
		case room > 0:
			rows = append(rows, o)
			room--
		default:
			more++
		}
	}
	if more > 0 {
		folded = append(folded, fmt.Sprintf("Not shown: %d slower ways (--all).", more))
	}
	if unknown != nil {
		folded = append(folded, fmt.Sprintf("Not advised, as no training on such tasks is known: %s. Runs of yours with one and without it, to a target, change that; --all shows their steps.", strings.Join(unknown, ", ")))
	}
	return rows, folded
}

func adviceTable(v advise.Verdict, rows []*advise.Option, known map[string]advise.Belief) *figure.Table {
	t := &figure.Table{
		Lead:   1,
		Header: []string{"way", "time to accuracy", "step", "updates", "sent a step", "tasks", "how"}, Right: []bool{false, true, true, true, true, true, false},
	}
	for _, o := range rows {
		step := millis(o.Time())
		if math.IsNaN(o.Simulated) && (o.Simulable() || strings.HasPrefix(o.Way(), "localsgd")) {
			step = "≈ " + step
		}
		t.Rows = append(t.Rows, []string{wayOf(o), orDash(o.Updates, func(float64) string { return fmt.Sprintf("%.2f×", v.Against(o, known)) }), step,
			orDash(o.Updates, func(x float64) string { return fmt.Sprintf("%.2f×", x) }), progress.Bytes(uint64(o.Sent)), fmt.Sprint(known[o.Way()].Tasks),
			strings.TrimSuffix(o.How(), ", "+o.Config.Mode)})
	}
	return t
}

// wayOf names an option in the table: its codec, or what it does instead.
func wayOf(o *advise.Option) string {
	if o.Simulable() {
		return o.Config.Codec
	}
	return o.Way()
}

// mayPay is a codec of which runs would tell most: the one that is advised, or nearest to
// it, or else the first there is.
func mayPay(v advise.Verdict, show []*advise.Option) string {
	for _, o := range append([]*advise.Option{v.Choice, v.Near}, show...) {
		if o != nil && o.Compressed() {
			return o.Config.Codec
		}
	}
	return "bf16"
}

func orDash(x float64, word func(float64) string) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case math.IsInf(x, 1):
		return "never"
	}
	return word(x)
}

func millis(s float64) string { return fmt.Sprintf("%.1f ms", 1e3*s) }

func bits(bytes float64) string {
	if b := 8 * bytes; b >= 1e9 {
		return fmt.Sprintf("%.4g Gb/s", b/1e9)
	}
	return fmt.Sprintf("%.4g Mb/s", 8*bytes/1e6)
}

func deviceName(c config.Config) string {
	if c.Device != "none" {
		return c.Device
	}
	return fmt.Sprintf("devices of %.4g TFLOP/s", c.DeviceFLOPS/1e12)
}

// deviceBand says how sure the device's speed is.
func deviceBand(q *advise.Question) string {
	if q.Base.Device == "none" {
		by := "as the cluster's file has it"
		if q.Said("device.flops") {
			by = "as you stated it"
		}
		return "The device's speed is " + by + ": that of training, not of a data sheet."
	}
	d, err := hardware.Load(hardware.Device, q.Base.Device)
	if err != nil {
		return err.Error()
	}
	if _, known := d.FLOPS(q.Profile); known {
		source := cmp.Or(d.Rates[q.Profile.Name].Source, d.Source)
		if strings.HasPrefix(source, "derived") {
			return fmt.Sprintf("%s on %s is %s.", d.Name, q.Profile.Name, source)
		}
		return fmt.Sprintf("%s was measured on %s itself: %s.", d.Name, q.Profile.Name, source)
	}
	lo, hi := d.Range()
	return fmt.Sprintf("%s was not measured on %s; its speed is the mean over other networks, which differ by %.1f× (%s).", d.Name, q.Profile.Name, hi/lo, d.Source)
}

// commandLine writes what differs from the defaults.
func commandLine(c config.Config) string {
	parts := []string{}
	def := config.Default()
	for _, k := range config.Keys() {
		v := c.Get(k.Name)
		keep := v != def.Get(k.Name)
		switch k.Name {
		case "epochs":
			continue
		case "device.flops":
			if c.Device != "none" {
				continue
			}
			keep = true
		case "codec", "mode", "topology", "target", "eval_every", "workers", "batch", "device.law", "network.bandwidth", "network.latency":
			keep = true // recipe quickstart says something else
		}
		if !keep {
			continue
		}
		if strings.ContainsAny(v, "(),") {
			v = "'" + v + "'"
		}
		parts = append(parts, k.Name+"="+v)
	}
	return strings.Join(parts, " ")
}

// advice is what advise says as data: a summary as report --json prints it, and more.
type advice struct {
	report.Summary
	Model     string           `json:"model"`
	Bytes     int              `json:"gradient_bytes"`
	Cluster   map[string]any   `json:"cluster"`
	Compress  bool             `json:"compress"`
	Why       string           `json:"why"`
	Best      map[string]any   `json:"best"`
	Raw       map[string]any   `json:"best_raw"`
	Near      *nearest         `json:"near"` // null: something is advised, or nothing comes near
	LeftOut   []string         `json:"left_out"`
	Band      store.Maybe      `json:"band"`
	Doubts    []string         `json:"doubts"`
	Options   []map[string]any `json:"options"`
	Evidence  []map[string]any `json:"evidence"`
	CodecTime string           `json:"codec_time"`
}

// nearest is the way that comes nearest to being advised.
type nearest struct {
	Way         string      `json:"way"`
	Saves       store.Maybe `json:"saves"` // share of the time to the accuracy
	Probability store.Maybe `json:"probability"`
	Bar         store.Maybe `json:"bar"`
}

// adviceSummary is the answer in the shape of a report's. Times are seconds for what one
// update of the best without a codec learns, bytes likewise; the baseline, one worker alone,
// takes as long for as many samples.
func adviceSummary(q *advise.Question, alone *report.Baseline, show []*advise.Option, known map[string]advise.Belief) report.Summary {
	s := report.Summary{Facet: facetOf(q), Target: record.Goal{Value: q.Target}, Baseline: alone}
	first := advise.First(show, known)
	var learn []*advise.Option
	for _, o := range show {
		if known[o.Way()].Tasks > 0 {
			learn = append(learn, o)
		}
	}
	win := func(value func(*advise.Option) float64, steps float64) *report.Winner {
		order := slices.Clone(learn)
		slices.SortStableFunc(order, func(a, b *advise.Option) int { return cmp.Compare(value(a), value(b)) })
		if len(order) == 0 {
			return nil
		}
		w := &report.Winner{Configuration: named(order[0]), Value: store.Maybe(value(order[0])), Probability: store.Maybe(math.NaN()), Ties: []string{}, Ratio: store.Maybe(math.NaN())}
		low, high := known[order[0].Way()].Within(steps)
		w.Low, w.High = store.Maybe(low*value(order[0])), store.Maybe(high*value(order[0]))
		if len(order) > 1 {
			w.RunnerUp, w.Ratio = named(order[1]), store.Maybe(value(order[1])/value(order[0]))
		}
		return w
	}
	factor := func(o *advise.Option) float64 { return math.Exp(known[o.Way()].Log) }
	s.Answers.Soonest = win(func(o *advise.Option) float64 { return o.Time() * factor(o) }, advise.Band/1.645)
	s.Answers.FewestBytes = win(func(o *advise.Option) float64 { return o.Sent * factor(o) }, 0)
	if w := s.Answers.Soonest; w != nil {
		for _, o := range learn {
			if p := first[o]; named(o) == w.Configuration {
				w.Probability = store.Maybe(p)
			} else if p > 1-advise.Sure {
				w.Ties = append(w.Ties, named(o))
			}
		}
	}
	return s
}

// named is an option by its way and how it is sent.
func named(o *advise.Option) string { return wayOf(o) + ", " + o.How() }

func adviceJSON(q *advise.Question, v advise.Verdict, alone *report.Baseline, show []*advise.Option, known map[string]advise.Belief, evidence []advise.Evidence, doubts []string) advice {
	band := advise.Band
	if doubts != nil {
		band = math.NaN()
	}
	option := func(o *advise.Option) map[string]any {
		return map[string]any{
			"way": o.Way(), "codec": o.Config.Codec, "how": o.How(), "mode": o.Config.Mode, "policy": o.Config.Policy, "topology": o.Config.Topology, "servers": o.Config.Servers,
			"overlap": o.Config.Overlap, "step_seconds": o.Step, "sent_bytes": o.Sent,
			"simulated_seconds": store.Maybe(o.Simulated), "coding_seconds": o.Coding, "updates": store.Maybe(o.Updates), "tasks": known[o.Way()].Tasks,
		}
	}
	best := option(v.Choice)
	best["probability"], best["evidence"], best["extrapolated"] = v.Probability, v.Belief.Sources, v.Belief.Far
	best["sooner"], best["sooner_interval"] = v.Sooner, []float64{v.Least, v.Most}
	best["room_seconds"] = v.Room
	raw := option(v.Raw)
	if v.Step != nil {
		best["step_interval"], raw["step_interval"] = v.Step, v.RawStep
	}
	var all, own []map[string]any
	for _, o := range show {
		all = append(all, option(o))
	}
	for _, ev := range evidence {
		own = append(own, map[string]any{"optimizer": ev.Optimizer, "codec": ev.Codec, "updates": store.Maybe(ev.Updates), "trainings": ev.Trainings, "seeds": ev.Seeds, "from": ev.From})
	}
	out := advice{
		Summary: adviceSummary(q, alone, show, known), Model: q.Profile.Name, Bytes: q.Profile.Bytes(), Cluster: q.Base.Map(), Compress: v.Compress, Why: v.Why,
		Best: best, Raw: raw, LeftOut: q.LeftOut, Band: store.Maybe(band), Doubts: doubts, Options: all, Evidence: own, CodecTime: q.CodecTime,
	}
	if v.Near != nil {
		out.Near = &nearest{v.Near.Way(), store.Maybe(v.Saves), store.Maybe(v.Chance), advise.Sure}
	}
	return out
}
