package advise

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
)

// Belief is what trials say of how a way learns on a further task of a kind.
type Belief struct {
	Way     string
	Log     float64  // middle of the logarithm of updates, in units of those without the way
	Spread  float64  // its standard deviation: between tasks, of the runs, and for what is far from them
	Tasks   int      // that were tried; 0: nothing is known
	Sources []string // where that is from
	Far     []string // why this is extrapolated; nil if it is not
}

// Within is where nine of ten further tasks lie, as factors of the middle, with so much
// more as the standard deviation of a logarithm.
func (b Belief) Within(more float64) (low, high float64) {
	x := math.Hypot(b.Spread, more) * doubt(b, Belief{Way: "raw"}).Quantile(0.95)
	return math.Exp(-x), math.Exp(x)
}

// prior is how much tasks differ before any was tried, as the standard deviation of
// Log, and how many tasks that is worth.
const prior, priorWeight = 0.25, 2

// farther is what Spread gains for every doubling of workers beyond four times those
// that were tried.
const farther = 0.1

// believe pools the trials of a way with tasks of a kind, for so many workers. Tasks
// count alike, however many trials they had.
func believe(trials []Trial, way, kind string, workers int) Belief {
	b := Belief{Way: way}
	if way == "raw" {
		b.Tasks, b.Sources = 1, []string{"it is what others are compared with"}
		return b
	}
	logs, noise := map[string][]float64{}, map[string][]float64{}
	most := 0
	for _, t := range trials {
		if t.Way != way || t.Kind != kind && t.Kind != "" {
			continue
		}
		logs[t.Task], noise[t.Task] = append(logs[t.Task], t.Log), append(noise[t.Task], t.Spread*t.Spread)
		most = max(most, t.Workers)
		if s := fmt.Sprintf("%s, %s, %d workers", t.Source, t.Task, t.Workers); !slices.Contains(b.Sources, s) {
			b.Sources = append(b.Sources, s)
		}
	}
	if b.Tasks = len(logs); b.Tasks == 0 {
		return b
	}
	n := float64(b.Tasks)
	variance := 0.0
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	tasks := slices.Sorted(maps.Keys(logs)) // sums of floats depend on their order
	for _, task := range tasks {
		b.Log += mean(logs[task]) / n
		variance += mean(noise[task]) / float64(len(noise[task])) / (n * n)
	}
	between := priorWeight * prior * prior
	for _, task := range tasks {
		d := mean(logs[task]) - b.Log
		between += d * d
	}
	between /= n - 1 + priorWeight
	variance += between * (1 + 1/n) // of a further task, and of the mean
	if workers > 4*most {
		doublings := math.Log2(float64(workers) / float64(4*most))
		variance += farther * farther * doublings * doublings
		b.Far = append(b.Far, fmt.Sprintf("%d workers, at most %d were tried", workers, most))
	}
	if b.Tasks == 1 {
		b.Far = append(b.Far, "one task was tried")
	}
	b.Spread = math.Sqrt(variance)
	slices.Sort(b.Sources)
	return b
}

// Way names what the option does to learning: the codec where all workers' mean
// gradient makes the update, whoever adds them up, else the mode or the policy.
func (o *Option) Way() string { return wayOf(o.Config) }

func wayOf(c config.Config) string {
	name, _, _ := strings.Cut(c.Mode, "(")
	policy, _, _ := strings.Cut(c.Policy, "(")
	switch {
	case name == "localsgd":
		return wayText(c.Mode)
	case name != "reduce" && name != "gather" && name != "server":
		return config.Canonical("mode", c.Mode)
	case name == "server" && policy != "bsp":
		return policy
	}
	return learnsAs(c.Codec)
}

// wayText is the name of a way in the form that Option.Way gives it.
func wayText(text string) string {
	if m := config.Canonical("mode", text); strings.HasPrefix(text, "localsgd") {
		return m
	}
	return learnsAs(text)
}

// beliefs are those of all options' ways, by name. Own are trials of the user's
// runs, which count as others do and for tasks of every kind.
func (q *Question) beliefs(options []*Option, own []Trial) (map[string]Belief, error) {
	shipped, err := Shipped()
	if err != nil {
		return nil, err
	}
	all, out := slices.Concat(shipped, own), map[string]Belief{}
	for _, o := range options {
		if way := o.Way(); out[way].Way == "" {
			out[way] = believe(all, way, q.Profile.Kind, q.Base.Workers)
		}
	}
	return out, nil
}
