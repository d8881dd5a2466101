package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/experiments/hardware"
)

// A recipe may be based on another: base names an embedded recipe, or a file by
// its path from the folder of the recipe that names it. What the recipe says is
// laid over what its base says:
//
//	common keys      over common keys: a key, or an axis, takes the place of the base's
//	runs             a variant over the base's variant of that name; others follow;
//	                 an empty list takes all of the base's away
//	quick            over quick, of a variant over that of the variant
//	about            instead of about
//	paper            over paper, part by part (see paper.go)
//	forms            a form over the base's form of that name
//
// A variant's keys stand above the common ones, inherited or not.

// loadBase reads the recipe that n names, in a file whose own bases' chain is
// given, itself last. Every error says file and line of the key base.
func loadBase(file string, n *yaml.Node, chain []string, t *texts) (*Recipe, error) {
	where := fmt.Sprintf("%s:%d: key \"base\"", file, n.Line)
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return nil, fmt.Errorf("%s: want the name of one recipe, or the path of its file", where)
	}
	name := n.Value
	if hardware.IsFile(name) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
			if !hardware.IsFile(name) {
				name = "./" + name
			}
		}
		if info, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		} else if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: %s is no file", where, name)
		}
	}
	id := identity(name)
	if i := slices.Index(chain, id); i >= 0 {
		var round []string
		for _, c := range append(slices.Clone(chain[i:]), id) {
			round = append(round, filepath.Base(c))
		}
		return nil, fmt.Errorf("%s: recipes that are based on each other: %s", where, strings.Join(round, " → "))
	}
	r, err := loadRecipe(name, chain, t)
	if err != nil {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return r, err
}

// identity is the same for two names of one recipe.
func identity(name string) string {
	if !hardware.IsFile(name) {
		return name
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	return name
}

// layOn lays a recipe over its base.
func (r *Recipe) layOn(base *Recipe) {
	if r.About == "" {
		r.About = base.About
	}
	r.Paper = r.Paper.over(base.Paper)
	r.formsOver(base)
	r.keys = layOver(base.keys, speed(r.keys))
	r.quick = layOver(base.quick, speed(r.quick))
	if r.noRuns {
		return
	}
	names, runs, small := slices.Clone(base.names), slices.Clone(base.runs), slices.Clone(base.small)
	for i, name := range r.names {
		j := slices.Index(names, name)
		if j < 0 {
			names, runs, small = append(names, name), append(runs, r.runs[i]), append(small, r.small[i])
			continue
		}
		runs[j] = layOver(runs[j], speed(r.runs[i]))
		small[j] = layOver(small[j], speed(r.small[i]))
	}
	r.names, r.runs, r.small = names, runs, small
}

// RecipeText is a recipe as it is written, comments and all: an embedded one by
// name, or a file by path.
func RecipeText(name string) ([]byte, error) {
	_, b, err := recipeText(name)
	return b, err
}

// ResolvedRecipe writes runs as a recipe of its own that needs no other: what all
// have in common first, then a variant for each with what it has beside that. Keys
// at their defaults are left out. Read again it gives the same runs.
func ResolvedRecipe(about string, runs []Run) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	put := func(n *yaml.Node, key, value string) {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
	}
	if about != "" {
		text := &yaml.Node{}
		if err := text.Encode(about); err != nil { // quoted where it has to be
			return nil, err
		}
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "about"}, text)
	}
	var own []map[string]string
	one := true // all are on one cluster, transport and node, so that what they set can be common
	for _, r := range runs {
		said, err := r.Config.said()
		if err != nil {
			return nil, err
		}
		own, one = append(own, said), one && r.Config.Cluster == runs[0].Config.Cluster && r.Config.Transport == runs[0].Config.Transport && r.Config.Node == runs[0].Config.Node
	}
	common := func(key string) bool {
		v, ok := own[0][key]
		if !ok || !one && (strings.HasPrefix(key, "device") || strings.HasPrefix(key, "network.") || slices.Contains(others, key)) {
			return false
		}
		return !slices.ContainsFunc(own, func(m map[string]string) bool { w, ok := m[key]; return !ok || v != w })
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for i, r := range runs {
		item := &yaml.Node{Kind: yaml.MappingNode}
		name := r.Name
		if name == "" {
			name = "run"
		}
		put(item, "name", name)
		for _, k := range Settings() {
			v, ok := own[i][k.Name]
			switch {
			case !ok:
			case common(k.Name):
				if i == 0 {
					put(root, k.Name, v)
				}
			default:
				put(item, k.Name, v)
			}
		}
		list.Content = append(list.Content, item)
	}
	if len(runs) > 1 || len(runs) == 1 && runs[0].Name != "" {
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "runs"}, list)
	}
	return yaml.Marshal(root)
}
