package advise

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/staleness"
)

// Evidence is what runs have shown of an optimizer with a codec.
type Evidence struct {
	Optimizer string
	Codec     string // or the mode or policy, where that is the way
	// Updates to the accuracy, in units of those of the best optimizer without a
	// codec, in the median over trainings; +Inf where half the seeds or more never
	// got there.
	Updates   float64
	Trainings int // that were compared: model, data, batch, workers
	Seeds     int // runs in them
	Workers   int // most that were tried
	From      string
}

// lossless are options of codecs that change bytes and not what is learned.
var lossless = regexp.MustCompile(`,?index=\w+`)

// learnsAs names a codec by what it does to learning.
func learnsAs(codec string) string {
	return config.Canonical("codec", lossless.ReplaceAllString(codec, ""))
}

// training names what is alike in runs that differ in optimizer, schedule, codec
// and seed alone; where and how fast they ran does not matter.
func training(c config.Config) string {
	def := config.Default()
	d := def
	d.Model, d.Data, d.Workers, d.Batch, d.Dropout, d.Precision = c.Model, c.Data, c.Workers, c.Batch, c.Dropout, c.Precision
	all := allWorkers(c)
	d.TrainLimit, d.TestLimit, d.Augment, d.Epochs, d.Steps = c.TrainLimit, c.TestLimit, c.Augment, c.Epochs, int(float64(c.Steps)*all)
	return fmt.Sprint(d.Hash(), " evaluated every ", int(float64(c.EvalEvery)*all)) // as finely as updates to an accuracy are known
}

// allWorkers is how many times every worker makes a gradient in an update of a run.
func allWorkers(c config.Config) float64 {
	m, err := train.Modes.Parse(c.Mode)
	p, err2 := staleness.Policies.Parse(c.Policy)
	if err != nil || err2 != nil {
		return 1
	}
	return float64(m.Traits(&train.Job{Mode: m, Policy: p, Workers: c.Workers, Servers: c.Servers}).PerUpdate) / float64(c.Workers)
}

// learnt is the way that a run shows the learning of; "" is none: a codec and a mode
// together, or what a server sends through a codec.
func learnt(c config.Config) string {
	way := wayOf(c)
	switch {
	case synchronous(c):
		return way
	case way == learnsAs(c.Codec) || c.Codec != "raw" || c.DownCodec != "raw":
		return ""
	}
	return way
}

// synchronous reports whether a run's updates are those of all workers' mean
// gradient, each encoded once, whoever adds them up.
func synchronous(c config.Config) bool {
	m, err := train.Modes.Parse(c.Mode)
	p, err2 := staleness.Policies.Parse(c.Policy)
	if err != nil || err2 != nil {
		return false
	}
	t := m.Traits(&train.Job{Mode: m, Policy: p, Workers: c.Workers, Servers: c.Servers})
	served := t.Servers > 0 && !t.Coordinator && t.PerPush == 0 && t.Tree == 0
	return t.Sums || served && p.Traits(c.Workers).Synchronous && c.DownCodec == "raw"
}

// pair is what evidence is about.
type pair struct{ optimizer, codec string }

// tried is a training: what runs that are alike but for pair, schedule and seed took.
type tried struct {
	about   string
	workers int
	updates map[pair]map[string][]float64 // to the accuracy, by schedule, seed by seed
}

// trainings sorts runs by what they are alike in. target is the accuracy; 0: each
// run's own, which may be of another metric.
func trainings(runs []*store.Run, target float64) (map[string]*tried, error) {
	out := map[string]*tried{}
	for _, r := range store.Latest(runs) {
		c := r.Config
		if r.State != store.Done && r.State != store.Failed || c.Weightless || learnt(c) == "" {
			continue
		}
		goal := r.Goal()
		if target != 0 {
			goal = record.Goal{Metric: sgd.Accuracy, Value: target}
		}
		if !goal.Asked() {
			continue
		}
		d, err := r.ToTarget(goal)
		if err != nil {
			return nil, err
		}
		k := training(c) + fmt.Sprint(goal)
		if out[k] == nil {
			out[k] = &tried{updates: map[pair]map[string][]float64{}}
		}
		t, p := out[k], pair{c.Optimizer, learnt(c)}
		if t.updates[p] == nil {
			t.updates[p] = map[string][]float64{}
		}
		t.updates[p][c.Schedule] = append(t.updates[p][c.Schedule], d.Updates*allWorkers(c))
		t.workers = c.Workers
		t.about = fmt.Sprintf("%s on %s, %d × %d samples, to %v", c.Model, c.Data, c.Workers, c.Batch, goal)
	}
	return out, nil
}

// medians are the updates that each pair took at the best of its schedules, in the
// median over seeds, and those of the best pair without a codec.
func (t *tried) medians() (median map[pair]float64, best float64) {
	median, best = map[pair]float64{}, math.Inf(1)
	for p, schedules := range t.updates {
		median[p] = math.Inf(1)
		for _, updates := range schedules { // the rate is chosen for each
			median[p] = min(median[p], stats.Reaching(updates).Median)
		}
		if p.codec == "raw" {
			best = min(best, median[p])
		}
	}
	return median, best
}

// Learned collects evidence from runs: how many updates they took to an accuracy,
// 0 being each run's own target; those that failed before never did. Only trainings
// that were also run without a codec count.
func Learned(runs []*store.Run, target float64) ([]Evidence, error) {
	all, err := trainings(runs, target)
	if err != nil {
		return nil, err
	}
	found := map[pair]*Evidence{}
	factors := map[pair][]float64{}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		t := all[k]
		median, best := t.medians()
		if math.IsInf(best, 1) || len(median) < 2 {
			continue
		}
		for p, m := range median {
			if found[p] == nil {
				found[p] = &Evidence{Optimizer: p.optimizer, Codec: p.codec, From: t.about}
			} else if found[p].From != t.about {
				found[p].From = "several trainings"
			}
			e := found[p]
			e.Trainings++
			e.Workers = max(e.Workers, t.workers)
			for _, u := range t.updates[p] {
				e.Seeds += len(u)
			}
			factors[p] = append(factors[p], m/best)
		}
	}
	var out []Evidence
	for p, e := range found {
		e.Updates = stats.Reaching(factors[p]).Median
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Evidence) int {
		return cmp.Or(cmp.Compare(a.Updates, b.Updates), strings.Compare(a.Codec+a.Optimizer, b.Codec+b.Optimizer))
	})
	return out, nil
}

// Own turns evidence from the user's runs into trials, which count beside those that
// ship with gradlab, for tasks of every kind.
func Own(evidence []Evidence) (out []Trial) {
	seen := map[string]bool{"raw": true}
	for _, e := range evidence { // the best optimizer of each codec comes first
		if seen[e.Codec] || e.Updates <= 0 {
			continue
		}
		seen[e.Codec] = true
		out = append(out, Trial{Task: e.From, Workers: e.Workers, Optimizer: e.Optimizer, Way: e.Codec, Log: min(max(0, math.Log(e.Updates)), logNever),
			Spread: prior / math.Sqrt(float64(max(1, e.Seeds))), Source: fmt.Sprintf("%d runs of yours", e.Seeds)})
	}
	return out
}

// Know notes on the options what is believed of how they learn, from what ships with
// gradlab and from the user's runs, and returns it by way.
func (q *Question) Know(options []*Option, evidence []Evidence) (map[string]Belief, error) {
	known, err := q.beliefs(options, Own(evidence))
	if err != nil {
		return nil, err
	}
	for _, o := range options {
		if b := known[o.Way()]; b.Tasks > 0 {
			o.Updates = math.Exp(b.Log)
		}
	}
	return known, nil
}
