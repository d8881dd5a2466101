package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/advise"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/experiments/stats"
)

// Advisor checks what `gradlab advise` predicts against the virtual cluster.
//
// Source: no publication: the virtual cluster, run without weights.
type Advisor struct{}

var _ = Studies.Add("advisor", "what gradlab advise predicts, beside the virtual cluster: error and regret", Advisor{})

// advisorQuestions are networks and clusters that the cost models were not looked
// at with.
var advisorQuestions = []struct{ model, cluster string }{
	{"inception3", "workers=12 network.bandwidth=5Gbps network.latency=20us device=k80 device.law=lognormal(sigma=0.03)"},
	{"resnet101", "workers=9 network.bandwidth=40Gbps network.latency=5us device.flops=15T"},
	{"googlenet", "workers=24 network.bandwidth=1Gbps network.latency=100us device.flops=2T"},
	{"alexnet", "workers=8 network.bandwidth=10Gbps network.latency=50us device=p100 batch=128"},
	{"resnet20", "workers=16 network.bandwidth=100Mbps network.latency=200us device.flops=100G batch=32"},
	{"resnet152", "workers=16 network.bandwidth=25Gbps network.latency=10us device=p100"},
	{"vgg16", "workers=16 network.per_host=4 network.bandwidth=25Gbps network.inside=10GB/s device.flops=12T batch=32"},
	{"resnet50", "workers=16 network.bandwidth=10Gbps network.latency=30us network.rack=4 network.oversubscription=4 device=v100"},
}

// advisorSpeeds are stated, not measured, so that the study says the same
// everywhere: in bytes of gradient a second.
var advisorSpeeds = map[string]coding.Stated{
	"raw": {}, "bf16": {Encode: 20e9, Decode: 20e9}, "qsgd(bits=4)": {Encode: 4e9, Decode: 8e9}, "feedback(powersgd(rank=4))": {Encode: 2e9, Decode: 8e9},
	"feedback(topk(keep=0.01,index=raw32))": {Encode: 1.5e9, Decode: 100e9}, "feedback(randomk(keep=0.01))": {Encode: 10e9, Decode: 100e9},
}

// Group implements Study.
func (Advisor) Group() Group { return Scaling }

// Mechanisms implements Study.
func (Advisor) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "bandwidth", Doc: "predictions see a network a thousand times as wide", Slow: true},
		{Name: "codec time", Doc: "predictions take codecs for free", Slow: true},
	}
}

// Run implements Study.
func (Advisor) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "predicted and simulated time of a step",
		Source: "package comm/sim: runs without weights on the virtual cluster (max-min fair streams)",
		Stated: []string{
			"nothing is fitted: predictions follow from the layers of the profile, the Hockney cost of the topology's plan and the buckets' timeline",
			"asked of each network and cluster: the options predicted best, and others spread over the rest",
			"regret: the simulated step of the option predicted best, over the shortest simulated step, less one",
			"speeds of codecs are stated: encode 1.5 to 20 GB/s of gradient, decode 8 to 100",
		},
	}
	speeds, err := coding.StatedTable("stated", advisorSpeeds)
	if err != nil {
		return nil, err
	}
	questions, top, spread := advisorQuestions, 6, 8
	if lab.Quick {
		questions, top, spread = questions[1:5], 4, 4
	}
	table := figure.Table{Title: "the option predicted best, beside the best that was simulated", Header: []string{"network", "cluster", "advised", "predicted, ms", "simulated, ms", "best, ms", "regret", "worst error"}}
	var errors, regrets []float64
	for _, a := range questions {
		q, err := advise.Ask(append([]string{"timing=" + a.model}, strings.Fields(a.cluster)...))
		if err != nil {
			return nil, err
		}
		q.Places.Rates = &coding.Record{Key: q.Base.DeviceCodec, Tables: []*hardware.CodecTable{speeds}}
		q.Modes = false // steps of modes are rough, and are judged nowhere
		q.Codecs = []string{"raw", "bf16", "qsgd(bits=4)", "feedback(topk(keep=0.01,index=raw32))", "feedback(randomk(keep=0.01))", "feedback(powersgd(rank=4))"}
		q.Topologies = slices.DeleteFunc(q.Topologies, func(t string) bool { return t == "doubling" || t == "tree" })
		q.Buckets = []int{0, 4 << 20, 25 << 20}
		options, err := lab.predicted(ctx, q)
		if err != nil {
			return nil, err
		}
		best, worst := math.Inf(1), 0.0
		for _, o := range sampled(options, top, spread) {
			if err := o.Simulate(ctx); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", o.Config.Codec, o.How(), err)
			}
			e := o.Step/o.Simulated - 1
			errors = append(errors, e)
			worst = max(worst, math.Abs(e))
			best = min(best, o.Simulated)
		}
		first := options[0]
		regret := first.Simulated/best - 1
		regrets = append(regrets, regret)
		lab.logf("%s on %s: regret %.1f %%, worst error %.0f %%", a.model, a.cluster, 100*regret, 100*worst)
		r.between(HeldOut, fmt.Sprintf("regret, %s on %s", a.model, a.cluster), "", 0, regret, 0, advise.Band)
		table.Rows = append(table.Rows, []string{a.model, a.cluster, first.Config.Codec + ", " + first.How(),
			fmt.Sprintf("%.1f", 1e3*first.Step), fmt.Sprintf("%.1f", 1e3*first.Simulated), fmt.Sprintf("%.1f", 1e3*best), fmt.Sprintf("%.1f %%", 100*regret), fmt.Sprintf("%.0f %%", 100*worst)})
	}
	inside := 0
	for _, e := range errors {
		if math.Abs(e) <= advise.Band {
			inside++
		}
	}
	s := stats.Summarize(errors)
	r.between(HeldOut, fmt.Sprintf("share of %d predictions within %.0f %%", len(errors), 100*advise.Band), "", 1, float64(inside)/float64(len(errors)), 0.9, 1)
	r.between(HeldOut, "mean regret", "", 0, stats.Summarize(regrets).Mean, 0, advise.Band/2)
	r.Notes = append(r.Notes, fmt.Sprintf("errors of predictions: median %+.1f %%, from %+.1f %% to %+.1f %%", 100*s.Median, 100*s.Min, 100*s.Max))
	r.Tables = append(r.Tables, table)
	return r, nil
}

// predicted are the options as they are predicted, of the cluster as it is seen, and
// made for the cluster as it is.
func (l *Lab) predicted(ctx context.Context, q *advise.Question) ([]*advise.Option, error) {
	is := q.Base
	if l.lacks("bandwidth") {
		q.Base.NetworkBandwidth *= 1000
	}
	if l.lacks("codec time") {
		q.Base.DeviceCodec = "free"
	}
	options, err := q.Options(ctx)
	q.Base = is
	for _, o := range options {
		o.Config.NetworkBandwidth, o.Config.DeviceCodec = is.NetworkBandwidth, is.DeviceCodec
	}
	return options, err
}

// sampled are the first options and others at equal distances behind them.
func sampled(options []*advise.Option, top, spread int) []*advise.Option {
	out := slices.Clone(options[:min(top, len(options))])
	rest := options[len(out):]
	for i := range min(spread, len(rest)) {
		out = append(out, rest[i*len(rest)/spread])
	}
	return out
}
