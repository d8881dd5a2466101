// Package sweep multiplies a recipe out over dimensions, predicts what that
// costs, and runs the jobs over the cores of a machine, each in a process of its
// own: what one of them does, be it a panic, leaves the others alone.
//
// A job is named by the hash of its resolved configuration. A job whose run is
// in the store already is not run again, so a sweep that was killed goes on where
// it was when it is started again.
package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
)

// Space says which jobs a sweep has.
type Space struct {
	Recipe  *config.Recipe
	Quick   bool     // the recipe's smaller form
	Args    []string // dimensions: "codec=raw,topk(keep=0.01)", "workers=range(1,4)"
	Zip     []string // "workers,batch": dimensions that advance together
	Exclude []string // "workers=8 codec~topk": jobs that meet all of these are left out
	Repeats int      // seeds 1 … Repeats; 0: what the recipe or a dimension says
}

// maxJobs bounds the jobs of a sweep: each is resolved, and told, before the first begins.
const maxJobs = 100_000

// Job is one run of a sweep.
type Job struct {
	config.Run
	ID string // hash of the configuration
	// From is the folder of the run that this one is priced from; "": it is trained.
	From string
}

// Jobs multiplies the space out, in the order of its dimensions. What resolves
// to the same configuration is there once.
func (s Space) Jobs() ([]Job, error) {
	dims, err := s.dimensions()
	if err != nil {
		return nil, err
	}
	given := dims
	exclude, err := exclusions(s.Exclude)
	if err != nil {
		return nil, err
	}
	tuples, dims, err := s.zip(dims)
	if err != nil {
		return nil, err
	}
	n := len(tuples)
	for _, d := range dims {
		if n *= len(d.values); n > maxJobs {
			return nil, fmt.Errorf("the dimensions and repeats make more than %d jobs, as many as a sweep has at most; leave out values", maxJobs)
		}
	}
	var jobs []Job
	var errs []error
	seen, met := map[string]bool{}, make([]bool, len(exclude))
	for _, tuple := range tuples {
		var names []string
		var over []config.Axis
		for _, d := range append(slices.Clone(tuple), dims...) {
			over = append(over, config.Axis{Key: d.key, Values: d.values})
		}
		for _, d := range tuple {
			names = append(names, d.key+"="+config.Canonical(d.key, d.values[0]))
		}
		runs, err := s.Recipe.Along(over, s.Quick)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range runs {
			if r.Name != "" {
				r.Name = strings.Join(append(names, r.Name), ",")
			} else {
				r.Name = strings.Join(names, ",")
			}
			j := Job{Run: r, ID: r.Config.Hash()}
			if seen[j.ID] || excluded(j, exclude, met) {
				continue
			}
			seen[j.ID] = true
			jobs = append(jobs, j)
		}
	}
	for _, d := range given {
		changes := func(j Job) bool { return !j.Config.Observes(d.key) }
		if len(d.values) > 1 && len(jobs) > 0 && !slices.ContainsFunc(jobs, changes) {
			errs = append(errs, fmt.Errorf("dimension %q: it changes nothing but what a run tells of itself, so these would be the same runs; give it one value", d.key))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, errors.New("the exclusions leave no job")
	}
	for i, text := range s.Exclude {
		if !met[i] {
			return nil, fmt.Errorf("--exclude %q leaves nothing out: no job meets it", text)
		}
	}
	return jobs, nil
}

// WithAlone adds to jobs one worker alone, which they are measured against (see
// config.WithAlone).
func WithAlone(jobs []Job) []Job {
	var runs []config.Run
	for _, j := range jobs {
		runs = append(runs, j.Run)
	}
	out := slices.Clone(jobs)
	for _, r := range config.WithAlone(runs)[len(jobs):] {
		out = append(out, Job{Run: r, ID: r.Config.Hash()})
	}
	return out
}

// dimension is a key and its values.
type dimension struct {
	key    string
	values []string
}

func (s Space) dimensions() ([]dimension, error) {
	var out []dimension
	var errs []error
	for _, a := range s.Args {
		key, text, ok := strings.Cut(a, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if !ok || key == "" || strings.ContainsAny(key, "( ") {
			errs = append(errs, fmt.Errorf("%q is no dimension; want key=value,value,…", a))
			continue
		}
		if slices.ContainsFunc(out, func(d dimension) bool { return d.key == key }) {
			errs = append(errs, fmt.Errorf("dimension %q is given twice", key))
			continue
		}
		values, err := Values(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("dimension %q: %w", key, err))
			continue
		}
		out = append(out, dimension{key, values})
	}
	if s.Repeats > maxJobs {
		return nil, fmt.Errorf("--repeats %d: a sweep has at most %d jobs", s.Repeats, maxJobs)
	}
	if s.Repeats > 0 {
		if slices.ContainsFunc(out, func(d dimension) bool { return d.key == "seed" }) {
			errs = append(errs, errors.New("repeats are seeds: give --repeats or a dimension seed, not both"))
		}
		d := dimension{key: "seed"}
		for i := range s.Repeats {
			d.values = append(d.values, strconv.Itoa(i+1))
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// zip takes the dimensions that advance together out of dims and returns their
// tuples: every combination of one tuple of each zip.
func (s Space) zip(dims []dimension) (tuples [][]dimension, rest []dimension, err error) {
	tuples, rest = [][]dimension{nil}, dims
	for _, z := range s.Zip {
		var paired []dimension
		for _, key := range strings.Split(z, ",") {
			key = strings.ToLower(strings.TrimSpace(key))
			i := slices.IndexFunc(rest, func(d dimension) bool { return d.key == key })
			if i < 0 {
				return nil, nil, fmt.Errorf("--zip %s: there is no dimension %q left to pair; give it as %s=value,value,…", z, key, key)
			}
			paired = append(paired, rest[i])
			rest = slices.Delete(slices.Clone(rest), i, i+1)
		}
		for _, d := range paired {
			if len(d.values) != len(paired[0].values) {
				return nil, nil, fmt.Errorf("--zip %s: %s has %d values, %s has %d", z, paired[0].key, len(paired[0].values), d.key, len(d.values))
			}
		}
		var next [][]dimension
		for _, t := range tuples {
			for i := range paired[0].values {
				row := slices.Clone(t)
				for _, d := range paired {
					row = append(row, dimension{d.key, d.values[i : i+1]})
				}
				next = append(next, row)
			}
		}
		tuples = next
	}
	return tuples, rest, nil
}

// Values reads a dimension's values: see config.Values.
func Values(text string) ([]string, error) { return config.Values(text) }

func exclusions(texts []string) ([][]store.Condition, error) {
	var out [][]store.Condition
	for _, text := range texts {
		var all []store.Condition
		for _, s := range splitSpaces(text) {
			c, err := store.ParseCondition(s, time.Time{})
			if err == nil && !slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Name == c.Field.Name }) && c.Field.Name != "run" {
				err = fmt.Errorf("%q is not known before the run; want keys of the configuration", c.Field.Name)
			}
			if err != nil {
				return nil, fmt.Errorf("--exclude %q: %w", text, err)
			}
			all = append(all, c)
		}
		if len(all) == 0 {
			return nil, errors.New("--exclude wants conditions, such as 'workers=8 codec~topk'")
		}
		out = append(out, all)
	}
	return out, nil
}

// splitSpaces splits at spaces outside brackets.
func splitSpaces(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		return r == ' ' && depth == 0
	})
}

// excluded says whether the job meets an exclusion, and notes which.
func excluded(j Job, exclude [][]store.Condition, met []bool) (out bool) {
	r := &store.Run{Name: j.Name, Config: j.Config, ID: j.ID}
	for i, all := range exclude {
		if len(store.Filter([]*store.Run{r}, all...)) == 1 {
			out, met[i] = true, true
		}
	}
	return out
}

// Shard is every n-th job, beginning with the i-th, 1 ≤ i ≤ n: the shards of one
// command line share the jobs out, wherever they run.
func Shard(jobs []Job, i, n int) []Job {
	var out []Job
	for k := i - 1; k < len(jobs); k += n {
		out = append(out, jobs[k])
	}
	return out
}

// ParseShard reads "i/n".
func ParseShard(s string) (i, n int, err error) {
	a, b, ok := strings.Cut(s, "/")
	i, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || i < 1 || i > n {
		return 0, 0, fmt.Errorf("shard %q: want i/n with 1 ≤ i ≤ n, such as 1/4", s)
	}
	return i, n, nil
}
