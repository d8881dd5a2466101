package reproduce

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/registry"
)

// Mechanism is a part of what a study computes that the study is about. A study
// whose judged points hold with it and without it proves nothing of it.
type Mechanism struct {
	Name string // of few words, as after --without
	Doc  string // what is done in its place
	// Off are the keys, "key=value", that take it out of a run with that
	// configuration; none where the run has nothing of it. It is nil where the
	// study itself asks its Lab.
	Off func(config.Config) []string
	// Slow says that trying the quick form without it takes more than some seconds
	// of CPU, so that tests leave it to `gradlab reproduce NAME --mutants`.
	Slow bool
}

// swap takes a mechanism out of runs by what a key is set to: what matches the
// pattern becomes by, in which $1 is its first group.
func swap(key, pattern, by string) func(config.Config) []string {
	re := regexp.MustCompile(pattern)
	return func(c config.Config) []string {
		was := c.Get(key)
		if now := re.ReplaceAllString(was, by); now != was {
			return []string{key + "=" + now}
		}
		return nil
	}
}

// both takes out what a and b do.
func both(a, b func(config.Config) []string) func(config.Config) []string {
	return func(c config.Config) []string { return append(a(c), b(c)...) }
}

// removal is the mechanism that a study has to do without, and whether anything
// was taken out yet.
type removal struct {
	Mechanism
	mu   sync.Mutex
	took bool
}

// named finds a mechanism of a study.
func named(s Study, name string) (*removal, error) {
	var names []string
	for _, m := range s.Mechanisms() {
		if m.Name == name {
			return &removal{Mechanism: m}, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("there is no mechanism %q to do without; %s", name, registry.Suggest(name, names))
}

// lacks says whether the study has to do without a mechanism, which the study then
// takes out itself.
func (l *Lab) lacks(name string) bool {
	if l.removed == nil || l.removed.Name != name {
		return false
	}
	l.removed.note()
	return true
}

// off are the keys that take what is missing out of a run.
func (l *Lab) off(c config.Config) []string {
	if l.removed == nil || l.removed.Off == nil {
		return nil
	}
	keys := l.removed.Off(c)
	if len(keys) > 0 {
		l.removed.note()
	}
	return keys
}

// spec is a spec of a study that no run has, such as a codec or a policy by itself,
// as the key would have it: without what is to be done without.
func (l *Lab) spec(key, text string) string {
	c := config.Default()
	if err := c.Set(key, text); err != nil {
		return text // whoever parses it says what is wrong
	}
	for _, kv := range l.off(c) {
		if now, ok := strings.CutPrefix(kv, key+"="); ok {
			text = now
		}
	}
	return text
}

func (r *removal) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = true
}

// flights lets runs of one configuration be one.
type flights struct {
	singleflight.Group
	ended sync.Map // *experiments.Result by hash
}

// once executes a run. Without a mechanism two runs may have become one: whoever
// comes second has its result.
func (f *flights) once(ctx context.Context, run config.Run, opt experiments.Options) (*experiments.Result, error) {
	hash := run.Config.Hash()
	r, err, _ := f.Do(hash, func() (any, error) {
		if r, ok := f.ended.Load(hash); ok {
			return r, nil
		}
		r, err := experiments.Execute(ctx, run, opt)
		if err == nil {
			f.ended.Store(hash, r)
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return r.(*experiments.Result), nil
}

// Trial is what a study came to without one of its mechanisms.
type Trial struct {
	Study     string   `json:"study"`
	Mechanism string   `json:"mechanism"`
	Doc       string   `json:"doc"`
	Judged    int      `json:"judged"`        // points that hold with the mechanism
	Turned    []string `json:"turned"`        // those of them that do not hold without it
	Why       string   `json:"why,omitempty"` // it could not be tried
	Report    *Report  `json:"-"`             // without the mechanism
}

// Red reports whether the study noticed that the mechanism was missing.
func (t Trial) Red() bool { return len(t.Turned) > 0 }

// Mutants carries a study out as it is, and then without each of its mechanisms
// that choose picks; nil picks all. lab equips it: the argument is what to add to the
// name of the folder of reports. done hears what came of each. It returns the report
// of the study as it is.
func Mutants(ctx context.Context, name string, choose func(Mechanism) bool, lab func(suffix string) *Lab, done func(Trial)) (*Report, error) {
	s, err := Studies.Parse(name)
	if err != nil {
		return nil, err
	}
	first := lab("")
	whole, err := Run(ctx, name, first)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Mechanisms() {
		if choose != nil && !choose(m) {
			continue
		}
		l := lab(Suffix(m.Name))
		l.Without, l.memory = m.Name, first.memory
		t := Trial{Study: name, Mechanism: m.Name, Doc: m.Doc}
		r, err := Run(ctx, name, l)
		switch {
		case errors.Is(err, experiments.ErrStopped) || ctx.Err() != nil:
			return whole, err
		case err != nil:
			t.Why = err.Error()
		default:
			t.Judged, t.Turned = turned(whole, r)
			t.Report = r
		}
		done(t)
	}
	return whole, nil
}

// Suffix is added to the folder of a study's report where a mechanism was taken out.
func Suffix(mechanism string) string {
	return "-without-" + strings.ReplaceAll(mechanism, " ", "-")
}

// Has says whether the study called name has a mechanism; the error lists those that
// it has.
func Has(name, mechanism string) error {
	s, err := Studies.Parse(name)
	if err == nil {
		_, err = named(s, mechanism)
	}
	if err != nil {
		return fmt.Errorf("study %s: %w", name, err)
	}
	return nil
}

// turned are the judged points that hold in a and are missed in b, and how many
// hold in a.
func turned(a, b *Report) (held int, names []string) {
	for _, p := range a.Points {
		if !p.Kind.Judged() || !p.OK {
			continue
		}
		held++
		i := slices.IndexFunc(b.Points, func(q Point) bool { return q.Name == p.Name })
		if i >= 0 && !b.Points[i].OK {
			names = append(names, p.Name)
		}
	}
	return held, names
}

// without prepares a lab to do without what it is to do without.
func (l *Lab) without(s Study) (err error) {
	if l.Without == "" {
		l.removed = nil
		return nil
	}
	l.removed, err = named(s, l.Without)
	return err
}
