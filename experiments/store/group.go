package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/registry"
)

// Group is a configuration and its repeats over seeds.
type Group struct {
	ID    string // hash of what the runs have in common: all but what repeats differ in
	Label string // keys in which groups differ: "codec=raw workers=4"; the value alone if it is one key; see Usual
	Keys  map[string]string
	Runs  []*Run // by seed
}

// repeats are the keys in which repeats of a configuration may differ.
var repeats = []string{"seed"}

// identity names a run's configuration, with the keys in it that are unknown here.
func (r *Run) identity() string { return r.Config.Hash() + r.foreign() }

func (r *Run) foreign() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(r.Foreign)) {
		fmt.Fprintf(&b, " %s=%s", k, r.Foreign[k])
	}
	return b.String()
}

// Facet is the runs of one environment: network, devices, clock. Only runs of the
// same one compete with each other.
type Facet struct {
	Label string // environment keys in which facets differ: "network.bandwidth=1Gbps"; "" if there is one facet
	Runs  []*Run
}

// Facets takes runs apart by environment. Facets and runs keep their order.
func Facets(runs []*Run) []*Facet {
	byKey := map[string]*Facet{}
	var out []*Facet
	for _, r := range runs {
		k := r.Config.Within()
		if byKey[k] == nil {
			byKey[k] = &Facet{}
			out = append(out, byKey[k])
		}
		byKey[k].Runs = append(byKey[k].Runs, r)
	}
	for _, name := range Varying(runs) {
		if !isEffect(name, config.Environment) {
			continue
		}
		for _, f := range out {
			f.Label = strings.TrimSpace(f.Label + " " + name + "=" + f.Runs[0].Config.Show(name))
		}
	}
	return out
}

// Groups joins runs that differ in their seed alone, and in keys that only
// observe. Of several runs of one configuration, the youngest that is done counts,
// unless an earlier one tells more, or else the youngest. Groups keep the order of
// their first runs; labels name only what differs, and no two are alike.
func Groups(runs []*Run) []*Group {
	runs = Latest(runs)
	names := Varying(runs)
	byKey := map[string]*Group{}
	var out []*Group
	for _, r := range runs {
		c, def := r.Config, config.Default()
		for _, k := range repeats {
			_ = c.Set(k, def.Get(k))
		}
		k := c.Hash() + r.foreign()
		g := byKey[k]
		if g == nil {
			g = &Group{ID: k, Keys: map[string]string{}}
			for _, n := range names {
				g.Keys[n] = r.Config.Get(n)
			}
			byKey[k] = g
			out = append(out, g)
		}
		g.Runs = append(g.Runs, r)
	}
	usual, others := Usual(out), besides(runs)
	for _, g := range out {
		slices.SortStableFunc(g.Runs, func(a, b *Run) int { return cmp.Compare(a.Config.Seed, b.Config.Seed) })
		if g.Label = g.label(names, usual); len(others) < len(runs) && g.Runs[0].Config.IsAlone() {
			g.Label = Alone
		}
	}
	distinguish(out)
	return out
}

// Alone is the label of the group of one worker alone, which others are measured against.
const Alone = "one worker alone"

// besides are the runs beside one worker alone, or all runs: where these are nothing else,
// or have several configurations of it in one environment.
func besides(runs []*Run) (others []*Run) {
	alone := map[string]string{}
	for _, r := range runs {
		if !r.Config.IsAlone() {
			others = append(others, r)
			continue
		}
		c := r.Config
		c.Seed = 1
		where, id := c.Within(), c.Hash()
		if was, ok := alone[where]; ok && was != id {
			return runs
		}
		alone[where] = id
	}
	if len(others) == 0 {
		return runs
	}
	return others
}

// distinguish sees that no two labels are alike: keys that are unknown here may be
// all that groups differ in.
func distinguish(groups []*Group) {
	count := map[string]int{}
	for _, g := range groups {
		count[g.Label]++
	}
	for _, g := range groups {
		if count[g.Label] > 1 {
			g.Label += g.Runs[0].foreign() + " (" + g.Runs[0].ID[:min(shortID, len(g.Runs[0].ID))] + ")"
		}
	}
}

func (g *Group) label(names, usual []string) string {
	c := g.Runs[0].Config
	if len(names) == 1 {
		return c.Show(names[0])
	}
	var parts []string
	for _, n := range names {
		if kv := n + "=" + c.Show(n); !slices.Contains(usual, kv) {
			parts = append(parts, kv)
		}
	}
	if len(parts) == 0 {
		return g.Runs[0].Recipe
	}
	return strings.Join(parts, " ")
}

// Usual lists the "key=value" that two of three groups or more have in common,
// of the keys in which groups differ. Labels leave them out, or those of runs of
// all kinds would be long and alike. Fewer than four groups have none.
func Usual(groups []*Group) (out []string) {
	if len(groups) < 4 {
		return nil
	}
	count := map[string]int{}
	for _, g := range groups {
		for k := range g.Keys {
			count[k+"="+g.Runs[0].Config.Show(k)]++
		}
	}
	for _, k := range config.Keys() {
		for _, g := range groups {
			_, ok := g.Keys[k.Name]
			if kv := k.Name + "=" + g.Runs[0].Config.Show(k.Name); ok && 3*count[kv] >= 2*len(groups) {
				out = append(out, kv)
				break
			}
		}
	}
	return out
}

// Arrange sorts groups by the keys in which they differ: numbers by size, texts
// in the order of their first runs. One worker alone comes last.
func Arrange(groups []*Group) {
	var all []*Run
	for _, g := range groups {
		all = append(all, g.Runs...)
	}
	slices.SortStableFunc(all, func(a, b *Run) int { return a.Started.Compare(b.Started) })
	var by []func(a, b *Run) int
	for _, name := range Varying(all) {
		f, _ := FieldNamed(name)
		first := map[string]int{}
		for i, r := range all {
			if _, ok := first[r.Config.Get(name)]; !ok {
				first[r.Config.Get(name)] = i
			}
		}
		by = append(by, func(a, b *Run) int {
			if f.Kind.Numeric() {
				return f.Compare(a, b)
			}
			return cmp.Compare(first[a.Config.Get(name)], first[b.Config.Get(name)])
		})
	}
	slices.SortStableFunc(groups, func(a, b *Group) int {
		if last := a.Label == Alone; last != (b.Label == Alone) {
			return map[bool]int{true: 1, false: -1}[last]
		}
		for _, f := range by {
			if c := f(a.Runs[0], b.Runs[0]); c != 0 {
				return c
			}
		}
		return 0
	})
}

// Latest keeps one run of each configuration: the youngest that is done, unless an
// earlier one tells more of itself, or else the youngest. The order stays.
func Latest(runs []*Run) []*Run {
	best := map[string]*Run{}
	for _, r := range runs {
		if o := best[r.identity()]; o == nil || r.before(o) {
			best[r.identity()] = r
		}
	}
	var out []*Run
	for _, r := range runs {
		if best[r.identity()] == r {
			out = append(out, r)
		}
	}
	return out
}

// before says which of two runs of a configuration counts.
func (r *Run) before(o *Run) bool {
	if (r.State == Done) != (o.State == Done) {
		return r.State == Done
	}
	if more, less := r.Config.Tells(o.Config), o.Config.Tells(r.Config); more != less {
		return more
	}
	return !r.Started.Before(o.Started)
}

func isEffect(key string, e config.Effect) bool {
	return slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Name == key && k.Effect() == e })
}

// Varying lists the keys in which runs differ, without seeds and keys that only
// observe, in the order of the configuration. One worker alone, beside others, is what
// these are measured against, and has its own name.
func Varying(runs []*Run) []string {
	var out []string
	runs = besides(runs)
	for _, k := range config.Keys() {
		if slices.Contains(repeats, k.Name) || !slices.ContainsFunc(runs, func(r *Run) bool { return r.Config.Effect(k) != config.Observed }) {
			continue
		}
		for _, r := range runs {
			if r.Config.Get(k.Name) != runs[0].Config.Get(k.Name) {
				out = append(out, k.Name)
				break
			}
		}
	}
	return out
}

// IsDone is false for runs whose result, if they have one, is that of a part: one
// that was stopped, or goes on after a stop.
func (r *Run) IsDone() bool { return r.State == Done && r.Result != nil }

// Values is a numeric field of the group's runs that are done, seed by seed; runs
// that do not know it are left out.
func (g *Group) Values(f Field) []float64 {
	var out []float64
	for _, r := range g.Runs {
		if x, ok := f.Number(r); ok && r.IsDone() {
			out = append(out, x)
		}
	}
	return out
}

// Summary describes a numeric field over the group's runs that are done.
func (g *Group) Summary(f Field) stats.Summary { return stats.Summarize(g.Values(f)) }

// BySeed is a numeric field by seed of the runs that are done, for paired
// comparisons.
func (g *Group) BySeed(f Field) map[uint64]float64 {
	out := map[uint64]float64{}
	for _, r := range g.Runs {
		if x, ok := f.Number(r); ok && r.IsDone() {
			out[r.Config.Seed] = x
		}
	}
	return out
}

func splitTop(s string) []string {
	if parts := registry.SplitTop(s); len(parts) > 0 {
		return parts
	}
	return []string{""}
}
