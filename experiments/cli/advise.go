package cli

import (
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
	"github.com/gradlab/gradlab/experiments/store"
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
		Long: `Advise predicts the step time of a published network (gradlab list profiles) on a
cluster you describe, for every combination of codec, topology, number of servers,
fusion and order of gradients, and for local SGD, DiLoCo, gossip, backup workers,
asynchronous servers and every other mode that runs without weights. It says which
reaches an accuracy soonest, or that none pays:

  gradlab advise timing=resnet50 workers=16 network.bandwidth=10Gbps network.latency=30us device=v100
  gradlab advise timing=vgg16 workers=32 network.per_host=4 network.bandwidth=25Gbps device.flops=12T batch=32
  gradlab advise timing=resnet50 workers=128 cluster=big-basin
  gradlab advise timing=resnet50 workers=16 cluster=./mine.yaml network.bandwidth=10Gbps

Keys are those of a run: timing (the network), workers, batch (64 samples a device and
step), cluster, transport, node, device, device.*, network.* and constants.*. A
transport or a node that is not named is unknown: the middle of what was measured of
several, with spreads to match. A cluster (gradlab list clusters), or a file as gradlab
calibrate writes it, stands for its keys, which the others change, and for how well they
are known. Keys that predictions do not follow are told beside the answer. Several
codecs, of fixed size, or topologies are those to consider beside raw.

Beside the answer stands where its step lies, 90 %, by what is known of the transport
and of devices, and how much longer the codec may take before it no longer pays.

Codecs are billed as runs on the virtual cluster bill them: at rates measured on a
core, scaled to the device (gradlab help codec-time). device.codec=here takes those of
this machine, device.codec=free none, and device.codec=mine.yaml a table of yours;
constants.apply says what servers decode.

The answer is in time to accuracy, with the probability that it pays. What a codec or
a mode costs in updates is taken from trainings that come with gradlab (docs/advice.md),
and from runs of yours to a target with it and without it:
gradlab sweep RECIPE codec=raw,… target=0.9 makes some. A way of whose learning on such
tasks nothing is known is shown and never advised. With codec=… modes are left out, and
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
	if err := simulate(ctx, best, a.simulate); err != nil {
		return err
	}
	best = advise.Best(best)
	v, err := q.Answer(ctx, best, known, a.draws)
	if err != nil {
		return err
	}
	show := best
	if a.all {
		show = options
	}
	doubts, err := q.Doubts()
	if err != nil {
		return err
	}
	if a.asJSON {
		return e.writeJSON(adviceJSON(q, v, show, known, evidence, doubts))
	}
	return e.writeAdvice(q, v, show, known, doubts)
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

func (e *env) writeAdvice(q *advise.Question, v advise.Verdict, show []*advise.Option, known map[string]advise.Belief, doubts []string) error {
	c := q.Base
	fmt.Fprintf(e.out, "%s (%s of gradient) on %d × %d %s, %s a NIC, %s one way, %d samples each\n\n",
		q.Profile.Name, progress.Bytes(uint64(q.Profile.Bytes())), q.Nodes, c.NetworkPerHost, deviceName(c), bits(c.NetworkBandwidth), c.NetworkLatency, c.Batch)
	t := figure.Table{
		Lead:   1,
		Header: []string{"way", "step", "speed-up", "sent a step"}, Right: []bool{false, true, true, true},
	}
	simulated := false
	for _, o := range show {
		simulated = simulated || !math.IsNaN(o.Simulated)
	}
	add := func(header string) { t.Header, t.Right = append(t.Header, header), append(t.Right, true) }
	if simulated {
		add("simulated")
	}
	add("updates")
	add("to accuracy")
	add("tasks")
	t.Header, t.Right = append(t.Header, "how"), append(t.Right, false)
	for _, o := range show {
		row := []string{wayOf(o), millis(o.Step), fmt.Sprintf("%.2f×", v.Raw.Time()/o.Time()), progress.Bytes(uint64(o.Sent))}
		if simulated {
			row = append(row, orDash(o.Simulated, millis))
		}
		row = append(row, orDash(o.Updates, func(x float64) string { return fmt.Sprintf("%.2f×", x) }),
			orDash(o.Updates, func(float64) string { return fmt.Sprintf("%.2f×", v.Against(o, known)) }), fmt.Sprint(known[o.Way()].Tasks))
		t.Rows = append(t.Rows, append(row, o.How()))
	}
	if err := t.Write(e.out, "box", width(e.out)); err != nil {
		return err
	}
	head := "Do not compress"
	switch {
	case v.Compress:
		head = "Compress"
	case v.Choice != v.Raw:
		head = "Do not compress, train otherwise"
	}
	fmt.Fprintf(e.out, "\n%s: %s\n", head, v.Why)
	fmt.Fprintf(e.out, "Best: codec=%s, %s.\n", v.Choice.Config.Codec, v.Choice.How())
	if v.Step != nil {
		fmt.Fprintf(e.out, "Its step takes %s (90 %%: %s to %s)", millis(v.Choice.Time()), millis(v.Step.Low), millis(v.Step.High))
		if v.Choice != v.Raw {
			fmt.Fprintf(e.out, ", that of the best without a codec %s (%s to %s)", millis(v.Raw.Time()), millis(v.RawStep.Low), millis(v.RawStep.High))
		}
		from := "what was measured of " + v.Step.From()
		if q.Cluster != "" {
			from = fmt.Sprintf("what cluster %s says of itself and, beside that, from %s", q.Cluster, from)
		}
		fmt.Fprintf(e.out, ": %d draws from %s.\n", v.Step.Draws, from)
	}
	if v.Choice.Coding > 0 && v.Room > 0 {
		fmt.Fprintf(e.out, "Encoding and decoding are billed %s of it. The codec no longer pays if they take %s longer.\n", millis(v.Choice.Coding), millis(v.Room))
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
	if v.Choice != v.Raw {
		fmt.Fprintf(e.out, "It rests on %s.\n", strings.Join(v.Belief.Sources, "; "))
		if v.Belief.Far != nil {
			fmt.Fprintf(e.out, "This is extrapolated: %s.\n", strings.Join(v.Belief.Far, "; "))
		}
	}
	fmt.Fprintln(e.out)
	for _, l := range q.LeftOut {
		fmt.Fprintln(e.out, "Left out:", l)
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
	fmt.Fprintf(e.out, "Updates are those of trainings on %s, published and ours (docs/advice.md); a dash says that none is known, and such a way is not advised.\nRuns of yours count too: gradlab sweep quickstart 'codec=raw,%s' --repeats 3\n", q.Profile.Kind, fastest(show))
	fmt.Fprintf(e.out, "To see the best on the virtual cluster:\n  gradlab run quickstart %s\n", commandLine(v.Choice.Config))
	return nil
}

// wayOf names an option in the table: its codec, or what it does instead.
func wayOf(o *advise.Option) string {
	if o.Simulable() {
		return o.Config.Codec
	}
	return o.Way()
}

func fastest(show []*advise.Option) string {
	for _, o := range show {
		if o.Compressed() {
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
		return "The device's speed is as you stated it, or the cluster's file: that of training, not of a data sheet."
	}
	d, err := hardware.Load(hardware.Device, q.Base.Device)
	if err != nil {
		return err.Error()
	}
	if _, known := d.FLOPS(q.Profile); known {
		return fmt.Sprintf("%s was measured on %s itself: %s.", d.Name, q.Profile.Name, d.Source)
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

func adviceJSON(q *advise.Question, v advise.Verdict, show []*advise.Option, known map[string]advise.Belief, evidence []advise.Evidence, doubts []string) any {
	band := advise.Band
	if doubts != nil {
		band = math.NaN()
	}
	option := func(o *advise.Option) map[string]any {
		return map[string]any{
			"way": o.Way(), "codec": o.Config.Codec, "how": o.How(), "mode": o.Config.Mode, "policy": o.Config.Policy, "topology": o.Config.Topology, "servers": o.Config.Servers,
			"overlap": o.Config.Overlap, "bucket": o.Config.Bucket, "priority": o.Config.Priority, "step_seconds": o.Step, "sent_bytes": o.Sent,
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
	return map[string]any{
		"model": q.Profile.Name, "gradient_bytes": q.Profile.Bytes(), "cluster": q.Base.Map(), "compress": v.Compress, "why": v.Why,
		"best": best, "left_out": q.LeftOut, "best_raw": raw, "band": store.Maybe(band), "doubts": doubts, "options": all, "evidence": own, "codec_time": q.CodecTime,
	}
}
