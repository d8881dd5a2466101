package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train"
)

// Task is what can be compared with each other: runs of one model on one data
// set, in one environment.
type Task struct {
	mixed bool // some of its runs were made to be compared by accuracy, others by loss

	Model, Data string
	Facet       string     // environment keys that other tasks of the report have otherwise: "network.bandwidth=1Gbps"
	Virtual     bool       // the clock is that of a virtual cluster
	Target      train.Goal // what to reach, where it was asked for or the runs agree, and by what they are compared
	Configs     []*Config
	Varying     []string // keys in which configurations differ
	Usual       []string // what their names leave out, as "key=value"
	Sections    []Section
}

// Section is a figure with what there is to say about it.
type Section struct {
	Name   string // of its files
	Title  string
	Text   string
	Panels []figure.Figure
	Notes  []string // under the figure, a line each
}

// Config is a configuration and its repeats over seeds.
type Config struct {
	*store.Group                        // whose label is the configuration's
	Trials                []*Trial      // by seed
	Score, Seconds, Bytes stats.Summary // Score is the test accuracy at the end, or the test loss where runs are compared by that
	ToSeconds, ToBytes    stats.Reach   // to the task's target
	ToUpdates             stats.Reach
	Staleness             stats.Summary
	Failed                int           // seeds beside the trials whose run failed
	Raw, BF16             stats.Summary // times fewer bytes than codec raw, and bf16, would have sent
	Front                 bool          // a choice that no other is as good as in accuracy, or loss, time and bytes and better than in one, see findFront
	AtChance              bool          // its accuracy is no better than that of always answering the same, and so no choice
	Alone                 bool          // one worker that sends nothing, beside others that do: what to measure against, and no choice
	Behind                store.Against // in its score, to the best configuration
	// Low and High are where Seconds lie on a real cluster in nine cases of ten; 0: nobody
	// said (see Report.Lie).
	Low, High float64
}

// Choice is false for configurations that are only there to be compared with.
func (c *Config) Choice() bool { return !c.AtChance && !c.Alone }

// Lying says whether it is known of any configuration where its time lies.
func (t *Task) Lying() bool {
	return slices.ContainsFunc(t.Configs, func(c *Config) bool { return c.High > 0 })
}

// choices are the task's configurations that compete; none, if nothing learned.
func (t *Task) choices() (out []*Config) {
	for _, c := range t.Configs {
		if c.Choice() {
			out = append(out, c)
		}
	}
	return out
}

// Trial is a run with its curves.
type Trial struct {
	*store.Run
	Curve store.Curve
	Ranks []train.RankReport
}

// Crossing is the bytes that had crossed the network at an evaluation.
func (t *Trial) Crossing(e train.Eval) float64 { return float64(t.Crossed(e.BytesUp, e.BytesDown)) }

// Learned is false for runs without weights, which have times and bytes alone.
func (t *Task) Learned() bool { return !t.Configs[0].Trials[0].Config.Weightless }

// taskKey is what was computed. Environments are taken apart beside it.
func taskKey(r *store.Run) string {
	what := r.Config.Model + "\x00" + r.Config.Data
	if r.Config.Weightless {
		what = r.Config.Timing
	}
	return fmt.Sprint(what, "\x00", r.Config.Weightless)
}

// Seeds is the number of trials, of how many runs if some failed.
func (c *Config) Seeds() string {
	if c.Failed == 0 {
		return fmt.Sprint(len(c.Trials))
	}
	return fmt.Sprintf("%d of %d", len(c.Trials), len(c.Trials)+c.Failed)
}

// Slug names the task in file names: the keys of its facet beside what it is and on
// which net.
func (t *Task) Slug() string {
	name := t.What() + "-" + t.Configs[0].Runs[0].Config.Net
	for _, kv := range strings.Fields(t.Facet) {
		if !strings.HasPrefix(kv, "net=") {
			name += "-" + kv
		}
	}
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, name)
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	return strings.ToLower(s)
}

// Title is what is computed, on which clock and, beside other tasks, where.
func (t *Task) Title() string {
	s := t.What() + ", " + t.Clock()
	if t.Facet != "" {
		s += ", " + t.Facet
	}
	return s
}

// Place words the environment: what differs from the defaults, and of a virtual
// cluster always its network and devices.
func (t *Task) Place() []string {
	c, def := t.Configs[0].Runs[0].Config, config.Default()
	var out []string
	for _, k := range config.Keys() {
		always := t.Virtual && slices.Contains([]string{"network.bandwidth", "network.latency", "device.flops"}, k.Name)
		if k.Name == "device.flops" && c.Device != "none" { // which has a speed of its own
			continue
		}
		if k.Effect() == config.Environment && (always || c.Get(k.Name) != def.Get(k.Name)) {
			out = append(out, k.Name+"="+c.Show(k.Name))
		}
	}
	return out
}

// What is computed: a model on data, or a profile without weights.
func (t *Task) What() string {
	if !t.Learned() {
		return t.Configs[0].Trials[0].Config.Timing + " without weights"
	}
	return t.Model + " on " + t.Data
}

// Clock is what its seconds are of.
func (t *Task) Clock() string {
	if t.Virtual {
		return "virtual time"
	}
	return "wall time"
}

func newTask(f *store.Facet, target train.Goal) (*Task, error) {
	runs, first := store.Latest(f.Runs), f.Runs[0]
	t := &Task{Model: first.Config.Model, Data: first.Config.Data, Facet: f.Label, Virtual: first.Virtual(), Target: target, Varying: store.Varying(runs)}
	if !target.Asked() {
		t.Target = store.CommonTarget(runs)
		t.mixed = slices.ContainsFunc(runs, func(r *store.Run) bool { return r.Config.Goal().Loss != first.Config.Goal().Loss })
	}
	groups := store.Groups(runs)
	t.Usual = store.Usual(groups)
	for _, g := range groups {
		c, err := newConfig(g, t.Target)
		if err != nil {
			return nil, err
		}
		t.Configs = append(t.Configs, c)
	}
	t.compare()
	for _, s := range []Section{t.pareto(), t.curves(), t.staleness(), t.traffic(), t.time(), t.scaling()} {
		if len(s.Panels) > 0 {
			t.Sections = append(t.Sections, s)
		}
	}
	return t, nil
}

func newConfig(g *store.Group, target train.Goal) (*Config, error) {
	c := &Config{Group: g}
	for _, r := range g.Runs {
		if !r.IsDone() {
			c.Failed++
			continue
		}
		t := &Trial{Run: r}
		var err error
		if t.Curve, err = r.Metrics(); err != nil {
			return nil, err
		}
		if t.Ranks, err = r.Ranks(); err != nil {
			return nil, err
		}
		c.Trials = append(c.Trials, t)
	}
	for name, to := range map[string]*stats.Summary{target.Metric(): &c.Score, "seconds": &c.Seconds, "bytes": &c.Bytes,
		"staleness_mean": &c.Staleness, "compression": &c.Raw, "compression_bf16": &c.BF16} {
		*to = g.Summary(field(name))
	}
	if target.Asked() {
		var err error
		if c.ToSeconds, c.ToBytes, c.ToUpdates, err = g.Reach(target); err != nil {
			return nil, err
		}
	}
	// Of a loss nobody knows what guessing would give.
	_, above := c.chance()
	c.AtChance = !target.Loss && c.Score.Mean <= above
	return c, nil
}

// Metric is what configurations are compared by: "accuracy" or "loss".
func (t *Task) Metric() string { return t.Target.Metric() }

// score words a score.
func (t *Task) score(x float64) string {
	if t.Target.Loss {
		return fmt.Sprintf("%.4g", x)
	}
	return percent(x)
}

// Goal words the target.
func (t *Task) Goal() string {
	if t.Target.Loss {
		return "loss " + t.score(t.Target.Value)
	}
	return t.score(t.Target.Value)
}

// axis is that of scores.
func (t *Task) axis(label string) figure.Axis {
	if t.Target.Loss {
		return figure.Axis{Label: "test loss" + label}
	}
	return figure.Axis{Label: "test accuracy" + label, Unit: figure.Percent}
}

func field(name string) store.Field {
	f, err := store.FieldNamed(name)
	if err != nil {
		panic(err) // these are fields there are
	}
	return f
}

// chance is the accuracy of always answering the test set's most frequent class,
// and the upper end of its 95 % interval; both 0 if nobody knows.
func (c *Config) chance() (level, above float64) {
	res := c.Trials[0].Result
	if res.Chance == 0 {
		return 0, -1
	}
	_, above = stats.Guessing(res.Chance, res.TestSamples)
	return res.Chance, above
}

// compare finds what competes, in which order, the Pareto front of it, and who is behind
// the best.
func (t *Task) compare() {
	for _, c := range t.Configs {
		c.Alone = c.workers() == 1 && c.Bytes.Max == 0 && t.crossing()
		c.AtChance = c.AtChance && t.Learned()
	}
	t.order()
	t.findFront()
	choices := t.choices()
	var groups []*store.Group
	for _, c := range choices {
		groups = append(groups, c.Group)
	}
	for _, c := range t.Configs {
		c.Behind.P, c.Behind.Mean = math.NaN(), math.NaN()
	}
	if len(choices) == 0 {
		return
	}
	for i, d := range store.Test(t.best().Group, groups, field(t.Target.Metric())) {
		choices[i].Behind = d
	}
}

// slack is the share of seconds or bytes below which a difference counts as none, and
// tolerance what is said of it.
const (
	slack     = 0.01
	tolerance = " (less than 1 % of time or bytes counts as level)"
)

// findFront keeps of the choices that none dominates those that gain something that
// counts: going from the best one down, each must be better than every one kept
// by more than the slack in time or bytes. So the front is never empty.
func (t *Task) findFront() {
	var front []*Config
	choices := t.choices()
	for _, c := range choices {
		if !slices.ContainsFunc(choices, func(o *Config) bool { return t.dominates(o, c, 0) }) {
			front = append(front, c)
		}
	}
	slices.SortStableFunc(front, func(a, b *Config) int {
		return cmp.Or(t.better(a, b), cmp.Compare(a.Seconds.Mean, b.Seconds.Mean))
	})
	var kept []*Config
	for _, c := range front {
		if c.Front = !slices.ContainsFunc(kept, func(o *Config) bool { return t.dominates(o, c, slack) }); c.Front {
			kept = append(kept, c)
		}
	}
}

// better orders by score, the better one first.
func (t *Task) better(a, b *Config) int {
	if t.Target.Loss {
		return cmp.Compare(a.Score.Mean, b.Score.Mean)
	}
	return cmp.Compare(b.Score.Mean, a.Score.Mean)
}

// dominates is true if c is at least as good in all three and better in one, where a
// share of that much of time and bytes counts for nothing.
func (t *Task) dominates(c, o *Config, slack float64) bool {
	a := [3]float64{-c.Score.Mean, c.Seconds.Mean, c.Bytes.Mean}
	b := [3]float64{-o.Score.Mean, o.Seconds.Mean, o.Bytes.Mean}
	if t.Target.Loss {
		a[0], b[0] = -a[0], -b[0]
	}
	better := false
	for i := range a {
		bit := slack * b[i]
		if i == 0 {
			bit = 0
		}
		if a[i] > b[i]+bit {
			return false
		}
		better = better || a[i] < b[i]-bit
	}
	return better
}

func (t *Task) best() *Config {
	return slices.MinFunc(t.choices(), t.better)
}

// front are the configurations nobody dominates, the best first.
func (t *Task) front() []*Config {
	var out []*Config
	for _, c := range t.Configs {
		if c.Front {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, t.better)
	return out
}
