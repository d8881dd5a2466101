package reproduce

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
)

// Emulated asks how far the virtual cluster can be believed. Real processes behind
// NICs and devices that take their time are measured with 2, 4 and 8 workers, and
// the virtual cluster, fitted to 2 and 4, predicts 8.
//
// Source: no publication: processes of this machine, measured as the study runs.
type Emulated struct{}

var _ = Studies.Add("emulated", "the virtual cluster against real processes behind emulated NICs: fitted on 2 and 4 workers, predicts 8", Emulated{})

// emulatedModes are ways of training, each of which uses the network differently.
var emulatedModes = []struct {
	name  string
	apart bool // an update is one worker's
	keys  []string
}{
	{"server, bsp", false, []string{"mode=server", "policy=bsp"}},
	{"server, asp", true, []string{"mode=server", "policy=asp", "schedule=constant(lr=0.01)", "device.law=lognormal(sigma=0.2)"}},
	{"ring", false, []string{"mode=reduce", "topology=ring"}},
	{"ring, overlap", false, []string{"mode=reduce", "topology=ring", "overlap=buckets(bytes=100000)"}},
	{"gather, top 5 %", false, []string{"mode=reduce", "codec=feedback(topk(keep=0.05))"}},
}

// emulation is one configuration: what was measured, and its virtual twin.
type emulation struct {
	mode, workers int
	each, warm    int // updates in a step: one, or one of every worker; steps not looked at
	configs       []config.Config
	measured      []float64 // seconds a step, by repeat
	strain        comm.Strain
	strayed       int // synchronous runs that came to other bits than their virtual twins
}

// fitted says whether the virtual cluster is fitted to e: to synchronous training
// with few workers.
func (e *emulation) fitted() bool { return e.workers < 8 && !emulatedModes[e.mode].apart }

func (Emulated) alone() {}

// Group implements Study.
func (Emulated) Group() Group { return Scaling }

// Mechanisms implements Study.
func (Emulated) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "link", Doc: "the virtual cluster has a hundred times the bandwidth", Slow: true},
	}
}

// Run implements Study.
func (Emulated) Run(ctx context.Context, lab *Lab) (*Report, error) {
	const latency = 2 * time.Millisecond
	pr := lab.protocol()
	if lab.Quick {
		pr.warm, pr.steps = 1, 7
	}
	r := &Report{
		Title:  "step times of real processes behind emulated NICs, and what the virtual cluster says of them",
		Source: "measured on this machine, as the study runs: a process a rank over gRPC and shared memory, each behind a NIC of 100 Mb/s and 2 ms, passes padded to 110 ms with a jitter of 5 %",
		Stated: []string{
			"mlp(hidden=[128,128,128]) on digits, 43,000 parameters, batch 16; jitter of asp 20 %; both sides draw the same",
			"which clusters of updates form in asp hangs on microseconds: the virtual time is the median of eight runs whose latencies differ by 5 µs each",
			fmt.Sprintf("A step is the median of %d after %d of warm-up. Updates of asp come in clusters; its step is what a regression over at least 21 of them says. Shown is the median of %d runs.", pr.steps, pr.warm, pr.repeats),
			"the NICs share nothing with the virtual network but its parameters: quanta of 0.5 ms in turns, paced by each process for itself, against rates solved max-min fairly",
		},
	}
	var all []*emulation
	for m := range emulatedModes {
		for _, workers := range []int{2, 4, 8} {
			e, err := lab.emulate(ctx, m, workers, pr)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	added, err := fit(ctx, []parameter{{name: "added to the latency", value: 250e-6}}, func(x []float64) ([]float64, error) {
		var fitted []*emulation
		for _, e := range all {
			if e.fitted() {
				fitted = append(fitted, e)
			}
		}
		ts, err := lab.virtual(ctx, fitted, latency+time.Duration(x[0]*1e9))
		for i, e := range fitted {
			ts[i] = math.Log(ts[i] / median(e.measured))
		}
		return ts, err
	})
	if err != nil {
		return nil, err
	}
	way := latency + time.Duration(added[0].value*1e9)
	note := fmt.Sprintf("%s: %.0f µs, what this machine takes to wake and to run whoever a frame is for", added[0].name, 1e6*added[0].value)
	if added[0].weak() {
		note += "; weakly identified"
	}
	r.Stated = append(r.Stated, note)
	stated, err := lab.virtual(ctx, all, latency)
	if err != nil {
		return nil, err
	}
	predicted, err := lab.virtual(ctx, all, way)
	if err != nil {
		return nil, err
	}
	table := figure.Table{Title: "ms a step", Header: []string{"", "workers", "measured", "spread", "virtual", "error", "fitted", "error"}}
	var held errs
	var strain comm.Strain
	strayed := 0
	for i, e := range all {
		name, got := emulatedModes[e.mode].name, median(e.measured)
		kind := Fitted
		if !e.fitted() {
			kind = HeldOut
		}
		if e.workers == 8 {
			held.add(predicted[i], got)
		}
		r.within(kind, fmt.Sprintf("%s, %d workers", name, e.workers), "ms", 1e3*got, 1e3*predicted[i], 0.1)
		spread := "–"
		if len(e.measured) > 1 {
			spread = fmt.Sprintf("%.2f", 1e3*stat.StdDev(e.measured, nil))
		}
		table.Rows = append(table.Rows, []string{name, fmt.Sprint(e.workers), fmt.Sprintf("%.2f", 1e3*got), spread,
			fmt.Sprintf("%.2f", 1e3*stated[i]), fmt.Sprintf("%+.1f %%", 100*(stated[i]/got-1)),
			fmt.Sprintf("%.2f", 1e3*predicted[i]), fmt.Sprintf("%+.1f %%", 100*(predicted[i]/got-1))})
		strain.Add(e.strain)
		strayed += e.strayed
	}
	r.exactly(Claim, "synchronous runs whose parameters differ in a bit from those of the virtual cluster", "runs", 0, float64(strayed))
	r.Tables = append(r.Tables, table)
	r.Notes = append(r.Notes,
		fmt.Sprintf("8 workers: %.1f %% rms, %.1f %% at worst", 100*held.rms(), 100*held.worst()),
		fmt.Sprintf("%d of %d computations took longer than they were to, by %.1f ms in all; frames came %.2f ms after their time on average: the more, the less is this machine able to play that cluster",
			strain.Overruns, strain.Works, 1e3*strain.OverSeconds, 1e3*strain.LateSeconds/float64(strain.Frames)))
	return r, nil
}

// emulate measures a configuration, and sees that synchronous training comes to
// the bits it has on the virtual cluster.
func (l *Lab) emulate(ctx context.Context, mode, workers int, p protocol) (*emulation, error) {
	m := emulatedModes[mode]
	e := &emulation{mode: mode, workers: workers, each: 1}
	if m.apart { // clusters of updates come and go slowly
		e.each = workers
		p.warm, p.steps = max(p.warm, 3), max(p.steps, 21)
	}
	e.warm = p.warm
	for seed := range p.repeats {
		keys := append([]string{
			"model=mlp(hidden=[128,128,128])", "data=digits", "optimizer=sgd", "schedule=constant(lr=0.05)", "batch=16", "epochs=0", "threads=1",
			"device.codec=free", "device.flops=3.75e7", "device.law=lognormal(sigma=0.05)", "network.bandwidth=100Mbps", "network.latency=2ms",
			fmt.Sprintf("workers=%d", workers), fmt.Sprintf("steps=%d", e.each*(p.warm+p.steps)), fmt.Sprintf("seed=%d", seed+1),
		}, m.keys...)
		c := config.Default()
		for _, kv := range keys {
			k, v, _ := strings.Cut(kv, "=")
			if err := c.Set(k, v); err != nil {
				return nil, err
			}
		}
		e.configs = append(e.configs, c)
		name := fmt.Sprintf("%s,workers=%d,seed=%d", m.name, workers, seed+1)
		res, err := l.run(ctx, name, append(keys, "net=grpc", "emulate=true")...)
		if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(filepath.Join(res.Folder, "metrics.jsonl"))
		if err != nil {
			return nil, err
		}
		var at []float64
		var made []int
		for _, x := range experiments.ParseMetrics(b) {
			if x.Progress != nil {
				at, made = append(at, x.Progress.Seconds), append(made, x.Progress.Step)
			}
		}
		took := e.step(at, made)
		if math.IsNaN(took) {
			return nil, fmt.Errorf("run %q: %d reports of progress tell of no step", name, len(at))
		}
		e.measured = append(e.measured, took)
		if res.Strain != nil {
			e.strain.Add(*res.Strain)
		}
		if seed == 0 && !m.apart {
			twin, err := l.run(ctx, name+",virtual", keys...)
			if err != nil {
				return nil, err
			}
			if twin.ParamsSHA256 != res.ParamsSHA256 {
				e.strayed++
			}
		}
		l.logf("%s: %.2f ms a step", name, 1e3*took)
	}
	return e, nil
}

// virtual is what the virtual cluster with this latency says a step of each
// configuration takes, in seconds: the median over the same runs, where nobody
// waits with latencies close by.
func (l *Lab) virtual(ctx context.Context, all []*emulation, latency time.Duration) ([]float64, error) {
	type twin struct {
		which, run int
		latency    time.Duration
	}
	var twins []twin
	for i, e := range all {
		near := 1
		if emulatedModes[e.mode].apart {
			near = 8
		}
		for k := range e.configs {
			for n := range near {
				twins = append(twins, twin{i, k, latency + time.Duration(n)*5*time.Microsecond})
			}
		}
	}
	var mu sync.Mutex
	took := make([][]float64, len(all))
	err := each(ctx, len(twins), func(i int) error {
		e := all[twins[i].which]
		c := e.configs[twins[i].run]
		c.NetworkLatency = twins[i].latency.String()
		if l.lacks("link") {
			c.NetworkBandwidth *= 100
		}
		m, err := l.measured(ctx, c)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		took[twins[i].which] = append(took[twins[i].which], e.step(m.Ends, m.Updates))
		return nil
	})
	out := make([]float64, len(all))
	for i := range took {
		if err == nil {
			out[i] = median(took[i])
		}
	}
	return out, err
}

// step is what a step takes, in seconds, by when how many updates were made:
// behind the warm ones the median, or, where updates come one by one and in
// clusters, the slope of the line through them.
func (e *emulation) step(at []float64, made []int) float64 {
	for len(made) > 0 && made[0] < e.warm*e.each {
		at, made = at[1:], made[1:]
	}
	if len(at) < 2 {
		return math.NaN()
	}
	if e.each > 1 {
		n := make([]float64, len(made))
		for i := range made {
			n[i] = float64(made[i])
		}
		_, slope := stat.LinearRegression(n, at, nil, false)
		return slope * float64(e.each)
	}
	var steps []float64
	for i := range at[1:] {
		steps = append(steps, (at[i+1]-at[i])/float64(made[i+1]-made[i]))
	}
	return median(steps)
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}
