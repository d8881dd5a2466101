package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
)

// Tuning gives each configuration of a sweep the best values of some options: all
// get the same number of runs on validation data, with seeds that the sweep does
// not report, and the best values of each are then compared at the sweep's seeds.
type Tuning struct {
	Over       []config.Axis // keys, or options inside spec text (config.Config.SetPath), and their values
	Budget     int           // runs of each configuration; 0: one for each combination of values
	Validation float64       // share of the training set that is held out meanwhile
	By         string        // name of the metric whose best value is chosen; "": the one that runs are compared by
	ByTime     bool          // by time to the target instead
}

// ParseTuning reads what to tune, each as "schedule.lr=log(1e-3,1,5)".
func ParseTuning(texts []string) ([]config.Axis, error) {
	var out []config.Axis
	for _, text := range texts {
		path, values, ok := strings.Cut(text, "=")
		path = strings.ToLower(strings.TrimSpace(path))
		if !ok || path == "" || strings.ContainsAny(path, "( ") {
			return nil, fmt.Errorf("--tune %q: want what to tune and its values, such as schedule.lr=log(1e-3,1,5)", text)
		}
		v, err := Values(values)
		if err != nil {
			return nil, fmt.Errorf("--tune %s: %w", path, err)
		}
		if slices.ContainsFunc(out, func(a config.Axis) bool { return a.Key == path }) {
			return nil, fmt.Errorf("--tune %s is given twice", path)
		}
		if path == "seed" || path == "validation" {
			return nil, fmt.Errorf("--tune %s: that is how configurations are judged, and no part of one", path)
		}
		out = append(out, config.Axis{Key: path, Values: v})
	}
	return out, nil
}

// Trial is one setting of what is tuned, for one configuration.
type Trial struct {
	Values []string // in the order of Tuning.Over
	Jobs   []Job    // one for each seed
	Score  float64  // the mean over its seeds: value of a metric, or time to the target; NaN if a run failed
	Metric sgd.Metric
	OK     bool // all its runs ended, and reached the target if that counts
}

// Tuned is one configuration: the jobs of the sweep that differ in their seed
// alone, and what was tried.
type Tuned struct {
	Name   string // without seed
	Jobs   []Job  // as the sweep has them
	Trials []Trial
	Best   int // index of the best trial, −1: none
}

// tuningSeeds is where the seeds of tuning runs begin, out of the way of those that
// people give.
const tuningSeeds = 1_000_001

// Plan says which trials each configuration of the jobs needs.
func (t Tuning) Plan(jobs []Job) ([]*Tuned, error) {
	if !(t.Validation > 0 && t.Validation <= 0.9) {
		return nil, fmt.Errorf("--validation %v: want a share above 0, at most 0.9", t.Validation)
	}
	settings, seeds, err := t.settings()
	if err != nil {
		return nil, err
	}
	reported := map[uint64]bool{}
	for _, j := range jobs {
		reported[j.Config.Seed] = true
	}
	var use []uint64
	for s := uint64(tuningSeeds); len(use) < seeds; s++ {
		if !reported[s] {
			use = append(use, s)
		}
	}
	var out []*Tuned
	at := map[string]*Tuned{}
	for _, j := range jobs {
		switch {
		case j.Config.Validation > 0:
			return nil, errors.New("key \"validation\": the runs that are compared are on the test set, and only those that tune on held-out data; leave it out (--validation says the share)")
		case t.ByTime && (!j.Config.Target.Asked() || j.Config.Target.OfBest):
			return nil, errors.New("--tune-by time: that is the time to the key target, which is 0; give target=0.9 or the like")
		}
		c := j.Config
		c.Seed = 0
		id := c.Hash()
		if at[id] == nil {
			at[id] = &Tuned{Name: seedless(j.Name), Best: -1}
			out = append(out, at[id])
			for _, values := range settings {
				trial := Trial{Values: values}
				for _, seed := range use {
					job, err := t.with(j, values, seed)
					if err != nil {
						return nil, err
					}
					trial.Jobs = append(trial.Jobs, job)
				}
				at[id].Trials = append(at[id].Trials, trial)
			}
		}
		at[id].Jobs = append(at[id].Jobs, j)
	}
	return out, nil
}

// settings are the combinations of values that are tried, the same for every
// configuration, and with how many seeds each. A budget below the number of
// combinations takes so many of them by chance, at fixed addresses: random search
// (Bergstra and Bengio 2012).
func (t Tuning) settings() (all [][]string, seeds int, err error) {
	all = [][]string{nil}
	for _, a := range t.Over {
		var next [][]string
		for _, head := range all {
			for _, v := range a.Values {
				next = append(next, append(slices.Clone(head), v))
			}
		}
		if all = next; len(all) > 10_000 {
			return nil, 0, errors.New("--tune: more than 10,000 combinations of values")
		}
	}
	n := len(all)
	switch b := t.Budget; {
	case b == 0 || b == n:
		return all, 1, nil
	case b < 0 || b == 1:
		return nil, 0, fmt.Errorf("--budget %d: want at least 2 runs of each configuration, or there is nothing to choose", b)
	case b > n && b%n != 0:
		return nil, 0, fmt.Errorf("--budget %d: of %d combinations each is to have as many seeds as the others; want up to %d, or a multiple of it such as %d", b, n, n, (b/n+1)*n)
	case b > n:
		return all, b / n, nil
	}
	var picked []int
	for i := range t.Budget {
		picked = append(picked, rng.New(0, "tuning").Permute(i, n))
	}
	slices.Sort(picked)
	var some [][]string
	for _, i := range picked {
		some = append(some, all[i])
	}
	return some, 1, nil
}

// with is a job with what is tuned set, on validation data if seed is not 0.
func (t Tuning) with(j Job, values []string, seed uint64) (Job, error) {
	c := j.Config
	name := registry.SplitTop(seedless(j.Name))
	var keys []string
	for i, a := range t.Over {
		key, err := c.SetPath(a.Key, values[i])
		if err != nil {
			return j, fmt.Errorf("--tune: %w", err)
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		name = slices.DeleteFunc(name, func(s string) bool { return strings.HasPrefix(s, key+"=") })
		name = append(name, key+"="+c.Get(key))
	}
	if seed != 0 {
		c.Validation, c.Seed = t.Validation, seed
	}
	if seed != 0 || strings.Contains(","+j.Name, ",seed=") {
		name = append(name, "seed="+strconv.FormatUint(c.Seed, 10))
	}
	return Job{Run: config.Run{Name: strings.Join(name, ","), Config: c}, ID: c.Hash()}, nil
}

// seedless is a job's name without its seed.
func seedless(name string) string {
	parts := registry.SplitTop(name)
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, "seed=") }), ",")
}

// Trials are all jobs of a plan, each once.
func Trials(plan []*Tuned) (jobs []Job) {
	seen := map[string]bool{}
	for _, c := range plan {
		for _, t := range c.Trials {
			for _, j := range t.Jobs {
				if !seen[j.ID] {
					seen[j.ID] = true
					jobs = append(jobs, j)
				}
			}
		}
	}
	return jobs
}

// Choose picks the best trial of each configuration, the first of equals, from the
// results of the trials' jobs by id, and returns the jobs of the sweep with its
// values set. A configuration of which no trial came to an end is an error, told
// beside the jobs of the others.
func (t Tuning) Choose(plan []*Tuned, results map[string]*experiments.Result) (jobs []Job, err error) {
	var errs []error
	seen := map[string]bool{}
	for _, c := range plan {
		c.Best = -1
		for i := range c.Trials {
			trial := &c.Trials[i]
			t.judge(trial, results)
			if b := c.Best; trial.OK && (b < 0 || t.better(*trial, c.Trials[b])) {
				c.Best = i
			}
		}
		if c.Best < 0 {
			what := "no run came to its end"
			if t.ByTime {
				what += ", or none reached the target"
			}
			errs = append(errs, fmt.Errorf("tuning %s: %s; try other values", c.Name, what))
			continue
		}
		for _, j := range c.Jobs {
			best, err := t.with(j, c.Trials[c.Best].Values, 0)
			if err != nil {
				return nil, err
			}
			if !seen[best.ID] { // configurations that differed in what is tuned may be one now
				seen[best.ID] = true
				jobs = append(jobs, best)
			}
		}
	}
	return jobs, errors.Join(errs...)
}

func (t Tuning) better(a, b Trial) bool {
	if t.ByTime {
		return a.Score < b.Score
	}
	return a.Metric.Better(a.Score, b.Score)
}

// judge fills in what a trial came to.
func (t Tuning) judge(trial *Trial, results map[string]*experiments.Result) {
	sum := 0.0
	trial.OK = true
	for _, j := range trial.Jobs {
		r := results[j.ID]
		ok := r != nil && r.Status == "done"
		switch {
		case !ok:
		case t.ByTime:
			ok = r.TargetReached
			sum += r.TargetSeconds
		default:
			var x float64
			trial.Metric, _ = sgd.FindMetric(r.Metrics, cmp.Or(t.By, r.Metric))
			x, ok = r.Values.Of(trial.Metric)
			sum += x
		}
		if !ok {
			trial.OK, trial.Score = false, math.NaN()
			return
		}
	}
	trial.Score = sum / float64(len(trial.Jobs))
}

// Edges says where the best values of a configuration lie on the edge of those that
// were tried, so that better ones may lie beyond.
func (t Tuning) Edges(c *Tuned) (out []string) {
	if c.Best < 0 {
		return nil
	}
	for i, a := range t.Over {
		lo, hi, numbers := math.Inf(1), math.Inf(-1), true
		for _, trial := range c.Trials {
			x, err := strconv.ParseFloat(trial.Values[i], 64)
			numbers = numbers && err == nil
			lo, hi = min(lo, x), max(hi, x)
		}
		x, _ := strconv.ParseFloat(c.Trials[c.Best].Values[i], 64)
		switch {
		case !numbers || lo == hi:
		case x == lo:
			out = append(out, fmt.Sprintf("%s=%s is the lowest value tried", a.Key, c.Trials[c.Best].Values[i]))
		case x == hi:
			out = append(out, fmt.Sprintf("%s=%s is the highest value tried", a.Key, c.Trials[c.Best].Values[i]))
		}
	}
	return out
}

// Words are the values of a trial, as they are given.
func (t Tuning) Words(trial Trial) string {
	var out []string
	for i, a := range t.Over {
		out = append(out, a.Key+"="+trial.Values[i])
	}
	return strings.Join(out, " ")
}

// Budgeted words what every configuration had.
func (t Tuning) Budgeted(plan []*Tuned) string {
	if len(plan) == 0 || len(plan[0].Trials) == 0 {
		return "nothing was tuned"
	}
	trials := plan[0].Trials
	var over []string
	for _, a := range t.Over {
		over = append(over, a.Key+" over "+strings.Join(a.Values, ", "))
	}
	all := 1
	for _, a := range t.Over {
		all *= len(a.Values)
	}
	picked := ""
	if len(trials) < all {
		picked = fmt.Sprintf(" (%d of %d combinations, picked by chance, the same for all)", len(trials), all)
	}
	by := cmp.Or(t.By, trials[0].Metric.Head(), "metric")
	if t.ByTime {
		by = "time to the target"
	}
	seeds := trials[0].Jobs
	from, to := seeds[0].Config.Seed, seeds[len(seeds)-1].Config.Seed
	word := fmt.Sprintf("seed %d", from)
	if from != to {
		word = fmt.Sprintf("seeds %d to %d", from, to)
	}
	return fmt.Sprintf("tuned: %s%s; budget %d runs of each configuration, %s; chosen by %s on %v of the training set, held out",
		strings.Join(over, ", "), picked, len(trials)*len(seeds), word, by, t.Validation)
}
