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
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Task is what can be compared with each other: runs of one model on one data
// set, in one environment.
type Task struct {
	share record.Goal // the target as it was asked for, where that is a share of the best
	mixed []string    // two metrics, where runs were made to be compared by several

	Model, Data string
	Facet       string      // environment keys that other tasks of the report have otherwise: "network.bandwidth=1Gbps"
	Virtual     bool        // the clock is that of a virtual cluster
	Target      record.Goal // what to reach, where it was asked for or the runs agree, and by what they are compared
	Configs     []*Config
	Varying     []string // keys in which configurations differ
	Usual       []string // what their names leave out, as "key=value"
	Sections    []Section

	// what the choices compete in: the way to the target, or the whole run; bytes likewise;
	// the best score
	soonest, lightest, keenest *contest
	contests                   []*contest // those that there are

	views []*View // over swept keys, of this task and perhaps of others

	draws     int      // of real clusters that times are of; 0: they are those of the clock
	drawnFrom string   // what was drawn
	undrawn   []string // configurations of which nothing could be drawn, beside others
}

// Section is a figure with what there is to say about it.
type Section struct {
	Name   string // of its files
	Title  string
	Text   string
	Panels []figure.Figure
	Notes  []string // under the figure, a line each
	Choice bool     // the page shows one panel at a time
}

// Config is a configuration and its repeats over seeds.
type Config struct {
	*store.Group                        // whose label is the configuration's
	Trials                []*Trial      // by seed
	Score, Seconds, Bytes stats.Summary // Score is the value at the end of the metric by which runs are compared
	Best                  stats.Summary // likewise, of the best of all evaluations of a run
	BestAt                float64       // the update that it was at, in the median
	ToSeconds, ToBytes    stats.Reach   // to the task's target
	ToUpdates, ToTokens   stats.Reach
	Texts                 bool // samples are texts: there are tokens
	Staleness             stats.Summary
	Failed                int           // seeds beside the trials whose run failed
	Raw, BF16             stats.Summary // times fewer bytes than codec raw, and bf16, would have sent
	Front                 bool          // a choice that no other is better than in one thing that is asked for and as good as in the others, see compete
	AtChance              bool          // its accuracy is no better than that of always answering the same, and so no choice
	Alone                 bool          // one worker that sends nothing, beside others that do: what to measure against, and no choice
	Behind                Behind        // in its best score
	// Low and High are where the time to the target, or that of the whole run where nothing
	// is to be reached, lies in nine cases of ten, over seeds and draws of real clusters;
	// High is 0 where none were drawn (see Report.Lie).
	Low, High float64
	factors   []float64 // of each draw: its time over that of the virtual clock
}

// Beside reports whether a configuration of one worker alone has another name.
func (c *Config) Beside() bool { return c.Alone && c.Label != store.Alone }

// alone names a configuration of one worker alone.
func (c *Config) alone() string {
	if c.Beside() {
		return store.Alone + ", " + c.Label
	}
	return store.Alone
}

// Measured reports whether one worker alone is there to measure against.
func (t *Task) Measured() bool { return baselineOf(t) != nil }

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
	Ranks []record.RankReport

	stretch float64 // what times of the clock take on a real cluster, in the median; 0: as long
}

// stretched is how many times as long as on the clock the trial's times are taken to be.
func (t *Trial) stretched() float64 {
	if t.stretch > 0 {
		return t.stretch
	}
	return 1
}

// Crossing is the bytes that had crossed the network at an evaluation.
func (t *Trial) Crossing(e record.Eval) float64 { return float64(t.Crossed(e.BytesUp, e.BytesDown)) }

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
	return slug(name)
}

// place names a task in file names by its facet alone, and by values alone where these have
// units: 10mbps.
func (t *Task) place() string {
	var parts []string
	for _, kv := range strings.Fields(t.Facet) {
		if _, value, _ := strings.Cut(kv, "="); withUnit(value) {
			kv = value
		}
		parts = append(parts, kv)
	}
	return slug(strings.Join(parts, "-"))
}

// withUnit reports whether a value is a number with a unit, such as 10Mbps.
func withUnit(value string) bool {
	unit := strings.TrimLeft(value, "0123456789.")
	return unit != "" && unit != value && strings.Trim(unit, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/µ") == ""
}

// slug keeps letters and digits.
func slug(name string) string {
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
	switch {
	case t.draws > 0:
		return "predicted time"
	case t.Virtual:
		return "virtual time"
	}
	return "wall time"
}

func newTask(f *store.Facet, target record.Goal) (*Task, error) {
	runs, first := store.Latest(f.Runs), f.Runs[0]
	t := &Task{Model: first.Config.Model, Data: first.Config.Data, Facet: f.Label, Virtual: first.Virtual(), Varying: store.Varying(runs)}
	var err error
	if t.share = target; target.Asked() {
		if t.Target, err = store.TargetOf(target, runs); err != nil {
			return nil, err
		}
	} else {
		t.Target, t.share = store.CommonTarget(runs), first.Config.Target
		for _, r := range runs {
			if of := r.Goal().Metric; of.Name != "" && of != t.Target.Metric {
				t.mixed = []string{t.Target.Metric.Name, of.Name}
			}
		}
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
	return t, nil
}

// draw makes the figures.
func (t *Task) draw() {
	t.Sections = nil
	over := []Section{paretoOf(t)}
	for _, v := range t.views {
		if len(v.tasks) == 1 {
			over = append(over, v.Section)
		}
	}
	for _, s := range append(over, curvesOf(t), stalenessOf(t), trafficOf(t), timeOf(t), scalingOf(t)) {
		if len(s.Panels) > 0 {
			t.Sections = append(t.Sections, s)
		}
	}
}

func newConfig(g *store.Group, target record.Goal) (*Config, error) {
	c := &Config{Group: g}
	for _, r := range g.Runs {
		if !r.IsDone() {
			c.Failed++
			continue
		}
		t := &Trial{Run: r}
		var err error
		if t.Curve, err = r.Curve(); err != nil {
			return nil, err
		}
		if t.Ranks, err = r.Ranks(); err != nil {
			return nil, err
		}
		c.Trials = append(c.Trials, t)
	}
	for name, to := range map[string]*stats.Summary{"seconds": &c.Seconds, "bytes": &c.Bytes,
		"staleness_mean": &c.Staleness, "compression": &c.Raw, "compression_bf16": &c.BF16} {
		*to = g.Summary(field(name))
	}
	if target.Asked() {
		var err error
		way, err := g.Reach(target)
		if c.ToSeconds, c.ToBytes, c.ToUpdates, c.ToTokens, c.Texts = way.Seconds, way.Bytes, way.Updates, way.Tokens, way.Texts; err != nil {
			return nil, err
		}
	}
	m := target.Metric
	if m.Name == "" { // without weights there is none
		none := stats.Summarize(nil)
		c.Score, c.Best, c.BestAt = none, none, none.Median
		return c, nil
	}
	c.Score, c.Best, c.BestAt = g.Summary(field(m.Column())), g.Summary(field(m.BestColumn())), g.Summary(field(m.StepColumn())).Median
	// Of other metrics nobody knows what guessing would give.
	_, above := c.chance()
	c.AtChance = m == sgd.Accuracy && c.Best.Mean <= above
	return c, nil
}

// score words a score.
func (t *Task) score(x float64) string { return scored(t.Target.Metric, x) }

// scored words a value of a metric.
func scored(m sgd.Metric, x float64) string {
	switch m.Unit {
	case "":
		return fmt.Sprintf("%.4g", x)
	case sgd.Share:
		return percent(x)
	}
	return fmt.Sprintf("%.4g %s", x, m.Unit)
}

// Goal words the target.
func (t *Task) Goal() string {
	if t.Target.Metric == sgd.Accuracy {
		return t.score(t.Target.Value)
	}
	return t.Target.Metric.Head() + " " + t.score(t.Target.Value)
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

// compare finds the choices, their order, the Pareto front of them, and how far each is
// behind the best.
func (t *Task) compare() {
	for _, c := range t.Configs {
		c.Alone = c.workers() == 1 && c.Bytes.Max == 0 && isCrossing(t)
		c.AtChance = c.AtChance && t.Learned()
	}
	t.order()
	for _, c := range t.Configs {
		c.Behind.P, c.Behind.Mean = math.NaN(), math.NaN()
	}
	compete(t)
	if !t.Learned() || len(t.choices()) == 0 {
		return
	}
	best := t.best()
	for c, i := range t.keenest.index {
		c.Behind.Standing = t.keenest.ranking.Standings[i]
		c.Behind.Same = c != best && c.IsSame(best.Group, field(t.Target.Metric.BestColumn()))
	}
}

// better orders by the best score, the better one first.
func (t *Task) better(a, b *Config) int {
	return cmp.Compare(signOf(t)*a.Best.Mean, signOf(t)*b.Best.Mean)
}

func (t *Task) best() *Config {
	return slices.MinFunc(t.choices(), t.better)
}

// front are the configurations on the Pareto front, the best first.
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

// Points words how far a configuration's best score is from the best of the others, with
// simultaneous limits; of shares in points of a percent.
func (t *Task) Points(d Behind) string {
	if d.N == 0 || math.IsNaN(d.Mean) {
		return ""
	}
	unit, word, sign := 1.0, "%+.3g", -signOf(t)
	if t.Target.Metric.Unit == sgd.Share {
		unit, word = 100, "%+.2f"
	}
	text := func(x float64) string {
		return strings.Replace(fmt.Sprintf(word, sign*unit*x), "-", "−", 1)
	}
	number := func(x float64) string {
		if x == 0 {
			return "0"
		}
		return text(x)
	}
	if math.IsNaN(d.Low) || d.Low == d.High {
		return number(d.Mean)
	}
	low, high := d.Low, d.High
	if t.Target.Metric.LessIsBetter {
		low, high = high, low
	}
	return fmt.Sprintf("%s (%s to %s)", number(d.Mean), number(low), number(high))
}

// Share words a score with its interval.
func (t *Task) Share(s stats.Summary) string { return words(s, t.score) }

// texts says whether samples are texts, so that there are tokens.
func (t *Task) texts() bool {
	return slices.ContainsFunc(t.Configs, func(c *Config) bool { return c.Texts })
}
