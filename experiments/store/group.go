package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/registry"
)

// Group is a configuration and its repeats over seeds.
type Group struct {
	Label string // keys in which groups differ: "codec=raw workers=4"; the value alone if it is one key; see Usual
	Keys  map[string]string
	Runs  []*Run // by seed
}

// repeats are the keys in which repeats of a configuration may differ.
var repeats = []string{"seed"}

// silent are keys that change what a run tells of itself, not what it comes to.
var silent = []string{"trace", "order_log", "gap"}

// plain is a configuration without some keys.
func plain(c experiments.Config, without []string) experiments.Config {
	def := experiments.Default()
	for _, k := range without {
		_ = c.Set(k, def.Get(k))
	}
	return c
}

// identity is the same for runs that differ in silent keys alone.
func (r *Run) identity() string {
	c := plain(r.Config, silent)
	if h := c.Hash(); h != r.Config.Hash() {
		return h
	}
	return r.ID // which has more in it: keys unknown here
}

// Groups joins runs that differ in their seed alone, and in keys that change
// nothing. Of several runs of one
// configuration, the youngest that is done counts, or else the youngest. Groups
// keep the order of their first runs; labels name only what differs.
func Groups(runs []*Run) []*Group {
	runs = Latest(runs)
	names := Varying(runs)
	byKey := map[string]*Group{}
	var out []*Group
	for _, r := range runs {
		c := plain(plain(r.Config, repeats), silent)
		g := byKey[c.Hash()]
		if g == nil {
			g = &Group{Keys: map[string]string{}}
			for _, n := range names {
				g.Keys[n] = r.Config.Get(n)
			}
			byKey[c.Hash()] = g
			out = append(out, g)
		}
		g.Runs = append(g.Runs, r)
	}
	usual := Usual(out)
	for _, g := range out {
		slices.SortStableFunc(g.Runs, func(a, b *Run) int { return cmp.Compare(a.Config.Seed, b.Config.Seed) })
		g.Label = g.label(names, usual)
	}
	return out
}

func (g *Group) label(names, usual []string) string {
	if len(names) == 1 {
		return g.Keys[names[0]]
	}
	var parts []string
	for _, n := range names {
		if kv := n + "=" + g.Keys[n]; !slices.Contains(usual, kv) {
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
		for k, v := range g.Keys {
			count[k+"="+v]++
		}
	}
	for _, k := range experiments.Keys() {
		for _, g := range groups {
			v, ok := g.Keys[k.Name]
			if kv := k.Name + "=" + v; ok && 3*count[kv] >= 2*len(groups) {
				out = append(out, kv)
				break
			}
		}
	}
	return out
}

// Arrange sorts groups by the keys in which they differ: numbers by size, texts
// in the order of their first runs.
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
		for _, f := range by {
			if c := f(a.Runs[0], b.Runs[0]); c != 0 {
				return c
			}
		}
		return 0
	})
}

// Latest keeps one run of each configuration: the youngest that is done, or
// else the youngest. The order stays.
func Latest(runs []*Run) []*Run {
	best := map[string]*Run{}
	for _, r := range runs {
		o := best[r.identity()]
		if o == nil || (r.State == Done) == (o.State == Done) && !r.Started.Before(o.Started) || r.State == Done && o.State != Done {
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

// Varying lists the keys in which runs differ, without seeds and keys that change
// nothing, in the order of the configuration.
func Varying(runs []*Run) []string {
	var out []string
	for _, k := range experiments.Keys() {
		if slices.Contains(repeats, k.Name) || slices.Contains(silent, k.Name) {
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

// Values is a numeric field of the group's runs, seed by seed; runs that do not
// know it are left out.
func (g *Group) Values(f Field) []float64 {
	var out []float64
	for _, r := range g.Runs {
		if x, ok := f.Number(r); ok {
			out = append(out, x)
		}
	}
	return out
}

// BySeed is a numeric field by seed, for paired comparisons.
func (g *Group) BySeed(f Field) map[uint64]float64 {
	out := map[uint64]float64{}
	for _, r := range g.Runs {
		if x, ok := f.Number(r); ok {
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
