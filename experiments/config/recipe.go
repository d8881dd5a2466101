package config

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/train"
)

//go:embed recipes/*.yaml
var recipeFiles embed.FS

// Recipe is a file of runs: keys common to all, lists of values along which
// runs multiply, named variants, and a smaller form for a quick look.
//
//	about: one line
//	base: quickstart                # a recipe that this one is laid over; see inherit.go
//	model: mlp                      # a key of Config
//	codec: [raw, bf16]              # an axis: one run for each value
//	runs:                           # variants: keys laid over the common ones
//	  - {name: fixed, optimizer: sgd}
//	  - {name: adagrad, optimizer: adagrad}
//	quick: {steps: 100}             # laid over the common keys with --quick;
//	                                # a variant may have a quick of its own
//	global_batch: 8192              # in place of batch; see global.go
//	paper: {cite: …}                # what it is made after; see paper.go
//	forms: {proxy: {…}}             # other forms of it; see form.go
type Recipe struct {
	Name   string
	About  string
	Paper  *Paper // nil: it is made after no publication
	keys   []assignment
	runs   [][]assignment
	names  []string
	small  [][]assignment // of the variants
	quick  []assignment
	forms  map[string]*Recipe // what each lays over this one
	noRuns bool               // the base's variants are left out
	texts  *texts             // of the recipe and of what is laid over it
}

// assignment is a key with one value, or several along an axis.
type assignment struct {
	key    string
	values []string
	where  string // file:line, or "command line"
}

// Run is one run of a recipe, resolved.
type Run struct {
	Name   string // variant and the values along the axes: "codec=raw,seed=2"
	Config Config
	// Global is the number of samples of one update over all workers where the
	// recipe gives that, from which batch and accumulate follow; else 0. Micro is
	// how many of them a worker computes at once; 0: its whole batch.
	Global, Micro int
	Paper         *Paper // of the recipe; nil: it has none
	resolved      *Resolved
}

// Resolve is [Config.Resolve] of the run's configuration, which is read once if it is still the
// one that the recipe gave.
func (r Run) Resolve() (*Resolved, error) {
	if r.resolved != nil && r.resolved.config == r.Config {
		return r.resolved, nil
	}
	return r.Config.Resolve()
}

// Build makes the run's job; see [Resolved.Build].
func (r Run) Build(at Places, progress func(data.Progress)) (*train.Job, error) {
	of, err := r.Resolve()
	if err != nil {
		return nil, err
	}
	return of.Build(at, progress)
}

// RecipeNames lists the embedded recipes.
func RecipeNames() []string {
	files, _ := recipeFiles.ReadDir("recipes")
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	sort.Strings(out)
	return out
}

// LoadRecipe reads an embedded recipe by name, or a file by path (anything with
// a slash, or ending in .yaml or .yml).
func LoadRecipe(name string) (*Recipe, error) { return loadRecipe(name, nil, &texts{}) }

func loadRecipe(name string, chain []string, t *texts) (*Recipe, error) {
	file, b, err := recipeText(name)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(file)
	return parseRecipe(strings.TrimSuffix(base, filepath.Ext(base)), file, b, append(slices.Clone(chain), identity(name)), t)
}

// recipeText is what a recipe's file holds, and its name in messages.
func recipeText(name string) (file string, b []byte, err error) {
	if hardware.IsFile(name) {
		if b, err = regular.ReadText(name, regular.Text); err != nil {
			return "", nil, fmt.Errorf("recipe: %w", err)
		}
		return name, b, nil
	}
	if b, err = recipeFiles.ReadFile(path.Join("recipes", name+".yaml")); err != nil {
		if strings.Contains(name, "=") {
			return "", nil, fmt.Errorf("%q is no recipe: keys follow the name of one, as in quickstart %s; gradlab list recipes", name, name)
		}
		return "", nil, fmt.Errorf("no recipe named %q; %s (a file is given with its path, such as ./my.yaml)", name, registry.Suggest(name, RecipeNames()))
	}
	return name + ".yaml", b, nil
}

// ParseRecipe reads a recipe. It is strict: an unknown key, a wrong type or a
// value out of range is an error that names file, line, key and what is
// allowed; all errors are told at once. The recipe that it is based on is read
// too.
func ParseRecipe(name, file string, b []byte) (*Recipe, error) {
	return parseRecipe(name, file, b, []string{identity(file)}, &texts{})
}

// parseRecipe is ParseRecipe for a recipe that others, whose identities are the
// chain, are based on; the last of them is its own.
func parseRecipe(name, file string, b []byte, chain []string, t *texts) (*Recipe, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(doc.Content) == 0 {
		return &Recipe{Name: name, texts: t}, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want keys and values at the top", file, root.Line)
	}
	r, errs := readRecipe(name, file, root, false, t)
	var base *Recipe
	if n := valueOf(root, "base"); n != nil {
		var err error
		if base, err = loadBase(file, n, chain, t); err != nil {
			errs = append(errs, err)
		}
	}
	if base != nil {
		r.layOn(base)
	}
	return r, errors.Join(errs...)
}

// valueOf is what a mapping says of a key; nil if nothing.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// ownWords are the words of a recipe that are no keys.
var ownWords = []string{"about", "base", "quick", "runs", "paper", "forms"}

// readRecipe reads what a mapping says, without its base. A form has neither base
// nor forms.
func readRecipe(name, file string, root *yaml.Node, form bool, t *texts) (*Recipe, []error) {
	r := &Recipe{Name: name, texts: t}
	var errs []error
	top := &yaml.Node{Kind: yaml.MappingNode, Line: root.Line}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if own := slices.Contains(ownWords, k.Value); own && seen[k.Value] {
			errs = append(errs, fmt.Errorf("%s:%d: key %q is given twice", file, k.Line, k.Value))
			continue
		}
		seen[k.Value] = true
		if form && (k.Value == "base" || k.Value == "forms") {
			errs = append(errs, fmt.Errorf("%s:%d: a form is laid over its recipe and has no %s of its own", file, k.Line, k.Value))
			continue
		}
		var more []error
		switch k.Value {
		case "about":
			r.About = v.Value
		case "base":
		case "quick":
			r.quick, more = assignments(file, v, t)
		case "runs":
			more = r.readVariants(file, v)
		case "paper":
			r.Paper, more = readPaper(file, v)
		case "forms":
			more = r.readForms(file, v)
		default:
			top.Content = append(top.Content, k, v)
		}
		errs = append(errs, more...)
	}
	as, err := assignments(file, top, t)
	r.keys = as
	return r, append(errs, err...)
}

// readVariants reads the list of a recipe's variants.
func (r *Recipe) readVariants(file string, v *yaml.Node) (errs []error) {
	if v.Kind != yaml.SequenceNode {
		return []error{fmt.Errorf("%s:%d: key \"runs\": want a list of variants", file, v.Line)}
	}
	r.noRuns = len(v.Content) == 0
	for _, item := range v.Content {
		label, rest := "", &yaml.Node{Kind: yaml.MappingNode, Line: item.Line}
		var small []assignment
		for j := 0; item.Kind == yaml.MappingNode && j+1 < len(item.Content); j += 2 {
			if item.Content[j].Value == "name" {
				label = item.Content[j+1].Value
				continue
			}
			if item.Content[j].Value == "quick" {
				as, err := assignments(file, item.Content[j+1], r.texts)
				small = as
				errs = append(errs, err...)
				continue
			}
			rest.Content = append(rest.Content, item.Content[j], item.Content[j+1])
		}
		if label == "" {
			errs = append(errs, fmt.Errorf("%s:%d: a variant needs a name", file, item.Line))
		} else if slices.Contains(r.names, label) { // they would pass for repeats of each other
			errs = append(errs, fmt.Errorf("%s:%d: there are two variants named %q", file, item.Line, label))
		}
		as, err := assignments(file, rest, r.texts)
		errs = append(errs, err...)
		r.runs, r.names, r.small = append(r.runs, as), append(r.names, label), append(r.small, small)
	}
	return errs
}

// assignments reads a mapping of keys. Nested mappings spell dotted keys:
// device: {flops: 1e11} is device.flops.
func assignments(file string, n *yaml.Node, t *texts) ([]assignment, []error) {
	if n.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("%s:%d: want keys and values", file, n.Line)}
	}
	if len(n.Content) == 0 {
		return nil, nil
	}
	var errs []error
	lines := map[string]int{}
	var out []assignment
	walkKeys(n, "", func(key string, line int, value *yaml.Node) {
		where := fmt.Sprintf("%s:%d", file, line)
		if first, dup := lines[key]; dup {
			errs = append(errs, fmt.Errorf("%s: key %q is given twice, first in line %d", where, key, first))
			return
		}
		lines[key] = line
		var x any
		if err := value.Decode(&x); err != nil {
			errs = append(errs, fmt.Errorf("%s: key %q: %w", where, key, err))
			return
		}
		var values []string
		switch x := x.(type) {
		case []any:
			for _, e := range x {
				values = append(values, fmt.Sprint(e))
			}
			if len(x) == 0 {
				errs = append(errs, fmt.Errorf("%s: key %q has an empty list", where, key))
				return
			}
		case nil:
			errs = append(errs, fmt.Errorf("%s: key %q has no value", where, key))
			return
		default:
			values = []string{fmt.Sprint(x)}
		}
		a := assignment{key, values, where}.oneList()
		if err := a.check(t); err != nil {
			errs = append(errs, err)
			return
		}
		out = append(out, a)
	})
	return out, errs
}

// walkKeys calls f for every key of a mapping and of those in it, by its path in points.
func walkKeys(n *yaml.Node, prefix string, f func(key string, line int, value *yaml.Node)) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := strings.ToLower(prefix + k.Value)
		if v.Kind == yaml.MappingNode {
			walkKeys(v, key+".", f)
			continue
		}
		f(key, k.Line, v)
	}
}

func (a assignment) check(t *texts) error {
	var errs []error
	for _, v := range a.values {
		r := Run{Config: Default()}
		if err := r.set(a.key, v, t); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.where, err))
		}
	}
	return errors.Join(errs...)
}

// Runs resolves the recipe under overrides such as "codec=raw,topk(keep=0.1)"
// (see Values). An override of a key replaces what the recipe says about it, in
// variants too; giving an axis one value leaves one run along it.
func (r *Recipe) Runs(overrides []string, quick bool) ([]Run, error) {
	var errs []error
	var axes []Axis
	for _, o := range overrides {
		key, text, ok := strings.Cut(o, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if !ok || strings.ContainsAny(key, "( ") {
			errs = append(errs, fmt.Errorf("command line: %q is not key=value", o))
			continue
		}
		values := []string{""}
		if strings.TrimSpace(text) != "" {
			var err error
			if values, err = Values(text); err != nil {
				errs = append(errs, fmt.Errorf("command line: key %q: %w", key, err))
				continue
			}
		}
		axes = append(axes, Axis{key, values})
	}
	runs, err := r.Along(axes, quick)
	if errs = append(errs, err); errors.Join(errs...) != nil {
		return nil, errors.Join(errs...) // all of them: who mends one is not told of the next
	}
	return runs, nil
}

// Along is Runs for overrides whose values are multiplied out.
func (r *Recipe) Along(axes []Axis, quick bool) ([]Run, error) {
	t := cmp.Or(r.texts, &texts{})
	layer := slices.Clone(r.keys)
	if quick {
		layer = layOver(layer, speed(r.quick))
	}
	var errs []error
	var over []assignment
	var only []string
	for _, x := range axes {
		key := x.Key
		if key == "run" && len(r.runs) > 0 {
			only = x.Values
			continue
		}
		a := assignment{key, x.Values, "command line"}.oneList()
		if err := a.check(t); err != nil {
			errs = append(errs, err)
			continue
		}
		over = overlay(over, []assignment{a})
	}
	over, err := speedOfItsOwn(over)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	chosen := []int{-1} // indices of variants; −1: the common keys alone
	if len(r.runs) > 0 {
		chosen = chosen[:0]
		for i := range r.runs {
			chosen = append(chosen, i)
		}
	}
	if only != nil {
		chosen = chosen[:0]
		for _, w := range only {
			i := slices.Index(r.names, w)
			if i < 0 {
				return nil, fmt.Errorf("command line: recipe %s has no run named %q; %s", r.Name, w, registry.Suggest(w, r.names))
			}
			chosen = append(chosen, i)
		}
	}
	var out []Run
	var bad refused
	for _, i := range chosen {
		keys, name := layer, ""
		if i >= 0 {
			keys, name = layOver(keys, speed(r.runs[i])), r.names[i]
			if quick {
				keys = layOver(keys, speed(r.small[i]))
			}
		}
		if r.Paper != nil {
			keys = layOver(keys, ownOptions(keys, over))
		} else {
			keys = layOver(keys, over)
		}
		n := 1
		for _, a := range keys {
			if n *= len(a.values); len(out)+n > maxRuns {
				return nil, fmt.Errorf("recipe %s has more than %d runs", r.Name, maxRuns)
			}
		}
		// A transport that nobody names is decided beside the cluster. A
		// cluster sets other keys, which those of its layer and above change; a
		// transport and a node then set some that the cluster leaves alone. Single
		// constants change what all of them together are.
		if !slices.ContainsFunc(keys, func(a assignment) bool { return a.key == hardware.Cluster }) {
			keys = append(slices.Clip(keys), assignment{hardware.Cluster, []string{"none"}, "default"})
		}
		slices.SortStableFunc(keys, func(a, b assignment) int { return first(b) - first(a) })
		expand(keys, Run{Name: name, Config: Default(), Paper: r.Paper}, t, &out, &errs, &bad)
	}
	return out, errors.Join(append(errs, bad.err())...)
}

// ownOptions lets a name alone, on the command line of a recipe that is made after a
// paper, be the recipe's part of that name with the paper's options: data=imagenet is
// imagenet(size=224) there, and not what imagenet is by itself.
func ownOptions(recipe, over []assignment) []assignment {
	out := slices.Clone(over)
	for i, a := range out {
		j := slices.IndexFunc(recipe, func(b assignment) bool { return b.key == a.key })
		if j < 0 {
			continue
		}
		out[i].values = slices.Clone(a.values)
		for k, v := range a.values {
			for _, own := range recipe[j].values {
				if strings.HasPrefix(own, v+"(") {
					out[i].values[k] = own
				}
			}
		}
	}
	return out
}

// first is how early an assignment is made: 0 if it need not come before others.
func first(a assignment) int {
	switch {
	case a.key == "net":
		return 4
	case a.key == "cluster":
		return 3
	case a.key == "transport" || a.key == "node":
		return 2
	case !isPart(a.key):
		return 1
	}
	return 0
}

// maxRuns bounds what axes multiply to.
const maxRuns = 10_000

// layOver is overlay for layers that are complete: a cluster in the top one takes
// away what the base says of the keys that it sets, or the base's cluster set. A
// transport or a node takes away, of the keys that it sets, those that the base has at
// their defaults or as its own transport or node set them.
func layOver(base, top []assignment) []assignment {
	base = slices.Clone(base)
	for _, kind := range []string{hardware.Cluster, hardware.Transport, hardware.Node} {
		of := func(a assignment) bool { return a.key == kind }
		i := slices.IndexFunc(top, of)
		if i < 0 {
			continue
		}
		var was []string
		if j := slices.IndexFunc(base, of); j >= 0 {
			was = base[j].values
		}
		set, same := map[string]bool{}, []hardware.Parameter{}
		for _, name := range slices.Concat(top[i].values, was) {
			if s, err := hardware.Load(kind, name); err == nil {
				for _, p := range s.Sets() {
					set[keyOf(p.Key)] = true
					same = append(same, hardware.Parameter{Key: p.Key, Value: Default().Get(p.Key)})
					if slices.Contains(was, name) {
						same = append(same, p)
					}
				}
			}
		}
		base = slices.DeleteFunc(base, func(a assignment) bool {
			if kind == hardware.Cluster || !set[a.key] {
				return set[a.key] || kind == hardware.Cluster && a.key == constantsKey
			}
			return len(a.values) == 1 && slices.ContainsFunc(same, func(p hardware.Parameter) bool {
				var c = Default()
				return keyOf(p.Key) == a.key && c.Set(a.key, a.values[0]) == nil && c.isAs(p)
			})
		})
	}
	return overlay(base, top)
}

// speed sees that device.flops in a layer is not that of a device which a layer
// below, or its cluster, names.
func speed(layer []assignment) []assignment {
	flops := slices.IndexFunc(layer, func(a assignment) bool { return a.key == "device.flops" })
	if flops < 0 || slices.ContainsFunc(layer, func(a assignment) bool { return a.key == "device" }) {
		return layer
	}
	return append(slices.Clone(layer), assignment{"device", []string{"none"}, layer[flops].where})
}

// speedOfItsOwn is speed for the command line, which cannot give both.
func speedOfItsOwn(over []assignment) ([]assignment, error) {
	find := func(key string) int { return slices.IndexFunc(over, func(a assignment) bool { return a.key == key }) }
	flops, device := find("device.flops"), find("device")
	if flops >= 0 && device >= 0 && !slices.Equal(over[device].values, []string{"none"}) {
		return nil, fmt.Errorf("%s: device and device.flops exclude each other: a device has its own speed", over[flops].where)
	}
	return speed(over), nil
}

// overlay lays top over base: a key keeps its place and takes the new values.
// Keys that exclude each other, such as steps and epochs, reset one another: the
// later one counts.
func overlay(base, top []assignment) []assignment {
	out := slices.Clone(base)
	for _, t := range top {
		if other := excluded[t.key]; other != "" && !slices.Equal(t.values, []string{"0"}) {
			out = slices.DeleteFunc(out, func(a assignment) bool { return a.key == other })
		}
		if t.key == constantsKey { // all of them
			out = slices.DeleteFunc(out, func(a assignment) bool { return strings.HasPrefix(a.key, constantsKey+".") })
		}
		if i := slices.IndexFunc(out, func(a assignment) bool { return a.key == t.key }); i >= 0 {
			out[i] = t
		} else {
			out = append(out, t)
		}
	}
	return out
}

// expand multiplies the axes out.
func expand(keys []assignment, run Run, t *texts, out *[]Run, errs *[]error, bad *refused) {
	if len(keys) == 0 {
		bad.add(run.Name, run.divide())
		if of, err := run.Config.resolve(t); err != nil {
			bad.add(run.Name, err)
		} else {
			run.Config, run.resolved = of.config, of
		}
		*out = append(*out, run)
		return
	}
	a := keys[0]
	for _, v := range a.values {
		next := run
		if a.key == hardware.Cluster && next.Config.opensTransport(v) && !slices.ContainsFunc(keys, func(b assignment) bool { return b.key == hardware.Transport }) {
			if err := next.Config.Set(hardware.Transport, hardware.Unknown); err != nil {
				*errs = append(*errs, err)
			}
		}
		if err := next.set(a.key, v, t); err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %w", a.where, err))
			continue
		}
		if a.key == "steps" && next.Config.Steps > 0 {
			next.Config.Epochs = 0
		}
		if len(a.values) > 1 {
			if next.Name != "" {
				next.Name += ","
			}
			next.Name += a.key + "=" + next.show(a.key)
		}
		expand(keys[1:], next, t, out, errs, bad)
	}
}
