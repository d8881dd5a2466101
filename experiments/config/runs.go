package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/train"
)

// CheckAll refuses runs that cannot work, and runs that would be the same under two
// names, all of them at once, before one has begun. Data are the business of each run.
func CheckAll(runs []Run, at Places, progress func(data.Progress)) error {
	var errs []error
	var same checkSame
	var bad refused
	BuildAll(runs, at, progress, func(r Run, j *train.Job, err error) {
		if err == nil {
			if err := same.add(r, j); err != nil {
				errs = append(errs, err)
			}
		}
		if wrong := (*Error)(nil); errors.As(err, &wrong) {
			bad.add(r.Name, err)
		}
	})
	return errors.Join(append(errs, bad.err())...)
}

// BuildAll makes the job of every run, one after the other, and opens each data
// set once. The error of a configuration that cannot run is a *Error.
func BuildAll(runs []Run, at Places, progress func(data.Progress), each func(Run, *train.Job, error)) {
	if at.Shelf == nil {
		at.Shelf = &Shelf{}
	}
	for _, r := range runs {
		j, err := r.Build(at, progress)
		each(r, j, err)
	}
}

// checkSame refuses runs that would be the same under two names.
type checkSame struct {
	first map[Config]sameRun
}

// sameRun is the first run of a configuration.
type sameRun struct {
	name string
	of   *Resolved
}

func (s *checkSame) add(r Run, j *train.Job) error {
	if s.first == nil {
		s.first = map[Config]sameRun{}
	}
	of, err := r.Resolve()
	if err != nil {
		return err
	}
	e := of.effective(j)
	was, ok := s.first[e]
	if !ok {
		s.first[e] = sameRun{r.Name, of}
		return nil
	}
	var keys, where []string
	for _, u := range slices.Concat(of.idle(j), was.of.idle(j)) {
		for _, k := range u.keys {
			if of.config.Get(k) != was.of.config.Get(k) && !slices.Contains(keys, k) {
				keys, where = append(keys, k), append(where, u.where)
			}
		}
	}
	if len(keys) == 0 {
		return nil // the same configuration twice: repeats, which are numbered
	}
	slices.Sort(where)
	has := "has"
	if len(keys) > 1 {
		has = "have"
	}
	return fmt.Errorf("runs %q and %q would be the same: they differ in %s only, which %s no effect %s", was.name, r.Name, listed(keys), has, listed(slices.Compact(where)))
}

// WithAlone adds to runs that compare something one worker alone, which they are measured
// against: one in each environment and for each seed, made of the first run there. Runs
// that have it, or differ in their seeds alone, stay as they are.
func WithAlone(runs []Run) []Run {
	differ, has := false, map[string]bool{}
	first := map[string][]Run{}
	var order []string
	for _, r := range runs {
		a, b := r.Config, runs[0].Config
		a.Seed, b.Seed = 1, 1
		differ = differ || a.Hash() != b.Hash()
		where := r.Config.Within()
		if has[where] = has[where] || r.Config.IsAlone(); first[where] == nil {
			order = append(order, where)
		}
		if !slices.ContainsFunc(first[where], func(o Run) bool { return o.Config.Seed == r.Config.Seed }) {
			first[where] = append(first[where], r)
		}
	}
	if !differ {
		return runs
	}
	out := slices.Clone(runs)
	for _, where := range order {
		if has[where] {
			continue
		}
		for _, r := range first[where] {
			alone, ok := r.Config.Alone()
			if !ok {
				continue
			}
			name := "workers=1"
			for _, p := range registry.SplitTop(r.Name) {
				if strings.HasPrefix(p, "seed=") || environmental(p) {
					name += "," + p
				}
			}
			out = append(out, Run{Name: name, Config: alone, Paper: r.Paper})
		}
	}
	return out
}

// environmental reports whether a part of a run's name is of a key of the environment.
func environmental(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	k, ok := findKey(name)
	return ok && k.Effect() == Environment
}

// NameChanges adds to the names of runs the keys of a command line that changed the recipe,
// whose own runs are own: "codec=raw,workers=8". Keys that only observe change no run, and
// keys with several values are in the names.
func NameChanges(runs, own []Run, over []string) {
	for _, text := range over {
		key, _, _ := strings.Cut(text, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if _, ok := findKey(key); !ok || Observes(key) {
			continue
		}
		for i := range runs {
			r := &runs[i]
			was := func(o Run) bool { return o.Config.Get(key) == r.Config.Get(key) }
			inName := slices.ContainsFunc(registry.SplitTop(r.Name), func(p string) bool { return strings.HasPrefix(p, key+"=") })
			if inName || len(own) > 0 && !slices.ContainsFunc(own, func(o Run) bool { return !was(o) }) {
				continue
			}
			if r.Name != "" {
				r.Name += ","
			}
			r.Name += key + "=" + r.show(key)
		}
	}
}

// WithoutSeed is a run's name without its seed: what its repeats share.
func WithoutSeed(name string) string {
	parts := slices.DeleteFunc(registry.SplitTop(name), func(p string) bool { return strings.HasPrefix(p, "seed=") })
	return strings.Join(parts, ",")
}

// refused is runs that cannot work. Those with one reason share a line, as a mistake on
// the command line is that of every run.
type refused struct {
	reasons []error // each once, in the order in which they came
	runs    map[string][]string
}

func (r *refused) add(run string, why error) {
	if why == nil {
		return
	}
	if r.runs == nil {
		r.runs = map[string][]string{}
	}
	text := why.Error()
	if r.runs[text] == nil {
		r.reasons = append(r.reasons, why)
	}
	r.runs[text] = append(r.runs[text], strconv.Quote(run))
}

// err is nil if there are none.
func (r *refused) err() error {
	var errs []error
	for _, why := range r.reasons {
		runs := r.runs[why.Error()]
		switch n := len(runs); {
		case n == 1 && runs[0] == `""`: // a recipe's only one
			errs = append(errs, why)
		case n == 1:
			errs = append(errs, fmt.Errorf("run %s: %w", runs[0], why))
		case n > 3:
			errs = append(errs, fmt.Errorf("runs %s and %d more: %w", strings.Join(runs[:2], ", "), n-2, why))
		default:
			errs = append(errs, fmt.Errorf("runs %s: %w", listed(runs), why))
		}
	}
	return errors.Join(errs...)
}

// NetworkKeys names the keys that say how ranks are connected, whatever they run.
func NetworkKeys() (out []string) {
	for _, k := range Settings() {
		switch k.Name {
		case "cluster", "transport", "node", "topology":
		case "constants.share", "constants.reduce", "constants.message", "constants.stream", "constants.bridge", "constants.model":
			// the others are of the engine's own steps, or of servers
		default:
			if !strings.HasPrefix(k.Name, "network.") {
				continue
			}
		}
		out = append(out, k.Name)
	}
	return out
}

// Connected is a configuration of so many workers on the virtual cluster that texts
// key=value connect, each by one of NetworkKeys.
func Connected(workers int, keys []string) (*Resolved, error) {
	for _, k := range keys {
		name, _, ok := strings.Cut(k, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want key=value, such as network.bandwidth=10Gbps", k)
		}
		if !slices.Contains(NetworkKeys(), name) {
			return nil, fmt.Errorf("key %q does not say what ranks are connected by; there are %s", name, strings.Join(NetworkKeys(), ", "))
		}
	}
	r, err := ParseRecipe("network", "", []byte("net: sim\nmode: reduce\n"))
	if err != nil {
		return nil, err
	}
	runs, err := r.Runs(append([]string{fmt.Sprintf("workers=%d", workers)}, keys...), false)
	if err != nil {
		return nil, err
	}
	if len(runs) != 1 {
		return nil, fmt.Errorf("%d networks at once; give each key one value", len(runs))
	}
	return runs[0].Resolve()
}
