package reproduce

import (
	"fmt"
	"slices"
	"strings"
)

// Group is a subject of studies. Its name stands for all of them.
type Group struct{ Name, Doc string }

// The groups. Every study says which one it is of.
var (
	Codecs     = Group{"codecs", "what codecs send, and lose"}
	Learning   = Group{"learning", "published accuracies, and trainings of ours beside them"}
	LargeBatch = Group{"large-batch", "large minibatches, with equal budgets for tuning"}
	Scaling    = Group{"scaling", "published tables of scaling, on the virtual cluster"}
	Asynchrony = Group{"asynchrony", "staleness, stragglers, elastic and local steps"}
)

// Studies are the names of the group's studies, sorted.
func (g Group) Studies() (out []string) {
	for _, name := range Studies.Names() {
		if s, _ := Studies.Proto(name); s.Group() == g {
			out = append(out, name)
		}
	}
	return out
}

// Groups are the groups that studies are of, by name.
func Groups() (out []Group) {
	for _, name := range Studies.Names() {
		if s, _ := Studies.Proto(name); !slices.Contains(out, s.Group()) {
			out = append(out, s.Group())
		}
	}
	slices.SortFunc(out, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// GroupNames words the names of the groups, as "asynchrony, codecs, learning".
func GroupNames() string {
	var names []string
	for _, g := range Groups() {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// Named are the studies that names stand for, each once: studies with their
// options, groups, and "all". The error says which name is none of them.
func Named(names ...string) ([]string, error) {
	var out []string
	for _, name := range names {
		members := []string{name}
		if name == "all" {
			members = Studies.Names()
		} else if i := slices.IndexFunc(Groups(), func(g Group) bool { return g.Name == name }); i >= 0 {
			members = Groups()[i].Studies()
		} else if _, err := Studies.Parse(name); err != nil {
			return nil, fmt.Errorf("%w; or a group of studies: %s, all", err, GroupNames())
		}
		for _, m := range members {
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out, nil
}
